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

/// The first of a call's candidates, as many as codes of a byte can tell apart.
struct CodedLayouts {
  data::LayoutCandidates layout;
  int64_t candidates = 0;
  int64_t full =
      -1;  // index of the node that has 256 distinct rows and, in the next candidate, another; -1: all are coded
};

/// Layouts [candidates, configurable, 18] of the configurable nodes `nodes` as tables of distinct rows and codes, in
/// the order in which rows first appear (data::LayoutCoder does the same for files).
CodedLayouts code_layouts(Array<int32_t> nodes, std::span<const int8_t> layouts, int64_t candidates);

/// Scores candidates of a group in pieces that are dealt to the model's threads; which pieces there are depends on the
/// group and its candidates alone, and so does every bit of a score. Equal candidates are embedded once and count as
/// often as they stand there. `source`: of the group. Throws data::DataError and BundleError as PlanBuilder and
/// Executor do. `failures`: as in Executor::score. `rows`, where not null: what the model's graph embeds, [candidates,
/// embedded columns].
std::vector<float> score_candidates(const Model& model, const data::Group& group,
                                    const std::shared_ptr<const plans::PlanSource>& source,
                                    std::span<const int64_t> candidates, std::vector<float>* failures = nullptr,
                                    Matrix* rows = nullptr);

/// Scores of all candidates of a group as Model::score_group gives them, with what the model's graph embeds. Throws as
/// that does.
std::vector<float> score_group_with_rows(const Model& model, const data::Group& group, Matrix& rows);

/// Writes the arrays that a model's graph reads of one group, as an .npz: what another runtime needs to run the graph
/// without making message plans itself (docs/reference/bundle.md).
///   node_features, layout_rows, candidate_features   float32, those that the graph names
///   NAME.row_ptr, NAME.columns, NAME.values          each sparse matrix by rows: int64, int64, float32; stage i of a
///                                                    pool is NAME.i
///   group_ptr                                        int64 [2]: all candidates are one group
///   scores                                           float32 [candidates], of this library
///   failures                                         the same of the chances of failure, where the model tells them
/// `sharing`: false asks for a state for each node and candidate, whatever the graph's request says: more rows, the
/// same scores. Throws as Model::score_group, and data::DataError where the file cannot be written.
void write_plan_arrays(const Model& model, const data::Group& group, std::span<const int64_t> candidates, bool sharing,
                       const std::filesystem::path& file);

}  // namespace foretime::inference
