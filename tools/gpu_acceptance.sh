#!/usr/bin/env bash
# What has to hold on a GPU, and how fast it is there, in ten minutes on a machine that has Python's torch with CUDA, CMake,
# ninja and nvcc, and needs no network (docs/explanations/gpu.md).
#
#   tools/gpu_acceptance.sh package DIR          on Debian 12: makes the folder DIR, of at most 64 MiB
#   DIR/gpu_acceptance.sh run [OUT] [--seconds N] [--only A,B] [--program FILE] [--brief]
#                                                there: builds, checks, prints a table; OUT/acceptance.json has all of it
#
# `package` takes the sources of the committed tree and Debian's packages of what the build needs beyond LibTorch, unpacked
# by dpkg-deb -x, in root.tar.xz. FORETIME_LAYOUTS names .npz files of TpuGraphs' layouts to be measured, where they may be
# passed on; else made-up graphs are. `run` works below FORETIME_WORK (/tmp/foretime-acceptance), of which only results go
# to OUT (./acceptance), after each check. The program goes there too, and --program uses it again without a build. --only:
# some of the checks. PYTHON names another interpreter than python3. Where torch's own CMake files fail, its libraries and
# headers are used without them (cmake/torch_libraries).
#
# Exit code of `run`: 0 where all that must hold does, 1 where it does not or the build failed, 3 where all holds and there
# was no GPU, 2 for wrong arguments.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
most_mib=64
arch=x86_64-linux-gnu

