/// How many tuning records a second one core turns into loop nests and loop graphs, from the compressed file on.
///
///   replay_bench RECORDS.jsonl.gz DAGS.jsonl.gz [MOST]
///
/// Passes over the same file (at most MOST records of it): its lines only, its records, their loop nests, the nests'
/// accesses, statements and features, and loop graphs, which are dropped a thousand at a time, as packing does. The
/// best of several rounds counts; the passes take turns. Failed measurements are left out, as they are everywhere.
/// Beside it stands Python reading the same lines with gzip and json, in /usr/bin/python3 and timed by itself.
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/bench.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/nest_statements.h"
#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/nest_program.h"
#include "models/baselines/store_features/store_features.h"

namespace {

using namespace foretime;
using namespace foretime::data;

constexpr int kRounds = 5;
constexpr int64_t kGraphsAtOnce = 1000;
constexpr const char* kPythonProgram =
    "import sys, time, gzip, json\n"
    "start = time.perf_counter()\n"
    "count = 0\n"
    "for line in gzip.open(sys.argv[1], \"rt\"):\n"
    "    if line[0] in \"# \\n\" or json.loads(line)[\"r\"][1] != 0: continue\n"
    "    count += 1\n"
    "    if count == int(sys.argv[2]): break\n"
    "print((time.perf_counter() - start) / count)\n";

void run(const std::string& records, const std::string& dags, int64_t most) {
  const DagTable table(dags);
  bench::Best lines, parsed, replayed, accessed, stated, featured, graphed;
  int64_t count = 0, line_count = 0, nests = 0, failures = 0, loops = 0, missing = 0, elements = 0, stores = 0,
          stores_found = 0, elements_found = 0, held = 0, nodes = 0, edges = 0;
  std::vector<NestAccess> accesses;
  NestStatements statements;
  NestProgram reader_of_nests;
  LoopProgram program;
  const auto graphs = make_program_graphs(configs::Representation::loops, Hardware{});
  models::StoreFeatures features;
  std::vector<float> rows;
  Replayer replayer;
  TuningRecord record;
  LoopNest nest;
  const auto timed = [](bench::Best& best, const std::function<void()>& pass) {
    best.time(bench::process_seconds, pass);
  };
  for (int round = 0; round < kRounds; ++round) {
    timed(parsed, [&] {
      RecordReader reader(records);
      count = 0;
      while (count < most && reader.next(record)) ++count;
      line_count = reader.counts().lines;
    });
    timed(lines, [&] {
      LineSource source(records);
      for (int64_t i = 0; i < line_count && source.next(); ++i) continue;
    });
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
        stage_accesses(nest, stage, 0, accesses);
        elements += static_cast<int64_t>(accesses.size());
      }
    };
    const auto find_features = [&] {
      rows.clear();
      stores += features.extract(nest, record.hardware.cache_line_bytes, rows);
      models::sort_store_features(rows);
    };
    const auto drop_graphs = [&] {
      held = 0;
      const GraphBlock block = graphs->finish();
      nodes += block.nodes();
      edges += block.edges();
    };
    const auto make_graph = [&] {
      reader_of_nests.read(nest, record, program);
      graphs->add(program, 0.0);
      if (++held == kGraphsAtOnce) drop_graphs();
    };
    timed(replayed, [&] { replay_all([] {}); });
    timed(stated, [&] { replay_all([&] { nest_statements(nest, statements); }); });
    timed(featured, [&] { replay_all(find_features); });
    stores_found = stores;
    timed(accessed, [&] { replay_all(find_accesses); });
    elements_found = elements;
    nodes = edges = 0;
    timed(graphed, [&] {
      replay_all(make_graph);
      drop_graphs();
    });
  }
  const double python = bench::python_number(kPythonProgram, {records, std::to_string(std::min<int64_t>(most, 20000))});
  const auto rate = [&](double seconds) { return static_cast<double>(count) / seconds; };
  const auto each = [&](int64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(std::max<int64_t>(nests, 1));
  };
  fmt::print("{}: {} records, {} nests of {:.1f} loops, {} that cannot be replayed, {} without a DAG\n", records, count,
             nests, each(loops), failures, missing);
  fmt::print("records a second and core: lines {:.0f}, records {:.0f}, nests {:.0f}; replay alone {:.0f}\n",
             rate(lines.seconds()), rate(parsed.seconds()), rate(replayed.seconds()),
             rate(replayed.seconds() - parsed.seconds()));
  fmt::print(
      "with the indices of {} accesses: {:.0f}; with statements: {:.0f}; with the features of {} stores: {:.0f}\n",
      elements_found, rate(accessed.seconds()), rate(stated.seconds()), stores_found, rate(featured.seconds()));
  fmt::print("with loop graphs, of {:.1f} nodes and {:.1f} edges each: {:.0f}\n", each(nodes), each(edges),
             rate(graphed.seconds()));
  if (python > 0.0) fmt::print("nests over Python's gzip and json alone: {:.1f}\n", python * rate(replayed.seconds()));
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run(argc, argv, "RECORDS.jsonl.gz DAGS.jsonl.gz [MOST]", 2, 3, [&] {
    run(argv[1], argv[2], argc == 4 ? std::atoll(argv[3]) : std::numeric_limits<int64_t>::max());
  });
}
