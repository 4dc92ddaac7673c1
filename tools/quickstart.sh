#!/usr/bin/env bash
# From a bare Debian 12 to a trained model and a finished sweep: installs what is missing, builds `foretime`, trains on the measured
# programs in samples/ over two MPI ranks, exports the model and ranks with it, then lets two agents work through a small sweep on a Redis of its own, with early stopping;
# one trial is killed on purpose, and is tried again from its last checkpoint. Arguments are passed on as settings of the training:
#
#   tools/quickstart.sh [trainer.steps=400 …]
#
# FORETIME names a program that is built already; then nothing is installed and built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

started=$SECONDS
foretime=${FORETIME:-build/release/cli/foretime}
[[ -n ${FORETIME:-} ]] || tools/install-deps.sh
installed=$SECONDS
if [[ -z ${FORETIME:-} ]]; then
  cmake --preset release -DFORETIME_BUILD_TESTS=OFF -DFORETIME_BUILD_BENCH=OFF
  cmake --build --preset release --target foretime_cli -j "$(tools/build_jobs.sh)"
fi
built=$SECONDS

# shellcheck source=tools/mpi_env.sh
source tools/mpi_env.sh
train=(mpirun -n 2 --oversubscribe --bind-to none "$foretime" train configs/quickstart.yaml "$@")
echo "+ ${train[*]}"
"${train[@]}"

# The model as a tuner gets it: one file, that ranks without LibTorch.
run=runs/quickstart
for argument in "$@"; do
  [[ $argument != run.directory=* ]] || run=${argument#*=}
done
echo "+ $foretime export $run $run/model.foretime && $foretime rank $run/model.foretime samples/resnet18_conv2d/C3.npz --top 3"
"$foretime" export "$run" "$run/model.foretime"
"$foretime" rank "$run/model.foretime" samples/resnet18_conv2d/C3.npz --top 3
trained=$SECONDS

# The sweep. Without --redis and FORETIME_REDIS, Foretime starts redis-server for itself, on a socket in runs/sweep/.redis.
runs=(--runs runs/sweep)
unset FORETIME_REDIS
echo "+ $foretime submit configs/sweeps/quickstart.yaml ${runs[*]}"
"$foretime" submit configs/sweeps/quickstart.yaml "${runs[@]}"
agents=()
for name in first second; do
  "$foretime" agent "${runs[@]}" --name "$name" --cpus 1 --until-empty > "runs/sweep/agent-$name.log" 2>&1 &
  agents+=($!)
done
trap 'kill "${agents[@]}" 2> /dev/null || true' EXIT
# The process that trains the first trial which has written a checkpoint.
trial_with_checkpoint() {
  local manifest process folder
  for manifest in runs/sweep/*/attempt-1/checkpoints/*/manifest.json; do
    folder=${manifest%/checkpoints/*}
    for process in /proc/[0-9]*; do
      if tr '\0' ' ' 2> /dev/null < "$process/cmdline" | grep -q "train.*$folder/config.yaml"; then
        echo "${process#/proc/} $folder"
        return
      fi
    done
  done
}
while kill -0 "${agents[0]}" 2> /dev/null; do
  read -r victim folder <<< "$(trial_with_checkpoint)" || true
  if [[ -n ${victim:-} ]] && kill -KILL "$victim" 2> /dev/null; then
    echo "+ kill -KILL $victim   # the process that trains in $folder"
    break
  fi
  sleep 0.2
done
wait "${agents[@]}"
trap - EXIT
"$foretime" status "${runs[@]}"
"$foretime" leaderboard "${runs[@]}"

cat << END

Packages: $((installed - started)) s, build: $((built - installed)) s, training: $((trained - built)) s, sweep: $((SECONDS - trained)) s.
Training goes on from the last checkpoint when the same command is given more steps:
  ${train[*]} trainer.steps=N
What the agents did: runs/sweep/agent-*.log; one job in full: $foretime status ID ${runs[*]}
All settings: $foretime config --reference, or docs/reference/settings.md.
END
