#!/usr/bin/env bash
# Checks that all C++ sources are formatted as .clang-format says, and all Python sources as pyproject.toml says; --fix
# formats them. Only clang-format 14 and black 23 (Debian 12's) are asked: other versions format differently, so where
# one is missing the check says so and passes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Prints the first of the given programs that says this version.
program_of_version() {
  local version=$1 candidate
  shift
  for candidate in "$@"; do
    if command -v "$candidate" > /dev/null && [[ $("$candidate" --version) == *"$version"* ]]; then
      echo "$candidate"
      return 0
    fi
  done
}
sources() {
  find . \( -path './build*' -o -path ./runs -o -path ./.git -o -name node_modules \) -prune -o \( "$@" \) -print | sort
}
# Runs the rest of the arguments, which format the files, or which check them.
failed=0
run() {
  local what=$1 count=$2
  shift 2
  if "$@"; then
    echo "check_format.sh: $count $what sources are formatted"
  else
    echo "check_format.sh: run tools/check/check_format.sh --fix" >&2
    failed=1
  fi
}

cpp_options=(--dry-run -Werror)
python_options=(--check)
if [[ ${1:-} == --fix ]]; then
  cpp_options=(-i)
  python_options=(--quiet)
fi
formatter=$(program_of_version "version 14." clang-format-14 clang-format)
if [[ -n $formatter ]]; then
  mapfile -t files < <(sources -name '*.h' -o -name '*.cpp')
  run C++ "${#files[@]}" "$formatter" "${cpp_options[@]}" "${files[@]}"
else
  echo "check_format.sh: C++ sources are not checked, clang-format 14 is not installed"
fi
formatter=$(program_of_version "black, 23." black)
if [[ -n $formatter ]]; then
  mapfile -t files < <(sources -name '*.py')
  run Python "${#files[@]}" "$formatter" "${python_options[@]}" "${files[@]}"
else
  echo "check_format.sh: Python sources are not checked, black 23 is not installed"
fi
exit "$failed"
