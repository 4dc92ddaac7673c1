#include "models/sparse/plan_tensors.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "models/gpu/launch.h"
#include "models/graph/error.h"
#include "models/sparse/plan_converter.h"

namespace foretime::models {
namespace {

using gpu::Arena;

void check_layer(const plans::PlanLayer& layer, int64_t below, int64_t above) {
  expect_size(std::ssize(layer.self) == above, "self of a layer", layer.self.size(), above);
  for (const auto& relation : layer.relations) {
    expect_size(relation.rows == above, "rows of a relation", relation.rows, above);
    expect_size(relation.cols == below, "columns of a relation", relation.cols, below);
  }
}

}  // namespace

torch::Dtype row_ptr_type_on(torch::Device device) {
  return gpu::uses_gpu_kernels(device) ? torch::kInt : torch::kLong;
}

CsrTensor transposed(const CsrTensor& matrix) {
  return {matrix.cols,
          matrix.rows,
          matrix.transposed_row_ptr,
          matrix.transposed_columns,
          matrix.transposed_values,
          matrix.row_ptr,
          matrix.columns,
          matrix.values,
          matrix.transposed_long_rows,
          matrix.long_rows};
}

/// Each column has one entry, in the order of the rows.
static bool has_own_states(const plans::CsrMatrix& rows) {
  if (std::ssize(rows.columns) != rows.cols) return false;
  for (size_t e = 0; e < rows.columns.size(); ++e)
    if (std::cmp_not_equal(rows.columns[e], e)) return false;
  return true;
}

PlanConversion::PlanConversion(const plans::MessagePlan& plan, const PlanTensorOptions& options)
    : plan_(plan), options_(options) {
  if (!options.statements) return;
  try {
    statements_ = inference::statement_parts(plan);
  } catch (const DataError& error) {
    throw ModelError(error.what());
  }
}

int64_t PlanConversion::max_bytes() const {
  const auto& plan = plan_;
  const PlanBytes bound{options_.gradients};
  int64_t bytes = Arena::max_bytes<double>(std::ssize(plan.node_features)) +
                  2 * bound.of_gather(plan.node_types.size(), 256) +
                  Arena::max_bytes<double>(std::ssize(plan.layout_rows)) +
                  Arena::max_bytes<double>(std::ssize(plan.candidate_features));
  std::set<const void*> known;
  for (const auto& level : plan.levels) {
    if (!known.insert(level.get()).second) continue;
    bytes += bound.of_gather(level->node.size(), plan.nodes()) +
             bound.of_gather(level->layout_row.size(), plan.layout_rows.size()) +
             bound.of_gather(level->candidate.size(), plan.candidates());
  }
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (!known.insert(plan.layers[i].get()).second) continue;
    for (const auto& relation : plan.layers[i]->relations)
      bytes += bound.of(relation) + Arena::max_bytes<int32_t>(std::ssize(relation.columns));
    bytes += bound.of_gather(plan.layers[i]->self.size(), plan.levels[i]->states());
  }
  for (const auto* pool : {&plan.readout.nodes, &plan.readout.configurable, &plan.readout.tied}) {
    for (const auto& stage : pool->stages)
      if (options_.candidate_rows || &stage != &pool->stages.back()) bytes += bound.of(stage);
    bytes += Arena::max_bytes<double>(plan.candidates() * plan.readout.pools);
  }
  return bytes + (statements_ ? bound.of(*statements_) : 0);
}

PlanTensors PlanConversion::copy_into(Arena& arena) const {
  const auto& plan = plan_;
  const auto& options = options_;
  expect_size(plan.levels.size() == plan.layers.size() + 1, "levels", plan.levels.size(), std::ssize(plan.layers) + 1);
  PlanConverter convert(options, arena);
  PlanTensors result;
  result.node_features = convert.copy(plan.node_features, options.dtype).view({plan.nodes(), plan.feature_count});
  std::vector<int32_t> types(plan.node_types.begin(), plan.node_types.end());
  result.node_type_count = types.empty() ? 0 : *std::max_element(types.begin(), types.end()) + 1;
  result.node_types = convert.gather(types, result.node_type_count, "node type");
  if (!plan.node_collections.empty()) {
    const std::vector<int32_t> collections(plan.node_collections.begin(), plan.node_collections.end());
    result.node_collections = convert.gather(collections, data::kCollections, "collection of a node");
  }
  if (!plan.layout_rows.empty()) result.layout_rows = convert.copy_rows(plan.layout_rows, data::kLayoutFeatures);
  if (!plan.candidate_features.empty())
    result.candidate_features = convert.copy_rows(plan.candidate_features, data::kTileFeatures);

  std::unordered_map<const plans::PlanLevel*, std::shared_ptr<const LevelTensors>> levels;
  for (const auto& level : plan.levels) {
    auto& converted = levels[level.get()];
    if (!converted) {
      const auto rows = std::ssize(plan.layout_rows) / data::kLayoutFeatures;
      converted = convert.level(*level, plan.nodes(), rows, plan.candidates());
    }
    result.levels.push_back(converted);
  }
  std::unordered_map<const plans::PlanLayer*, std::shared_ptr<const LayerTensors>> layers;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const int64_t below = plan.levels[i]->states();
    check_layer(*plan.layers[i], below, plan.levels[i + 1]->states());
    auto& converted = layers[plan.layers[i].get()];
    if (!converted) converted = convert.layer(*plan.layers[i], below);
    result.layers.push_back(converted);
  }

  const int64_t final_states = plan.levels.back()->states();
  for (const auto* pool : {&plan.readout.nodes, &plan.readout.configurable, &plan.readout.tied}) {
    if (pool == &plan.readout.tied && pool->stages.empty()) continue;
    expect_size(!pool->stages.empty(), "stages of a readout", 0, 1);
    const int64_t rows = plan.candidates() * plan.readout.pools;
    expect_size(pool->stages.back().rows == rows, "rows of a readout", pool->stages.back().rows, rows);
    int64_t below = final_states;
    for (const auto& stage : pool->stages) {
      expect_size(stage.cols == below, "columns of a readout", stage.cols, below);
      below = stage.rows;
    }
  }
  result.pools = plan.readout.pools;
  result.nodes = convert.pool(plan.readout.nodes);
  result.configurable = convert.pool(plan.readout.configurable);
  if (!plan.readout.tied.stages.empty()) result.tied = convert.pool(plan.readout.tied);
  if (statements_) result.statements = convert.statements(*statements_);
  result.group_ptr = plan.group_ptr;
  const auto& stages = plan.readout.nodes.stages;
  if (stages.size() == 1 && has_own_states(stages.front())) result.graph_ptr = stages.front().row_ptr;
  return result;
}

std::shared_ptr<const StatementTensors> to_tensors(const inference::StatementParts& parts,
                                                   const PlanTensorOptions& options) {
  Arena arena(options.device, PlanBytes{options.gradients}.of(parts));
  auto result = PlanConverter(options, arena).statements(parts);
  if (const auto upload = arena.upload()) upload->wait();
  return result;
}

PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options) {
  const PlanConversion conversion(plan, options);
  Arena arena(options.device, conversion.max_bytes());
  auto result = conversion.copy_into(arena);
  result.upload = arena.upload();
  return result;
}

}  // namespace foretime::models
