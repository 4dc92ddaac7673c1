/// Every program of samples/ansor comes in twice: as a tuning record, and as the syntax tree that TVM made of it. Two
/// readers that share nothing but AccessPattern must find the same statements.
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/files/npz_groups.h"
#include "data/frontends/ansor/dag/dag_reader.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/loops/nest_program.h"
#include "data/frontends/loops/tree_program.h"
#include "tests/support/paths.h"

namespace foretime::data {
namespace {

using testing::samples_dir;

std::string text_of(const LoopProgram& program, size_t first) {
  std::string out;
  for (const ProgramStatement& s : std::span(program.statements).subspan(first)) {
    out += fmt::format("{}{} unroll {} ops {}:", s.initial ? "initial " : "", s.update ? "update" : "store",
                       s.unroll_limit, fmt::join(s.arithmetic, " "));
    for (const ProgramLoop& loop : program.loops_of(s))
      out += fmt::format(" {}{}{}{}", loop.extent, "spvut"[static_cast<size_t>(loop.kind)], loop.reduction ? "r" : "",
                         loop.unrolled ? "x" : "");
    for (const ProgramAccess& a : program.accesses_of(s)) {
      const ProgramBuffer& buffer = program.buffers[static_cast<size_t>(a.buffer)];
      out += fmt::format("\n    {}{}", buffer.elements, buffer.temporary ? "t" : "");
      for (const LoopAccess& l : program.strides_of(s, a))
        out += fmt::format(" ({} {:.0f} {:.0f} {:.0f})", l.stride, l.distinct, l.footprint, l.lines);
    }
    out += "\n";
  }
  return out;
}

TEST(LoopProgram, RecordsAndTheirTreesAreTheSame) {
  const DagTable dags(samples_dir() / "ansor" / "dags.jsonl.gz");
  RecordReader reader(samples_dir() / "ansor" / "records.jsonl.gz");
  std::map<std::string, size_t> tasks;  // by workload key
  std::vector<ProgramNodes> trees;
  std::ifstream list(samples_dir() / "ansor" / "tasks.jsonl");
  for (std::string line; std::getline(list, line);) {
    const auto task = nlohmann::json::parse(line);
    tasks[task.at("workload_key")] = trees.size();
    trees.push_back(read_program_nodes(NpzReader(samples_dir() / "ansor" / task.at("tree_file").get<std::string>())));
  }
  std::vector<int64_t> next(trees.size());
  Replayer replayer;
  NestProgram from_nest;
  TreeProgram from_tree;
  TuningRecord record;
  LoopNest nest;
  LoopProgram a, b;
  int64_t same = 0, all = 0, inserted = 0;
  while (reader.next(record)) {
    const size_t task = tasks.at(record.workload_key);
    replayer.replay(dags.find(record.workload_key), record.schedule, nest);
    from_nest.read(nest, record, a);
    from_tree.read(trees[task], next[task]++, b);
    ++all;
    // TVM fuses the first loops of the statement that rearranges weights, which NestProgram leaves apart.
    const auto rearranges = [&] { return a.iterations(a.statements[0]) == b.iterations(b.statements[0]); };
    const size_t first = record.layout_rewrite == 1 && !a.statements.empty() && rearranges() ? 1 : 0;
    const bool equal = text_of(a, first) == text_of(b, first);
    same += equal;
    inserted += first == 1 && text_of(a, 0) != text_of(b, 0);
    if (!equal && all - same < 4)
      ADD_FAILURE() << record.workload_key << ": nest\n" << text_of(a, 0) << "tree\n" << text_of(b, 0);
  }
  EXPECT_EQ(same, 4836);
  EXPECT_EQ(all, 4836);
  EXPECT_LT(inserted, 300) << "statements that rearrange weights, unlike in their first loops";
}

}  // namespace
}  // namespace foretime::data
