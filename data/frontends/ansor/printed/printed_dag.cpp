#include "data/frontends/ansor/printed/printed_dag.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hex_digest.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/dag/expression.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;
using Json = nlohmann::ordered_json;

constexpr std::string_view kInput =
    " = PLACE"
    "HOLDER ";  // TVM's word
constexpr const char* kWholeTable = "tools/export_dags.py writes all of it where TVM is installed";

/// The parts of a stage's line: NAME(AXES)TENSOR ASSIGNMENT BODY. `assignment` is empty where there is none.
struct Line {
  std::string_view name, axes, tensor, assignment, body;
};

Line parts_of(std::string_view line) {
  Line parts;
  const size_t open = line.find('('), close = line.find(')', std::min(open, line.size()));
  if (close == std::string_view::npos) return parts;
  parts.name = line.substr(0, open);
  parts.axes = line.substr(open + 1, close - open - 1);
  auto rest = line.substr(close + 1);
  if (rest.starts_with(".v")) {
    parts.tensor = rest.substr(0, std::min(rest.size(), rest.find(' ')));
    rest.remove_prefix(parts.tensor.size());
  }
  for (const std::string_view assignment : {" = ", " += ", " max= ", " min= ", " select(", "reduce"}) {
    if (!rest.starts_with(assignment)) continue;
    parts.assignment = assignment;
    parts.body = rest.substr(assignment.size());
  }
  return parts;
}

/// Whether a body is one call of a function of TVM: its name, else nothing.
std::string_view whole_call(std::string_view body) {
  const size_t open = body.find('(');
  if (open == std::string_view::npos || !body.starts_with("tir.") || !body.ends_with(')')) return {};
  int depth = 0;
  for (size_t i = open; i < body.size(); ++i) {
    if (body[i] == '(') ++depth;
    if (body[i] == ')' && --depth == 0 && i + 1 < body.size()) return {};
  }
  return body.substr(0, open);
}

std::vector<std::string> words(std::string_view list) {
  std::vector<std::string> found;
  while (!list.empty()) {
    const auto word = list.substr(0, list.find(", "));
    found.emplace_back(word);
    list.remove_prefix(std::min(list.size(), word.size() + 2));
  }
  return found;
}

std::vector<int64_t> numbers(std::string_view list) {
  std::vector<int64_t> found;
  for (const auto& word : words(list)) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > kLargestExtent)
      throw DataError("shape: found {}, expected a number from 1 to {}", word, kLargestExtent);
    found.push_back(value);
  }
  return found;
}

/// Lowest and highest value of an index whose variables run over [first, second]; nothing where that is not known.
using Range = std::pair<int64_t, int64_t>;

std::optional<Range> range_of(const ExpressionTree& tree, int32_t root, std::span<const std::optional<Range>> axes) {
  const auto& node = tree.node(root);
  if (node.kind == Kind::integer) return Range{node.value, node.value};
  if (node.kind == Kind::variable) return node.target < 0 ? std::nullopt : axes[static_cast<size_t>(node.target)];
  if (node.kind == Kind::cast && tree.name(root).find("int") != std::string::npos)
    return range_of(tree, tree.child(root, 0), axes);
  if (node.children != 2) return {};
  const auto a = range_of(tree, tree.child(root, 0), axes), b = range_of(tree, tree.child(root, 1), axes);
  if (!a || !b) return {};
  switch (node.kind) {
    case Kind::add:
      return Range{checked_add(a->first, b->first), checked_add(a->second, b->second)};
    case Kind::subtract:
      return Range{checked_subtract(a->first, b->second), checked_subtract(a->second, b->first)};
    case Kind::multiply: {
      const int64_t all[] = {checked_multiply(a->first, b->first), checked_multiply(a->first, b->second),
                             checked_multiply(a->second, b->first), checked_multiply(a->second, b->second)};
      return Range{*std::min_element(std::begin(all), std::end(all)),
                   *std::max_element(std::begin(all), std::end(all))};
    }
    case Kind::minimum:
      return Range{std::min(a->first, b->first), std::min(a->second, b->second)};
    case Kind::maximum:
      return Range{std::max(a->first, b->first), std::max(a->second, b->second)};
    case Kind::floor_divide:
    case Kind::divide:
      if (b->first != b->second || b->first < 1 || (node.kind == Kind::divide && a->first < 0)) return {};
      return Range{floor_quotient(a->first, b->first), floor_quotient(a->second, b->first)};
    case Kind::floor_modulo:
    case Kind::modulo:
      if (b->first != b->second || b->first < 1 || (node.kind == Kind::modulo && a->first < 0)) return {};
      if (floor_quotient(a->first, b->first) == floor_quotient(a->second, b->first))
        return Range{floor_remainder(a->first, b->first), floor_remainder(a->second, b->first)};
      return Range{0, b->first - 1};
    default:
      return {};
  }
}