usage() {
  sed -n '2,19s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
fail() {
  echo "gpu_acceptance.sh: $1" >&2
  exit 2
}

# Headers and shared libraries of the targets that FORETIME_ACCEPTANCE_ONLY builds, and protoc, pkgconf and mpirun.
packages=(
  libyaml-cpp-dev libyaml-cpp0.7 libfmt-dev libfmt9 libspdlog-dev libspdlog1.10 nlohmann-json3-dev
  zlib1g-dev zlib1g libisal-dev libisal2 libxxhash-dev libzip-dev libzip4 libbz2-1.0 liblzma5 libzstd1 libssl3
  libopenblas-openmp-dev libopenblas0-openmp libgfortran5 libquadmath0
  libmetis-dev libmetis5 libsimdjson-dev libsimdjson14 libfasttext-dev libfasttext0 libboost1.74-dev
  libprotobuf-dev libprotobuf32 protobuf-compiler libprotoc32 pkgconf pkgconf-bin libpkgconf3
  libopenmpi-dev libopenmpi3 openmpi-bin openmpi-common libpmix2 libhwloc15 libudev1 libmunge2
  libevent-core-2.1-7 libevent-pthreads-2.1-7
)
# What every such machine has, of at least Debian 12's version.
of_the_system='^(libc|libm|libdl|librt|libpthread|libutil|libresolv|ld-linux-x86-64|libstdc\+\+|libgcc_s|libgomp|linux-vdso)\.so'

# unpack ROOT: the packages, without what no build reads.
unpack() {
  local root=$1 debs name
  debs=$(mktemp -d)
  chmod 755 "$debs"
  (cd "$debs" && apt-get download -q "${packages[@]}" > apt.log 2>&1) || { cat "$debs/apt.log" >&2; fail "apt-get download failed"; }
  for name in "$debs"/*.deb; do dpkg-deb -x "$name" "$root"; done
  rm -rf "$debs"
  # Libraries of /lib belong to /usr/lib, as on systems whose /lib is a link.
  [[ ! -d $root/lib || -L $root/lib ]] || { cp -a "$root/lib/." "$root/usr/lib/" && rm -rf "${root:?}/lib"; }
  rm -rf "$root"/usr/share/{doc,man,lintian,bug,locale,bash-completion,info} "$root"/usr/lib/$arch/{fortran,libopen*_dbg*} "$root"/etc/alternatives
  find "$root" -name '*.a' -delete
  keep_headers_of_boost "$root"
  drop_plugins "$root"
}

# Boost has 150 MB of headers; those that our sources include, with what these include, are a few.
keep_headers_of_boost() {
  local root=$1 kept
  kept=$(mktemp -d)
  grep -rhoE '^#include <boost/[^>]*>' "$source_root"/{history,worker,models,data,sharding,coordinator} --include='*.cpp' --include='*.h' |
    grep -v math | sort -u > "$kept/all.cpp" || true
  (cd "$root/usr/include" && g++ -M -I. "$kept/all.cpp" | tr -s '[:space:]' '\n' | grep '^boost/' | sort -u > "$kept/list"
   echo boost/version.hpp >> "$kept/list"
   tar -cf "$kept/boost.tar" -T "$kept/list" && rm -rf boost && tar -xf "$kept/boost.tar")
  rm -rf "$kept"
}

# Open MPI's plugins for networks want libraries that are not brought along.
drop_plugins() {
  local root=$1 plugin missing
  for plugin in "$root"/usr/lib/$arch/{openmpi/lib/openmpi3/*.so,pmix2/lib/pmix/*.so,libmca_common_*.so.*.*}; do
    [[ -e $plugin ]] || continue
    missing=$(needed_of "$plugin" | while read -r name; do find "$root/usr/lib" -name "$name" | grep -q . || echo "$name"; done)
    [[ -z $missing ]] || rm "$plugin"
  done
}
needed_of() { objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' | grep -vE "$of_the_system" || true; }

# Each library that another one needs is there.
check_libraries() {
  local root=$1 file name bad=0
  while read -r file; do
    for name in $(needed_of "$file"); do
      find "$root/usr/lib" -name "$name" | grep -q . && continue
      echo "gpu_acceptance.sh: $file needs $name, which none of the packages has" >&2
      bad=1
    done
  done < <(find "$root/usr/lib/$arch" -maxdepth 1 -name '*.so.*' -type f; echo "$root/usr/bin/orterun"; echo "$root/usr/bin/protoc")
  return "$bad"
}

package() {
  local folder=$1 root mib
  source_root=$(cd "$here/.." && pwd)
  grep -q '^12' /etc/debian_version 2> /dev/null || fail "package: expected Debian 12, found $(cat /etc/debian_version 2> /dev/null || echo another system)"
  [[ ! -e $folder || -z $(ls -A "$folder") ]] || fail "package: $folder: not empty, expected a new folder"
  mkdir -p "$folder/source"
  git -C "$source_root" archive HEAD CMakeLists.txt CMakePresets.json LICENSE base cmake metrics configs data plans inference python \
    history models comm sharding coordinator worker tests/acceptance tests/models tests/support tools/gpu_acceptance.py \
    bench/pyg_layout.py samples/resnet18_conv2d | tar -x -C "$folder/source"
  git -C "$source_root" show -s --format='%h %cs' HEAD > "$folder/source/COMMIT"
  cp "${BASH_SOURCE[0]}" "$folder/gpu_acceptance.sh"
  if [[ -n ${FORETIME_LAYOUTS:-} ]]; then
    mkdir "$folder/layouts"
    # shellcheck disable=SC2086  # several names
    cp $FORETIME_LAYOUTS "$folder/layouts/"
  fi
  root=$(mktemp -d)
  unpack "$root"
  check_libraries "$root"
  tar -C "$root" -cJf "$folder/root.tar.xz" .
  echo "gpu_acceptance.sh: packages: $(du -sm "$root" | cut -f1) MiB unpacked"
  rm -rf "$root"
  mib=$(du -sm --apparent-size "$folder" | cut -f1)
  echo "gpu_acceptance.sh: $folder: $mib MiB, commit $(cat "$folder/source/COMMIT")"
  [[ $mib -le $most_mib ]] || fail "$folder: $mib MiB, expected at most $most_mib"
}

# What programs of the system load too, and must not get from us: theirs may be newer.
of_the_system_if_there='^lib(z|zstd|lzma|bz2|crypto|ssl|udev|gfortran|quadmath)\.so'

# $libraries: a folder with the packages' libraries that the program is to load. $tools: programs of the packages that load them.
gather_libraries() {
  local lib=$root/usr/lib/$arch known file name
  known=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2> /dev/null | awk '{ print $1 }')
  mkdir -p "$libraries" "$tools"
  for file in "$lib"/{,openblas-openmp/,openmpi/lib/}*.so.*; do
    name=$(basename "$file")
    [[ $name =~ $of_the_system_if_there ]] && grep -qxF "$name" <<< "$known" && continue
    ln -sf "$file" "$libraries/$name"
  done
  for name in protoc pkgconf orterun; do
    # shellcheck disable=SC2016  # the wrapper expands it
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec %s "$@"\n' "$libraries" "$root/usr/bin/$name" > "$tools/$name"
    chmod +x "$tools/$name"
  done
}

# Variables of a machine on which all packages were installed below $root.
enter_root() {
  local lib=$root/usr/lib/$arch
  export PKG_CONFIG_SYSROOT_DIR=$root
  export PKG_CONFIG_LIBDIR=$lib/openblas-openmp/pkgconfig:$lib/pkgconfig:$root/usr/share/pkgconfig
  export OPAL_PREFIX=$root/usr OPAL_LIBDIR=$lib/openmpi/lib OPAL_PKGLIBDIR=$lib/openmpi/lib/openmpi3 OPAL_BINDIR=$root/usr/bin
  export OPAL_DATADIR=$root/usr/share OPAL_PKGDATADIR=$root/usr/share/openmpi OPAL_SYSCONFDIR=$root/etc/openmpi
  export PMIX_INSTALL_PREFIX=$lib/pmix2 PMIX_PREFIX=$lib/pmix2
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none
  export OMPI_MCA_plm_rsh_agent='' OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1
  export PMIX_MCA_pcompress_base_silence_warning=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# What Python's torch says of itself: the folder of its CMake files, that of its libraries, NVIDIA's folders beside it.
find_torch() {
  local found
  found=$("$python" - <<'END'
import glob, os, torch
prefix = torch.utils.cmake_prefix_path
site = os.path.dirname(os.path.dirname(torch.__file__))
nvidia = glob.glob(os.path.join(site, "nvidia", "*", "lib"))
print(prefix if os.path.exists(os.path.join(prefix, "Torch")) else "")
print(":".join([os.path.join(os.path.dirname(torch.__file__), "lib"), *nvidia]))
print(os.path.join(site, "nvidia", "nccl"))
print(torch.__version__, "CUDA", torch.version.cuda)
print(os.path.dirname(torch.__file__))
END
  ) || fail "run: $python has no torch"
  { read -r torch_prefix; read -r torch_libraries; read -r nccl; read -r torch_version; read -r torch_root; } <<< "$found"
}

# The GPU's kind, which LibTorch's CMake files want to know; nothing of ours is compiled for it beforehand.
architecture() {
  local found
  found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -n 1) || true
  [[ $found =~ ^[0-9]+\.[0-9]+$ ]] && echo "$found" || echo 9.0
}

configure() {
  configure_with "-DCMAKE_PREFIX_PATH=$torch_prefix;$root/usr" && return
  echo "== torch's own CMake files fail; its libraries without them"
  rm -rf "$work/build"
  configure_with "-DCMAKE_PREFIX_PATH=$root/usr" "-DTorch_DIR=$here/source/cmake/torch_libraries" "-DTORCH_ROOT=$torch_root" \
    "-DTORCH_VERSION=${torch_version%%[+ ]*}"
}
configure_with() {
  local lib=$root/usr/lib/$arch
  TORCH_CUDA_ARCH_LIST=$(architecture) cmake -S "$here/source" -B "$work/build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DFORETIME_UNITY=ON -DFORETIME_WERROR=OFF -DFORETIME_ACCEPTANCE_ONLY=ON -DFORETIME_BUILD_TESTS=OFF \
    -DFORETIME_BUILD_BENCH=OFF "$@" "-DNCCL_ROOT=$nccl" \
    "-DPKG_CONFIG_EXECUTABLE=$tools/pkgconf" "-DProtobuf_PROTOC_EXECUTABLE=$tools/protoc" \
    "-DProtobuf_INCLUDE_DIR=$root/usr/include" "-DProtobuf_LIBRARY=$lib/libprotobuf.so" \
    "-DMPI_C_LIB_NAMES=mpi" "-DMPI_mpi_LIBRARY=$lib/openmpi/lib/libmpi.so" "-DMPI_C_HEADER_DIR=$lib/openmpi/include" \
    "-DMPI_C_ADDITIONAL_INCLUDE_DIRS=$lib/openmpi/include" "-DMPIEXEC_EXECUTABLE=$tools/orterun" \
    "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath-link,$libraries:$lib:$torch_libraries ${FORETIME_LINK_FLAGS:-}"
}
build() {
  CPLUS_INCLUDE_PATH=$root/usr/include LIBRARY_PATH=$root/usr/lib/$arch \
    cmake --build "$work/build" --target gpu_acceptance -j "${FORETIME_JOBS:-$(nproc)}"
}

# stage NAME SECONDS: the function NAME with that time limit, its output in a file, its time in `times`; ends the script
# where it fails.
times=()
stage() {
  local name=$1 limit=$2 began=$SECONDS log=$work/out/$1.log process
  echo "== $name ($(date +%T))" >&2
  set -m  # a process group of its own
  "$name" > "$log" 2>&1 &
  process=$!
  set +m
  while kill -0 "$process" 2> /dev/null && ((SECONDS - began < limit)); do sleep 1; done
  if kill -0 "$process" 2> /dev/null; then
    echo "did not end within $limit s" >> "$log"
    kill -- -"$process" 2> /dev/null || true
  fi
  if ! wait "$process"; then
    tail -n 40 "$log" >&2
    "$python" "$here/source/tools/gpu_acceptance.py" --out "$work/out" --broken "$name" "$log" || true
    finish 1
  fi
  times+=(--timed "$name" "$((SECONDS - began))")
}

finish() {
  mkdir -p "$out"
  cp "$work/out/acceptance.json" "$work/out/table.txt" "$out/"
  tar -C "$work/out" -czf "$out/logs.tar.gz" --exclude=work --exclude=layouts .
  exit "$1"
}

run() {
  local status=0
  out=$PWD/acceptance
  seconds=560  # a call that is ended after 600 still leaves what it found
  program=""
  options=()
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
      --only) options+=(--only "${2:?--only needs names}"); shift 2 ;;
      --program) program=$(realpath "${2:?--program needs a file}"); shift 2 ;;
      --brief) options+=(--brief); shift ;;
      -*) usage ;;
      *) out=$(realpath -m "$1"); shift ;;
    esac
  done
  python=${PYTHON:-python3}
  work=${FORETIME_WORK:-/tmp/foretime-acceptance}
  root=$work/root libraries=$work/libraries tools=$work/bin
  [[ -e $here/root.tar.xz ]] || fail "run: no root.tar.xz beside this script: it belongs to a folder that 'package' made"
  rm -rf "$work"
  mkdir -p "$root" "$work/out"
  "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/root.tar.xz" "$root" 2> /dev/null ||
    tar -C "$root" -xf "$here/root.tar.xz"
  [[ ! -d $here/layouts ]] || cp -r "$here/layouts" "$work/out/layouts"
  find_torch
  gather_libraries
  enter_root
  # Where CUDA's own packages put nvcc.
  command -v nvcc > /dev/null || PATH+=:/usr/local/cuda/bin
  echo "gpu_acceptance.sh: commit $(cat "$here/source/COMMIT"), torch $torch_version, $(nproc) cores" >&2
  mkdir -p "$out"
  if [[ -z $program ]]; then
    stage configure 150
    stage build "${FORETIME_BUILD_SECONDS:-330}"
    program=$work/build/tests/acceptance/gpu_acceptance
    strip -o "$out/gpu_acceptance" "$program"
  fi
  "$python" "$here/source/tools/gpu_acceptance.py" "${options[@]}" --program "$program" --out "$work/out" --copy "$out" \
    --libraries "$libraries:$torch_libraries" --mpirun "$tools/orterun" --seconds "$((seconds - SECONDS - 5))" \
    --patience "${FORETIME_PATIENCE:-1}" "${times[@]}" || status=$?
  finish "$status"
}

case "${1:-}" in
  package) [[ $# == 2 ]] || usage; package "$(realpath -m "$2")" ;;
  run) shift; run "$@" ;;
  *) usage ;;
esac
