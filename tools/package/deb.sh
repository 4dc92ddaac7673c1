#!/usr/bin/env bash
# Makes Debian packages by CPack: foretime (programs, settings, samples, documentation), libforetime1, libforetime-dev and
# python3-foretime. They depend on Debian's packages alone, so NCCL is left out. Builds in BUILD what is not built yet.
#
#   tools/package/deb.sh [OUT [BUILD]]      OUT: folder for the packages, default: dist; BUILD: default: build/deb
#
# DEBFULLNAME and DEBEMAIL name the maintainer, as for Debian's own tools.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(realpath -m "${1:-dist}")
build=$(realpath -m "${2:-$root/build/deb}")
for needed in "dpkg-shlibdeps dpkg-dev" "file file"; do
  command -v "${needed% *}" > /dev/null || { echo "deb.sh: ${needed% *} is missing (apt-get install ${needed#* })" >&2; exit 2; }
done

# Below /usr, Debian's folders for libraries are those of their architecture.
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
  -DFORETIME_UNITY=ON -DFORETIME_NCCL=OFF -DFORETIME_RPATH=OFF -DFORETIME_BUILD_TESTS=OFF -DFORETIME_BUILD_BENCH=OFF > /dev/null
cmake --build "$build" -j "$("$root/tools/build_jobs.sh")"
mkdir -p "$out"
(cd "$build" && cpack -G DEB -B "$out" > cpack.log 2>&1) || { tail -n 30 "$build/cpack.log" >&2; exit 1; }
rm -rf "$out/_CPack_Packages"
ls "$out"/*.deb
