#include "models/sparse/plan_tensors.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "inference/kernels/sparse_kernels.h"
#include "models/device/bodies.h"
#include "models/device/launch.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

using device::Arena;

void expect_size(bool condition, const char* what, int64_t found, int64_t expected) {
  if (!condition) throw ModelError("message plan: {}: {}, expected {}", what, found, expected);
}

class Converter {
 public:
  Converter(const PlanTensorOptions& options, Arena& arena)
      : device_(options.device),
        dtype_(options.dtype),
        gradients_(options.gradients),
        entry_positions_(options.entry_positions),
        arena_(arena) {}

  template <class T>
  torch::Tensor copy(const std::vector<T>& values, torch::Dtype dtype) {
    return arena_.add(values, dtype);
  }
  template <class T>
  torch::Tensor copy_rows(const std::vector<T>& values, int64_t width) {
    return copy(values, dtype_).view({width == 0 ? 0 : static_cast<int64_t>(values.size()) / width, width});
  }
  CsrTensor matrix(const plans::CsrMatrix& source, bool positions = false) {
    expect_size(source.columns.size() == source.values.size(), "values of a matrix",
                static_cast<int64_t>(source.values.size()), static_cast<int64_t>(source.columns.size()));
    const auto turned = gradients_ ? plans::transpose(source) : plans::CsrMatrix();
    auto result = pattern(source, turned);
    result.values = copy(source.values, dtype_);
    if (!gradients_) return result;
    result.transposed_values = copy(turned.values, dtype_);
    if (!positions) return result;
    std::vector<int32_t> position(source.columns.size());
    inference::transposed_positions({source.rows, source.row_ptr.data(), source.columns.data()}, source.cols,
                                    turned.row_ptr.data(), position.data());
    result.transposed_positions = copy(position, torch::kInt);
    return result;
  }

  /// Its entries, all of value 1.
  CsrTensor of_ones(const plans::CsrMatrix& source) {
    return pattern(source, gradients_ ? plans::transpose(source) : plans::CsrMatrix());
  }

  CsrTensor pattern(const plans::CsrMatrix& source, const plans::CsrMatrix& turned) {
    expect_size(static_cast<int64_t>(source.row_ptr.size()) == source.rows + 1, "row_ptr of a matrix",
                static_cast<int64_t>(source.row_ptr.size()), source.rows + 1);
    CsrTensor result;
    result.rows = source.rows;
    result.cols = source.cols;
    result.row_ptr = copy(source.row_ptr, row_ptr_type());
    result.columns = copy(source.columns, torch::kInt);
    result.long_rows = long_rows(source.row_ptr);
    if (!gradients_) return result;
    result.transposed_row_ptr = copy(turned.row_ptr, row_ptr_type());
    result.transposed_columns = copy(turned.columns, torch::kInt);
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
    for (const auto& relation : source.relations) result->relations.push_back(matrix(relation, entry_positions_));
    if (!source.keeps_states(below)) result->self = gather(source.self, below, "own state of a state");
    return result;
  }

  /// A gather of what has no gradient.
  CsrTensor gather_constants(const std::vector<int32_t>& rows, int64_t cols) {
    CsrTensor result;
    result.rows = static_cast<int64_t>(rows.size());
    result.cols = cols;
    result.columns = copy(rows, torch::kInt);
    return result;
  }

  std::shared_ptr<const StatementTensors> statements(const inference::StatementParts& parts) {
    auto result = std::make_shared<StatementTensors>();
    const int64_t nodes = parts.accesses.front().cols;
    result->statements = gather_constants(parts.statements, nodes);
    result->loops = gather_constants(parts.loops, nodes);
    result->loops_of = of_ones(parts.loops_of);
    result->innermost = of_ones(parts.innermost);
    result->second = of_ones(parts.second);
    for (const auto& access : parts.accesses) result->accesses.push_back(of_ones(access));
    result->statements_of = of_ones(parts.statements_of);
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
  bool gradients_, entry_positions_;
  Arena& arena_;
};

/// What parts of a plan take in an arena, at most.
struct Room {
  bool gradients;

