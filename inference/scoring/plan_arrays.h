#pragma once

#include <filesystem>
#include <span>

#include "data/graphs/group.h"
#include "inference/scoring/model.h"

namespace foretime::inference {

/// Writes the arrays that a model's form reads of one group, as an .npz: what another runtime needs to run the form
/// without making message plans itself (docs/reference/bundle.md).
///   node_features, layout_rows, candidate_features   float32, those that the form names
///   NAME.row_ptr, NAME.columns, NAME.values          each sparse matrix by rows: int64, int64, float32; stage i of a
///                                                    pool is NAME.i
///   group_ptr                                        int64 [2]: all candidates are one group
///   scores                                           float32 [candidates], of this library
/// `sharing`: false asks for a state for each node and candidate, whatever the form's request says: more rows, the same
/// scores. Throws as Model::score_group, and data::DataError where the file cannot be written.
void write_plan_arrays(const Model& model, const data::Group& group, std::span<const int64_t> candidates, bool sharing,
                       const std::filesystem::path& file);

}  // namespace foretime::inference
