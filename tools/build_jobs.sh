#!/usr/bin/env bash
# Prints how many compilers may run side by side: one a core, as long as each has the 2 GiB that a file with LibTorch takes.
set -euo pipefail

kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
# Containers may be allowed less than the machine has.
if [[ -r /sys/fs/cgroup/memory.max ]]; then
  limit=$(cat /sys/fs/cgroup/memory.max)
  if [[ $limit != max ]] && ((limit / 1024 < kib)); then kib=$((limit / 1024)); fi
fi
jobs=$((kib / (2 * 1024 * 1024)))
cores=$(nproc)
((jobs < cores)) || jobs=$cores
((jobs > 0)) || jobs=1
echo "$jobs"
