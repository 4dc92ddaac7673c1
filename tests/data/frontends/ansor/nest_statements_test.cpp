#include "data/frontends/ansor/replay/nest_statements.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include "base/error.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/tir/tir_reader.h"
#include "data/graphs/schema.h"
#include "tests/data/frontends/ansor/schedules.h"
#include "tests/support/paths.h"

/// The statements of nests: by hand, and run one after the other beside the definition of the program.
namespace foretime::data {
namespace {

using namespace testing;

/// One line a node, indented by depth.
std::string text_of(LoopNest& nest) {
  NestStatements statements;
  nest_statements(nest, statements);
  std::vector<int> depths;
  std::string out;
  for (const NestNode& node : statements.nodes) {
    depths.push_back(node.parent < 0 ? 0 : depths[static_cast<size_t>(node.parent)] + 1);
    const std::string& name = nest.dag->stages[static_cast<size_t>(node.stage)].name;
    std::string line;
    switch (node.kind) {
      case NestNode::Kind::allocation: line = fmt::format("memory {} {}", name, node.count); break;
      case NestNode::Kind::pragma: line = fmt::format("pragma {}", node.count); break;
      case NestNode::Kind::loop:
        line = fmt::format("for {} {}{}", node.count, annotation_name(node.annotation), node.initial ? " initial" : "");
        break;
      case NestNode::Kind::guard: line = node.at_least ? "if at least" : "if below"; break;
      case NestNode::Kind::store:
        line = fmt::format("{}{}", name, node.initial ? " start" : node.update ? " update" : "");
        break;
    }
    out += fmt::format("{:{}}{}\n", "", depths.back(), line);
  }
  return out;
}

TEST(NestStatements, StartsOfReductionsStandBeforeTheirLoops) {
  LoopNest plain = replayed(matmul(16, 8, 32), R"([["SP", 2, 0, 16, [4], 1], ["RE", 2, [0, 3, 1, 2]], ["AN", 2, 0, 3],
    ["PR", 2, 0, "auto_unroll_max_step$64"]])");
  EXPECT_EQ(text_of(plain),
            "memory C 128\n pragma 64\n  for 4 parallel\n   for 4 none initial\n    for 8 none initial\n     C start\n"
            "   for 32 none\n    for 4 none\n     for 8 none\n      C update\n");
}

TEST(NestStatements, AttachedStagesStandInTheirReadersLoops) {
  LoopNest nest = replayed(convolution(6, 4), R"([["CA", 3, 4, 0], ["CA", 1, 3, 0]])");
  EXPECT_EQ(text_of(nest),
            "memory relu 144\n for 4 none\n  memory conv 36\n   memory pad 256\n    for 4 none\n     for 8 none\n"
            "      for 8 none\n       pad\n    for 6 none\n     for 6 none\n      conv start\n      for 4 none\n"
            "       for 3 none\n        for 3 none\n         conv update\n   for 6 none\n    for 6 none\n"
            "     relu\n");
}

TEST(NestStatements, LoopsOfOneThreadAreOne) {
  // The copy of A is read by all threads of the block and made by them: its threadIdx.x is the one around it.
  LoopNest nest = replayed(matmul(64, 64, 64), R"([["SP", 2, 0, 64, [16], 1], ["RE", 2, [0, 1, 2, 3]],
    ["CHR", 0, "shared", [2]], ["CA", 1, 3, 1], ["AN", 3, 0, 5], ["AN", 3, 1, 6], ["SP", 1, 1, 64, [16], 1],
    ["AN", 1, 2, 6]])");
  const std::string text = text_of(nest);
  const size_t first = text.find("threadIdx.x");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("threadIdx.x", first + 1), std::string::npos) << text;
  EXPECT_NE(text.find("A.shared"), std::string::npos) << text;
}

TEST(NestStatements, SplitsThatDoNotDivideAreGuarded) {
  LoopNest nest = replayed(matmul(6, 5, 7), R"([["SP", 2, 0, 6, [4], 1]])");
  EXPECT_EQ(text_of(nest),
            "memory C 30\n for 2 none\n  for 4 none\n   for 5 none\n    if below\n     C start\n    for 7 none\n"
            "     if below\n      C update\n");
}

