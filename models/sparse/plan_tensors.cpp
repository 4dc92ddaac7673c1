#include "models/sparse/plan_tensors.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "models/device/bodies.h"
#include "models/device/launch.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

void expect_size(bool condition, const char* what, int64_t found, int64_t expected) {
  if (!condition) throw ModelError("message plan: {}: {}, expected {}", what, found, expected);
}

class Converter {
 public:
  Converter(const PlanTensorOptions& options, device::Arena& arena)
      : device_(options.device), dtype_(options.dtype), gradients_(options.gradients), arena_(arena) {}

  template <class T>
  torch::Tensor copy(const std::vector<T>& values, torch::Dtype dtype) {
    return arena_.add(values, dtype);
  }
  template <class T>
  torch::Tensor copy_rows(const std::vector<T>& values, int64_t width) {
    return copy(values, dtype_).view({width == 0 ? 0 : static_cast<int64_t>(values.size()) / width, width});
  }
  CsrTensor matrix(const plans::CsrMatrix& source) {
    expect_size(static_cast<int64_t>(source.row_ptr.size()) == source.rows + 1, "row_ptr of a matrix",
                static_cast<int64_t>(source.row_ptr.size()), source.rows + 1);
    expect_size(source.columns.size() == source.values.size(), "values of a matrix",
                static_cast<int64_t>(source.values.size()), static_cast<int64_t>(source.columns.size()));
    CsrTensor result;
    result.rows = source.rows;
    result.cols = source.cols;
    result.row_ptr = copy(source.row_ptr, row_ptr_type());
    result.columns = copy(source.columns, torch::kInt);
    result.values = copy(source.values, dtype_);
    result.long_rows = long_rows(source.row_ptr);
    if (!gradients_) return result;
    const plans::CsrMatrix turned = plans::transpose(source);
    result.transposed_row_ptr = copy(turned.row_ptr, row_ptr_type());
    result.transposed_columns = copy(turned.columns, torch::kInt);
    result.transposed_values = copy(turned.values, dtype_);
    result.transposed_long_rows = long_rows(turned.row_ptr);
    return result;
  }

  /// One entry a row.
  CsrTensor gather(const std::vector<int32_t>& index, int64_t cols, const char* what) {
    CsrTensor result;
    result.rows = static_cast<int64_t>(index.size());
    result.cols = cols;
    result.columns = copy(index, torch::kInt);
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
    result.transposed_row_ptr = copy(row_ptr, row_ptr_type());
    result.transposed_columns = copy(positions, torch::kInt);
    result.transposed_long_rows = long_rows(row_ptr);
    return result;
  }

  std::shared_ptr<const LevelTensors> level(const plans::PlanLevel& source, int64_t nodes, int64_t layout_rows,
                                            int64_t candidates) {
    auto result = std::make_shared<LevelTensors>();
    result->states = source.states();
    result->node = gather(source.node, nodes, "node of a state");
    if (!source.layout_row.empty())
      result->layout_row = gather(source.layout_row, layout_rows, "layout row of a state");
    if (!source.candidate.empty()) result->candidate = gather(source.candidate, candidates, "candidate of a state");
    return result;
  }

  std::shared_ptr<const LayerTensors> layer(const plans::PlanLayer& source, int64_t below) {
    auto result = std::make_shared<LayerTensors>();
    for (const auto& relation : source.relations) result->relations.push_back(matrix(relation));
    if (!source.keeps_states(below)) result->self = gather(source.self, below, "own state of a state");
    return result;
  }

  PoolTensors pool(const plans::PlanPool& source) {
    PoolTensors result;
    std::vector<double> counts;
    for (const auto& stage : source.stages) {
      result.stages.push_back(matrix(stage));
      counts = row_sums(stage, counts);
    }
    result.counts = copy(counts, dtype_).unsqueeze(1);
    return result;
  }

 private:
  torch::Dtype row_ptr_type() const { return row_ptr_type_on(device_); }

