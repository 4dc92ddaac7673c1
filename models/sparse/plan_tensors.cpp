#include "models/sparse/plan_tensors.h"

#include <algorithm>
#include <unordered_map>

#include "models/graph/error.h"

namespace foretime::models {
namespace {

/// The values as a tensor of its own, converted to `dtype` on the way to `device`.
template <class T>
torch::Tensor copy(const std::vector<T>& values, torch::Dtype dtype, torch::Device device) {
  const auto options = torch::TensorOptions().dtype(dtype).device(device);
  if (values.empty()) return torch::empty({0}, options);
  const auto borrowed = torch::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())},
                                         torch::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
  return borrowed.to(options, /*non_blocking=*/false, /*copy=*/true);
}

template <class T>
torch::Tensor copy_rows(const std::vector<T>& values, int64_t width, torch::Dtype dtype, torch::Device device) {
  return copy(values, dtype, device).view({width == 0 ? 0 : static_cast<int64_t>(values.size()) / width, width});
}

void expect_size(bool condition, const char* what, int64_t found, int64_t expected) {
  if (!condition) throw ModelError("message plan: {}: {}, expected {}", what, found, expected);
}

class Converter {
 public:
  explicit Converter(const PlanTensorOptions& options)
      : device_(options.device), dtype_(options.dtype), gradients_(options.gradients) {}

  CsrTensor matrix(const plans::CsrMatrix& source) const {
    expect_size(static_cast<int64_t>(source.row_ptr.size()) == source.rows + 1, "row_ptr of a matrix",
                static_cast<int64_t>(source.row_ptr.size()), source.rows + 1);
    expect_size(source.columns.size() == source.values.size(), "values of a matrix",
                static_cast<int64_t>(source.values.size()), static_cast<int64_t>(source.columns.size()));
    CsrTensor result;
    result.rows = source.rows;
    result.cols = source.cols;
    result.row_ptr = copy(source.row_ptr, row_ptr_type(), device_);
    result.columns = copy(source.columns, torch::kInt, device_);
    result.values = copy(source.values, dtype_, device_);
    if (!gradients_) return result;
    const plans::CsrMatrix turned = plans::transpose(source);
    result.transposed_row_ptr = copy(turned.row_ptr, row_ptr_type(), device_);
    result.transposed_columns = copy(turned.columns, torch::kInt, device_);
    result.transposed_values = copy(turned.values, dtype_, device_);
    return result;
  }

  /// One entry a row.
  CsrTensor gather(const std::vector<int32_t>& index, int64_t cols, const char* what) const {
    CsrTensor result;
    result.rows = static_cast<int64_t>(index.size());
    result.cols = cols;
    result.columns = copy(index, torch::kInt, device_);
    std::vector<int64_t> row_ptr(static_cast<size_t>(cols) + 1);
    for (const int32_t i : index) {
      if (i < 0 || i >= cols) throw ModelError("message plan: {}: {}, expected 0 … {}", what, i, cols - 1);
      ++row_ptr[static_cast<size_t>(i) + 1];
    }
    if (!gradients_) return result;
    for (size_t i = 1; i < row_ptr.size(); ++i) row_ptr[i] += row_ptr[i - 1];
    std::vector<int32_t> positions(index.size());
    std::vector<int64_t> next(row_ptr.begin(), row_ptr.end() - 1);
    for (size_t i = 0; i < index.size(); ++i) {
      positions[static_cast<size_t>(next[static_cast<size_t>(index[i])]++)] = static_cast<int32_t>(i);
    }
    result.transposed_row_ptr = copy(row_ptr, row_ptr_type(), device_);
    result.transposed_columns = copy(positions, torch::kInt, device_);
    return result;
  }

  std::shared_ptr<const LevelTensors> level(const plans::PlanLevel& source, int64_t nodes, int64_t layout_rows,
                                            int64_t candidates) const {
    auto result = std::make_shared<LevelTensors>();
    result->states = source.states();
    result->node = gather(source.node, nodes, "node of a state");
    if (!source.layout_row.empty())
      result->layout_row = gather(source.layout_row, layout_rows, "layout row of a state");
    if (!source.candidate.empty()) result->candidate = gather(source.candidate, candidates, "candidate of a state");
    return result;
  }

