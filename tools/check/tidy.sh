#!/usr/bin/env bash
# Runs clang-tidy with .clang-tidy's checks over the sources that differ from a branch, or over all of them:
#
#   tools/check/tidy.sh [--all | BRANCH]     BRANCH defaults to main; uncommitted changes count as well
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

command -v clang-tidy > /dev/null || { echo "tidy.sh: clang-tidy is not installed (Debian package clang-tidy)" >&2; exit 2; }

# Its own configuration: clang cannot read GCC's precompiled headers, nor the flag that lets ccache keep them, which a
# compiler launcher of any kind turns off.
cmake -S . -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DCMAKE_CXX_COMPILER_LAUNCHER=env -DFORETIME_BUILD_BENCH=ON > /dev/null

if [[ ${1:-} == --all ]]; then
  listing=(git ls-files '*.cpp')
else
  listing=(git diff --name-only --diff-filter=d "$(git merge-base HEAD "${1:-main}")" -- '*.cpp')
fi
# Only what is compiled here: NCCL's sources, for one, are left out where there is no NCCL.
files=()
while IFS= read -r file; do
  grep -qF "\"$PWD/$file\"" build/tidy/compile_commands.json && files+=("$file")
done < <("${listing[@]}")
if [[ ${#files[@]} == 0 ]]; then
  echo "tidy.sh: nothing to check"
  exit 0
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(tools/build_jobs.sh)" clang-tidy -p build/tidy --quiet
echo "tidy.sh: ${#files[@]} files checked"
