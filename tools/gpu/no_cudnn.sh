#!/usr/bin/env bash
# Takes cuDNN's place in a system that only builds against CUDA's LibTorch (tools/gpu/cuda_root.sh), as root: Debian's
# nvidia-cudnn is a script that downloads cuDNN, and LibTorch's CUDA library does not load without it.
#
#   tools/gpu/no_cudnn.sh package   # an empty package nvidia-cudnn, so that those that depend on it can be installed
#   tools/gpu/no_cudnn.sh library   # then: a libcudnn.so.9 with all functions that LibTorch and Python's torch name, which end
#                               # the program
#
# Foretime itself calls nothing of cuDNN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

package() {
  mkdir -p "$folder/package/DEBIAN"
  cat > "$folder/package/DEBIAN/control" <<'END'
Package: nvidia-cudnn
Version: 9.0.0.312~cuda12+none
Architecture: amd64
Maintainer: nobody <nobody@localhost>
Description: nothing, in the place of a script that downloads cuDNN
END
  dpkg-deb --root-owner-group -b "$folder/package" "$folder/none.deb" > /dev/null
  dpkg -i "$folder/none.deb"
}

library() {
  local torch
  torch=$(ldconfig -p | awk '$1 ~ /^libtorch_(cuda|python)\.so\./ { print $NF }')
  [[ $torch == *libtorch_cuda* ]] || { echo "no_cudnn.sh: no libtorch_cuda.so; install libtorch-cuda-dev first" >&2; exit 2; }
  {
    echo '#include <stdio.h>'
    echo '#include <stdlib.h>'
    # shellcheck disable=SC2086  # one or two files
    nm -D --undefined-only $torch | sed -n 's/^ *U \(cudnn[A-Za-z0-9_]*\).*/\1/p' | sort -u |
      sed 's/.*/void &(void) { fputs("cuDNN is not installed, and & was called\\n", stderr); abort(); }/'
  } > "$folder/cudnn.c"
  echo 'libcudnn.so.9 { global: cudnn*; local: *; };' > "$folder/versions"
  gcc -shared -fPIC -Wl,-soname,libcudnn.so.9 -Wl,--version-script="$folder/versions" "$folder/cudnn.c" \
    -o /usr/local/lib/libcudnn.so.9
  ldconfig
  echo "no_cudnn.sh: $(grep -c abort "$folder/cudnn.c") functions in /usr/local/lib/libcudnn.so.9"
}

case "${1:-}" in
  package | library) "$1" ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