  std::shared_ptr<const LayerTensors> layer(const plans::PlanLayer& source, int64_t below) const {
    auto result = std::make_shared<LayerTensors>();
    for (const auto& relation : source.relations) result->relations.push_back(matrix(relation));
    if (!source.keeps_states(below)) result->self = gather(source.self, below, "own state of a state");
    return result;
  }

  PoolTensors pool(const plans::PlanPool& source) const {
    PoolTensors result;
    std::vector<double> counts;
    for (const auto& stage : source.stages) {
      result.stages.push_back(matrix(stage));
      counts = row_sums(stage, counts);
    }
    result.counts = copy(counts, dtype_, device_).unsqueeze(1);
    return result;
  }

 private:
  /// cuSPARSE wants both kinds of indices of one type; a batch on a GPU has fewer than 2^31 entries.
  torch::Dtype row_ptr_type() const { return device_.is_cuda() ? torch::kInt : torch::kLong; }

  /// Sums of values[e] * factor[columns[e]] by rows; no factors: ones.
  static std::vector<double> row_sums(const plans::CsrMatrix& matrix, const std::vector<double>& factor) {
    std::vector<double> sums(static_cast<size_t>(matrix.rows));
    for (size_t r = 0; r < sums.size(); ++r) {
      for (auto e = static_cast<size_t>(matrix.row_ptr[r]); e < static_cast<size_t>(matrix.row_ptr[r + 1]); ++e) {
        sums[r] += matrix.values[e] * (factor.empty() ? 1.0 : factor[static_cast<size_t>(matrix.columns[e])]);
      }
    }
    return sums;
  }

  torch::Device device_;
  torch::Dtype dtype_;
  bool gradients_;
};

void check_layer(const plans::PlanLayer& layer, int64_t below, int64_t above) {
  expect_size(static_cast<int64_t>(layer.self.size()) == above, "self of a layer",
              static_cast<int64_t>(layer.self.size()), above);
  for (const auto& relation : layer.relations) {
    expect_size(relation.rows == above, "rows of a relation", relation.rows, above);
    expect_size(relation.cols == below, "columns of a relation", relation.cols, below);
  }
}

}  // namespace

CsrTensor transposed(const CsrTensor& matrix) {
  return {matrix.cols,
          matrix.rows,
          matrix.transposed_row_ptr,
          matrix.transposed_columns,
          matrix.transposed_values,
          matrix.row_ptr,
          matrix.columns,
          matrix.values};
}

torch::Tensor entry_rows(const CsrTensor& matrix) {
  if (!matrix.row_ptr.defined()) return torch::arange(matrix.rows, matrix.columns.options().dtype(torch::kLong));
  const auto counts = matrix.row_ptr.slice(0, 1) - matrix.row_ptr.slice(0, 0, matrix.rows);
  return torch::arange(matrix.rows, counts.options().dtype(torch::kLong)).repeat_interleave(counts);
}

PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options) {
  const auto device = options.device;
  const auto dtype = options.dtype;
  expect_size(plan.levels.size() == plan.layers.size() + 1, "levels", static_cast<int64_t>(plan.levels.size()),
              static_cast<int64_t>(plan.layers.size()) + 1);
  const Converter convert(options);
  PlanTensors result;
  result.node_features = copy(plan.node_features, dtype, device).view({plan.nodes(), plan.feature_count});
  std::vector<int32_t> types(plan.node_types.begin(), plan.node_types.end());
  result.node_type_count = types.empty() ? 0 : *std::max_element(types.begin(), types.end()) + 1;
  result.node_types = convert.gather(types, result.node_type_count, "node type");
  if (!plan.node_collections.empty()) {
    const std::vector<int32_t> collections(plan.node_collections.begin(), plan.node_collections.end());
    result.node_collections = convert.gather(collections, data::kCollections, "collection of a node");
  }
  if (!plan.layout_rows.empty()) {
    result.layout_rows = copy_rows(plan.layout_rows, data::kLayoutFeatures, dtype, device);
  }
  if (!plan.candidate_features.empty()) {
    result.candidate_features = copy_rows(plan.candidate_features, data::kTileFeatures, dtype, device);
  }

  std::unordered_map<const plans::PlanLevel*, std::shared_ptr<const LevelTensors>> levels;
  for (const auto& level : plan.levels) {
    auto& converted = levels[level.get()];
    if (!converted) {
      const auto rows = static_cast<int64_t>(plan.layout_rows.size()) / data::kLayoutFeatures;
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
  result.group_ptr = plan.group_ptr;
  return result;
}

}  // namespace foretime::models
