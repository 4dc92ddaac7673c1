#!/usr/bin/env bash
# Rehearses tools/gpu_acceptance.sh where there is no GPU: makes the package, and runs it in a bare Debian 13 in DIR, made with
# debootstrap, that has what such a machine is asked for and nothing else: Python's torch with CUDA (Debian's 2.6), NCCL,
# CUDA 12.4 with nvcc, CMake, ninja and a C++ compiler.
#
#   sudo tools/gpu/gpu_rehearsal.sh DIR [--mirror URI] [--brief]
#
# It shows that the package is complete, that all of it compiles and links against CUDA's headers and libraries, that the
# program says that there is no GPU, that the checks hold on the CPU through what GPUs run, and that the result is valid
# JSON; nothing of what runs on a GPU. cuDNN is replaced (tools/gpu/no_cudnn.sh). A DIR that holds a system already is used as
# it is. --brief: the checks on small graphs alone. Needs root, debootstrap, Debian 12 for the package, and about 15 GB.
# shellcheck disable=SC2317  # functions that `timed` calls
set -euo pipefail
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034  # of debian_root.sh
suite=trixie

usage() {
  sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
[[ $# -ge 1 && $1 != -* ]] || usage
root=$(realpath -m "$1")
shift
# shellcheck disable=SC2034  # of debian_root.sh
mirror=""
brief=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --mirror) mirror=${2:?--mirror needs a URI}; shift 2 ;;
    --brief) brief=--brief; shift ;;
    *) usage ;;
  esac
done
# shellcheck source=tools/package/debian_root.sh
source "$source_root/tools/package/debian_root.sh"
debian_root_check gpu_rehearsal.sh

# libtorch-cuda-dev has the CMake files that a wheel of torch holds itself.
install_packages() {
  in_root "apt-get update -q && tools/gpu/no_cudnn.sh package &&
    apt-get install -y -q --no-install-recommends python3-torch-cuda libtorch-cuda-dev libnccl-dev nvidia-cuda-toolkit \
      cmake ninja-build g++ python3 python3-numpy && tools/gpu/no_cudnn.sh library"
}

package() {
  rm -rf "$root/root/package"
  "$source_root/tools/gpu_acceptance.sh" package "$root/root/package"
}

# There is no GPU, so exit code 3 is what it should be. Hours of processors are not the point: a machine of few cores has
# more time, and the sources are joined all the same.
rehearse() {
  local status=0
  root_variables=(FORETIME_BUILD_SECONDS=5400 FORETIME_PATIENCE=10 "FORETIME_JOBS=$("$source_root/tools/build_jobs.sh")"
    "FORETIME_LINK_FLAGS=-Wl,--unresolved-symbols=ignore-in-shared-libs")
  in_root "rm -rf /root/result && /root/package/gpu_acceptance.sh run /root/result --seconds 9000 $brief" || status=$?
  root_variables=()
  [[ $status == 3 ]] || { echo "gpu_rehearsal.sh: exit code $status, expected 3: all holds, and there is no GPU" >&2; return 1; }
}

# The result: whole, with rows that only the CUDA build has.
examine() {
  python3 - "$root/root/result/acceptance.json" <<'END'
import json, sys
result = json.load(open(sys.argv[1]))
rows = result["rows"]
facts = {row["what"]: row["note"] for row in rows if row["check"] == "facts"}
print({**result["summary"], "seconds": {row["check"]: row["value"] for row in rows if row["what"] == "seconds"}})
assert result["summary"]["gpu"] is False and result["summary"]["correct"] is True, result["summary"]
assert "CUDA" in facts and facts["GPU"].startswith("no GPU"), facts
assert {"models", "steps", "trainings", "ranks", "nccl-refusal", "sums", "speed"} <= {row["check"] for row in rows}
END
}

status=0
[[ -e $root/etc/debian_version ]] || timed "debootstrap" make_root main,contrib,non-free
prepare_root
mount_all
clone_tree
{ in_root "test -e /usr/local/lib/libcudnn.so.9" || timed "packages" install_packages; } && timed "package" package &&
  timed "run" rehearse && timed "result" examine || status=1
print_report
exit "$status"
