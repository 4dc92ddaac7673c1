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

/// Scores candidates of one graph by a layout or tile model. Checks, prunes and plans the graph once. Thread-safe.
class GraphScorer {
 public:
  /// Takes the graph of `group`, and for layout models its configurable nodes; ignores its candidates. Throws WrongKind
  /// for models of programs or tables, DataError for a damaged graph and for columns or node types that the model does
  /// not know.
  GraphScorer(std::shared_ptr<const Model> model, data::Group group);

  /// Makes a scorer of an XLA module: HloModuleProto, HloProto or ModuleTuningData. Configurable nodes are those of the
  /// module's tuning data; without tuning data, its convolutions, dots and reshapes. Throws as the constructor does,
  /// and DataError for bytes that are no such module.
  static GraphScorer from_hlo(std::shared_ptr<const Model> model, std::string_view bytes);

  int64_t nodes() const { return nodes_; }  // number of nodes before pruning
  /// Returns the ids of the configurable nodes, before pruning.
  std::span<const int32_t> configurable() const { return configurable_.span(); }

  /// Scores layouts [candidates, configurable, 18]; returns [candidates]. Scores of a model that compares candidates
  /// depend on the whole call. A call with more than 256 distinct layouts of a node is scored in parts of at most 256;
  /// a model that compares candidates throws DataError instead. Throws WrongKind for tile models.
  std::vector<float> score_layouts(std::span<const int8_t> layouts, int64_t candidates) const;

  /// Scores tiles [candidates, 24]; returns [candidates]. Throws WrongKind for layout models, DataError unless finite.
  std::vector<float> score_tiles(std::span<const float> tiles, int64_t candidates) const;

 private:
  /// Returns the plan source of a group that has this graph and candidates for it.
  std::shared_ptr<const plans::PlanSource> source_of(const data::Group& group) const;

  std::shared_ptr<const Model> model_;
  int64_t nodes_ = 0;            // nodes before pruning
  Array<int32_t> configurable_;  // node ids before pruning
  data::Group group_;            // pruned, without candidates
  // made from group_; shared states of layouts are added in each call
  std::shared_ptr<const plans::PlanSource> source_;
};

/// Holds the first candidates of a call, as many as one-byte codes can distinguish.
struct CodedLayouts {
  data::LayoutCandidates layout;
  int64_t candidates = 0;  // number of candidates in `layout`
  // index in `nodes` of a node that has 256 distinct rows and a 257th in the next candidate; -1: all are coded
  int64_t full = -1;
};

/// Encodes layouts [candidates, configurable, 18] of the configurable nodes `nodes` as a table of distinct rows and a
/// code for each candidate and node. Codes are in the order in which the rows first appear. Stops before the first
/// candidate that would need a 257th row of a node.
CodedLayouts code_layouts(Array<int32_t> nodes, std::span<const int8_t> layouts, int64_t candidates);

/// Scores candidates of a group; returns [candidates]. `source` is the group's plan source, `failures` as in
/// Executor::score. The model's threads share the work; scores are equal bit for bit for any number of threads. Equal
/// candidates are embedded once but counted each time. Throws as PlanBuilder and Executor do.
std::vector<float> score_candidates(const Model& model, const data::Group& group,
                                    const std::shared_ptr<const plans::PlanSource>& source,
                                    std::span<const int64_t> candidates, std::vector<float>* failures = nullptr);

}  // namespace foretime::inference