/// Sets which of `axes` an expression names.
void mark_axes(const ExpressionTree& tree, int32_t root, std::vector<bool>& axes) {
  const auto& node = tree.node(root);
  if (node.kind == Kind::variable && node.target >= 0) axes[static_cast<size_t>(node.target)] = true;
  for (const int32_t child : tree.children(root)) mark_axes(tree, child, axes);
}

}  // namespace

struct PrintedProgram::Stage {
  std::string name, combiner;
  bool input = false;
  std::vector<int64_t> shape;      // of an input
  std::vector<std::string> names;  // of axes, spatial ones first
  size_t spatial = 0;
  std::vector<std::string> bodies;
  ExpressionTree tree;
  std::vector<int32_t> roots;  // of bodies
  struct Load {
    int32_t node = 0;
    std::vector<int32_t> guards = {};  // conditions that hold where it is evaluated
    std::vector<size_t> stages = {};   // that it may read
    int64_t tensor = 0;
    bool index = false;  // its value is an index of another load
  };
  std::vector<Load> loads;
  size_t rank() const { return input ? shape.size() : spatial; }
  const std::string& name_of(size_t load) const { return tree.name(loads[load].node); }
};

namespace {

using Loads = std::vector<std::pair<int32_t, std::pair<std::vector<int32_t>, bool>>>;

/// Loads in the order of their evaluation, with the conditions of selections around them.
void find_loads(const ExpressionTree& tree, int32_t root, std::vector<int32_t>& guards, bool index, Loads& found) {
  const auto& node = tree.node(root);
  const bool chooses =
      (node.kind == Kind::call && tree.name(root).ends_with("if_then_else")) || node.kind == Kind::select;
  const auto children = tree.children(root);
  for (size_t i = 0; i < children.size(); ++i) {
    const bool guarded = chooses && i == 1 && node.kind == Kind::call;  // select evaluates both
    if (guarded) guards.push_back(children[0]);
    find_loads(tree, children[i], guards, index || node.kind == Kind::load, found);
    if (guarded) guards.pop_back();
  }
  if (node.kind == Kind::load) found.push_back({root, {guards, index}});
}

/// Variables to axes; those that no spatial axis is become reduction axes, in the order in which they come.
void name_axes(ExpressionTree& tree, int32_t root, bool reduces, std::vector<std::string>& names) {
  auto& node = tree.node(root);
  if (node.kind == Kind::variable) {
    const auto found = std::ranges::find(names, tree.name(root));
    if (found == names.end() && !reduces)
      throw DataError("variable {}, expected one of {}", tree.name(root), fmt::join(names, ", "));
    node.target = static_cast<int32_t>(found - names.begin());
    if (found == names.end()) names.push_back(tree.name(root));
  }
  for (uint32_t i = 0; i < tree.node(root).children; ++i) name_axes(tree, tree.child(root, i), reduces, names);
}

/// The ranges of axes where a condition holds: of `a && b`, both; of a comparison of an axis and a number, what it
/// says.
void narrow(const ExpressionTree& tree, int32_t condition, std::vector<std::optional<Range>>& axes) {
  const auto& node = tree.node(condition);
  if (node.kind == Kind::logical_and) {
    for (const int32_t child : tree.children(condition)) narrow(tree, child, axes);
    return;
  }
  if (!is_condition(node.kind) || node.children != 2) return;
  const auto& left = tree.node(tree.child(condition, 0));
  const auto& right = tree.node(tree.child(condition, 1));
  if (left.kind != Kind::variable || left.target < 0 || right.kind != Kind::integer) return;
  auto& axis = axes[static_cast<size_t>(left.target)];
  if (!axis) return;
  if (node.kind == Kind::less) axis->second = std::min(axis->second, right.value - 1);
  if (node.kind == Kind::less_equal) axis->second = std::min(axis->second, right.value);
  if (node.kind == Kind::greater) axis->first = std::max(axis->first, right.value + 1);
  if (node.kind == Kind::greater_equal) axis->first = std::max(axis->first, right.value);
}

}  // namespace

