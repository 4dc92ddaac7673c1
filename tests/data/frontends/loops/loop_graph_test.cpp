#include "data/frontends/loops/loop_graph.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/dataset/group_files.h"
#include "data/files/npz_groups.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/loops/nest_program.h"
#include "data/frontends/loops/statement_shape.h"
#include "data/frontends/loops/tree_program.h"
#include "data/graphs/schema.h"
#include "data/graphs/validate.h"
#include "tests/data/frontends/ansor/schedules.h"
#include "tests/data/groups.h"
#include "tests/support/fuzzing.h"
#include "tests/support/paths.h"

/// Graphs of loop programs: their shape on a small program by hand, their rules on all real and on damaged ones.
namespace foretime::data {
namespace {

using testing::matmul;
using testing::replayed;
using testing::samples_dir;

/// C = A B, 64 × 32 × 16: rows in parallel, eight columns at once.
LoopProgram small_product() {
  LoopNest nest = replayed(matmul(64, 32, 16), R"([["SP", 2, 1, 32, [8], 1], ["RE", 2, [0, 1, 3, 2]],
                                                   ["AN", 2, 0, 3], ["AN", 2, 3, 2]])");
  LoopProgram program;
  NestProgram().read(nest, TuningRecord(), program);
  return program;
}

float at(const GraphBlock& block, int64_t node, int64_t column) {
  return block.node_features[node * block.feature_count + column];
}

TEST(LoopProgram, ProductByHand) {
  const LoopProgram program = small_product();
  ASSERT_EQ(program.statements.size(), 2U);
  EXPECT_TRUE(program.statements[0].initial);
  EXPECT_EQ(program.iterations(program.statements[0]), 64 * 32);
  const ProgramStatement& update = program.statements[1];
  EXPECT_TRUE(update.update);
  EXPECT_EQ(program.iterations(update), 64 * 32 * 16);
  EXPECT_EQ(update.arithmetic[static_cast<size_t>(Arithmetic::add)], 1);
  EXPECT_EQ(update.arithmetic[static_cast<size_t>(Arithmetic::multiply)], 1);
  const auto accesses = program.accesses_of(update);
  ASSERT_EQ(accesses.size(), 3U);  // C, A, B
  const auto strides = [&](size_t access) {
    std::vector<int64_t> found;
    for (const LoopAccess& step : program.strides_of(update, accesses[access])) found.push_back(step.stride);
    return found;
  };
  // i, j outer, j inner, k
  EXPECT_EQ(strides(0), (std::vector<int64_t>{32, 8, 0, 1}));
  EXPECT_EQ(strides(1), (std::vector<int64_t>{16, 0, 1, 0}));
  EXPECT_EQ(strides(2), (std::vector<int64_t>{0, 8, 32, 1}));
}

TEST(LoopGraph, ProductByHand) {
  const auto graphs =
      make_program_graphs(configs::Representation::loops, {.vector_bytes = 32, .vector_registers = 16, .cores = 24});
  graphs->add(small_product(), 2.0 * 64 * 32 * 16);
  const GraphBlock block = graphs->finish();
  // A statement, its three loops, the store and no load; a statement, four loops, three accesses, a sum, a product.
  ASSERT_EQ(block.nodes(), (1 + 3 + 1) + (1 + 4 + 3 + 2));
  const auto name = [&](int64_t node) { return tir_type_names()[block.node_types[node]]; };
  EXPECT_EQ(name(0), "BufferStore");
  EXPECT_EQ(name(5), "BufferStore");
  const auto column = [&](int64_t node, const std::string& column_name) {
    const auto names = loop_column_names();
    const auto found = std::ranges::find(names, column_name);
    if (found == names.end()) ADD_FAILURE() << "no column " << column_name;
    return at(block, node, found - names.begin());
  };
  // 64 rows on 24 cores take three rounds.
  EXPECT_NEAR(at(block, 5, LoopColumns::critical), std::log(3.0 * 32 * 16), 1e-6);
  EXPECT_NEAR(column(5, "statement.imbalance"), std::log2(72.0 / 64.0), 1e-6);
  EXPECT_FLOAT_EQ(column(5, "statement.of_operations"), -1.0F);  // two operations in an iteration
  EXPECT_EQ(at(block, 0, LoopColumns::launches), 1.0F) << "the first statement starts the threads";
  EXPECT_EQ(at(block, 5, LoopColumns::launches), 0.0F) << "the second one runs in the same loop";
  // Eight columns in one vector of eight floats, k around it.
  EXPECT_FLOAT_EQ(column(5, "statement.vector"), 3.0F);
  EXPECT_FLOAT_EQ(column(5, "statement.vector_full"), 0.0F);
  EXPECT_FLOAT_EQ(column(5, "statement.block.accumulators"), 0.0F);
  EXPECT_EQ(column(5, "statement.block.outer_reduction"), 1.0F);
  EXPECT_FLOAT_EQ(column(5, "statement.reductions"), 4.0F);
  EXPECT_FLOAT_EQ(column(5, "statement.recomputed"), 0.0F);
  EXPECT_EQ(column(6, "loop.innermost"), 1.0F);
  EXPECT_EQ(column(6, "loop.vectorized"), 1.0F);
  EXPECT_EQ(column(7, "loop.reduction"), 1.0F);
  EXPECT_EQ(column(7, "loop.store.invariant"), 1.0F);
  EXPECT_FLOAT_EQ(column(7, "loop.load1.footprint"), 7.0F);  // 16 rows of 8 elements of B
  // C stays in its register over k; A is one element for all lanes.
  EXPECT_FLOAT_EQ(column(10, "access.kept"), 4.0F);
  EXPECT_EQ(column(11, "access.vector_invariant"), 1.0F);
  EXPECT_EQ(column(12, "access.vector_contiguous"), 1.0F);
  std::set<std::pair<int32_t, int32_t>> edges;
  for (int64_t i = 0; i < block.edges(); ++i) edges.emplace(block.edge_source[i], block.edge_target[i]);
  EXPECT_TRUE(edges.contains({6, 5})) << "a loop to its statement";
  EXPECT_TRUE(edges.contains({6, 7})) << "a loop to the loop around it";
  EXPECT_TRUE(edges.contains({0, 5})) << "a statement to the next one";
  EXPECT_TRUE(edges.contains({0, 10})) << "a statement to the access that reads what it wrote";
  EXPECT_FALSE(edges.contains({11, 8})) << "A does not move with the outer columns";
}

/// The product above: 128 iterations in the block that LLVM unrolls (k and the vector), which takes 16 loads of B, 16
/// of A that stay for four columns, and C's vector once in and once out.
TEST(LoopGraph, RooflineByHand) {
  const Hardware guessed{.vector_bytes = 32, .vector_registers = 16, .cores = 24};
  const auto roofline_of = [](const Hardware& hardware) {
    const LoopProgram program = small_product();
    return roofline(StatementShape(program, program.statements[1], hardware), with_rates(hardware));
  };
  const double cycle = 1 / 2.5;  // nanoseconds: two multiply-adds of eight lanes a cycle are 80 GFLOP/s
  EXPECT_NEAR(roofline_of(guessed), (2 + 16 / 4 + 16) / 128.0 / 2 * cycle, 1e-12);
  auto measured = guessed;
  measured.multiply_add_gflop_s = 160.0;
  EXPECT_NEAR(roofline_of(measured), (2 + 16 / 4 + 16) / 128.0 / 2 * cycle / 2, 1e-12);
  // B's 2 KiB fit into the first level, not with the rows of A and C: a row of each comes for 512 iterations.
  measured.l1_bytes = 2304;
  EXPECT_NEAR(roofline_of(measured), (2 + 16 / 4 + 16) / 128.0 / 2 * cycle / 2, 1e-12) << "hidden behind loads";
  // Nothing fits anywhere, and 24 cores share 24 GB/s: 8 lines of B and one of C, and one of A, for 16 × 8 iterations.
  measured.l1_bytes = measured.l2_bytes = measured.l3_bytes = 64;
  measured.copy_gb_s = 10.0;
  measured.all_copy_gb_s = 24.0;
  EXPECT_GT(roofline_of(measured), 64.0 / 8);
}

TEST(LoopGraph, ColumnsHaveNames) {
  const auto names = loop_column_names();
  ASSERT_EQ(static_cast<int64_t>(names.size()), LoopColumns::count);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(names[LoopColumns::critical], "statement.critical");
  EXPECT_EQ(names[LoopColumns::launches], "statement.launches");
  EXPECT_EQ(names[LoopColumns::loop], "loop.is_loop");
  EXPECT_EQ(names[LoopColumns::access], "access.is_access");
  EXPECT_EQ(names[LoopColumns::operation], "operation.is_operation");
  EXPECT_EQ(names[LoopColumns::roofline], "machine.roofline");
  std::vector<std::string> alone;
  for (const int64_t column : LoopColumns::of_machine_alone) alone.push_back(names[static_cast<size_t>(column)]);
  EXPECT_THAT(alone,
              ::testing::ElementsAre("machine.measured", "machine.l1", "machine.l2", "machine.l3", "machine.copy"));
}

void expect_sound(const GraphBlock& block, int64_t columns) {
  ASSERT_EQ(block.feature_count, columns);
  ASSERT_EQ(block.node_features.size(), block.nodes() * columns);
  for (const float value : block.node_features.span()) ASSERT_TRUE(std::isfinite(value));
  for (int64_t g = 0; g < block.graphs(); ++g) {
    for (int64_t e = block.edge_ptr[g]; e < block.edge_ptr[g + 1]; ++e) {
      ASSERT_GE(std::min(block.edge_source[e], block.edge_target[e]), block.graph_ptr[g]);
      ASSERT_LT(std::max(block.edge_source[e], block.edge_target[e]), block.graph_ptr[g + 1]);
    }
  }
}

TEST(LoopGraph, RealTreesMakeSoundGroups) {
  for (const auto representation : {configs::Representation::loops, configs::Representation::curve}) {
    configs::DataSettings settings;
    settings.representation = representation;
    const auto featurizer = make_featurizer(settings);
    const auto headers =
        list_groups({"C3.npz"}, samples_dir() / "resnet18_conv2d", CandidateKind::program, {}, featurizer);
    const Group group = load_group(headers.at(0));
    validate_group(group, "C3");
    EXPECT_EQ(group.graphs.feature_count, program_columns(representation));
    EXPECT_EQ(headers.at(0).feature_count, program_columns(representation));
    expect_sound(group.graphs, program_columns(representation));
  }
}

TEST(CurveGraph, ProductByHand) {
  const auto graphs = make_program_graphs(configs::Representation::curve, {});
  graphs->add(small_product(), 0.0);
  const GraphBlock block = graphs->finish();
  ASSERT_EQ(block.nodes(), 1);
  ASSERT_EQ(block.edges(), 0);
  const auto value = [&](int64_t curve, int64_t threshold) {
    return block.node_features[CurveColumns::column(0, 0, curve, threshold)];
  };
  // The store of the update: 1, 8 (reused once), 8 (16 times), 32, 2048 elements touched.
  EXPECT_FLOAT_EQ(value(0, 0), std::log2(2.0F));    // one element, once
  EXPECT_FLOAT_EQ(value(0, 2), std::log2(17.0F));   // up to 16 elements: 16 times
  EXPECT_FLOAT_EQ(value(1, 2), std::log2(129.0F));  // in 128 iterations
  EXPECT_FLOAT_EQ(value(1, 11), std::log2(32769.0F));
  EXPECT_FLOAT_EQ(value(2, 0), std::log2(32769.0F));  // each element alone
}

TEST(LoopGraph, DamagedTreesAreReadOrRefused) {
  testing::Draw random(3);
  const auto below = [&](size_t limit) { return static_cast<int64_t>(random.below(limit)); };
  const ProgramNodes one =
      testing::tree_of(read_program_nodes(NpzReader(samples_dir() / "ansor" / "trees" / "t07.npz")), 0);
  const size_t count = one.nodes();
  int64_t refused = 0;
  constexpr int64_t kOdd[] = {0, 1, 2, 7, 1 << 20, int64_t{1} << 40, int64_t{1} << 62};
  for (int round = 0; round < 3000; ++round) {
    ProgramNodes trees = one;
    for (int64_t change = below(6); change >= 0; --change) {
      const auto node = static_cast<size_t>(1 + below(count - 1));
      switch (below(6)) {
        case 0: trees.type[node] = static_cast<uint8_t>(below(kTirTypes)); break;
        case 1: trees.parent[node] = static_cast<int32_t>(below(node)); break;
        case 2: trees.extent[node] = random.of(kOdd); break;
        case 3: trees.value[node] = static_cast<double>(random.of(kOdd)) * (below(2) == 0 ? 1 : -1); break;
        case 4: trees.variable[node] = static_cast<int32_t>(below(30)) - 1; break;
        default: trees.buffer_elements[node] = random.of(kOdd); trees.loop_kind[node] = static_cast<int8_t>(below(5));
      }
    }
    for (size_t i = 0; i < count; ++i) {  // what readers check before
      if (trees.type[i] == tir_type_id("For")) trees.loop_kind[i] = std::max<int8_t>(0, trees.loop_kind[i]);
      if (std::isnan(trees.value[i])) trees.value[i] = 0.0;
    }
    try {
      LoopProgram program;
      TreeProgram().read(trees, 0, program);
      const auto loops = make_program_graphs(configs::Representation::loops, {});
      loops->add(program, 0.0);
      expect_sound(loops->finish(), LoopColumns::count);
      const auto curves = make_program_graphs(configs::Representation::curve, {});
      curves->add(program, 0.0);
      expect_sound(curves->finish(), CurveColumns::count);
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_LT(refused, 3000);
}

TEST(Hardware, VectorsFollowFromTheTarget) {
  EXPECT_EQ(hardware_of_target("llvm -keys=cpu -mcpu=znver4", 1).vector_bytes, 64);
  EXPECT_EQ(hardware_of_target("llvm -mcpu=core-avx2 -num-cores 4", 4).vector_bytes, 32);
  EXPECT_EQ(hardware_of_target("llvm -mcpu=skylake-avx512", 4).vector_registers, 32);
  EXPECT_EQ(hardware_of_target("llvm -keys=cpu -mtriple=x86_64-conda-linux-gnu", 24).vector_bytes, 16);
  EXPECT_EQ(hardware_of_target("llvm", 24).cores, 24);
  EXPECT_EQ(hardware_of_target("llvm -mattr=+avx2,+fma", 1).vector_bytes, 32);
  EXPECT_EQ(hardware_of_target("llvm -mcpu=x86-64 -mattr=+avx512bw,+avx512vl -num-cores 2", 2).vector_registers, 32);
  EXPECT_EQ(hardware_of_target("llvm -keys=arm_cpu,cpu -mattr=+neon", 1).vector_bytes, 16);
}

}  // namespace

// Every program of samples/ansor comes in twice: as a tuning record, and as the syntax tree that TVM made of it. Two
// readers that share nothing but AccessPattern must find the same statements.

namespace {

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
