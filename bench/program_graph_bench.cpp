/// How many tuning records a second one core turns into loop graphs, from the compressed file on.
///
///   program_graph_bench RECORDS.jsonl.gz DAGS.jsonl.gz [MOST]
///
/// Seconds are the process's own (user and system), so that others on the machine disturb little. Graphs are dropped a
/// workload at a time, as packing does. The best of three rounds counts.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/nest_program.h"

namespace {

using namespace foretime;
using namespace foretime::data;

constexpr int kRounds = 3;
constexpr int64_t kGraphsAtOnce = 1000;

double process_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void run(const std::string& records, const std::string& dags, int64_t most) {
  const DagTable table(dags);
  double best = std::numeric_limits<double>::infinity();
  int64_t programs = 0, nodes = 0, edges = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double start = process_seconds();
    RecordReader reader(records);
    Replayer replayer;
    NestProgram statements;
    TuningRecord record;
    LoopNest nest;
    LoopProgram program;
    const auto graphs = make_program_graphs(configs::Representation::loops, Hardware{});
    std::shared_ptr<const ComputeDag> dag;
    std::string key;
    programs = nodes = edges = 0;
    int64_t held = 0;
    const auto drop = [&] {
      held = 0;
      const GraphBlock block = graphs->finish();
      nodes += block.nodes();
      edges += block.edges();
    };
    while (programs < most && reader.next(record)) {
      if (!dag || record.workload_key != key) {
        dag = table.find(record.workload_key);
        key = record.workload_key;
      }
      if (!dag) continue;
      replayer.replay(dag, record.schedule, nest);
      statements.read(nest, record, program);
      graphs->add(program, 0.0);
      ++programs;
      if (++held == kGraphsAtOnce) drop();
    }
    drop();
    best = std::min(best, process_seconds() - start);
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, programs));
  fmt::print("{}: {} programs, {:.1f} nodes and {:.1f} edges each\n", records, programs,
             static_cast<double>(nodes) / count, static_cast<double>(edges) / count);
  fmt::print("records to loop graphs a second and core: {:.0f}\n", count / best);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3 || argc > 4) throw DataError("usage: program_graph_bench RECORDS.jsonl.gz DAGS.jsonl.gz [MOST]");
    run(argv[1], argv[2], argc == 4 ? std::atoll(argv[3]) : std::numeric_limits<int64_t>::max());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "program_graph_bench: %s\n", error.what());
    return 1;
  }
}
