#!/usr/bin/env bash
# Installs the release build into a scratch folder, builds examples/cpp-model against it as a project of its own, and
# trains with it on two devices. Leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cmake --install build/release --prefix "$work/yoke" >/dev/null
cmake -S examples/cpp-model -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/yoke" >/dev/null
cmake --build "$work/build"
"$work/build/cpp-model" run examples/cpp-model/job.yaml --cluster examples/quickstart/cluster.yaml --run-dir "$work/run"
grep -q '"test_accuracy"' "$work/run/result.json"