/// Runs the statements of a nest with numbers, and the program as it is defined beside it.
class Machine {
 public:
  explicit Machine(LoopNest& nest) : nest_(nest) {
    nest_statements(nest_, statements_);
    children_.resize(statements_.nodes.size() + 1);
    for (size_t i = 0; i < statements_.nodes.size(); ++i)
      children_[static_cast<size_t>(statements_.nodes[i].parent + 1)].push_back(i);
    loops_.assign(2 * nest_.variables.size(), 0);
    memory_.resize(nest_.dag->memories());
  }

  /// Empty, or what is wrong.
  std::string run() {
    for (const size_t node : children_[0]) execute(node);
    for (size_t i = 0; i < nest_.dag->stages.size(); ++i) {
      if (!nest_.dag->stages[i].output) continue;
      std::vector<int64_t> at(nest_.dag->stages[i].shape.size(), 0);
      if (const std::string wrong = compare(i, 0, at); !wrong.empty()) return wrong;
    }
    return wrong_;
  }

 private:
  int64_t value(const Affine& affine) {
    return nest_.pool.evaluate(affine, [&](int32_t id) { return loops_[static_cast<size_t>(id)]; });
  }

  void execute(size_t number) {
    const NestNode& node = statements_.nodes[number];
    switch (node.kind) {
      case NestNode::Kind::loop: {
        const int64_t count = value(node.extent);
        for (int64_t i = 0; i < count; ++i) {
          loops_[static_cast<size_t>(node.variable)] = i;
          for (const size_t child : children_[number + 1]) execute(child);
        }
        loops_[static_cast<size_t>(node.variable)] = 0;
        return;
      }
      case NestNode::Kind::guard:
        if (node.at_least ? value(node.value) < 0 : value(node.value) >= value(node.bound)) return;
        break;
      case NestNode::Kind::store: return store(node);
      default: break;
    }
    for (const size_t child : children_[number + 1]) execute(child);
  }

  void store(const NestNode& node) {
    const auto stage = static_cast<size_t>(node.stage);
    const DagStage& defined = nest_.dag->stages[stage];
    std::vector<int64_t> axes;
    for (size_t i = 0; i < defined.axis_count(); ++i) axes.push_back(value(statements_.axis_values[node.axes + i]));
    const std::vector<int64_t> at(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(defined.axes.size()));
    const auto output = static_cast<size_t>(node.output);
    double& element = memory_[nest_.dag->memory(stage, output)][at];
    if (node.initial) {
      element = 0.0;
    } else if (node.update && !defined.combine.empty()) {
      combination_ = {stage, axes, {}};
      for (size_t k = 0; k < defined.outputs(); ++k)
        combination_.so_far.push_back(memory_[nest_.dag->memory(stage, k)][at]);
      element = evaluate(defined.combine[output], {}, true);
    } else {
      const double result = evaluate(defined.bodies[output], axes, true);
      element = node.update ? element + result : result;
    }
  }

  /// An input's element: anything that differs from place to place.
  static double input(size_t stage, const std::vector<int64_t>& at) {
    double sum = static_cast<double>(stage) + 1.0;
    for (const int64_t index : at) sum = sum * 1.7 + static_cast<double>(index % 11) - 5.0;
    return std::fmod(sum, 13.0);
  }

  double element(size_t stage, size_t output, const std::vector<int64_t>& at, bool scheduled) {
    const DagStage& defined = nest_.dag->stages[stage];
    if (defined.input) return input(stage, at);
    if (scheduled && nest_.stages[stage].compute_at != ComputeAt::inlined) {
      const auto& memory = memory_[nest_.dag->memory(stage, output)];
      const auto found = memory.find(at);
      if (found != memory.end()) return found->second;
      wrong_ = fmt::format("{} is read where it was not computed", defined.name);
      return 0.0;
    }
    std::vector<double> so_far(defined.outputs());
    std::vector<int64_t> axes = at;
    axes.resize(defined.axis_count(), 0);
    const auto reduce = [&](auto&& self, size_t axis) -> void {
      if (axis == axes.size()) {
        const auto before = so_far;
        for (size_t k = 0; k < so_far.size(); ++k) {
          if (defined.combine.empty()) {
            so_far[k] += evaluate(defined.bodies[k], axes, scheduled);
          } else {
            combination_ = {stage, axes, before};
            so_far[k] = evaluate(defined.combine[k], {}, scheduled);
          }
        }
        return;
      }
      for (axes[axis] = 0; axes[axis] < defined.axis(axis).extent; ++axes[axis]) self(self, axis + 1);
    };
    reduce(reduce, at.size());
    return so_far[output];
  }

