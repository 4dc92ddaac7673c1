#!/usr/bin/env bash
# Fuzzes what programs and libforetime read from outside, with clang's libFuzzer, each target for SECONDS, one after another:
#
#   tools/check/fuzz.sh [--fast] SECONDS [TARGET …]       all targets without any:
#
#   bundle graph     bundles, and the inference graphs in them        capi      calls of the C interface in any order
#   tir records hlo  save_json text, tuning records, XLA's protobuf   packed    packed collections, with mended checksums
#   serve http       the server's JSON, and HTTP over its socket      npz       .npz files: zip, NPY headers, members
#   files            files of modules, of programs and of records     redis     Redis' replies to the queue and its reader
#   settings         settings, sweeps, fine-tunings, overrides, CSV
#   progress         lines between a job and its agent           lines     lines of plain and gzip files
#   checkpoints      checkpoints of a run, damaged               artifacts records of stored artifacts, and what stores answer
#   runs             run directories of files, links, FIFOs and devices, by all that reads them
#   board            requests to the board                        store     folders of embedded Redis servers
#
# with AddressSanitizer and UndefinedBehaviorSanitizer (build/fuzz), or --fast without them (build/fuzz-fast): many more
# executions find what is rare, and only broken promises, assertions of the standard library, crashes and hangs are noticed.
#
#   tools/check/fuzz.sh [--fast] --keep [TARGET …]        no fuzzing: the smallest inputs found that reach all edges become
#                                                   tests/fuzz/corpus/TARGET.zip, which ordinary tests run
#
# At the end each target's executions, executions per second and covered edges are listed; all runs' executions are added up in
# build/fuzz/executions. Each target starts from its seeds, from tests/fuzz/corpus/TARGET and TARGET.zip, and from what earlier
# runs of either build have found (build/fuzz/found). An input that fails is kept in build/fuzz/failures: a copy in tests/fuzz/corpus/TARGET
# makes it a test. Exit code 1: there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=build/fuzz sanitize=address,undefined,fuzzer-no-link unity=OFF seconds=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --fast) build=build/fuzz-fast sanitize=fuzzer-no-link unity=ON ;;
    --keep) seconds=keep ;;
    *) echo "fuzz.sh: $1: unknown, expected --fast or --keep" >&2; exit 2 ;;
  esac
  shift
done
if [[ $seconds != keep ]]; then
  seconds=${1:?usage: tools/check/fuzz.sh [--fast] SECONDS [TARGET …] | [--fast] --keep [TARGET …]}
  shift
fi
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(bundle graph tir records hlo serve http capi packed npz files settings progress redis checkpoints artifacts lines runs board store)
command -v clang++ > /dev/null || { echo "fuzz.sh: clang++ is not installed (Debian packages clang, libomp-dev)" >&2; exit 2; }

# No warnings as errors: clang warns of other things than GCC.
CC=clang CXX=clang++ cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DFORETIME_FUZZ=ON -DFORETIME_WERROR=OFF \
  -DFORETIME_NCCL=OFF -DFORETIME_BUILD_BENCH=OFF -DFORETIME_UNITY=$unity -DFORETIME_SANITIZE=$sanitize > /dev/null
cmake --build $build -j "$(tools/build_jobs.sh)" --target fuzzers
mkdir -p build/fuzz

dictionary() { [[ -f tests/fuzz/$1.dict ]] && echo "$1" || echo json; }
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
# libFuzzer stops at 2 GiB or 30 s for one input; far less is normal.
declare -A longest=([bundle]=65536 [graph]=8192 [tir]=65536 [records]=16384 [hlo]=8192 [serve]=16384 [http]=8192 [capi]=512
  [packed]=512 [npz]=512 [files]=32768 [settings]=4096 [progress]=4096 [redis]=4096
  [checkpoints]=1024 [artifacts]=1024 [lines]=4096 [runs]=512 [board]=2048 [store]=1024)
$build/tests/fuzz/fuzz_seeds build/fuzz/seeds

# What earlier runs on any machine have kept.
for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/found/$target"
  [[ ! -f tests/fuzz/corpus/$target.zip ]] || python3 -m zipfile -e tests/fuzz/corpus/"$target".zip build/fuzz/found/"$target"
done

if [[ $seconds == keep ]]; then
  for target in "${targets[@]}"; do
    kept=build/fuzz/kept/$target corpus=tests/fuzz/corpus/$target
    rm -rf "$kept" && mkdir -p "$kept"
    folders=("$kept" "build/fuzz/seeds/$target" "build/fuzz/found/$target")
    [[ -d $corpus ]] && folders+=("$corpus")
    # By edges alone, not by how often each is passed: an input for each of those counts would be thousands.
    $build/tests/fuzz/fuzz_"$target" -merge=1 -use_counters=0 -max_len="${longest[$target]}" "${folders[@]}" \
      > "build/fuzz/$target-keep.log" 2>&1
    # Seeds are made anew by each test, inputs with a name of their own have a file of their own, and the longest ones go
    # where all together take more than 40 KB.
    python3 - "$kept" "$corpus" "build/fuzz/seeds/$target" << 'END'
import pathlib, sys, zipfile
kept, corpus, seeds = map(pathlib.Path, sys.argv[1:])
known = {file.read_bytes() for folder in (corpus, seeds) if folder.is_dir() for file in folder.iterdir()}
inputs = sorted((file for file in kept.iterdir() if file.read_bytes() not in known), key=lambda file: (file.stat().st_size, file.name))
total = count = 0
with zipfile.ZipFile(f"{corpus}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for file in inputs:
        total += file.stat().st_size
        if total > 40000:
            break
        archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes(), zipfile.ZIP_DEFLATED)
        count += 1
print(f"{corpus}.zip: {count} of {len(inputs)} inputs")
END
  done
  exit 0
fi

failed=0
for target in "${targets[@]}"; do
  found=build/fuzz/found/$target failures=build/fuzz/failures/$target log=build/fuzz/$target.log
  mkdir -p "$found" "$failures"
  folders=("$found" "build/fuzz/seeds/$target")
  [[ -d tests/fuzz/corpus/$target ]] && folders+=("tests/fuzz/corpus/$target")
  echo "fuzz.sh: $target, $seconds s"
  $build/tests/fuzz/fuzz_"$target" -max_total_time="$seconds" -max_len="${longest[$target]}" -timeout=30 -rss_limit_mb=2048 \
    -dict=tests/fuzz/"$(dictionary "$target")".dict -artifact_prefix="$failures/" -print_final_stats=1 "${folders[@]}" \
    > "$log" 2>&1 || { failed=1; grep -v '^#' "$log" >&2; }
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "$target $build ${executions:-0} $seconds" >> build/fuzz/executions
done
echo "target        executions  executions/s   edges  executions of all runs"
for target in "${targets[@]}"; do
  log=build/fuzz/$target.log
  printf '%-10s %13s %13s %7s %23s\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")" "$(grep -o 'cov: [0-9]*' "$log" | tail -1 | cut -d' ' -f2)" \
    "$(awk -v target="$target" '$1 == target {sum += $3} END {print sum}' build/fuzz/executions)"
done
[[ $failed == 0 ]] && echo "fuzz.sh: nothing found"
exit $failed
