#!/usr/bin/env bash
# Runs all tests N times on a machine that is otherwise idle, and N times while other processes keep every core busy. Prints
# a line for each run; exit code 1 where one has failed. Builds nothing: run tools/test.sh before.
#
#   tools/check/test_repeatedly.sh [N] [CTEST_ARGUMENT …]     N defaults to 5; logs are in build/release/repeated
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
times=${1:-5}
[[ $times =~ ^[1-9][0-9]*$ ]] || { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
shift || true

# shellcheck source=tools/mpi_env.sh
source tools/mpi_env.sh
logs=build/release/repeated
mkdir -p "$logs"
busy=()
trap '[[ ${#busy[@]} == 0 ]] || kill "${busy[@]}"' EXIT
status=0
for load in idle busy; do
  if [[ $load == busy ]]; then
    for ((core = 0; core < $(nproc); ++core)); do
      while :; do :; done &
      busy+=($!)
    done
  fi
  for ((run = 1; run <= times; ++run)); do
    began=$SECONDS log=$logs/$load-$run.log
    ctest --preset release --no-tests=error -j 6 "$@" > "$log" 2>&1 && result=passed || { result=FAILED; status=1; }
    echo "$load, run $run of $times: $result in $((SECONDS - began)) s: $(grep -m 1 'tests passed' "$log" || tail -n 1 "$log")"
    sed -n '/The following tests FAILED/,$p' "$log"
  done
done
exit "$status"