PrintedProgram::PrintedProgram(std::string_view text) {
  int64_t number = 0;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    try {
      if (line.find("..(OMITTED)..") != std::string_view::npos)
        throw DataError("TVM left out the middle of a long expression; {}", kWholeTable);
      if (stages_.size() >= kMostDagStages) throw DataError("more than {} stages", kMostDagStages);
      if (const size_t at = line.find(kInput); at != std::string_view::npos && at == line.find(' ')) {
        auto shape = line.substr(at + kInput.size());
        if (!shape.starts_with('[') || !shape.ends_with(']')) throw DataError("a shape, expected [numbers]");
        Stage& input = stages_.emplace_back();
        input.name = line.substr(0, at);
        input.input = true;
        input.shape = numbers(shape.substr(1, shape.size() - 2));
        continue;
      }
      const auto parts = parts_of(line);
      if (parts.assignment.empty() || parts.name.empty())
        throw DataError("'{}', expected a stage: NAME(AXES) = …, +=, max= or min=, or NAME{}[SHAPE]",
                        line.substr(0, 40), kInput);
      if (parts.assignment == " select(" || (!parts.tensor.empty() && parts.assignment != " = "))
        throw DataError("a reduction with several results, of which TVM prints the first; {}", kWholeTable);
      if (parts.assignment == "reduce") throw DataError("a combiner that TVM does not print; {}", kWholeTable);
      const bool reduces = parts.assignment != " = ";
      if (parts.tensor.empty() || parts.tensor == ".v0") {
        Stage& added = stages_.emplace_back();
        added.name = parts.name;
        added.names = words(parts.axes);
        added.spatial = added.names.size();
        added.combiner = !reduces                       ? ""
                         : parts.assignment == " += "   ? "sum"
                         : parts.assignment == " max= " ? "max"
                                                        : "min";
      } else if (stages_.empty() || stages_.back().name != parts.name ||
                 parts.tensor != fmt::format(".v{}", stages_.back().bodies.size())) {
        throw DataError("{}{}, expected the tensors of a stage one after the other", parts.name, parts.tensor);
      }
      Stage& stage = stages_.back();
      stage.bodies.emplace_back(parts.body);
      stage.roots.push_back(parse_expression(parts.body, stage.tree));
      name_axes(stage.tree, stage.roots.back(), reduces, stage.names);
      if (stage.names.size() > kMostAxes) throw DataError("more than {} axes", kMostAxes);
      Loads found;
      std::vector<int32_t> guards;
      find_loads(stage.tree, stage.roots.back(), guards, false, found);
      for (auto& [node, rest] : found) {
        auto& load = stage.loads.emplace_back(Stage::Load{.node = node, .guards = rest.first, .index = rest.second});
        std::string_view name = stage.tree.name(node);
        if (const size_t dot = name.rfind(".v"); dot != std::string_view::npos) {
          const auto digits = name.substr(dot + 2);
          std::from_chars(digits.data(), digits.data() + digits.size(), load.tensor);
          name = name.substr(0, dot);
        }
        for (size_t i = 0; i + 1 < stages_.size(); ++i) {
          if (stages_[i].name == name && stages_[i].rank() == stage.tree.node(node).children &&
              load.tensor < static_cast<int64_t>(std::max<size_t>(1, stages_[i].bodies.size())))
            load.stages.push_back(i);
        }
        if (load.stages.empty())
          throw DataError("{} reads {} with {} indices, and no stage before it is that", stage.name,
                          stage.tree.name(node), stage.tree.node(node).children);
      }
    } catch (const DataError& error) {
      throw DataError("line {}: {}", number, error.what());
    }
  }
  if (stages_.empty()) throw DataError("no stage");
}

PrintedProgram::~PrintedProgram() = default;
PrintedProgram::PrintedProgram(PrintedProgram&&) noexcept = default;

std::vector<int32_t> PrintedProgram::axes() const {
  std::vector<int32_t> counts;
  for (const auto& stage : stages_) counts.push_back(static_cast<int32_t>(stage.names.size()));
  return counts;
}

std::vector<int32_t> PrintedProgram::spatial_axes() const {
  std::vector<int32_t> counts;
  for (const auto& stage : stages_) counts.push_back(static_cast<int32_t>(stage.spatial));
  return counts;
}

/// Finds what the text lacks, for one workload key.
struct PrintedProgram::Work {
  const std::vector<Stage>& stages;
  const SplitLengths& lengths;
  const PrintedHints& hints;
  std::vector<std::vector<size_t>> reads{};                    // by stage and load
  std::vector<std::vector<std::optional<int64_t>>> extents{};  // by stage and axis
  std::vector<bool> output{};
  std::vector<std::string> types{};

  /// Stages of the name that a load says; the one that the user says, where there is a hint.
  std::vector<size_t> may_read(size_t stage, size_t load) const {
    const auto& may = stages[stage].loads[load].stages;
    const auto hint = hints.reads.find({stage, stages[stage].name_of(load)});
    if (hint == hints.reads.end()) return may;
    if (std::ranges::find(may, hint->second) == may.end())
      throw DataError("# {}.{}={}: expected one of {}", stage, stages[stage].name_of(load), hint->second,
                      fmt::join(may, ", "));
    return {hint->second};
  }