  int64_t of_rows_and_entries(int64_t rows, int64_t entries) const {
    const int64_t long_rows = entries / device::kLongRow + 1, pieces = entries / device::kPiece + long_rows;
    const int64_t one_way = Arena::room<int64_t>(rows + 1) + Arena::room<int32_t>(entries) +
                            Arena::room<double>(entries) + 2 * Arena::room<int32_t>(long_rows + 1) +
                            Arena::room<int32_t>(pieces);
    return gradients ? 2 * one_way : one_way;
  }
  int64_t of(const plans::CsrMatrix& matrix) const {
    return of_rows_and_entries(std::max(matrix.rows, matrix.cols), static_cast<int64_t>(matrix.columns.size()));
  }
  int64_t of_gather(size_t rows, int64_t cols) const {
    return of_rows_and_entries(std::max(static_cast<int64_t>(rows), cols), static_cast<int64_t>(rows));
  }
  int64_t of(const inference::StatementParts& parts) const {
    int64_t bytes = of_gather(parts.statements.size(), 0) + of_gather(parts.loops.size(), 0);
    for (const auto* each : {&parts.loops_of, &parts.innermost, &parts.second, &parts.statements_of})
      bytes += of(*each);
    for (const auto& access : parts.accesses) bytes += of(access);
    return bytes;
  }
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

PlanConversion::PlanConversion(const plans::MessagePlan& plan, const PlanTensorOptions& options)
    : plan_(plan), options_(options) {
  if (!options.statements) return;
  try {
    statements_ = inference::statement_parts(plan);
  } catch (const DataError& error) {
    throw ModelError(error.what());
  }
}

int64_t PlanConversion::room() const {
  const auto& plan = plan_;
  const Room room{options_.gradients};
  int64_t bytes = Arena::room<double>(static_cast<int64_t>(plan.node_features.size())) +
                  2 * room.of_gather(plan.node_types.size(), 256) +
                  Arena::room<double>(static_cast<int64_t>(plan.layout_rows.size())) +
                  Arena::room<double>(static_cast<int64_t>(plan.candidate_features.size()));
  std::set<const void*> known;
  for (const auto& level : plan.levels) {
    if (!known.insert(level.get()).second) continue;
    bytes += room.of_gather(level->node.size(), plan.nodes()) +
             room.of_gather(level->layout_row.size(), static_cast<int64_t>(plan.layout_rows.size())) +
             room.of_gather(level->candidate.size(), plan.candidates());
  }
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (!known.insert(plan.layers[i].get()).second) continue;
    for (const auto& relation : plan.layers[i]->relations)
      bytes += room.of(relation) + Arena::room<int32_t>(static_cast<int64_t>(relation.columns.size()));
    bytes += room.of_gather(plan.layers[i]->self.size(), plan.levels[i]->states());
  }
  for (const auto* pool : {&plan.readout.nodes, &plan.readout.configurable, &plan.readout.tied}) {
    for (const auto& stage : pool->stages) bytes += room.of(stage);
    bytes += Arena::room<double>(plan.candidates() * plan.readout.pools);
  }
  return bytes + (statements_ ? room.of(*statements_) : 0);
}

PlanTensors PlanConversion::into(Arena& arena) const {
  const auto& plan = plan_;
  const auto& options = options_;
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
  if (statements_) result.statements = convert.statements(*statements_);
  result.group_ptr = plan.group_ptr;
  return result;
}

std::shared_ptr<const StatementTensors> to_tensors(const inference::StatementParts& parts,
                                                   const PlanTensorOptions& options) {
  Arena arena(options.device, Room{options.gradients}.of(parts));
  auto result = Converter(options, arena).statements(parts);
  if (const auto upload = arena.upload()) upload->wait();
  return result;
}

PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options) {
  const PlanConversion conversion(plan, options);
  Arena arena(options.device, conversion.room());
  auto result = conversion.into(arena);
  result.upload = arena.upload();
  return result;
}

}  // namespace foretime::models
