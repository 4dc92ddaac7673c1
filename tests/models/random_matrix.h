#pragma once

#include <memory>

#include <torch/types.h>

#include "models/sparse/plan_tensors.h"
#include "plans/message_plan.h"

namespace foretime::testing {

/// A random matrix with empty rows, repeated columns and, where asked, rows past the length at which kernels cut them.
inline plans::CsrMatrix random_matrix(int64_t rows, int64_t cols, int64_t most_entries) {
  plans::CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row_ptr = {0};
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t count = r % 3 == 1 ? 0 : torch::randint(1, most_entries + 1, {1}).item<int64_t>();
    for (int64_t e = 0; e < count; ++e) {
      matrix.columns.push_back(torch::randint(cols, {1}).item<int32_t>());
      matrix.values.push_back(torch::randn({1}).item<float>());
    }
    matrix.row_ptr.push_back(static_cast<int64_t>(matrix.columns.size()));
  }
  return matrix;
}

/// The matrix alone, by way of a plan whose readout it is.
inline models::CsrTensor tensor_of(const plans::CsrMatrix& matrix, torch::Dtype dtype) {
  plans::MessagePlan plan;
  auto level = std::make_shared<plans::PlanLevel>();
  level->node.assign(static_cast<size_t>(matrix.cols), 0);
  plan.node_types = {0};
  plan.levels = {level};
  plan.readout.nodes.stages = plan.readout.configurable.stages = {matrix};
  plan.group_ptr = {0, matrix.rows};
  return models::to_tensors(plan, {.dtype = dtype}).nodes.stages.front();
}

}  // namespace foretime::testing
