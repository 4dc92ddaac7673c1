#!/usr/bin/env bash
# Proves that a bare Debian is enough: makes one in DIR with debootstrap, clones the committed tree into it, runs
# tools/quickstart.sh and tools/test.sh there, and prints how long each took.
#
#   sudo tools/package/fresh_root.sh DIR [--suite bookworm|trixie] [--mirror URI] [--only quickstart|test|deps|packages]
#
# packages: makes the Debian packages in DIR, asks lintian about them, installs them in DIR.run, another bare system, lets
# an ordinary user train, rank and sweep there, and removes them; DEBFULLNAME and DEBEMAIL may name their maintainer. The
# Python wheel is made and used there as well: the examples of its pages with NumPy alone, then with pandas.
# bookworm, the default, is Debian 12, trixie is 13. The mirror is the one that this machine's apt uses for Debian, else
# debootstrap's own default. A DIR that holds a system already is used as it is; remove it for a proof from nothing. Needs
# root, debootstrap and about 8 GB.
set -euo pipefail
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
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
# shellcheck source=tools/package/debian_root.sh
source "$source_root/tools/package/debian_root.sh"
debian_root_check fresh_root.sh
root_variables=(DEBFULLNAME="${DEBFULLNAME:-Ann Other}" DEBEMAIL="${DEBEMAIL:-ann@example.org}")

lint() {
  in_root "apt-get install -y -q --no-install-recommends lintian > /dev/null && lintian --fail-on error /root/packages/*.deb"
}
make_wheel() {
  in_root "apt-get install -y -q --no-install-recommends patchelf > /dev/null &&
    FORETIME_LIBRARY=build/deb/inference/capi/libforetime.so tools/package/wheel.sh /root/packages"
}
try_packages() {
  in_root "tools/package/image.sh install /root/packages && tools/package/try_packages.sh /root/packages/*.whl"
}

status=0
[[ -e $root/etc/debian_version ]] || timed "debootstrap" make_root
prepare_root
mount_all
clone_tree
[[ $only != deps ]] || timed "tools/install-deps.sh --tests" in_root "tools/install-deps.sh --tests" || status=1
[[ -n $only && $only != quickstart ]] || timed "tools/quickstart.sh" in_root tools/quickstart.sh || status=1
[[ -n $only && $only != test ]] || timed "tools/test.sh" in_root tools/test.sh || status=1

if [[ $only == packages ]]; then
  timed "packages" in_root "rm -rf /root/packages && tools/package/image.sh build /root/packages" || status=1
  [[ $status != 0 ]] || timed "lintian" lint || status=1
  [[ $status != 0 ]] || timed "wheel" make_wheel || status=1
  if [[ $status == 0 ]]; then
    built=$root
    root=$root.run
    [[ -e $root/etc/debian_version ]] || timed "debootstrap" make_root
    prepare_root
    mount_all
    rm -rf "${root:?}/root/foretime" "${root:?}/root/packages"
    mkdir -p "$root/root/foretime/tools"/{package,check}
    cp -r "$built/root/packages" "$root/root/"
    cp "$source_root"/tools/package/{image,try_packages}.sh "$root/root/foretime/tools/package/"
    cp "$source_root"/tools/check/{check_docs,commands_page,page_commands,promises_page}.py "$root/root/foretime/tools/check/"
    timed "install, use and remove packages and wheel" try_packages || status=1
  fi
fi

print_report
exit "$status"