  /// Every stage but the outputs is read by another one. Where stages share names, this and the number of outputs say
  /// which is meant; where they leave a choice, nothing does.
  void choose_reads(size_t outputs) {
    std::vector<std::pair<size_t, size_t>> open;
    std::vector<int> readers(stages.size(), 0);
    for (size_t s = 0; s < stages.size(); ++s) {
      reads.emplace_back(stages[s].loads.size());
      for (size_t l = 0; l < stages[s].loads.size(); ++l) {
        const auto may = may_read(s, l);
        if (may.size() > 1) {
          open.emplace_back(s, l);
        } else {
          reads[s][l] = may.front();
          ++readers[may.front()];
        }
      }
    }
    std::optional<std::vector<std::vector<size_t>>> found;
    size_t tried = 0;
    const auto unread = [&] { return static_cast<size_t>(std::ranges::count(readers, 0)); };
    const std::function<void(size_t)> choose = [&](size_t at) {
      if (unread() > outputs + (open.size() - at)) return;  // each choice reads one more at most
      if (at == open.size()) {
        if (unread() != outputs || readers.back() != 0) return;
        if (found && *found != reads) {
          for (size_t i = 0; i < open.size(); ++i) {
            const auto [s, l] = open[i];
            if ((*found)[s][l] != reads[s][l])
              throw DataError(
                  "stage {0} ({1}) reads {2}, and of this name are stages {3}; write above it which, as in # "
                  "{0}.{2}={4}, "
                  "or {5}",
                  s, stages[s].name, stages[s].name_of(l), fmt::join(may_read(s, l), " and "), may_read(s, l).back(),
                  kWholeTable);
          }
        }
        found = reads;
        return;
      }
      if (++tried > 100'000) throw DataError("too many stages share their names; {}", kWholeTable);
      const auto [s, l] = open[at];
      for (const size_t source : may_read(s, l)) {
        reads[s][l] = source;
        ++readers[source];
        choose(at + 1);
        --readers[source];
      }
    };
    choose(0);
    if (!found) throw DataError("{} outputs stand in the key, and other stages than these are read by none", outputs);
    reads = *found;
    std::vector<bool> read(stages.size(), false);
    for (const auto& of_stage : reads) {
      for (const size_t source : of_stage) read[source] = true;
    }
    for (size_t s = 0; s < stages.size(); ++s) output.push_back(!read[s]);
  }

  std::string axis_name(size_t stage, size_t axis) const {
    return fmt::format("{}.{}", stages[stage].name, stages[stage].names[axis]);
  }

  void set(size_t stage, size_t axis, int64_t extent, const char* from) {
    auto& known = extents[stage][axis];
    if (known && *known != extent)
      throw DataError("axis {}: {} by {}, and {} by what else is known", axis_name(stage, axis), extent, from, *known);
    if (extent < 1 || extent > kLargestExtent)
      throw DataError("axis {}: {} by {}, expected 1 to {}", axis_name(stage, axis), extent, from, kLargestExtent);
    known = extent;
  }

  std::vector<std::optional<Range>> ranges(size_t stage) const {
    std::vector<std::optional<Range>> found;
    for (const auto& extent : extents[stage])
      found.push_back(extent ? std::optional(Range{0, *extent - 1}) : std::nullopt);
    return found;
  }

  std::optional<int64_t> length(size_t stage, size_t dimension) const {
    return stages[stage].input ? stages[stage].shape[dimension] : extents[stage][dimension];
  }

  /// What is said of axes by the key (of outputs), by records and by the user.
  void begin(std::vector<std::vector<int64_t>> shapes) {
    size_t next = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      extents.emplace_back(stages[s].names.size());
      if (!output[s] || shapes.empty()) continue;
      const auto& shape = shapes.at(next++);
      if (shape.size() != stages[s].spatial)
        throw DataError("output {}: {} axes, and the key has [{}] for it", stages[s].name, stages[s].spatial,
                        fmt::join(shape, ", "));
      for (size_t d = 0; d < shape.size(); ++d) set(s, d, shape[d], "the key");
    }
    for (const auto& [place, extent] : lengths) {
      if (static_cast<size_t>(place.first) < stages.size() &&
          static_cast<size_t>(place.second) < extents[static_cast<size_t>(place.first)].size())
        set(static_cast<size_t>(place.first), static_cast<size_t>(place.second), extent, "a recorded split");
    }
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t a = 0; a < stages[s].names.size(); ++a) {
        const auto hint = hints.extents.find(axis_name(s, a));
        if (hint != hints.extents.end()) set(s, a, hint->second, "what was given");
      }
    }
  }

  /// The largest length of `axis` with which an index that names no other axis stays within `limit`; nothing where it
  /// does not grow with the axis.
  static std::optional<int64_t> largest(const ExpressionTree& tree, int32_t index, size_t axes, size_t axis,
                                        int64_t limit) {
    std::vector<std::optional<Range>> values(axes);
    const auto at = [&](int64_t value) {
      values[axis] = Range{value, value};
      const auto range = range_of(tree, index, values);
      return range ? range->first : std::numeric_limits<int64_t>::min();
    };
    int64_t inside = 0, outside = kLargestExtent;
    if (at(0) < 0 || at(0) >= limit || at(outside) < limit || at(1) < at(0)) return {};
    while (outside - inside > 1) {
      const int64_t middle = inside + (outside - inside) / 2;
      (at(middle) < limit ? inside : outside) = middle;
    }
    return inside + 1;
  }

  /// A reduction covers what it reads: an axis that alone makes an index of a tensor of known length is as long as that
  /// allows, by the shortest of these.
  bool find_reductions() {
    bool news = false;
    for (size_t s = 0; s < stages.size(); ++s) {
      const auto& stage = stages[s];
      for (size_t a = stage.spatial; a < stage.names.size(); ++a) {
        if (extents[s][a]) continue;
        std::optional<int64_t> most;
        for (size_t l = 0; l < stage.loads.size(); ++l) {
          const auto indices = stage.tree.children(stage.loads[l].node);
          for (size_t d = 0; d < indices.size(); ++d) {
            std::vector<bool> named(stage.names.size(), false);
            mark_axes(stage.tree, indices[d], named);
            const auto limit = length(reads[s][l], d);
            if (!named[a] || std::ranges::count(named, true) != 1 || !limit) continue;
            const auto largest_here = largest(stage.tree, indices[d], stage.names.size(), a, *limit);
            if (largest_here) most = std::min(most.value_or(*largest_here), *largest_here);
          }
        }
        if (!most) continue;
        set(s, a, *most, "what it reduces");
        news = true;
      }
    }
    return news;
  }

  /// Whether an index is a reduction of unknown length and nothing else: it goes over whatever is there.
  bool covers(size_t stage, int32_t index) const {
    const auto& node = stages[stage].tree.node(index);
    return node.kind == Kind::variable && node.target >= static_cast<int32_t>(stages[stage].spatial) &&
           !extents[stage][static_cast<size_t>(node.target)];
  }

  /// A stage that goes over tensors of known length, element by element, is as large as they are: an axis that nothing
  /// else tells, which alone is an index of tensors of one length. Not so slices, which take a part of what they read.
  bool find_elementwise_lengths() {
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t a = 0; a < stages[s].spatial; ++a) {
        if (extents[s][a] || stages[s].name.find("slice") != std::string::npos) continue;
        std::set<int64_t> found;
        bool alone = true;
        for (size_t l = 0; l < stages[s].loads.size(); ++l) {
          const auto indices = stages[s].tree.children(stages[s].loads[l].node);
          for (size_t d = 0; d < indices.size(); ++d) {
            std::vector<bool> named(stages[s].names.size(), false);
            mark_axes(stages[s].tree, indices[d], named);
            if (!named[a]) continue;
            alone =
                alone && stages[s].tree.node(indices[d]).kind == Kind::variable && stages[s].loads[l].guards.empty();
            if (const auto known = length(reads[s][l], d)) found.insert(*known);
          }
        }
        if (!alone || found.size() != 1) continue;
        set(s, a, *found.begin(), "what it reads");
        return true;
      }
    }
    return false;
  }

  /// An inner stage is as large as its readers need, where all of their axes are known.
  bool find_inner_lengths() {
    bool news = false;
    for (size_t s = stages.size(); s-- > 0;) {
      if (stages[s].input || output[s]) continue;
      for (size_t d = 0; d < stages[s].spatial; ++d) {
        if (extents[s][d]) continue;
        std::optional<int64_t> most = 0;
        for (size_t reader = s + 1; reader < stages.size() && most; ++reader) {
          for (size_t l = 0; l < stages[reader].loads.size() && most; ++l) {
            if (reads[reader][l] != s) continue;
            const auto& load = stages[reader].loads[l];
            if (covers(reader, stages[reader].tree.child(load.node, d))) continue;
            auto axes = ranges(reader);
            for (const int32_t guard : load.guards) narrow(stages[reader].tree, guard, axes);
            const auto range = range_of(stages[reader].tree, stages[reader].tree.child(load.node, d), axes);
            most = range ? std::optional(std::max(*most, range->second + 1)) : std::nullopt;
          }
        }
        if (!most || *most == 0) continue;
        set(s, d, *most, "what reads it");
        news = true;
      }
    }
    return news;
  }

  void find_extents() {
    while (find_reductions() || find_inner_lengths() || find_elementwise_lengths()) {
    }
    std::vector<std::string> open, decisive;
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t a = 0; a < stages[s].names.size(); ++a) {
        if (!extents[s][a]) (a < stages[s].spatial && !output[s] ? open : decisive).push_back(axis_name(s, a));
      }
    }
    if (!decisive.empty()) open = decisive;  // of reductions and outputs; the others follow from them
    if (!open.empty())
      throw DataError("lengths that the text does not tell: {}; write them above it, as in # {}=3, or {}",
                      fmt::join(open, ", "), open.front(), kWholeTable);
    // Nothing reads beyond what is there.
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t l = 0; l < stages[s].loads.size(); ++l) {
        const auto& load = stages[s].loads[l];
        auto axes = ranges(s);
        for (const int32_t guard : load.guards) narrow(stages[s].tree, guard, axes);
        const auto indices = stages[s].tree.children(load.node);
        for (size_t d = 0; d < indices.size(); ++d) {
          const auto range = range_of(stages[s].tree, indices[d], axes);
          const int64_t end = length(reads[s][l], d).value();
          if (range && range->second >= end && load.guards.empty())
            throw DataError("stage {} ({}) reads {} up to {} in dimension {}, which has {}", s, stages[s].name,
                            stages[reads[s][l]].name, range->second, d, end);
        }
      }
    }
  }

  std::string type_of(size_t s, int32_t root) const {
    const auto& tree = stages[s].tree;
    const auto& node = tree.node(root);
    if (node.kind == Kind::load) {
      for (size_t l = 0; l < stages[s].loads.size(); ++l) {
        if (stages[s].loads[l].node == root) return types[reads[s][l]];
      }
    }
    if (node.kind == Kind::cast) return tree.name(root);
    if (node.kind == Kind::real) {
      const auto& literal = tree.name(root);
      return literal.ends_with('h') ? "float16" : literal.ends_with('f') ? "float32" : "float64";
    }
    if (node.kind == Kind::integer || node.kind == Kind::variable) return "int32";
    if (is_condition(node.kind)) return "bool";
    const auto children = tree.children(root);
    const bool chooses =
        node.kind == Kind::select || (node.kind == Kind::call && tree.name(root).ends_with("if_then_else"));
    if (children.empty()) return "float32";
    const auto first = type_of(s, children[chooses ? 1 : 0]);
    // A whole number stands without its type.
    return first == "int32" && children.size() > 1 ? type_of(s, children[chooses ? 2 : 1]) : first;
  }

  void find_types() {
    types.assign(stages.size(), "float32");
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t l = 0; l < stages[s].loads.size(); ++l) {
        if (stages[s].loads[l].index) types[reads[s][l]] = "int32";
      }
    }
    for (size_t s = 0; s < stages.size(); ++s) {
      if (stages[s].input) {
        if (const auto said = hints.types.find(stages[s].name); said != hints.types.end()) types[s] = said->second;
        continue;
      }
      for (const int32_t root : stages[s].roots) expect_types(s, root);
      types[s] = type_of(s, stages[s].roots.front());
    }
  }

  /// A cast of a whole input to an integer says that it is none of the usual floats.
  void expect_types(size_t s, int32_t root) const {
    const auto& tree = stages[s].tree;
    const auto children = tree.children(root);
    if (tree.node(root).kind == Kind::cast && tree.name(root).find("int") != std::string::npos &&
        tree.node(children[0]).kind == Kind::load) {
      for (size_t l = 0; l < stages[s].loads.size(); ++l) {
        const size_t source = reads[s][l];
        if (stages[s].loads[l].node == children[0] && stages[source].input &&
            !hints.types.contains(stages[source].name))
          throw DataError(
              "input {} is cast to {}, so it is of another type, which is not printed; write it above, as in # {}:int8",
              stages[source].name, tree.name(root), stages[source].name);
      }
    }
    for (const int32_t child : children) expect_types(s, child);
  }

  Json stage(size_t s) const {
    const auto& printed = stages[s];
    Json json = {{"id", s}, {"name", printed.name}, {"dtype", types[s]}};
    if (printed.input) {
      json["shape"] = printed.shape;
      json["kind"] = std::string(kInput.substr(3, kInput.size() - 4));
      std::ranges::transform(json["kind"].get_ref<std::string&>(), json["kind"].get_ref<std::string&>().begin(),
                             [](char c) { return static_cast<char>(c - 'A' + 'a'); });
      return json;
    }
    auto axes = Json::array(), reduce = Json::array(), shape = Json::array();
    for (size_t a = 0; a < printed.names.size(); ++a) {
      (a < printed.spatial ? axes : reduce).push_back(Json::array({printed.names[a], extents[s][a].value()}));
      if (a < printed.spatial) shape.push_back(extents[s][a].value());
    }
    json["shape"] = std::move(shape);
    if (printed.bodies.size() > 1) {
      for (const int32_t root : printed.roots) json["dtypes"].push_back(type_of(s, root));
    }
    json["kind"] = "compute";
    json["axes"] = std::move(axes);
    json["reduce_axes"] = std::move(reduce);
    json["combiner"] = printed.combiner.empty() ? Json() : Json(printed.combiner);
    json["body"] = fmt::format("{}", fmt::join(printed.bodies, ", "));
    json["tag"] = tag_of(printed.name);
    auto& list = json["reads"] = Json::array();
    for (size_t l = 0; l < printed.loads.size(); ++l) {
      Json read = {{"op", reads[s][l]}, {"name", stages[reads[s][l]].name}};
      auto& indices = read["indices"] = Json::array();
      for (const int32_t index : printed.tree.children(printed.loads[l].node))
        indices.push_back(to_text(printed.tree, index));
      if (printed.loads[l].tensor > 0) read["output"] = printed.loads[l].tensor;
      list.push_back(std::move(read));
    }
    json["is_output"] = static_cast<bool>(output[s]);
    return json;
  }

  /// TVM's tag of the operators whose weights it may rearrange: the only ones that matter. Their names are those of
  /// TVM's operator library.
  static std::string tag_of(std::string_view name) {
    static constexpr std::pair<std::string_view, std::string_view> kTags[] = {{"conv2d_nhwc", "conv2d_nhwc"},
                                                                              {"Conv2dOutput", "conv2d_nhwc"},
                                                                              {"conv3d_ndhwc", "conv3d_ndhwc"},
                                                                              {"Conv3dOutput", "conv3d_ndhwc"},
                                                                              {"T_dense", "dense"},
                                                                              {"T_matmul", "dense"},
                                                                              {"T_batch_matmul", "batch_matmul"}};
    for (const auto& [start, tag] : kTags) {
      if (name.starts_with(start)) return std::string(tag);
    }
    return "";
  }
};

