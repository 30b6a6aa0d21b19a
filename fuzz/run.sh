#!/usr/bin/env bash
# Builds the fuzz preset (clang) and runs its targets, one per core at a time, on copies of their seeds:
#   fuzz/run.sh [seconds for each, default 10] [target ...]     new inputs each time
#   fuzz/run.sh runs=N [target ...]                             N inputs for each, the same ones every time
# Fails if a target finds something, and prints the input that did. Leaves nothing behind but the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-10}" in
  runs=*) limit="-runs=${1#runs=} -seed=1" ;;
  *) limit="-max_total_time=${1:-10}" ;;
esac
targets=("${@:2}")
if [ ${#targets[@]} -eq 0 ]; then
  for seeds in fuzz/corpus/*/; do targets+=("$(basename "$seeds")"); done
fi

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzzers

work="$(mktemp -d)"
export work limit
trap 'rm -rf "$work"' EXIT

# Reading takes milliseconds: ten seconds or a gigabyte for one input are findings too.
run_one() {
  local name="$1" log="$work/$1.log"
  cp -r "fuzz/corpus/$name" "$work/$name"
  if "build/fuzz/bin/fuzz_$name" "$work/$name" $limit -timeout=10 -rss_limit_mb=1024 -max_len=4096 \
      -artifact_prefix="$work/$name." >"$log" 2>&1; then
    echo "$name: quiet, $(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log") inputs"
  else
    echo "$name: FOUND SOMETHING"
    tail -n 40 "$log"
    return 1
  fi
}
export -f run_one
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run_one {}'
