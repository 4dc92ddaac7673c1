#include "models/plan_tensors.h"

#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "models/error.h"

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

void expect(bool condition, const char* what, int64_t found, int64_t expected) {
  if (!condition) throw ModelError(fmt::format("message plan: {}: {}, expected {}", what, found, expected));
}

class Converter {
 public:
  Converter(torch::Device device, torch::Dtype dtype) : device_(device), dtype_(dtype) {}

  CsrTensor matrix(const data::CsrMatrix& source) const {
    expect(static_cast<int64_t>(source.row_ptr.size()) == source.rows + 1, "row_ptr of a matrix",
           static_cast<int64_t>(source.row_ptr.size()), source.rows + 1);
    expect(source.columns.size() == source.values.size(), "values of a matrix",
           static_cast<int64_t>(source.values.size()), static_cast<int64_t>(source.columns.size()));
    const data::CsrMatrix turned = data::transpose(source);
    CsrTensor result;
    result.rows = source.rows;
    result.cols = source.cols;
    result.row_ptr = copy(source.row_ptr, torch::kLong, device_);
    result.columns = copy(source.columns, torch::kInt, device_);
    result.values = copy(source.values, dtype_, device_);
    result.transposed_row_ptr = copy(turned.row_ptr, torch::kLong, device_);
    result.transposed_columns = copy(turned.columns, torch::kInt, device_);
    result.transposed_values = copy(turned.values, dtype_, device_);
    return result;
  }

  std::shared_ptr<const LevelTensors> level(const data::PlanLevel& source) const {
    auto result = std::make_shared<LevelTensors>();
    result->states = source.states();
    result->node = copy(source.node, torch::kLong, device_);
    if (!source.layout_row.empty()) result->layout_row = copy(source.layout_row, torch::kLong, device_);
    if (!source.candidate.empty()) result->candidate = copy(source.candidate, torch::kLong, device_);
    return result;
  }

  std::shared_ptr<const LayerTensors> layer(const data::PlanLayer& source, int64_t below) const {
    auto result = std::make_shared<LayerTensors>();
    for (const auto& relation : source.relations) result->relations.push_back(matrix(relation));
    if (!is_identity(source.self, below)) result->self = copy(source.self, torch::kLong, device_);
    return result;
  }

 private:
  static bool is_identity(const std::vector<int32_t>& self, int64_t below) {
    if (static_cast<int64_t>(self.size()) != below) return false;
    for (int64_t i = 0; i < below; ++i) {
      if (self[static_cast<size_t>(i)] != i) return false;
    }
    return true;
  }

  torch::Device device_;
  torch::Dtype dtype_;
};

void check_layer(const data::PlanLayer& layer, int64_t below, int64_t above) {
  expect(static_cast<int64_t>(layer.self.size()) == above, "self of a layer", static_cast<int64_t>(layer.self.size()),
         above);
  for (const auto& relation : layer.relations) {
    expect(relation.rows == above, "rows of a relation", relation.rows, above);
    expect(relation.cols == below, "columns of a relation", relation.cols, below);
  }
}

}  // namespace

PlanTensors to_tensors(const data::MessagePlan& plan, torch::Device device, torch::Dtype dtype) {
  expect(plan.levels.size() == plan.layers.size() + 1, "levels", static_cast<int64_t>(plan.levels.size()),
         static_cast<int64_t>(plan.layers.size()) + 1);
  const Converter convert(device, dtype);
  PlanTensors result;
  result.node_features = copy(plan.node_features, dtype, device).view({plan.nodes(), plan.feature_count});
  result.node_types = copy(plan.node_types, torch::kLong, device);
  if (!plan.layout_rows.empty()) {
    result.layout_rows = copy_rows(plan.layout_rows, data::kLayoutFeatures, dtype, device);
  }
  if (!plan.candidate_features.empty()) {
    result.candidate_features = copy_rows(plan.candidate_features, data::kTileFeatures, dtype, device);
  }

  std::unordered_map<const data::PlanLevel*, std::shared_ptr<const LevelTensors>> levels;
  for (const auto& level : plan.levels) {
    auto& converted = levels[level.get()];
    if (!converted) converted = convert.level(*level);
    result.levels.push_back(converted);
  }
  std::unordered_map<const data::PlanLayer*, std::shared_ptr<const LayerTensors>> layers;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const int64_t below = plan.levels[i]->states();
    check_layer(*plan.layers[i], below, plan.levels[i + 1]->states());
    auto& converted = layers[plan.layers[i].get()];
    if (!converted) converted = convert.layer(*plan.layers[i], below);
    result.layers.push_back(converted);
  }

  const int64_t final_states = plan.levels.back()->states();
  for (const auto* readout : {&plan.readout.nodes, &plan.readout.configurable}) {
    expect(readout->rows == plan.candidates(), "rows of a readout", readout->rows, plan.candidates());
    expect(readout->cols == final_states, "columns of a readout", readout->cols, final_states);
  }
  result.readout_nodes = convert.matrix(plan.readout.nodes);
  result.readout_configurable = convert.matrix(plan.readout.configurable);
  result.group_ptr = plan.group_ptr;
  return result;
}

}  // namespace foretime::models
