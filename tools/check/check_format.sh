#!/usr/bin/env bash
# Checks that all C++ sources are formatted as .clang-format says; --fix formats them. Only clang-format 14 (Debian 12's) is
# asked: other versions format differently, so where there is none the check says so and passes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

formatter=""
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" > /dev/null && [[ $("$candidate" --version) == *"version 14."* ]]; then
    formatter=$candidate
    break
  fi
done
if [[ -z $formatter ]]; then
  echo "check_format.sh: not checked, clang-format 14 is not installed"
  exit 0
fi

mapfile -t files < <(find . \( -path './build*' -o -path ./runs -o -path ./.git \) -prune -o \( -name '*.h' -o -name '*.cpp' \) -print | sort)
if [[ ${1:-} == --fix ]]; then
  "$formatter" -i "${files[@]}"
  echo "check_format.sh: formatted ${#files[@]} files"
elif "$formatter" --dry-run -Werror "${files[@]}"; then
  echo "check_format.sh: ${#files[@]} files are formatted"
else
  echo "check_format.sh: run tools/check/check_format.sh --fix" >&2
  exit 1
fi
