#pragma once

#include <cstdint>
#include <vector>

#include <torch/torch.h>

#include "models/form_writer.h"

namespace foretime::models {

/// x [candidates, columns], each column with mean 0 and deviation 1 over the candidates of its group, 0 where they
/// agree: what candidates have in common says nothing about their order, and is gone. A configuration that was measured
/// twice counts twice. `group_ptr`: as PlanTensors::group_ptr.
torch::Tensor standardized_in_groups(const torch::Tensor& x, const std::vector<int64_t>& group_ptr);
std::string describe_standardized(FormWriter& writer, const std::string& x);

/// What sets a candidate apart from the others of its group: beside each column x_c of a candidate c of n stands
///   n x_c softmax over the group's candidates of x_c / T,
/// T learned, column by column (after the cross-configuration attention of the TpuGraphs contest's winners and TGraph,
/// arXiv 2405.16623; the factor n keeps the size of what is given whatever number of candidates is compared). Scores
/// then depend on which candidates are ranked together, but not on their order. Parameter: log_temperature, 0 at first.
class CandidateAttention : public torch::nn::Module {
 public:
  CandidateAttention();
  /// x [candidates, columns] → [candidates, 2 columns]. `group_ptr`: as PlanTensors::group_ptr.
  torch::Tensor forward(const torch::Tensor& x, const std::vector<int64_t>& group_ptr) const;
  std::string describe(FormWriter& writer, const std::string& x) const;

 private:
  torch::Tensor log_temperature_;  // [1]
};

}  // namespace foretime::models
