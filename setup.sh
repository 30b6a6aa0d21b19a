#!/usr/bin/env bash
# Installs every Debian package that Yoke needs to build, test and run. Safe to run again: does nothing when all is there.
#   ./setup.sh          everything
#   ./setup.sh --run    only what building and running Yoke needs, nothing for tests
#   ./setup.sh --core   only what the `core` preset needs (no libtorch)
#   ./setup.sh --list   print the packages, install nothing
set -euo pipefail

core=(
  g++ cmake ninja-build ccache pkg-config git            # build
  libfmt-dev libspdlog-dev libcli11-dev                  # text, logs, command line
  nlohmann-json3-dev libyaml-cpp-dev                     # files
  libeigen3-dev                                          # numerics of the forecaster
  libgloo-dev                                            # messages between hosts
)
core_tests=(libgtest-dev libgmock-dev)
training=(
  libtorch-dev libopenblas0-openmp                       # tensors, autograd, kernels
  libopenmpi-dev openmpi-bin                             # ranks that mpirun starts
  libturbojpeg0-dev libpng-dev zlib1g-dev                # images, packed data sets
  dataset-fashion-mnist                                  # the data the quickstart trains on
)
tests=(
  iproute2                                               # network namespaces as hosts
  munge slurmctld slurmd slurm-client                    # a Slurm of one test's own; nothing of it is left running
  python3-torch python3-torchvision                      # what tests and benchmarks compare with
  clang libclang-rt-dev clang-format clang-tidy          # second compiler, sanitizers, fuzzers, formatting
)

everything=("${core[@]}" "${core_tests[@]}" "${training[@]}" "${tests[@]}")
case "${1:-}" in
  --run) packages=("${core[@]}" "${training[@]}") ;;
  --core) packages=("${core[@]}" "${core_tests[@]}") ;;
  --list) printf '%s\n' "${everything[@]}"; exit 0 ;;
  "") packages=("${everything[@]}") ;;
  *) echo "setup.sh: unknown option $1; expected --run, --core, --list or nothing" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup.sh: this is not a Debian system. Install what these Debian packages hold, then build with cmake:" >&2
  printf '  %s\n' "${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
  echo "setup.sh: ${#missing[@]} packages are missing and only root can install them. Ask someone who can to run:" >&2
  echo "  sudo sh -c '$install'" >&2
  exit 1
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Another apt may hold the lock for a while: wait for it, but not for ever.
if ! { apt-get -q update && apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup.sh: the installation failed (last lines above). The command was: $install" >&2
  exit 1
fi
echo "setup: installed ${#missing[@]} packages"
