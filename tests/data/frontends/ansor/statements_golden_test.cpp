/// The statements of nests against the programs that TVM itself made of the same records.
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/dag_reader.h"
#include "data/frontends/ansor/features/nest_statements.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/tir/tir_reader.h"
#include "data/graphs/schema.h"
#include "tests/support/paths.h"

namespace foretime::data {
namespace {

using foretime::testing::data_dir;

/// Loops, memory, guards and stores of a program, one line each, indented by depth.
struct Outline {
  std::string text;
  int guards = 0;
};

Outline outline_of(const ProgramNodes& trees) {
  Outline out;
  std::vector<int> depths;
  constexpr const char* kKinds[] = {"none", "parallel", "vectorize", "unroll", "thread"};
  for (size_t i = 0; i < trees.nodes(); ++i) {
    const int depth = trees.parent[i] < 0 ? 0 : depths[static_cast<size_t>(trees.parent[i])];
    const std::string_view type = tir_type_names()[trees.type[i]];
    const bool loop = type == "For", memory = type == "BufferRealize";
    depths.push_back(depth + (loop || memory));
    if (type == "IfThenElse") ++out.guards;
    if (loop) out.text += fmt::format("{:{}}for {} {}\n", "", depth, trees.extent[i], kKinds[trees.loop_kind[i]]);
    if (memory) out.text += fmt::format("{:{}}memory\n", "", depth);
    if (type == "BufferStore") out.text += fmt::format("{:{}}store\n", "", depth);
  }
  return out;
}

Outline outline_of(const NestStatements& statements) {
  Outline out;
  std::vector<int> depths;
  for (const NestNode& node : statements.nodes) {
    const int depth = node.parent < 0 ? 0 : depths[static_cast<size_t>(node.parent)];
    const bool loop = node.kind == NestNode::Kind::loop, memory = node.kind == NestNode::Kind::allocation;
    depths.push_back(depth + (loop || memory));
    if (node.kind == NestNode::Kind::guard) ++out.guards;
    if (loop)
      out.text += fmt::format("{:{}}for {} {}\n", "", depth, node.extent.constant() ? node.extent.base : 0,
                              annotation_name(node.annotation));
    if (memory) out.text += fmt::format("{:{}}memory\n", "", depth);
    if (node.kind == NestNode::Kind::store) out.text += fmt::format("{:{}}store\n", "", depth);
  }
  return out;
}

TEST(StatementsGolden, ProgramsAreTvms) {
  FORETIME_NEEDS_DATA();
  std::map<int64_t, Outline> expected;
  LineSource lines(data_dir() / "tenset/tir_json.jsonl.gz");
  simdjson::dom::parser parser;
  while (const auto line = lines.next()) {
    const auto record = parser.parse(line->text.data(), line->text.size());
    ProgramNodes trees;
    TirReader().read(std::string_view(record["scheduled"]), "scheduled", trees);
    expected[int64_t(record["line"])] = outline_of(trees);
  }
  EXPECT_EQ(expected.size(), 694u);
  const DagTable table(data_dir() / "tenset/dags.jsonl.gz");
  RecordReader reader(data_dir() / "tenset/records.jsonl.gz");
  TuningRecord record;
  Replayer replayer;
  LoopNest nest;
  NestStatements statements;
  int compared = 0, more_guards = 0, fewer_guards = 0;
  while (reader.next_with_failed(record)) {
    const auto found = expected.find(record.line - 1);
    if (found == expected.end()) continue;
    replayer.replay(table.find(record.workload_key), record.schedule, nest);
    nest_statements(nest, statements);
    const Outline ours = outline_of(statements);
    EXPECT_EQ(ours.text, found->second.text) << "line " << record.line - 1;
    more_guards += ours.guards > found->second.guards;
    fewer_guards += ours.guards < found->second.guards;
    ++compared;
  }
  EXPECT_EQ(compared, 694);
  EXPECT_EQ(more_guards, 0);
  // Seven of Winograd's tiles and one adaptive pooling, of which TVM cannot prove that they stay inside.
  EXPECT_EQ(fewer_guards, 8);
}

}  // namespace
}  // namespace foretime::data
