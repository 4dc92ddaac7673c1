#!/usr/bin/env bash
# Refuses words that stand for work not done: what is not finished belongs in the issue tracker, not in the tree. A line
# may say that such a word is TVM's. Refuses hidden folders of this user, too: they exist on this machine alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

words='TODO|FIXME|XXX|HACK|stub|placeholder'
if grep -rnIwE "$words" . --exclude-dir=.git --exclude-dir='build*' --exclude-dir=runs --exclude-dir=samples \
  --exclude-dir=__pycache__ --exclude-dir=node_modules --exclude-dir=.mypy_cache --exclude="$(basename "${BASH_SOURCE[0]}")" |
  grep -v "TVM's word"; then
  echo "check_words.sh: the lines above hold one of $words" >&2
  exit 1
fi
echo "check_words.sh: none of $words"
if git grep -nIF -e "$HOME/." -- .; then
  echo "check_words.sh: the lines above hold a folder of this machine" >&2
  exit 1
fi
