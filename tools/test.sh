#!/usr/bin/env bash
# Everything that must hold before a change lands: packages, the repository's own checks, a build without warnings, and all
# tests. Arguments go to ctest:
#
#   tools/test.sh [-R configs …]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/install-deps.sh --tests
# Where npm's registry is out of reach, the board and its tests are left out, and say so.
tools/install-deps.sh --board || echo "test.sh: the libraries of the board cannot be installed; its tests are skipped"
tools/check/check_includes.py --self-test
tools/check/check_includes.py
tools/check/check_docs.py --self-test
tools/check/check_docs.py
tools/check/check_words.sh
tools/check/check_format.sh
tools/check/code_figures.py
tools/check/check_alone.py

cmake --preset release -DFORETIME_BUILD_TESTS=ON -DFORETIME_BUILD_BENCH=ON
cmake --build --preset release -j "$(tools/build_jobs.sh)"

# shellcheck source=tools/mpi_env.sh
source tools/mpi_env.sh
# Thirds of two cores: most tests wait for processes and clocks two thirds of their time and take one, those that compute
# take two, those with several ranks two a rank. ctest's summary is the last line.
exec ctest --preset release --no-tests=error -j 6 "$@"
