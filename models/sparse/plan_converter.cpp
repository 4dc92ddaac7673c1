#include "models/sparse/plan_converter.h"

#include <limits>

#include "base/check.h"
#include "base/index_range.h"
#include "inference/kernels/sparse_kernels.h"
#include "models/gpu/launch.h"
#include "models/graph/error.h"

namespace foretime::models {

void expect_size(bool condition, const char* what, int64_t found, int64_t expected) {
  FORETIME_CHECK(condition, "message plan: {}: {}, expected {}", what, found, expected);
}

CsrTensor PlanConverter::matrix(const plans::CsrMatrix& source, bool positions) {
  expect_size(source.columns.size() == source.values.size(), "values of a matrix", source.values.size(),
              source.columns.size());
  const auto turned = options_.gradients ? plans::transpose(source) : plans::CsrMatrix();
  auto result = pattern(source, turned);
  result.values = copy(source.values, options_.dtype);
  if (!options_.gradients) return result;
  result.transposed_values = copy(turned.values, options_.dtype);
  if (!positions) return result;
  std::vector<int32_t> position(source.columns.size());
  inference::transposed_positions({source.rows, source.row_ptr.data(), source.columns.data()}, source.cols,
                                  turned.row_ptr.data(), position.data());
  result.transposed_positions = copy(position, torch::kInt);
  return result;
}

CsrTensor PlanConverter::of_ones(const plans::CsrMatrix& source) {
  return pattern(source, options_.gradients ? plans::transpose(source) : plans::CsrMatrix());
}

CsrTensor PlanConverter::pattern(const plans::CsrMatrix& source, const plans::CsrMatrix& turned) {
  expect_size(std::ssize(source.row_ptr) == source.rows + 1, "row_ptr of a matrix", source.row_ptr.size(),
              source.rows + 1);
  CsrTensor result;
  result.rows = source.rows;
  result.cols = source.cols;
  result.row_ptr = copy(source.row_ptr, row_ptr_type());
  result.columns = copy(source.columns, torch::kInt);
  result.long_rows = long_rows(source.row_ptr);
  if (!options_.gradients) return result;
  result.transposed_row_ptr = copy(turned.row_ptr, row_ptr_type());
  result.transposed_columns = copy(turned.columns, torch::kInt);
  result.transposed_long_rows = long_rows(turned.row_ptr);
  return result;
}

CsrTensor PlanConverter::gather(const std::vector<int32_t>& index, int64_t cols, const char* what) {
  CsrTensor result;
  result.rows = index.size();
  result.cols = cols;
  result.columns = copy(index, torch::kInt);
  std::vector<int64_t> row_ptr(cols + 1);
  for (const int32_t i : index) {
    if (i < 0 || i >= cols) throw ModelError("message plan: {}: {}, expected 0 … {}", what, i, cols - 1);
    ++row_ptr[i + 1];
  }
  if (!options_.gradients) return result;
  for (size_t i = 1; i < row_ptr.size(); ++i) row_ptr[i] += row_ptr[i - 1];
  std::vector<int32_t> positions(index.size());
  std::vector<int64_t> next(row_ptr.begin(), row_ptr.end() - 1);
  for (size_t i = 0; i < index.size(); ++i) positions[next[index[i]]++] = i;
  result.transposed_row_ptr = copy(row_ptr, row_ptr_type());
  result.transposed_columns = copy(positions, torch::kInt);
  result.transposed_long_rows = long_rows(row_ptr);
  return result;
}

CsrTensor PlanConverter::gather_constants(const std::vector<int32_t>& rows, int64_t cols) {
  CsrTensor result;
  result.rows = rows.size();
  result.cols = cols;
  result.columns = copy(rows, torch::kInt);
  return result;
}

std::shared_ptr<const LevelTensors> PlanConverter::level(const plans::PlanLevel& source, int64_t nodes,
                                                         int64_t layout_rows, int64_t candidates) {
  auto result = std::make_shared<LevelTensors>();
  result->states = source.states();
  result->node = gather(source.node, nodes, "node of a state");
  if (!source.layout_row.empty()) result->layout_row = gather(source.layout_row, layout_rows, "layout row of a state");
  if (!source.candidate.empty()) result->candidate = gather(source.candidate, candidates, "candidate of a state");
  return result;
}

std::shared_ptr<const LayerTensors> PlanConverter::layer(const plans::PlanLayer& source, int64_t below) {
  auto result = std::make_shared<LayerTensors>();
  for (const auto& relation : source.relations) result->relations.push_back(matrix(relation, options_.entry_positions));
  if (!source.keeps_states(below)) result->self = gather(source.self, below, "own state of a state");
  return result;
}

std::shared_ptr<const StatementTensors> PlanConverter::statements(const inference::StatementParts& parts) {
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

PoolTensors PlanConverter::pool(const plans::PlanPool& source) {
  PoolTensors result;
  std::vector<double> counts;
  for (const auto& stage : source.stages) {
    if (!options_.candidate_rows && &stage == &source.stages.back()) break;
    result.stages.push_back(matrix(stage));
    counts = row_sums(stage, counts);
  }
  result.counts = copy(counts, options_.dtype).unsqueeze(1);
  return result;
}

LongRows PlanConverter::long_rows(const std::vector<int64_t>& row_ptr) {
  if (!gpu::uses_gpu_kernels(options_.device)) return {};
  if (row_ptr.back() > std::numeric_limits<int32_t>::max())
    throw ModelError(
        "message plan: a matrix of {} entries, expected fewer than 2^31 on a GPU: "
        "lower sampler.groups_per_batch or sampler.candidates_per_group",
        row_ptr.back());
  std::vector<int32_t> rows, piece_ptr = {0}, piece_rows;
  for (size_t r = 0; r + 1 < row_ptr.size(); ++r) {
    const int64_t entries = row_ptr[r + 1] - row_ptr[r];
    if (entries <= gpu::kLongRow) continue;
    const size_t pieces = (entries + gpu::kPiece - 1) / gpu::kPiece;
    piece_rows.insert(piece_rows.end(), pieces, rows.size());
    rows.push_back(r);
    piece_ptr.push_back(piece_rows.size());
  }
  if (rows.empty()) return {};
  return {copy(rows, torch::kInt), copy(piece_ptr, torch::kInt), copy(piece_rows, torch::kInt)};
}

std::vector<double> row_sums(const plans::CsrMatrix& matrix, const std::vector<double>& factor) {
  std::vector<double> sums(matrix.rows);
  for (size_t r = 0; r < sums.size(); ++r)
    for (const int64_t e : entries_of(matrix.row_ptr, r))
      sums[r] += matrix.values[e] * (factor.empty() ? 1.0 : factor[matrix.columns[e]]);
  return sums;
}

}  // namespace foretime::models
