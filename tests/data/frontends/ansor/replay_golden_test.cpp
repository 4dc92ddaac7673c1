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
#include <simdjson.h>

#include "base/error.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/compute_dag.h"
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

/// What TVM says of one iterator; a bound is its text.
struct GoldenIterator {
  std::string name, minimum, extent, kind, annotation;
};

struct GoldenStage {
  std::string name, compute_at;
  bool input = false;
  int32_t attach_stage = -1, attach_iterator = -1;
  int64_t auto_unroll_max_step = 0, storage_offset = 0;
  std::vector<int64_t> shape;
  std::vector<GoldenIterator> iterators;
};

struct GoldenState {
  int64_t line = 0;  // 0-based, of the records
  std::string workload_key, printed, dag_text;
  ScheduleSteps steps;
  std::vector<GoldenStage> stages;
};

using simdjson::dom::array;
using simdjson::dom::element;

std::string bound(const element& value) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS ? std::string(text) : std::to_string(int64_t(value));
}

GoldenStage read_stage(const element& value) {
  GoldenStage stage;
  stage.name = std::string_view(value["name"]);
  stage.input = std::string_view(value["op_type"]) != "compute";
  stage.compute_at = std::string_view(value["compute_at"]);
  array attach;
  if (value["attach"].get(attach) == simdjson::SUCCESS) {
    stage.attach_stage = static_cast<int32_t>(int64_t(attach.at(0)));
    stage.attach_iterator = static_cast<int32_t>(int64_t(attach.at(1)));
  }
  stage.auto_unroll_max_step = int64_t(value["auto_unroll_max_step"]);
  stage.storage_offset = int64_t(value["storage_offset"]);
  const array shape = value["shape"];
  for (const element extent : shape) stage.shape.push_back(int64_t(extent));
  const array iterators = value["iters"];
  for (const element iterator : iterators) {
    GoldenIterator read;
    read.name = std::string_view(iterator["name"]);
    read.minimum = bound(iterator["min"]);
    read.extent = bound(iterator["extent"]);
    read.kind = std::string_view(iterator["kind"]);
    read.annotation = std::string_view(iterator["annotation"]);
    stage.iterators.push_back(std::move(read));
  }
  return stage;
}

std::vector<GoldenState> read_golden_states(const std::filesystem::path& file) {
  std::vector<GoldenState> states;
  LineSource lines(file);
  simdjson::dom::parser parser;
  while (const auto line = lines.next()) {
    const element root = parser.parse(line->text.data(), line->text.size());
    GoldenState state;
    state.line = int64_t(root["line"]);
    state.workload_key = std::string_view(root["workload_key"]);
    state.printed = std::string_view(root["printed"]);
    std::string_view dag;
    if (root["current_dag"].get(dag) == simdjson::SUCCESS) state.dag_text = dag;
    state.steps = testing::steps_of(simdjson::minify(root["steps"]));
    const array stages = root["stages"];
    for (const element stage : stages) state.stages.push_back(read_stage(stage));
    states.push_back(std::move(state));
  }
  return states;
}

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
  const std::string text = bound_text(nest, bound);
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

/// What differs between a nest and TVM's state; empty if nothing does.
std::string compare(const LoopNest& nest, const GoldenState& golden) {
  constexpr const char* kPlaces[] = {"root", "inlined", "iter"};
  constexpr const char* kKinds[] = {"spatial", "reduce", "mixed", "special"};
  if (nest.stages.size() != golden.stages.size())
    return fmt::format("{} stages, expected {}", nest.stages.size(), golden.stages.size());
  for (size_t i = 0; i < nest.stages.size(); ++i) {
    const auto& stage = nest.stages[i];
    const auto& defined = nest.dag->stages[i];
    const auto& expected = golden.stages[i];
    const auto explain = [&](const std::string& what) {
      return fmt::format("stage {} ({}): {}", i, expected.name, what);
    };
    if (defined.name != expected.name) return explain("is called " + defined.name);
    if (defined.input != expected.input) return explain("kind");
    if (defined.shape != expected.shape) return explain("shape");
    if (kPlaces[static_cast<size_t>(stage.compute_at)] != expected.compute_at) return explain("compute_at");
    if (stage.attach_stage != expected.attach_stage || stage.attach_iterator != expected.attach_iterator)
      return explain(fmt::format("attached to {}.{}", stage.attach_stage, stage.attach_iterator));
    if (stage.auto_unroll_max_step != expected.auto_unroll_max_step) return explain("auto_unroll_max_step");
    if (stage.storage_offset != expected.storage_offset) return explain("storage_offset");
    if (stage.iterators.size() != expected.iterators.size())
      return explain(fmt::format("{} iterators, expected {}", stage.iterators.size(), expected.iterators.size()));
    for (size_t j = 0; j < stage.iterators.size(); ++j) {
      const auto& iterator = stage.iterators[j];
      const auto& wanted = expected.iterators[j];
      const auto at = [&](const std::string& what) {
        return explain(fmt::format("iterator {}: {}", wanted.name, what));
      };
      const std::string axes = axes_of(nest, iterator.variable);
      if (axes != axes_in(wanted.name)) return at("runs over " + axes);
      if (kKinds[static_cast<size_t>(iterator.kind)] != wanted.kind) return at("kind");
      if (annotation_name(iterator.annotation) != wanted.annotation) return at(annotation_name(iterator.annotation));
      const auto& loop = nest.variable(iterator);
      if (const auto found = difference(nest, loop.extent, wanted.extent); !found.empty()) return at("extent " + found);
      if (const auto found = difference(nest, loop.minimum, wanted.minimum); !found.empty()) return at("min " + found);
    }
  }
  if (!golden.dag_text.empty() && to_text(*nest.dag) != golden.dag_text)
    return fmt::format("DAG\n{}\nexpected\n{}", to_text(*nest.dag), golden.dag_text);
  return {};
}

struct Difference {
  int64_t line;
  std::string what;
};

std::vector<Difference> differences(const std::filesystem::path& states, const std::filesystem::path& dags,
                                    size_t& count) {
  const DagTable table(dags);
  Replayer replayer;
  LoopNest nest;
  std::vector<Difference> found;
  const auto golden = read_golden_states(states);
  count = golden.size();
  for (const auto& state : golden) {
    const auto dag = table.find(state.workload_key);
    std::string what = "no DAG";
    try {
      if (dag) {
        replayer.replay(dag, state.steps, nest);
        what = compare(nest, state);
      }
    } catch (const DataError& error) {
      what = error.what();
    }
    if (!what.empty()) found.push_back({state.line, what});
  }
  return found;
}

TEST(ReplayGolden, AnsorStatesAreEqual) {
  size_t count = 0;
  const auto found = differences(source_dir() / "tests/data/frontends/ansor/ansor_golden_states.jsonl.gz",
                                 samples_dir() / "ansor/dags.jsonl.gz", count);
  EXPECT_EQ(count, 295u);
  for (const auto& difference : found) ADD_FAILURE() << "line " << difference.line << ": " << difference.what;
  RecordProperty("equal", static_cast<int>(count - found.size()));
}

TEST(ReplayGolden, TensetStatesAreEqual) {
  FORETIME_NEEDS_DATA();
  const auto folder = data_dir() / "tenset";
  size_t count = 0;
  const auto found = differences(folder / "golden_states.jsonl.gz", folder / "dags.jsonl.gz", count);
  EXPECT_EQ(count, 694u);
  for (const auto& difference : found) ADD_FAILURE() << "line " << difference.line << ": " << difference.what;
  RecordProperty("equal", static_cast<int>(count - found.size()));
}

}  // namespace
}  // namespace foretime::data
