#!/usr/bin/env bash
# Proves that a bare Debian is enough: makes one in DIR with debootstrap, clones the committed tree into it, runs
# tools/quickstart.sh and tools/test.sh there, and prints how long each took.
#
#   sudo tools/fresh_root.sh DIR [--suite bookworm|trixie] [--mirror URI] [--only quickstart|test|deps|packages]
#
# packages: makes the Debian packages in DIR, asks lintian about them, installs them in DIR.run, another bare system, lets
# an ordinary user train, rank and sweep there, and removes them; DEBFULLNAME and DEBEMAIL may name their maintainer. The
# Python wheel is made and used there as well: the examples of its pages with NumPy alone, then with pandas.
# bookworm, the default, is Debian 12, trixie is 13. The mirror is the one that this machine's apt uses for Debian, else
# debootstrap's own default. A DIR that holds a system already is used as it is; remove it for a proof from nothing. Needs
# root, debootstrap and about 8 GB.
set -euo pipefail
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
suite=bookworm

usage() {
  sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
[[ $# -ge 1 && $1 != -* ]] || usage
root=$(realpath -m "$1")
shift
mirror=""
only=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --suite) suite=${2:?--suite needs a name}; shift 2 ;;
    --mirror) mirror=${2:?--mirror needs a URI}; shift 2 ;;
    --only) only=${2:?--only needs a name}; shift 2 ;;
    *) usage ;;
  esac
done
[[ -z $only || $only == quickstart || $only == test || $only == deps || $only == packages ]] || usage
[[ $suite == bookworm || $suite == trixie ]] || usage
[[ $root != / ]] || { echo "fresh_root.sh: DIR must not be the running system" >&2; exit 2; }
[[ $(id -u) == 0 ]] || { echo "fresh_root.sh: needs root" >&2; exit 2; }
command -v debootstrap > /dev/null || { echo "fresh_root.sh: needs debootstrap (apt-get install debootstrap)" >&2; exit 2; }

make_root() {
  if [[ -z $mirror ]]; then
    # shellcheck disable=SC2016  # $(REPO_URI) is apt's own
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' \
      2> /dev/null | head -n 1 || true)
  fi
  mkdir -p "$root"
  debootstrap --variant=minbase "$suite" "$root" ${mirror:+"$mirror"}
}

# Where the host reaches its mirror through a proxy, so must the new system; services must not start in it.
prepare_root() {
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  apt-config dump | grep -iE '^Acquire::(http|https)::Proxy ' > "$root/etc/apt/apt.conf.d/90host-proxy" || true
  printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
  chmod +x "$root/usr/sbin/policy-rc.d"
}

mounted=()
unmount_all() {
  local i
  for ((i = ${#mounted[@]} - 1; i >= 0; --i)); do umount -l "${mounted[i]}" || true; done
}
trap unmount_all EXIT
mount_at() {
  local target=$root$1
  shift
  mkdir -p "$target"
  if ! mountpoint -q "$target"; then
    mount "$@" "$target"
    mounted+=("$target")
  fi
}
# A /dev of its own: with the host's, mounting and unmounting below it would reach the host.
mount_all() {
  mount_at /proc -t proc proc
  mount_at /sys -o bind,ro /sys
  mount_at /dev/shm -t tmpfs tmpfs
  mount_at /dev/pts -t devpts devpts
}

in_root() {
  chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    LANG=C.UTF-8 CI=true DEBIAN_FRONTEND=noninteractive DEBFULLNAME="${DEBFULLNAME:-Ann Other}" \
    DEBEMAIL="${DEBEMAIL:-ann@example.org}" bash -c "cd /root/foretime && $1"
}
lint() {
  in_root "apt-get install -y -q --no-install-recommends lintian > /dev/null && lintian --fail-on error /root/packages/*.deb"
}
make_wheel() {
  in_root "apt-get install -y -q --no-install-recommends patchelf > /dev/null &&
    FORETIME_LIBRARY=build/deb/inference/capi/libforetime.so tools/wheel.sh /root/packages"
}
try_packages() {
  in_root "tools/image.sh install /root/packages && tools/try_packages.sh /root/packages/*.whl"
}

report=()
timed() {
  local name=$1 began=$SECONDS status=0
  shift
  echo "== $name"
  "$@" || status=$?
  report+=("$name: $((SECONDS - began)) s$([[ $status == 0 ]] || echo ", FAILED with exit code $status")")
  return "$status"
}

status=0
[[ -e $root/etc/debian_version ]] || timed "debootstrap" make_root
prepare_root
mount_all
rm -rf "${root:?}/root/foretime"
commit=$(git -C "$source_root" rev-parse --short HEAD)
git clone -q --no-hardlinks "$source_root" "$root/root/foretime"
# The clone belongs to whoever ran git out here; inside, everything is root's.
chown -R 0:0 "$root/root/foretime"
[[ $only != deps ]] || timed "tools/install-deps.sh --tests" in_root "tools/install-deps.sh --tests" || status=1
[[ -n $only && $only != quickstart ]] || timed "tools/quickstart.sh" in_root tools/quickstart.sh || status=1
[[ -n $only && $only != test ]] || timed "tools/test.sh" in_root tools/test.sh || status=1

if [[ $only == packages ]]; then
  timed "packages" in_root "rm -rf /root/packages && tools/image.sh build /root/packages" || status=1
  [[ $status != 0 ]] || timed "lintian" lint || status=1
  [[ $status != 0 ]] || timed "wheel" make_wheel || status=1
  if [[ $status == 0 ]]; then
    built=$root
    root=$root.run
    [[ -e $root/etc/debian_version ]] || timed "debootstrap" make_root
    prepare_root
    mount_all
    rm -rf "${root:?}/root/foretime" "${root:?}/root/packages"
    mkdir -p "$root/root/foretime/tools"
    cp -r "$built/root/packages" "$root/root/"
    cp "$source_root"/tools/{image.sh,try_packages.sh,check_docs.py,commands_page.py} "$root/root/foretime/tools/"
    timed "install, use and remove packages and wheel" try_packages || status=1
  fi
fi

echo "== fresh Debian ($suite) in $root, commit $commit, $(nproc) cores"
printf '%s\n' "${report[@]}"
exit "$status"
