#!/usr/bin/env bash
# Runs the tests of the Python package with AddressSanitizer and UndefinedBehaviorSanitizer in libforetime: memory that a
# call of Python's lets the library read or write wrongly, also where threads close what others use. Leaks are not looked
# for, because Python itself frees little at its end. Needs a release build with tests, whose bundles it takes.
#
#   tools/check/sanitize_python.sh [UNITTEST ARGUMENTS]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/asan-library
release=$root/build/release
[[ -x $release/cli/foretime && -x $release/tests/inference/sample_files && -x $release/tests/support/synthesize_graph ]] ||
  { echo "sanitize_python.sh: needs cmake --build build/release --target foretime_cli sample_files synthesize_graph" >&2; exit 2; }

cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DFORETIME_UNITY=ON -DFORETIME_LIBRARY_ONLY=ON -DFORETIME_BUILD_TESTS=OFF \
  -DFORETIME_BUILD_BENCH=OFF -DFORETIME_SANITIZE=address,undefined -DCMAKE_CXX_FLAGS_DEBUG=-g1 > /dev/null
cmake --build "$build" -j "$("$root/tools/build_jobs.sh")" --target foretime_shared
"$release/tests/inference/sample_files" "$build/bundles"

export FORETIME=$release/cli/foretime FORETIME_LIBRARY=$build/inference/capi/libforetime.so FORETIME_BUNDLES=$build/bundles
export FORETIME_SYNTHESIZE_GRAPH=$release/tests/support/synthesize_graph
export FORETIME_SOURCE_DIR=$root FORETIME_TEST_BUNDLE=$build/bundles/loops.foretime PYTHONDONTWRITEBYTECODE=1
export FORETIME_OTHER_BUILD=1 ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
cd "$root/tests/python"
# Programs that tests start are not the library's and have no sanitizer. Exceptions need their library from the start.
with_sanitizers() {
  LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so)" /usr/bin/python3 -c "import os, sys, unittest
del os.environ['LD_PRELOAD']
unittest.main(module=None, argv=['unittest', *sys.argv[1:]])" "$@"
}
if [[ $# -gt 0 ]]; then
  with_sanitizers "$@"
else
  with_sanitizers -v package_test.Scores tables_test
  with_sanitizers discover -v -s unit
fi
