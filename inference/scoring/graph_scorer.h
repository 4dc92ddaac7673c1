#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "data/graphs/group.h"
#include "inference/scoring/model.h"
#include "plans/plan_source.h"

namespace foretime::inference {

/// A graph whose candidates a layout or tile model scores: checked, pruned and planned once. Never changes: any number
/// of threads may use one.
class GraphScorer {
 public:
  /// `group`: its graph, and for layout models its configurable nodes; candidates in it are not looked at. Throws
  /// WrongKind for models of programs, data::DataError for a graph that is damaged or has other columns or node types
  /// than the model's.
  GraphScorer(std::shared_ptr<const Model> model, data::Group group);

  /// Of an XLA module: HloModuleProto, HloProto or ModuleTuningData. Configurable nodes are those that the module's
  /// tuning data name, else its convolutions, dots and reshapes.
  static GraphScorer from_hlo(std::shared_ptr<const Model> model, std::string_view bytes);

  int64_t nodes() const { return nodes_; }
  std::span<const int32_t> configurable() const { return configurable_.span(); }

  /// layouts [candidates, configurable, 18] → [candidates]. What a score may owe to other candidates (comparisons,
  /// which nodes are tied) it owes to those of the call; where a node has more than 256 distinct layouts, a call is
  /// scored in parts, each as far as 256 suffice. Throws WrongKind for tile models, data::DataError where a model that
  /// compares candidates would need parts.
  std::vector<float> score_layouts(std::span<const int8_t> layouts, int64_t candidates) const;

  /// tiles [candidates, 24] → [candidates]. Throws WrongKind for layout models, data::DataError for numbers that are
  /// not finite.
  std::vector<float> score_tiles(std::span<const float> tiles, int64_t candidates) const;

 private:
  std::shared_ptr<const plans::PlanSource> source_of(const data::Group& group) const;

  std::shared_ptr<const Model> model_;
  int64_t nodes_ = 0;                                // before pruning
  Array<int32_t> configurable_;                      // likewise
  data::Group group_;                                // pruned, without candidates
  std::shared_ptr<const plans::PlanSource> source_;  // layouts with shared states: prepared, or null
};

}  // namespace foretime::inference
