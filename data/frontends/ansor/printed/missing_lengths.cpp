#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/printed/index_range.h"
#include "data/frontends/ansor/printed/printed_line.h"
#include "data/frontends/ansor/printed/workload_facts.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

/// Lengths of axes as they become known.
struct LengthSearch {
  std::span<const PrintedStage> stages;
  WorkloadFacts& facts;

  std::string axis_name(size_t stage, size_t axis) const {
    return fmt::format("{}.{}", stages[stage].name, stages[stage].names[axis]);
  }

  void set(size_t stage, size_t axis, int64_t extent, const char* from) {
    auto& known = facts.extents[stage][axis];
    if (known && *known != extent)
      throw DataError("axis {}: {} by {}, and {} by what else is known", axis_name(stage, axis), extent, from, *known);
    if (extent < 1 || extent > kLargestExtent)
      throw DataError("axis {}: {} by {}, expected 1 to {}", axis_name(stage, axis), extent, from, kLargestExtent);
    known = extent;
  }

  AxisRanges ranges(size_t stage) const {
    AxisRanges found;
    for (const auto& extent : facts.extents[stage])
      found.push_back(extent ? std::optional(IndexRange{0, *extent - 1}) : std::nullopt);
    return found;
  }

  std::optional<int64_t> length(size_t stage, size_t dimension) const {
    return stages[stage].input ? stages[stage].shape[dimension] : facts.extents[stage][dimension];
  }

  /// What is said of axes by the key (of outputs), by records and by the user.
  void begin(const PrintedHints& hints, const SplitLengths& lengths, const std::vector<std::vector<int64_t>>& shapes) {
    size_t next = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      facts.extents.emplace_back(stages[s].names.size());
      if (!facts.output[s] || shapes.empty()) continue;
      const auto& shape = shapes.at(next++);
      if (shape.size() != stages[s].spatial)
        throw DataError("output {}: {} axes, and the key has [{}] for it", stages[s].name, stages[s].spatial,
                        fmt::join(shape, ", "));
      for (size_t d = 0; d < shape.size(); ++d) set(s, d, shape[d], "the key");
    }
    for (const auto& [place, extent] : lengths) {
      if (static_cast<size_t>(place.first) < stages.size() &&
          static_cast<size_t>(place.second) < facts.extents[place.first].size())
        set(place.first, place.second, extent, "a recorded split");
    }
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t a = 0; a < stages[s].names.size(); ++a) {
        const auto hint = hints.extents.find(axis_name(s, a));
        if (hint != hints.extents.end()) set(s, a, hint->second, "what was given");
      }
    }
  }

  /// A reduction covers what it reads: an axis that alone makes an index of a tensor of known length is as long as that
  /// allows, by the shortest of these.
  bool find_reductions() {
    bool news = false;
    for (size_t s = 0; s < stages.size(); ++s) {
      const auto& stage = stages[s];
      for (size_t a = stage.spatial; a < stage.names.size(); ++a) {
        if (facts.extents[s][a]) continue;
        std::optional<int64_t> most;
        for (size_t l = 0; l < stage.loads.size(); ++l) {
          const auto indices = stage.tree.children(stage.loads[l].node);
          for (size_t d = 0; d < indices.size(); ++d) {
            std::vector<bool> named(stage.names.size(), false);
            mark_axes(stage.tree, indices[d], named);
            const auto limit = length(facts.reads[s][l], d);
            if (!named[a] || std::ranges::count(named, true) != 1 || !limit) continue;
            const auto largest_here = largest_length(stage.tree, indices[d], stage.names.size(), a, *limit);
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
           !facts.extents[stage][node.target];
  }

  /// A stage that goes over tensors of known length, element by element, is as large as they are: an axis that nothing
  /// else tells, which alone is an index of tensors of one length. Not so slices, which take a part of what they read.
  bool find_elementwise_lengths() {
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t a = 0; a < stages[s].spatial; ++a) {
        if (facts.extents[s][a] || stages[s].name.find("slice") != std::string::npos) continue;
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
            if (const auto known = length(facts.reads[s][l], d)) found.insert(*known);
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
      if (stages[s].input || facts.output[s]) continue;
      for (size_t d = 0; d < stages[s].spatial; ++d) {
        if (facts.extents[s][d]) continue;
        std::optional<int64_t> most = 0;
        for (size_t reader = s + 1; reader < stages.size() && most; ++reader) {
          for (size_t l = 0; l < stages[reader].loads.size() && most; ++l) {
            if (facts.reads[reader][l] != s) continue;
            const auto& load = stages[reader].loads[l];
            if (covers(reader, stages[reader].tree.child(load.node, d))) continue;
            auto axes = ranges(reader);
            for (const int32_t guard : load.guards) narrow_axes(stages[reader].tree, guard, axes);
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

  void find_all() {
    while (find_reductions() || find_inner_lengths() || find_elementwise_lengths()) {
    }
    std::vector<std::string> open, decisive;
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t a = 0; a < stages[s].names.size(); ++a) {
        if (!facts.extents[s][a])
          (a < stages[s].spatial && !facts.output[s] ? open : decisive).push_back(axis_name(s, a));
      }
    }
    if (!decisive.empty()) open = decisive;  // of reductions and outputs; the others follow from them
    if (!open.empty())
      throw DataError("lengths that the text does not tell: {}; write them above it, as in # {}=3, or {}",
                      fmt::join(open, ", "), open.front(), kWholeTable);
  }

  /// Nothing reads beyond what is there.
  void check_reads() const {
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t l = 0; l < stages[s].loads.size(); ++l) {
        const auto& load = stages[s].loads[l];
        auto axes = ranges(s);
        for (const int32_t guard : load.guards) narrow_axes(stages[s].tree, guard, axes);
        const auto indices = stages[s].tree.children(load.node);
        for (size_t d = 0; d < indices.size(); ++d) {
          const auto range = range_of(stages[s].tree, indices[d], axes);
          const int64_t end = length(facts.reads[s][l], d).value();
          if (range && range->second >= end && load.guards.empty())
            throw DataError("stage {} ({}) reads {} up to {} in dimension {}, which has {}", s, stages[s].name,
                            stages[facts.reads[s][l]].name, range->second, d, end);
        }
      }
    }
  }
};

}  // namespace

void find_lengths(std::span<const PrintedStage> stages, const PrintedHints& hints, const SplitLengths& lengths,
                  const std::vector<std::vector<int64_t>>& output_shapes, WorkloadFacts& facts) {
  LengthSearch search{.stages = stages, .facts = facts};
  search.begin(hints, lengths, output_shapes);
  search.find_all();
  search.check_reads();
}

}  // namespace foretime::data
