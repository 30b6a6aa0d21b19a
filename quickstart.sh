#!/usr/bin/env bash
# From nothing to a first result: set up, build, run the main job.
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh
cmake --preset release >/dev/null
cmake --build --preset release --target yoke
echo
plan=(build/release/bin/yoke plan batch --cluster examples/unlike-gpus/cluster.yaml --profiles examples/unlike-gpus/profiles --gbs 1024)
echo "\$ ${plan[*]}"
"${plan[@]}"