namespace {

/// The shapes in the key of an md5; nothing: its name is that of a function, whose arguments may be anything.
std::optional<std::vector<std::vector<int64_t>>> shapes_of(const std::string& workload_key) {
  if (!parse_workload_key(workload_key).is_hash) return {};
  const auto key = nlohmann::json::parse(workload_key);
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 1; i < key.size(); ++i) {
    if (!key[i].is_array())
      throw DataError("workload key {}: flat numbers, as old logs have them, expected shapes in brackets",
                      workload_key);
    auto& shape = shapes.emplace_back();
    for (const auto& extent : key[i]) shape.push_back(extent.is_number_integer() ? extent.get<int64_t>() : 0);
  }
  return shapes;
}

}  // namespace

bool PrintedProgram::has_inputs_of(const std::string& workload_key) const {
  auto shapes = shapes_of(workload_key);
  for (const auto& stage : stages_) {
    if (!stage.input || !shapes) continue;
    const auto found = std::ranges::find(*shapes, stage.shape);
    if (found == shapes->end()) return false;
    shapes->erase(found);
  }
  return true;
}

std::string PrintedProgram::to_json(const std::string& workload_key, const SplitLengths& lengths,
                                    const PrintedHints& hints) const {
  auto shapes = shapes_of(workload_key);
  for (const auto& stage : stages_) {
    if (!stage.input || !shapes) continue;
    const auto found = std::ranges::find(*shapes, stage.shape);
    if (found == shapes->end())
      throw DataError("input {} is [{}], which the key does not have", stage.name, fmt::join(stage.shape, ", "));
    shapes->erase(found);  // what is left are those of the outputs
  }
  Work work{.stages = stages_, .lengths = lengths, .hints = hints};
  work.choose_reads(shapes ? shapes->size() : 1);
  work.begin(std::move(shapes).value_or(std::vector<std::vector<int64_t>>()));
  work.find_extents();
  work.find_types();
  Json json = {{"workload_key", workload_key}};
  for (size_t s = 0; s < stages_.size(); ++s) json["stages"].push_back(work.stage(s));
  json["flop_ct"] = parse_compute_dag(json.dump()).flops;
  return json.dump();
}

