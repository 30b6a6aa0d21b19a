#!/usr/bin/env bash
# From nothing to a first result: set up, build, run the main job.
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh
cmake --preset release >/dev/null
cmake --build --preset release
echo
echo "\$ build/release/bin/yoke plan batch --config examples/two-nodes/config.json --gbs 1024"
build/release/bin/yoke plan batch --config examples/two-nodes/config.json --gbs 1024
