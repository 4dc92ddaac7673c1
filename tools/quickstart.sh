#!/usr/bin/env bash
# From a bare Debian 12 to a trained model: installs what is missing, builds `foretime`, and trains on the measured programs
# in samples/ over two MPI ranks. Arguments are passed on as settings:
#
#   tools/quickstart.sh [trainer.steps=400 …]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

started=$SECONDS
tools/install-deps.sh
installed=$SECONDS
cmake --preset release -DFORETIME_BUILD_TESTS=OFF -DFORETIME_BUILD_BENCH=OFF
cmake --build --preset release --target foretime_cli -j "$(tools/build_jobs.sh)"
built=$SECONDS

# shellcheck source=tools/mpi_env.sh
source tools/mpi_env.sh
foretime=build/release/cli/foretime
train=(mpirun -n 2 --oversubscribe --bind-to none "$foretime" train configs/quickstart.yaml "$@")
echo "+ ${train[*]}"
"${train[@]}"

cat << END

Packages: $((installed - started)) s, build: $((built - installed)) s, training: $((SECONDS - built)) s.
Training goes on from the last checkpoint when the same command is given more steps:
  ${train[*]} trainer.steps=N
All settings: $foretime config --reference, or docs/settings.md.
END