  LongRows long_rows(const std::vector<int64_t>& row_ptr) {
    if (!device::uses_bodies(device_)) return {};
    if (row_ptr.back() > std::numeric_limits<int32_t>::max()) {
      throw ModelError(
          "message plan: a matrix of {} entries, expected fewer than 2^31 on a GPU: lower "
          "sampler.groups_per_batch or sampler.candidates_per_group",
          row_ptr.back());
    }
    std::vector<int32_t> rows, piece_ptr = {0}, piece_rows;
    for (size_t r = 0; r + 1 < row_ptr.size(); ++r) {
      const int64_t entries = row_ptr[r + 1] - row_ptr[r];
      if (entries <= device::kLongRow) continue;
      const auto pieces = static_cast<size_t>((entries + device::kPiece - 1) / device::kPiece);
      piece_rows.insert(piece_rows.end(), pieces, static_cast<int32_t>(rows.size()));
      rows.push_back(static_cast<int32_t>(r));
      piece_ptr.push_back(static_cast<int32_t>(piece_rows.size()));
    }
    if (rows.empty()) return {};
    return {copy(rows, torch::kInt), copy(piece_ptr, torch::kInt), copy(piece_rows, torch::kInt)};
  }

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
  device::Arena& arena_;
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

torch::Dtype row_ptr_type_on(torch::Device device) { return device::uses_bodies(device) ? torch::kInt : torch::kLong; }

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

torch::Tensor entry_rows(const CsrTensor& matrix) {
  if (!matrix.row_ptr.defined()) return torch::arange(matrix.rows, matrix.columns.options().dtype(torch::kLong));
  const auto counts = matrix.row_ptr.slice(0, 1) - matrix.row_ptr.slice(0, 0, matrix.rows);
  return torch::arange(matrix.rows, counts.options().dtype(torch::kLong)).repeat_interleave(counts);
}

int64_t room_of(const plans::MessagePlan& plan, const PlanTensorOptions& options) {
  using device::Arena;
  const auto rows_and_entries = [&](int64_t rows, int64_t entries) {
    const int64_t long_rows = entries / device::kLongRow + 1, pieces = entries / device::kPiece + long_rows;
    return Arena::room<int64_t>(rows + 1) + Arena::room<int32_t>(entries) + Arena::room<double>(entries) +
           2 * Arena::room<int32_t>(long_rows + 1) + Arena::room<int32_t>(pieces);
  };
  const int sides = options.gradients ? 2 : 1;
  const auto matrix = [&](const plans::CsrMatrix& m) {
    return sides * rows_and_entries(std::max(m.rows, m.cols), static_cast<int64_t>(m.columns.size()));
  };
  const auto gather = [&](size_t rows, int64_t cols) {
    return sides * rows_and_entries(std::max(static_cast<int64_t>(rows), cols), static_cast<int64_t>(rows));
  };
  int64_t room = Arena::room<double>(static_cast<int64_t>(plan.node_features.size())) +
                 2 * gather(plan.node_types.size(), 256) +
                 Arena::room<double>(static_cast<int64_t>(plan.layout_rows.size())) +
                 Arena::room<double>(static_cast<int64_t>(plan.candidate_features.size()));
  std::set<const void*> known;
  for (const auto& level : plan.levels) {
    if (!known.insert(level.get()).second) continue;
    room += gather(level->node.size(), plan.nodes()) +
            gather(level->layout_row.size(), static_cast<int64_t>(plan.layout_rows.size())) +
            gather(level->candidate.size(), plan.candidates());
  }
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (!known.insert(plan.layers[i].get()).second) continue;
    for (const auto& relation : plan.layers[i]->relations) room += matrix(relation);
    room += gather(plan.layers[i]->self.size(), plan.levels[i]->states());
  }
  for (const auto* pool : {&plan.readout.nodes, &plan.readout.configurable, &plan.readout.tied}) {
    for (const auto& stage : pool->stages) room += matrix(stage);
    room += Arena::room<double>(plan.candidates() * plan.readout.pools);
  }
  return room;
}

PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options) {
  device::Arena arena(options.device, room_of(plan, options));
  auto result = to_tensors(plan, options, arena);
  result.upload = arena.upload();
  return result;
}

PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options, device::Arena& arena) {
  expect_size(plan.levels.size() == plan.layers.size() + 1, "levels", static_cast<int64_t>(plan.levels.size()),
              static_cast<int64_t>(plan.layers.size()) + 1);
  Converter convert(options, arena);
  PlanTensors result;
  result.node_features = convert.copy(plan.node_features, options.dtype).view({plan.nodes(), plan.feature_count});
  std::vector<int32_t> types(plan.node_types.begin(), plan.node_types.end());
  result.node_type_count = types.empty() ? 0 : *std::max_element(types.begin(), types.end()) + 1;
  result.node_types = convert.gather(types, result.node_type_count, "node type");
  if (!plan.node_collections.empty()) {
    const std::vector<int32_t> collections(plan.node_collections.begin(), plan.node_collections.end());
    result.node_collections = convert.gather(collections, data::kCollections, "collection of a node");
  }
  if (!plan.layout_rows.empty()) {
    result.layout_rows = convert.copy_rows(plan.layout_rows, data::kLayoutFeatures);
  }
  if (!plan.candidate_features.empty()) {
    result.candidate_features = convert.copy_rows(plan.candidate_features, data::kTileFeatures);
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