namespace {

/// "STAGE.AXIS=NUMBER", "READER.NAME=STAGE" and "INPUT:TYPE", with blanks between; other words are a comment.
void read_hints(std::string_view text, PrintedHints& hints) {
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const size_t equal = word.find('='), colon = word.find(':'), dot = word.find('.');
    if (dot < equal && equal != std::string_view::npos) {
      const auto extent = numbers(word.substr(equal + 1));
      if (extent.size() != 1) throw DataError("'{}', expected STAGE.AXIS=NUMBER", word);
      size_t stage = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + dot, stage);
      if (error == std::errc() && end == word.data() + dot)
        hints.reads[{stage, std::string(word.substr(dot + 1, equal - dot - 1))}] = static_cast<size_t>(extent.front());
      else
        hints.extents[std::string(word.substr(0, equal))] = extent.front();
    } else if (colon != std::string_view::npos && colon > 0 && colon + 1 < word.size()) {
      hints.types[std::string(word.substr(0, colon))] = word.substr(colon + 1);
    }
  }
}

}  // namespace

std::vector<PrintedDag> read_printed_dags(const std::filesystem::path& file) {
  std::vector<PrintedDag> dags;
  LineSource lines(file);
  bool open = false;
  std::optional<PrintedDag> next;
  while (const auto line = lines.next()) {
    auto text = line->text;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (line->too_long) throw DataError("{}:{}: longer than a stage may be", file.string(), lines.line_number());
    try {
      if (text.empty()) {
        open = false;
      } else if (text[0] == '[' || text[0] == '#') {
        if (std::exchange(open, false) || !next) next.emplace();
        if (text[0] == '[')
          next->key = text;
        else
          read_hints(text.substr(1), next->hints);
      } else {
        if (!open) dags.push_back(std::exchange(next, std::nullopt).value_or(PrintedDag()));
        if (!open) dags.back().line = lines.line_number();
        open = true;
        dags.back().text.append(text).push_back('\n');
      }
    } catch (const DataError& error) {
      throw DataError("{}:{}: {}", file.string(), lines.line_number(), error.what());
    }
  }
  if (dags.empty()) throw DataError("{}: no line, expected compute DAGs as TVM prints them", file.string());
  return dags;
}

