#!/usr/bin/env bash
# Installs the Debian 12 packages that Foretime needs: what it is built from and runs on, and with --tests also what only
# its tests, benchmarks and checks use. Does nothing, and asks for no rights, when all of them are there already.
#
#   tools/install-deps.sh [--tests] [--board] [--list]
#
# --board also installs what the pages of `foretime board` are drawn with, by npm, into the source tree; a build without
# it leaves the board out. --list prints the packages and installs nothing.
set -euo pipefail

# libtorch-dev brings its own needs (glog, gflags, protobuf); without an optimised BLAS it would fall back on the
# reference one, which is ten times slower. openmpi-bin starts even local ranks through its own daemon, no ssh needed.
build_packages=(
  g++ cmake ninja-build pkg-config ccache git ca-certificates
  libtorch-dev libopenblas0-openmp libopenblas-dev libopenblas-openmp-dev
  libopenmpi-dev openmpi-bin
  libyaml-cpp-dev libsimdjson-dev libzip-dev zlib1g-dev libisal-dev libxxhash-dev
  libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
  libhiredis-dev libssl-dev libcurl4-openssl-dev redis-server libmetis-dev
  libfasttext-dev libxgboost-dev libboost-math-dev
  libprotobuf-dev protobuf-compiler libmicrohttpd-dev
)
# Python is a test tool only: a second opinion on numbers (NumPy, SciPy, PyTorch) and the repository's own checks.
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev
  librapidcheck-dev socat faketime liblua5.1-0-dev
  python3-redis python3 python3-numpy python3-scipy python3-torch
  clang-format black procps
  python3-venv python3-pip mypy python3-pandas patchelf   # the Python package and its wheel (tools/package/wheel.sh)
  python3-kubernetes python3-yaml               # the published API, to check manifests by
  chromium chromium-driver python3-selenium     # the pages of the board, as people see them
  tmux                                          # a terminal, as people see it
  iproute2 slurmctld slurmd slurm-client munge  # several hosts and Slurm on one machine (tests/cluster)
)

packages=("${build_packages[@]}")
list_only=0
board=0
for argument in "$@"; do
  case "$argument" in
    --tests) packages+=("${test_packages[@]}") ;;
    --board) board=1; command -v npm > /dev/null || packages+=(npm) ;;
    --list) list_only=1 ;;
    *) echo "install-deps.sh: unknown argument '$argument' (known: --tests, --board, --list)" >&2; exit 2 ;;
  esac
done
if [[ $list_only == 1 ]]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi
if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
  echo "install-deps.sh: this is no Debian system; install the counterparts of these packages yourself:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 2
fi

# What the lock file names, checked by its checksums.
install_board() {
  [[ $board == 1 ]] || return 0
  (cd "$(dirname "${BASH_SOURCE[0]}")/../cli/board/web" && npm ci --ignore-scripts --no-audit --no-fund \
    --fetch-retries 1 --fetch-timeout 60000)
}

# A package that is there for two architectures has two lines.
is_installed() {
  local status
  status=$(dpkg-query -W -f='${db:Status-Status}\n' "$1" 2> /dev/null || true)
  [[ $'\n'"$status"$'\n' == *$'\ninstalled\n'* ]]
}
missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [[ ${#missing[@]} == 0 ]]; then
  echo "install-deps.sh: all ${#packages[@]} packages are installed"
  install_board
  exit 0
fi

as_root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo > /dev/null || { echo "install-deps.sh: needs root or sudo to install: ${missing[*]}" >&2; exit 2; }
  as_root=(sudo)
  [[ ${CI:-} != true ]] || as_root=(sudo -n)  # nobody is there to type a password
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"
}
# Mirrors drop connections now and then; what has been downloaded stays, so another try is cheap.
with_retries() {
  local try
  for try in 1 2 3; do
    "$@" && return 0
    [[ $try == 3 ]] || { echo "install-deps.sh: '$*' failed, trying again" >&2; sleep $((try * 5)); }
  done
  return 1
}
echo "install-deps.sh: installing ${missing[*]}"
with_retries apt update
with_retries apt install --no-install-recommends "${missing[@]}"
install_board
