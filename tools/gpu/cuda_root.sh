#!/usr/bin/env bash
# Builds the committed tree against a LibTorch with CUDA where there is no GPU: makes a Debian 13 with contrib and non-free
# in DIR with debootstrap, installs libtorch-cuda-dev 2.6, NCCL and CUDA 12.4 there, compiles and links programs and tests,
# asks `foretime doctor` what it finds, and runs the tests of kernels, models, ranks and the training step on the CPU.
#
#   sudo tools/gpu/cuda_root.sh DIR [--mirror URI] [--no-tests | --all-tests]
#
# It shows that the paths for CUDA and NCCL compile and link with the real libraries, that the kernels compile (NVRTC needs
# no GPU), and that such a build works without a GPU; nothing of what runs on one. cuDNN, which Debian only has as a script
# that downloads it, is replaced (tools/gpu/no_cudnn.sh). --all-tests installs what all tests need, builds everything, and runs
# the whole suite there (an hour or two on two cores). A DIR that holds a system already is used as it is. Needs root,
# debootstrap, and about 20 GB.
set -euo pipefail
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
suite=trixie

usage() {
  sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
[[ $# -ge 1 && $1 != -* ]] || usage
root=$(realpath -m "$1")
shift
mirror=""
tests=1
while [[ $# -gt 0 ]]; do
  case "$1" in
    --mirror) mirror=${2:?--mirror needs a URI}; shift 2 ;;
    --no-tests) tests=0; shift ;;
    --all-tests) tests=all; shift ;;
    *) usage ;;
  esac
done
# shellcheck source=tools/package/debian_root.sh
source "$source_root/tools/package/debian_root.sh"
debian_root_check cuda_root.sh

# Debian's libtorch-dev and python3-torch are for CPUs; those with CUDA take their place.
install_packages() {
  local packages="\$(tools/install-deps.sh --list | grep -v '^libtorch-dev\$') libgtest-dev libgmock-dev librapidcheck-dev liblua5.1-0-dev python3"
  [[ $tests != all ]] || packages="\$(tools/install-deps.sh --tests --list | grep -vx 'libtorch-dev\|python3-torch') python3-torch-cuda npm"
  in_root "apt-get update -q && tools/gpu/no_cudnn.sh package &&
    apt-get install -y -q --no-install-recommends libtorch-cuda-dev libnccl-dev nvidia-cuda-toolkit $packages &&
    tools/gpu/no_cudnn.sh library"
  [[ $tests != all ]] || in_root "cd cli/board/web && npm ci --ignore-scripts --no-audit --no-fund" ||
    echo "cuda_root.sh: the libraries of the board cannot be installed; its tests are skipped"
}

# The release build with all of CUDA on: what CMake left out would be no failure to it.
configure() {
  local bench=OFF
  [[ $tests != all ]] || bench=ON
  in_root "set -o pipefail; cmake --preset release -DFORETIME_BUILD_TESTS=ON -DFORETIME_BUILD_BENCH=$bench 2>&1 | tee /root/configure.log &&
    grep -q FORETIME_TORCH_CUDA=1 build/release/build.ninja && grep -q nccl_communicator.cpp build/release/comm/CMakeFiles/*/Unity/*"
}
tested=(base models comm sharding coordinator worker)  # folders of tests/ whose programs compute with LibTorch
build() {
  local targets="cli/all server/all"
  [[ $tests == 0 ]] || targets+=$(printf ' tests/%s/all' "${tested[@]}")
  [[ $tests != all ]] || targets=all
  in_root "cmake --build --preset release -j \$(tools/build_jobs.sh) --target $targets"
}
run_tests() {
  local some="-R '^($(IFS='|'; echo "${tested[*]}"))_'"
  [[ $tests != all ]] || some="-j 2"
  in_root "source tools/mpi_env.sh && ctest --preset release --no-tests=error $some"
}

# says FILE TEXT...: whether a file of the system's /root has a line for each extended regular expression.
says() {
  local file=$1 text missing=0
  shift
  for text in "$@"; do
    grep -qE "$text" "$root/root/$file" || { echo "cuda_root.sh: no line '$text' in /root/$file" >&2; missing=1; }
  done
  return "$missing"
}

# What is linked is what was meant, and the program knows that it could use a GPU and has none.
doctor() {
  in_root "build/release/cli/foretime --version | tee /root/version.log && build/release/cli/foretime doctor | tee /root/doctor.log &&
    ldd build/release/cli/core/foretime > /root/ldd.log" &&
    says ldd.log libtorch_cuda libc10_cuda libnccl libcudart && says version.log ', NCCL [0-9]' &&
    says doctor.log '^GPU +none that LibTorch can use, which was built with CUDA' '^ *comm +nccl: NCCL .*no GPU'
}

status=0
[[ -e $root/etc/debian_version ]] || timed "debootstrap" make_root main,contrib,non-free
prepare_root
mount_all
clone_tree
timed "packages" install_packages && timed "cmake" configure && timed "build" build && timed "foretime doctor" doctor || status=1
[[ $status != 0 || $tests == 0 ]] || timed "tests" run_tests || status=1
print_report
exit "$status"