std::string printed_hash(std::string_view text) {
  std::string simple;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (const size_t at = line.find(kInput); at != std::string_view::npos && at == line.find(' ')) {
      simple += line.substr(0, at + kInput.size());
    } else if (const auto parts = parts_of(line); parts.assignment == " = " && !whole_call(parts.body).empty()) {
      simple += fmt::format("{}Op({})", line.substr(0, line.size() - parts.body.size()), whole_call(parts.body));
    } else {
      simple += line;
    }
    simple += '\n';
  }
  return hex_digest("MD5", simple);
}

void add_split_lengths(const ScheduleSteps& schedule, const std::vector<int32_t>& axes,
                       const std::vector<int32_t>& spatial, SplitLengths& lengths) {
  // For each stage of the schedule so far: the stage of the DAG, and for each loop its axis there; -1: none.
  struct Tracked {
    int32_t stage = -1;
    std::vector<int32_t> loops = {};
  };
  const auto fresh = [&](int32_t stage, const std::vector<int32_t>& counts) {
    Tracked tracked{.stage = stage};
    for (int32_t axis = 0; stage >= 0 && axis < counts[static_cast<size_t>(stage)]; ++axis)
      tracked.loops.push_back(axis);
    return tracked;
  };
  std::vector<Tracked> stages;
  for (int32_t s = 0; static_cast<size_t>(s) < axes.size(); ++s) stages.push_back(fresh(s, axes));
  for (const ScheduleStep& step : schedule.steps) {
    if (step.stage < 0 || static_cast<size_t>(step.stage) >= stages.size()) return;  // replay says what is wrong
    auto& tracked = stages[static_cast<size_t>(step.stage)];
    const auto at = static_cast<size_t>(std::max(0, step.iterator));
    const auto split = [&](size_t parts) {
      tracked.loops[at] = -1;
      tracked.loops.insert(tracked.loops.begin() + static_cast<std::ptrdiff_t>(at), parts, -1);
    };
    const auto list = schedule.list(step);
    switch (step.kind) {
      case StepKind::split: {
        if (at >= tracked.loops.size()) return;
        if (const int32_t axis = tracked.loops[at]; axis >= 0 && step.extent > 0) {
          const auto [known, fresh_length] = lengths.try_emplace({tracked.stage, axis}, step.extent);
          if (!fresh_length && known->second != step.extent)
            throw DataError("records split axis {} of stage {} into {} and {}: they are of different programs", axis,
                            tracked.stage, known->second, step.extent);
        }
        split(list.size());
        break;
      }
      case StepKind::follow_split:
        if (at >= tracked.loops.size()) return;
        split(static_cast<size_t>(std::max(0, step.count)));
        break;
      case StepKind::follow_fused_split:
        if (at >= tracked.loops.size()) return;
        split(1);
        break;
      case StepKind::fuse: {
        if (list.empty()) {
          tracked.loops.assign(1, -1);
          break;
        }
        const auto begin = static_cast<size_t>(list.front());
        if (list.front() < 0 || begin + list.size() > tracked.loops.size()) return;
        tracked.loops[begin] = -1;
        tracked.loops.erase(tracked.loops.begin() + list.front() + 1,
                            tracked.loops.begin() + list.front() + static_cast<std::ptrdiff_t>(list.size()));
        break;
      }
      case StepKind::reorder: {
        std::vector<int32_t> moved;
        for (const int32_t place : list) {
          if (place < 0 || static_cast<size_t>(place) >= tracked.loops.size()) return;
          moved.push_back(tracked.loops[static_cast<size_t>(place)]);
        }
        tracked.loops = std::move(moved);
        break;
      }
      case StepKind::cache_read:
        stages.insert(stages.begin() + step.stage + 1, fresh(tracked.stage, spatial));
        break;
      case StepKind::cache_write: {
        const int32_t stage = tracked.stage;
        tracked = fresh(stage, spatial);
        stages.insert(stages.begin() + step.stage, fresh(stage, axes));
        break;
      }
      case StepKind::rfactor: {
        tracked = Tracked{};
        stages.insert(stages.begin() + step.stage, Tracked{});
        return;  // its loops are parts of split ones
      }
      default:
        break;
    }
  }
}

}  // namespace foretime::data
