#!/usr/bin/env bash
# Makes a wheel of the Python package that has libforetime and all that it needs inside: `pip install FILE` is then all, on any Linux of
# this architecture whose C library is not older than the one named in the wheel's name. It needs neither LibTorch nor MPI, on this
# machine or on the other. Prints the wheel's path.
#
#   tools/package/wheel.sh [OUT]      OUT: folder for the wheel; default: dist
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v patchelf > /dev/null || { echo "wheel.sh: patchelf is missing (apt-get install patchelf)" >&2; exit 2; }
exec "${FORETIME_PYTHON:-python3}" "$here/python_wheel.py" "${1:-dist}" --self-contained