  double evaluate(int32_t id, const std::vector<int64_t>& axes, bool scheduled) {
    const ExpressionTree& tree = nest_.dag->expressions;
    const auto& node = tree.node(id);
    const auto child = [&](size_t i) { return evaluate(tree.child(id, i), axes, scheduled); };
    switch (node.kind) {
      case ExpressionKind::integer: return static_cast<double>(node.value);
      case ExpressionKind::real: return std::stod(tree.name(id));
      case ExpressionKind::variable:
        if (axes.empty()) return operand(static_cast<size_t>(node.target), scheduled);
        return static_cast<double>(axes[static_cast<size_t>(node.target)]);
      case ExpressionKind::add: return child(0) + child(1);
      case ExpressionKind::subtract: return child(0) - child(1);
      case ExpressionKind::multiply: return child(0) * child(1);
      case ExpressionKind::maximum: return std::max(child(0), child(1));
      case ExpressionKind::greater_equal: return child(0) >= child(1);
      case ExpressionKind::less: return child(0) < child(1);
      case ExpressionKind::select: return child(0) != 0.0 ? child(1) : child(2);
      case ExpressionKind::logical_and: return child(0) != 0.0 && child(1) != 0.0;
      case ExpressionKind::call:  // tir.if_then_else
        return child(0) != 0.0 ? child(1) : child(2);
      case ExpressionKind::load: {
        std::vector<int64_t> at;
        for (const int32_t index : tree.children(id))
          at.push_back(static_cast<int64_t>(evaluate(index, axes, scheduled)));
        return element(static_cast<size_t>(node.target), tree.output(id), at, scheduled);
      }
      default: throw DataError("an expression that this test does not know");
    }
  }

  /// Of the combiner that is evaluated: what a tensor is so far, or what its body gives.
  double operand(size_t number, bool scheduled) {
    const auto [stage, axes, so_far] = combination_;
    if (number < so_far.size()) return so_far[number];
    const double value = evaluate(nest_.dag->stages[stage].bodies[number - so_far.size()], axes, scheduled);
    combination_ = {stage, axes, so_far};
    return value;
  }

  std::string compare(size_t stage, size_t dimension, std::vector<int64_t>& at) {
    const DagStage& defined = nest_.dag->stages[stage];
    if (dimension == at.size()) {
      for (size_t k = 0; k < defined.outputs(); ++k) {
        const auto& memory = memory_[nest_.dag->memory(stage, k)];
        const auto found = memory.find(at);
        if (found == memory.end()) return fmt::format("{}: an element is missing", defined.name);
        if (std::abs(found->second - element(stage, k, at, false)) > 1e-6)
          return fmt::format("{}.v{}: another value", defined.name, k);
      }
      return "";
    }
    for (at[dimension] = 0; at[dimension] < defined.shape[dimension]; ++at[dimension]) {
      if (std::string wrong = compare(stage, dimension + 1, at); !wrong.empty()) return wrong;
    }
    return {};
  }

  LoopNest& nest_;
  NestStatements statements_;
  std::vector<std::vector<size_t>> children_;  // of node i at i + 1
  std::vector<int64_t> loops_;
  std::vector<std::map<std::vector<int64_t>, double>> memory_;
  struct Combination {
    size_t stage = 0;
    std::vector<int64_t> axes{};
    std::vector<double> so_far{};
  } combination_;
  std::string wrong_;
};

/// A schedule that splits, orders and fuses the loops of stages at random, most of them validly.
class Schedules {
 public:
  explicit Schedules(uint32_t seed) : random_(seed) {}
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

  void loops_of_stage(int stage, int axes, std::string& steps, bool fuse) {
    int count = axes;
    for (int i = 0; i < axes; ++i) {
      if (below(2) == 0) continue;
      // Iterators move up as others before them are split; splitting from the last one on keeps their numbers.
      const int iterator = axes - 1 - i;
      steps += fmt::format(R"(["SP", {}, {}, 0, [{}], {}], )", stage, iterator, below(4) + 1, below(2));
      ++count;
    }
    std::vector<int> order(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) order[static_cast<size_t>(i)] = i;
    std::ranges::shuffle(order, random_);
    steps += fmt::format(R"(["RE", {}, [{}]], )", stage, fmt::join(order, ", "));
    if (fuse && below(2) == 0) steps += fmt::format(R"(["FU", {}, [0, 1]], )", stage);
  }

