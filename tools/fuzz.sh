#!/usr/bin/env bash
# Fuzzes what programs and libforetime read from outside, with clang's libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer,
# each target for SECONDS, one after another, in build/fuzz:
#
#   tools/fuzz.sh SECONDS [TARGET …]       all targets without any:
#
#   bundle graph     bundles, and the inference graphs in them        capi      calls of the C interface in any order
#   tir records hlo  save_json text, tuning records, XLA's protobuf   packed    packed collections, with mended checksums
#   serve http       the server's JSON, and HTTP over its socket      npz       .npz files: zip, NPY headers, members
#   settings         settings, sweeps, fine-tunings, overrides, CSV   redis     Redis' replies to the queue and its reader
#   progress         lines between a job and its agent
#
# At the end each target's executions per second and covered edges are listed.
# Each target starts from its seeds, from tests/fuzz/corpus/TARGET, and from what earlier runs have found (build/fuzz/found). An
# input that fails is kept in build/fuzz/failures: a copy in tests/fuzz/corpus/TARGET makes it a test. Exit code 1: there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:?usage: tools/fuzz.sh SECONDS [TARGET …]}
shift
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(bundle graph tir records hlo serve http capi packed npz settings progress redis)
command -v clang++ > /dev/null || { echo "fuzz.sh: clang++ is not installed (Debian packages clang, libomp-dev)" >&2; exit 2; }

# No warnings as errors: clang warns of other things than GCC.
CC=clang CXX=clang++ cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DFORETIME_FUZZ=ON -DFORETIME_WERROR=OFF \
  -DFORETIME_NCCL=OFF -DFORETIME_BUILD_BENCH=OFF -DFORETIME_SANITIZE=address,undefined,fuzzer-no-link > /dev/null
cmake --build build/fuzz -j "$(tools/build_jobs.sh)" --target fuzzers

dictionary() { [[ -f tests/fuzz/$1.dict ]] && echo "$1" || echo json; }
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
# libFuzzer stops at 2 GiB or 30 s for one input; far less is normal.
declare -A longest=([bundle]=65536 [graph]=8192 [tir]=65536 [records]=16384 [hlo]=8192 [serve]=16384 [http]=8192 [capi]=512
  [packed]=512 [npz]=512 [settings]=4096 [progress]=4096 [redis]=4096)
build/fuzz/tests/fuzz/fuzz_seeds build/fuzz/seeds
failed=0
for target in "${targets[@]}"; do
  found=build/fuzz/found/$target failures=build/fuzz/failures/$target
  mkdir -p "$found" "$failures"
  folders=("$found" "build/fuzz/seeds/$target")
  [[ -d tests/fuzz/corpus/$target ]] && folders+=("tests/fuzz/corpus/$target")
  echo "fuzz.sh: $target, $seconds s"
  build/fuzz/tests/fuzz/fuzz_"$target" -max_total_time="$seconds" -max_len="${longest[$target]}" -timeout=30 -rss_limit_mb=2048 \
    -dict=tests/fuzz/"$(dictionary "$target")".dict -artifact_prefix="$failures/" -print_final_stats=1 "${folders[@]}" \
    2> build/fuzz/"$target".log || { failed=1; grep -v '^#' build/fuzz/"$target".log >&2; }
done
echo "target      executions/s     edges"
for target in "${targets[@]}"; do
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' build/fuzz/"$target".log)
  edges=$(grep -o 'cov: [0-9]*' build/fuzz/"$target".log | tail -1 | cut -d' ' -f2)
  printf '%-10s %13s %9s\n' "$target" "${rate:--}" "${edges:--}"
done
[[ $failed == 0 ]] && echo "fuzz.sh: nothing found"
exit $failed
