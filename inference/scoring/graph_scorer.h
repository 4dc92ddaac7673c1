#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "data/graphs/group.h"
#include "inference/scoring/model.h"
#include "plans/plan_source.h"

namespace foretime::inference {

/// Scores the candidates of one graph by a layout or tile model. The graph is checked, pruned and planned once. It is
/// immutable: any number of threads may use one.
class GraphScorer {
 public:
  /// Takes the graph of `group`, and for layout models its configurable nodes; candidates in it are ignored. Throws
  /// WrongKind for models of programs, data::DataError for a damaged graph or one with other columns or node types than
  /// the model's.
  GraphScorer(std::shared_ptr<const Model> model, data::Group group);

  /// Makes a scorer of an XLA module: HloModuleProto, HloProto or ModuleTuningData. Configurable nodes are those of the
  /// module's tuning data, else its convolutions, dots and reshapes.
  static GraphScorer from_hlo(std::shared_ptr<const Model> model, std::string_view bytes);

  int64_t nodes() const { return nodes_; }
  std::span<const int32_t> configurable() const { return configurable_.span(); }

  /// Scores layouts [candidates, configurable, 18] → [candidates]. Scores that depend on other candidates (comparisons,
  /// nodes with equivalent decisions) depend on those of the call. A call in which a node has more than 256 distinct
  /// layouts is scored in parts of at most 256. Throws WrongKind for tile models, data::DataError if a model that
  /// compares candidates would need parts.
  std::vector<float> score_layouts(std::span<const int8_t> layouts, int64_t candidates) const;

  /// Scores tiles [candidates, 24] → [candidates]. Throws WrongKind for layout models, data::DataError for numbers that
  /// are not finite.
  std::vector<float> score_tiles(std::span<const float> tiles, int64_t candidates) const;

 private:
  /// Returns the plan source of a group with candidates of this graph.
  std::shared_ptr<const plans::PlanSource> source_of(const data::Group& group) const;

  std::shared_ptr<const Model> model_;
  int64_t nodes_ = 0;                                // nodes before pruning
  Array<int32_t> configurable_;                      // node ids before pruning
  data::Group group_;                                // pruned, without candidates
  std::shared_ptr<const plans::PlanSource> source_;  // prepared for layouts with shared states, else null
};

/// Holds the first candidates of a call, as many as one-byte codes can distinguish.
struct CodedLayouts {
  data::LayoutCandidates layout;
  int64_t candidates = 0;
  // Node index with 256 distinct rows, and another one in the next candidate; -1: all candidates are coded.
  int64_t full = -1;
};

/// Encodes layouts [candidates, configurable, 18] of the configurable nodes `nodes` as tables of distinct rows and
/// codes, in the order in which rows first appear (data::LayoutCoder encodes files).
CodedLayouts code_layouts(Array<int32_t> nodes, std::span<const int8_t> layouts, int64_t candidates);

/// Scores candidates of a group in pieces that the model's threads share. The pieces depend on the group and its
/// candidates alone, so scores are equal bit for bit for any number of threads. Equal candidates are embedded once but
/// counted each time. `source` is the group's plan source. `failures` is as in Executor::score. Throws
/// data::DataError and BundleError as PlanBuilder and Executor do.
std::vector<float> score_candidates(const Model& model, const data::Group& group,
                                    const std::shared_ptr<const plans::PlanSource>& source,
                                    std::span<const int64_t> candidates, std::vector<float>* failures = nullptr);

/// Writes the arrays that a model's graph reads of one group as an .npz, so that another runtime can run the graph
/// without making message plans (docs/reference/bundle.md).
///   node_features, layout_rows, candidate_features   float32, those that the graph names
///   NAME.row_ptr, NAME.columns, NAME.values          each sparse matrix by rows: int64, int64, float32; stage i of a
///                                                    pool is NAME.i
///   group_ptr                                        int64 [2]: all candidates are one group
///   scores                                           float32 [candidates], of this library
///   failures                                         float32 [candidates], of this library, if the model predicts them
/// Without `sharing` there is a state for each node and candidate, whatever the graph's request says: more rows, but
/// equal scores. Throws as Model::score_group does, and data::DataError if the file cannot be written.
void write_plan_arrays(const Model& model, const data::Group& group, std::span<const int64_t> candidates, bool sharing,
                       const std::filesystem::path& file);

}  // namespace foretime::inference
