#!/usr/bin/env bash
# The steps of examples/container and of `tools/package/fresh_root.sh --only packages`, on a bare Debian, as root:
#
#   tools/package/image.sh build OUT       installs what the build needs, and makes Debian packages in OUT (tools/package/deb.sh)
#   tools/package/image.sh install DIR     installs the packages in DIR, and redis-server, for a queue of one's own
set -euo pipefail
[[ $# == 2 && ($1 == build || $1 == install) ]] || { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
export DEBIAN_FRONTEND=noninteractive
install() {
  apt-get update -q
  apt-get install -y -q --no-install-recommends "$@"
}

if [[ $1 == build ]]; then
  cd "$(dirname "${BASH_SOURCE[0]}")/../.."
  tools/install-deps.sh
  install dpkg-dev file python3
  tools/package/deb.sh "$2"
else
  install "$(realpath "$2")"/*.deb redis-server
  rm -rf /var/lib/apt/lists/*
fi
