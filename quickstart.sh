#!/usr/bin/env bash
# From nothing to a trained model: set up, build, train on two unlike devices (about a minute after the build).
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh --run
cmake --preset release -D YOKE_TESTS=OFF -D YOKE_BENCH=OFF >/dev/null
cmake --build --preset release --target yoke
echo
train=(build/release/bin/yoke run examples/quickstart/job.yaml --cluster examples/quickstart/cluster.yaml)
echo "\$ ${train[*]}"
"${train[@]}"
