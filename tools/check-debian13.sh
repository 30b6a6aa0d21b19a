#!/usr/bin/env bash
# Builds and tests the current commit on Debian 13 (g++ 14, libtorch 2.6) in a chroot. Needs root and debootstrap.
#   tools/check-debian13.sh [command, default ./test.sh]
# YOKE_SUITE=bookworm does the same on a fresh Debian 12. The chroot is kept between runs in $YOKE_CHROOT (default:
# ~/.cache/yoke/<suite>); delete that folder to start anew.
# Mounts live in a mount namespace of their own and are gone when this ends, however it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
suite="${YOKE_SUITE:-trixie}"
root="${YOKE_CHROOT:-$HOME/.cache/yoke/$suite}"
command="${1:-./test.sh}"

if [ "$(id -u)" -ne 0 ]; then echo "check-debian13.sh: needs root for debootstrap and chroot" >&2; exit 1; fi
if ! command -v debootstrap >/dev/null; then
  echo "check-debian13.sh: needs debootstrap: apt-get install -y debootstrap" >&2
  exit 1
fi

if [ ! -e "$root/.ready" ]; then
  echo "check-debian13: making a chroot of $suite in $root"
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase "$suite" "$root" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
  touch "$root/.ready"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
[ -e "$root/etc/hosts" ] || echo "127.0.0.1 localhost" >"$root/etc/hosts"  # an installer would have written it

# Only what is committed, as a stranger would get it, with the reference data beside it where there is some.
rm -rf "$root/src"
mkdir -p "$root/src/yoke"
git archive HEAD | tar -x -C "$root/src/yoke"
if [ -d ../shared/data ]; then mkdir -p "$root/src/shared" && cp -r ../shared/data "$root/src/shared/"; fi

exec unshare --mount --pid --fork --kill-child bash -euc '
  root="$1"
  mount --make-rprivate /
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"  # MPI looks at the cores there
  mount --rbind /dev "$root/dev"
  exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    bash -euc "cd /src/yoke && $2"
' _ "$root" "$command"
