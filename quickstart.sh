#!/usr/bin/env bash
# From nothing to a trained model: set up, build, train on two unlike devices (about a minute after the build).
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh
cmake --preset release >/dev/null
cmake --build --preset release --target yoke
echo
train=(build/release/bin/yoke run examples/quickstart/job.yaml --cluster examples/quickstart/cluster.yaml)
echo "\$ ${train[*]}"
"${train[@]}"
