/// How many tuning records a second one core turns into loop nests, from the compressed file on.
///
///   replay_bench RECORDS.jsonl.gz DAGS.jsonl.gz [MOST]
///
/// Passes over the same file (at most MOST records of it): its lines only, its records, their loop nests, the nests'
/// accesses, statements, and features. The
/// best of several rounds counts; the passes take turns. Failed measurements are left out, as they are everywhere.
/// Beside it stands Python reading the same lines with gzip and json, in /usr/bin/python3 and timed by itself.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/features/nest_statements.h"
#include "data/frontends/ansor/features/store_features.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/replay.h"

namespace {

using namespace foretime;
using namespace foretime::data;

constexpr int kRounds = 5;
constexpr const char* kPythonProgram =
    "import sys, time, gzip, json\n"
    "start = time.perf_counter()\n"
    "count = 0\n"
    "for line in gzip.open(sys.argv[1], \"rt\"):\n"
    "    if line[0] in \"# \\n\" or json.loads(line)[\"r\"][1] != 0: continue\n"
    "    count += 1\n"
    "    if count == int(sys.argv[2]): break\n"
    "print((time.perf_counter() - start) / count)\n";

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Seconds a record, or a negative number where there is no Python.
double python_seconds(const std::string& file, int64_t most) {
  const std::string command = fmt::format("/usr/bin/python3 -c {} {} {}", quoted(kPythonProgram), quoted(file), most);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  double seconds = -1.0;
  return pipe && std::fscanf(pipe.get(), "%lf", &seconds) == 1 ? seconds : -1.0;
}

/// Seconds of this process.
double timed(const std::function<void()>& pass) {
  const auto now = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const double start = now();
  pass();
  return now() - start;
}

void run(const std::string& records, const std::string& dags, int64_t most) {
  const DagTable table(dags);
  double lines = std::numeric_limits<double>::infinity(), parsed = lines, replayed = lines, accessed = lines,
         stated = lines, featured = lines;
  int64_t count = 0, line_count = 0, nests = 0, failures = 0, loops = 0, missing = 0, elements = 0, stores = 0,
          stores_found = 0;
  std::vector<NestAccess> accesses;
  NestStatements statements;
  StoreFeatures features;
  std::vector<float> rows;
  Replayer replayer;
  TuningRecord record;
  LoopNest nest;
  for (int round = 0; round < kRounds; ++round) {
    parsed = std::min(parsed, timed([&] {
                        RecordReader reader(records);
                        count = 0;
                        while (count < most && reader.next(record)) ++count;
                        line_count = reader.counts().lines;
                      }));
    lines = std::min(lines, timed([&] {
                       LineSource source(records);
                       for (int64_t i = 0; i < line_count && source.next(); ++i) continue;
                     }));
    const auto replay_all = [&](const std::function<void()>& visit) {
      RecordReader reader(records);
      nests = failures = loops = missing = elements = stores = 0;
      std::shared_ptr<const ComputeDag> dag;
      std::string key;
      for (int64_t i = 0; i < most && reader.next(record); ++i) {
        if (!dag || record.workload_key != key) {
          dag = table.find(record.workload_key);
          key = record.workload_key;
        }
        if (!dag) {
          ++missing;
          continue;
        }
        try {
          replayer.replay(dag, record.schedule, nest);
          ++nests;
          for (const NestStage& stage : nest.stages) loops += static_cast<int64_t>(stage.iterators.size());
          visit();
        } catch (const DataError&) {
          ++failures;
        }
      }
    };
    const auto find_accesses = [&] {
      for (size_t stage = 0; stage < nest.stages.size(); ++stage) {
        if (nest.dag->stages[stage].input || nest.stages[stage].compute_at == ComputeAt::inlined) continue;
        stage_accesses(nest, stage, accesses);
        elements += static_cast<int64_t>(accesses.size());
      }
    };
    const auto find_features = [&] {
      rows.clear();
      stores += features.extract(nest, record.hardware.cache_line_bytes, rows);
      sort_store_features(rows);
    };
    replayed = std::min(replayed, timed([&] { replay_all([] {}); }));
    stated = std::min(stated, timed([&] { replay_all([&] { nest_statements(nest, statements); }); }));
    featured = std::min(featured, timed([&] { replay_all(find_features); }));
    stores_found = stores;
    accessed = std::min(accessed, timed([&] { replay_all(find_accesses); }));
  }
  const double python = python_seconds(records, std::min<int64_t>(most, 20000));
  const auto rate = [&](double seconds) { return static_cast<double>(count) / seconds; };
  fmt::print("{}: {} records, {} nests of {:.1f} loops, {} that cannot be replayed, {} without a DAG\n", records, count,
             nests, static_cast<double>(loops) / static_cast<double>(std::max<int64_t>(nests, 1)), failures, missing);
  fmt::print("records a second and core: lines {:.0f}, records {:.0f}, nests {:.0f}; replay alone {:.0f}\n",
             rate(lines), rate(parsed), rate(replayed), rate(replayed - parsed));
  fmt::print(
      "with the indices of {} accesses: {:.0f}; with statements: {:.0f}; with the features of {} stores: {:.0f}\n",
      elements, rate(accessed), rate(stated), stores_found, rate(featured));
  if (python > 0.0) fmt::print("nests over Python's gzip and json alone: {:.1f}\n", python * rate(replayed));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3 || argc > 4) throw DataError("usage: replay_bench RECORDS.jsonl.gz DAGS.jsonl.gz [MOST]");
    run(argv[1], argv[2], argc == 4 ? std::atoll(argv[3]) : std::numeric_limits<int64_t>::max());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replay_bench: %s\n", error.what());
    return 1;
  }
}
