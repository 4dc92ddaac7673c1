#pragma once

#include <memory>

#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// The matrix alone, as models get it: by way of a plan whose readout it is.
inline CsrTensor tensor_of(const plans::CsrMatrix& matrix, const PlanTensorOptions& options) {
  plans::MessagePlan plan;
  auto level = std::make_shared<plans::PlanLevel>();
  level->node.assign(static_cast<size_t>(matrix.cols), 0);
  plan.node_types = {0};
  plan.levels = {level};
  plan.readout.nodes.stages = plan.readout.configurable.stages = {matrix};
  plan.group_ptr = {0, matrix.rows};
  const auto tensors = to_tensors(plan, options);
  if (tensors.upload) tensors.upload->wait();
  return tensors.nodes.stages.front();
}
inline CsrTensor tensor_of(const plans::CsrMatrix& matrix, torch::Dtype dtype) {
  return tensor_of(matrix, PlanTensorOptions{.dtype = dtype});
}

}  // namespace foretime::models
