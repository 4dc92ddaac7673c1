/// Replayed schedules against what TVM itself made of them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/index_interval.h"
#include "data/frontends/ansor/replay/replay.h"
#include "tests/data/frontends/ansor/schedules.h"
#include "tests/support/paths.h"

namespace foretime::data {
namespace {

using testing::data_dir;
using testing::samples_dir;
using testing::source_dir;

using nlohmann::json;

/// Loop variables of a nest by the names that expressions have for them, each with random values inside its range.
class Assignments {
 public:
  Assignments(const LoopNest& nest, uint32_t seed) : nest_(nest), random_(seed) {}

  int64_t value_of(int32_t variable) {
    const std::string name = loop_name(nest_, variable < 0 ? ~variable : variable);
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    const auto& extent = nest_.variables[static_cast<size_t>(variable < 0 ? ~variable : variable)].extent;
    return values_[name] = std::uniform_int_distribution<int64_t>(0, std::max<int64_t>(extent.base - 1, 0))(random_);
  }

  std::map<std::string, int64_t> values_;
  const LoopNest& nest_;
  std::mt19937 random_;
};

void name_variables(const ExpressionTree& tree, int32_t root, std::vector<std::string>& names) {
  if (tree.node(root).kind == ExpressionKind::variable) names.push_back(tree.name(root));
  for (const int32_t child : tree.children(root)) name_variables(tree, child, names);
}

/// Whether a bound is the same function as TVM's text, at random places.
std::string difference(const LoopNest& nest, const Affine& bound, const std::string& expected) {
  if (bound.constant() && std::to_string(bound.base) == expected) return {};
  ExpressionTree tree;
  const int32_t root = parse_expression(expected, tree);
  const std::string text = testing::bound_text(nest, bound);
  const auto explain = [&](const std::string& why) { return fmt::format("{}, expected {}{}", text, expected, why); };
  std::vector<std::string> names;
  name_variables(tree, root, names);
  if (names.empty() || bound.constant()) return explain("");
  constexpr uint32_t kPlaces = 50;
  for (uint32_t place = 0; place < kPlaces; ++place) {
    Assignments assignments(nest, place);
    // Several loops may have one name: those of our bound come first, for what only TVM's text has any is taken.
    const int64_t ours = nest.pool.evaluate(bound, [&](int32_t id) { return assignments.value_of(id); });
    for (size_t id = 0; id < nest.variables.size(); ++id) {
      const std::string name = loop_name(nest, static_cast<int32_t>(id));
      if (std::ranges::find(names, name) != names.end()) assignments.value_of(static_cast<int32_t>(id));
    }
    AffinePool pool;
    std::vector<Affine> axes;
    for (const auto& name : names) {
      if (!assignments.values_.contains(name)) return explain(fmt::format(": no loop {}", name));
      axes.push_back(Affine::of(assignments.values_.at(name)));
    }
    int32_t next = 0;
    const auto resolve = [&](auto&& self, int32_t id) -> void {
      if (tree.node(id).kind == ExpressionKind::variable) tree.node(id).target = next++;
      const std::vector<int32_t> children(tree.children(id).begin(), tree.children(id).end());
      for (const int32_t child : children) self(self, child);
    };
    resolve(resolve, root);
    const Affine value = index_value(tree, root, axes, pool);
    if (value.base != ours) return explain(fmt::format(": {} and {} at one place", ours, value.base));
  }
  return {};
}

/// The axes that an iterator is made of, as TVM's state names them: `i` and `j` of `i.0@j.0@`, each before a comma.
std::string axes_in(const std::string& name) {
  static const std::regex part("\\.[0-9]+"), ends("@+");
  const std::string fused = std::regex_replace(std::regex_replace(name, part, ""), ends, ",");
  return fused.empty() || fused.ends_with(',') ? fused : fused + ",";
}

/// The same of one of our loops; TVM's state shortens the names of axes, `i.outer` to `i_o`.
std::string axes_of(const LoopNest& nest, int32_t id) {
  const NestVariable& loop = nest.variables[static_cast<size_t>(id)];
  using Origin = NestVariable::Origin;
  if (loop.origin == Origin::single) return "";
  if (loop.origin == Origin::fused) return axes_of(nest, loop.first) + axes_of(nest, loop.second);
  if (loop.origin != Origin::axis) return axes_of(nest, loop.first);
  std::string name = nest.dag->stages[nest.stage_of(loop.serial)].axis(static_cast<size_t>(loop.first)).name;
  for (const auto& [from, to] : {std::pair("[.@]", "_"), std::pair("outer", "o"), std::pair("inner", "i")})
    name = std::regex_replace(name, std::regex(from), to);
  return name + ",";
}

/// What differs between a stage and what TVM's state has of it; empty if nothing does.
std::string compare(const LoopNest& nest, size_t number, const json& expected) {
  constexpr const char* kPlaces[] = {"root", "inlined", "iter"};
  constexpr const char* kKinds[] = {"spatial", "reduce", "mixed", "special"};
  const NestStage& stage = nest.stages[number];
  const DagStage& defined = nest.dag->stages[number];
  if (defined.name != expected.at("name").get<std::string>()) return "is called " + defined.name;
  if (defined.input != (expected.at("op_type") != "compute")) return "kind";
  if (defined.shape != expected.at("shape").get<std::vector<int64_t>>()) return "shape";
  if (kPlaces[static_cast<size_t>(stage.compute_at)] != expected.at("compute_at")) return "compute_at";
  const json attach = expected.value("attach", json());
  if (json({stage.attach_stage, stage.attach_iterator}) != (attach.is_array() ? attach : json({-1, -1})))
    return fmt::format("attached to {}.{}", stage.attach_stage, stage.attach_iterator);
  if (stage.auto_unroll_max_step != expected.at("auto_unroll_max_step")) return "auto_unroll_max_step";
  if (stage.storage_offset != expected.at("storage_offset")) return "storage_offset";
  const json& iterators = expected.at("iters");
  if (stage.iterators.size() != iterators.size())
    return fmt::format("{} iterators, expected {}", stage.iterators.size(), iterators.size());
  for (size_t j = 0; j < iterators.size(); ++j) {
    const NestIterator& iterator = stage.iterators[j];
    const std::string name = iterators[j].at("name"), axes = axes_of(nest, iterator.variable);
    const auto at = [&](const std::string& what) { return fmt::format("iterator {}: {}", name, what); };
    if (axes != axes_in(name)) return at("runs over " + axes);
    if (kKinds[static_cast<size_t>(iterator.kind)] != iterators[j].at("kind")) return at("kind");
    if (annotation_name(iterator.annotation) != iterators[j].at("annotation"))
      return at(annotation_name(iterator.annotation));
    const auto bound = [&](const char* which, const Affine& ours) {
      const json& theirs = iterators[j].at(which);
      return difference(nest, ours, theirs.is_string() ? theirs.get<std::string>() : theirs.dump());
    };
    const NestVariable& loop = nest.variable(iterator);
    if (const auto found = bound("extent", loop.extent); !found.empty()) return at("extent " + found);
    if (const auto found = bound("min", loop.minimum); !found.empty()) return at("min " + found);
  }
  return {};
}

/// What differs between a nest and TVM's state; empty if nothing does.
std::string compare(const LoopNest& nest, const json& golden) {
  const json& stages = golden.at("stages");
  if (nest.stages.size() != stages.size())
    return fmt::format("{} stages, expected {}", nest.stages.size(), stages.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    if (const auto found = compare(nest, i, stages[i]); !found.empty())
      return fmt::format("stage {} ({}): {}", i, stages[i].at("name").dump(), found);
  }
  const json dag = golden.value("current_dag", json());
  if (dag.is_string() && to_text(*nest.dag) != dag.get<std::string>())
    return fmt::format("DAG\n{}\nexpected\n{}", to_text(*nest.dag), dag.get<std::string>());
  return {};
}

/// Replays all states of a file, whose differences fail the test; returns how many there are.
int expect_equal_states(const std::filesystem::path& states, const std::filesystem::path& dags) {
  const DagTable table(dags);
  Replayer replayer;
  LoopNest nest;
  LineSource lines(states);
  int count = 0;
  for (; const auto line = lines.next(); ++count) {
    const json golden = json::parse(line->text);
    const auto dag = table.find(golden.at("workload_key"));
    std::string what = "no DAG";
    try {
      if (dag) {
        replayer.replay(dag, testing::steps_of(golden.at("steps").dump()), nest);
        what = compare(nest, golden);
      }
    } catch (const DataError& error) {
      what = error.what();
    }
    EXPECT_EQ(what, "") << "line " << golden.at("line");
  }
  return count;
}

TEST(ReplayGolden, AnsorStatesAreEqual) {
  EXPECT_EQ(expect_equal_states(source_dir() / "tests/data/frontends/ansor/ansor_golden_states.jsonl.gz",
                                samples_dir() / "ansor/dags.jsonl.gz"),
            295);
}

/// 125 tasks of 25 operators (tools/tuner/measure/golden_states.py): convolutions of all kinds, normalisations,
/// recurrent cells, reductions to one tensor and to two.
TEST(ReplayGolden, OperatorsStatesAreEqual) {
  const auto folder = source_dir() / "tests/data/frontends/ansor";
  EXPECT_EQ(expect_equal_states(folder / "operators_states.jsonl.gz", folder / "operators_dags.jsonl.gz"), 347);
  // 48 of these for a GPU: threads, shared memory, fused splits that follow others.
  EXPECT_EQ(expect_equal_states(folder / "gpu_operators_states.jsonl.gz", folder / "gpu_operators_dags.jsonl.gz"), 66);
}

TEST(ReplayGolden, TensetStatesAreEqual) {
  FORETIME_NEEDS_DATA();
  const auto folder = data_dir() / "tenset";
  EXPECT_EQ(expect_equal_states(folder / "golden_states.jsonl.gz", folder / "dags.jsonl.gz"), 694);
}

}  // namespace
}  // namespace foretime::data
