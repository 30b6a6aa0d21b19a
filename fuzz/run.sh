#!/usr/bin/env bash
# Builds the fuzz preset (clang) and runs every target on a copy of its seeds: fuzz/run.sh [seconds for each, default 10].
# Fails if a target finds something, and prints the input that did. Leaves nothing behind but the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-10}"

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
found=0
for seeds in fuzz/corpus/*/; do
  name="$(basename "$seeds")"
  cp -r "$seeds" "$work/$name"
  log="$work/$name.log"
  # Reading takes milliseconds: ten seconds or a gigabyte for one input are findings too.
  if "build/fuzz/bin/fuzz_$name" "$work/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096 \
      -artifact_prefix="$work/$name." >"$log" 2>&1; then
    echo "$name: quiet, $(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log") inputs"
  else
    found=1
    echo "$name: FOUND SOMETHING"
    tail -n 40 "$log"
  fi
done
exit "$found"