  std::mt19937 random_;
};

TEST(NestStatements, ProgramsComputeWhatIsDefined) {
  Schedules random(7);
  const auto product = matmul(6, 5, 7), filter = convolution(5, 2);
  int ran = 0, refused = 0;
  for (int trial = 0; trial < 400 && !HasFailure(); ++trial) {
    const bool matrix = trial % 2 == 0;
    std::string steps = "[";
    if (matrix) {
      if (random.below(3) == 0) {
        steps += R"(["CHW", 2, "local"], )";
        random.loops_of_stage(3, 2, steps, true);
        random.loops_of_stage(2, 3, steps, false);
        if (random.below(2) == 0) steps += fmt::format(R"(["CA", 2, 3, {}], )", random.below(2));
      } else {
        random.loops_of_stage(2, 3, steps, random.below(2) == 0);
      }
    } else {
      random.loops_of_stage(4, 3, steps, true);
      random.loops_of_stage(3, 6, steps, false);
      if (random.below(3) != 0) steps += fmt::format(R"(["CA", 3, 4, {}], )", random.below(3));
      const int pad = random.below(3);
      if (pad == 0) steps += R"(["CI", 1], )";
      if (pad == 1) steps += fmt::format(R"(["CA", 1, 3, {}], )", random.below(4));
    }
    steps.replace(steps.size() - 2, 2, "]");
    LoopNest nest;
    try {
      nest = replayed(matrix ? product : filter, steps);
    } catch (const DataError&) {
      ++refused;
      continue;
    }
    EXPECT_EQ(Machine(nest).run(), "") << steps << "\n" << loops_of(nest) << text_of(nest);
    ++ran;
  }
  EXPECT_GT(ran, 200);
  RecordProperty("refused", refused);
}

TEST(NestStatements, StagesWithSeveralTensorsStoreEach) {
  LoopNest nest = replayed(sums_of_rows(4, 8), R"([["SP", 1, 1, 8, [2], 1]])");
  EXPECT_EQ(
      text_of(nest),
      "memory T 4\n memory T 4\n  for 4 none\n   T start\n   T start\n   for 4 none\n    for 2 none\n     T update\n"
      "     T update\n  memory norm 32\n   for 4 none\n    for 8 none\n     norm\n");
}

TEST(NestStatements, ProgramsWithSeveralTensorsComputeWhatIsDefined) {
  Schedules random(11);
  const auto sums = sums_of_rows(5, 12);
  int ran = 0, factored = 0;
  for (int trial = 0; trial < 300 && !HasFailure(); ++trial) {
    std::string steps = "[";
    const int form = random.below(4);
    if (form == 0) {
      random.loops_of_stage(2, 2, steps, true);
      random.loops_of_stage(1, 2, steps, false);
      if (random.below(2) == 0) steps += R"(["CA", 1, 2, 0], )";
    } else if (form == 1) {
      steps += R"(["CHW", 1, "local"], )";
      random.loops_of_stage(1, 2, steps, false);
    } else {  // rfactor of the outer or the inner loop of a split
      const int inner = random.below(2);
      steps += fmt::format(R"(["SP", 1, 1, 12, [{}], 1], ["RF", 1, {}, {}], )", form == 2 ? 4 : 5, 1 + inner,
                           random.below(2));
      random.loops_of_stage(2, 2, steps, false);
      random.loops_of_stage(1, 3, steps, false);
    }
    steps.replace(steps.size() - 2, 2, "]");
    LoopNest nest;
    try {
      nest = replayed(sums, steps);
    } catch (const DataError&) {
      continue;
    }
    EXPECT_EQ(Machine(nest).run(), "") << steps << "\n" << loops_of(nest) << text_of(nest);
    ++ran;
    factored += form >= 2;
  }
  EXPECT_GT(ran, 100);
  EXPECT_GT(factored, 20);
}

}  // namespace

// The statements of nests against the programs that TVM itself made of the same records.

namespace {

using testing::data_dir;

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
