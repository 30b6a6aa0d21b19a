#!/usr/bin/env bash
# The gate: set up, build, run every test. Ends with ctest's summary.
#   ./test.sh               everything (what CI runs)
#   ./test.sh --fast        the release build, and all tests but those that take seconds each: for every few minutes of work
#   ./test.sh --thorough    the tests again without libtorch, with clang, under asan/ubsan and tsan: before a release
set -euo pipefail
cd "$(dirname "$0")"
mode="${1:-}"
case "$mode" in
  "" | --fast | --thorough) ;;
  *) echo "test.sh: unknown option $mode; expected --fast, --thorough or nothing" >&2; exit 2 ;;
esac
step() { printf '\n== %s\n' "$*"; }

./setup.sh

build() {
  cmake --preset "$1" >/dev/null
  cmake --build --preset "$1"
}

if [ "$mode" = --thorough ]; then
  for preset in core clang asan tsan tsan-torch; do
    step "build and test: $preset"
    build $preset
    ctest --preset $preset
  done
  exit 0
fi

step "build: release"
build release
if [ "$mode" = --fast ]; then
  ctest --preset quick
  exit 0
fi

step "headers compile alone"
cmake --build --preset release --target all_verify_interface_header_sets yoke_torch_headers

step "everything above the torch line, without libtorch"
build core

step "an installed Yoke, used by another project"
tools/check-cpp-model.sh

step "the CUDA sources compile"
cuda="${CUDA_HOME:-/usr/local/cuda}/include"
if [ -e "$cuda/cuda_runtime_api.h" ] && [ -e "$cuda/nccl.h" ]; then
  build cuda-check
else
  echo "skipped: there is no CUDA toolkit with NCCL (CUDA_HOME, /usr/local/cuda)"
fi

# The same inputs every time, so that the gate fails for what was changed and not for luck.
step "without libtorch, with clang: fuzz every parser for a few seconds"
fuzz/run.sh runs=10000

# These measure times and memory on whatever machine this is, while others compute beside them: a disturbed measurement
# is taken again, twice at most.
measuring='^(Profiler|ProfileCommand|MemorySearch)\.'
step "tests that measure"
ctest --preset release -R "$measuring" --repeat until-pass:3

step "tests"
ctest --preset release -E "$measuring"
