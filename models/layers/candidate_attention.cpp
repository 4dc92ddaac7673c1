#include "models/layers/candidate_attention.h"

namespace foretime::models {
namespace {

constexpr double kEpsilon = 1e-5;

}  // namespace

torch::Tensor standardized_in_groups(const torch::Tensor& x, const std::vector<int64_t>& group_ptr) {
  std::vector<torch::Tensor> groups;
  for (size_t g = 0; g + 1 < group_ptr.size(); ++g) {
    const auto own = x.narrow(0, group_ptr[g], group_ptr[g + 1] - group_ptr[g]);
    const auto centered = own - own.mean(0, /*keepdim=*/true);
    groups.push_back(centered * torch::rsqrt(centered.square().mean(0, /*keepdim=*/true) + kEpsilon));
  }
  return torch::cat(groups);
}

std::string describe_standardized(FormWriter& writer, const std::string& x) {
  return writer.emit(
      {.op = "group", .result = {}, .inputs = {x}, .mode = "standardize", .numbers = {{"epsilon", kEpsilon}}});
}

CandidateAttention::CandidateAttention() {
  log_temperature_ = register_parameter("log_temperature", torch::zeros({1}));
}

torch::Tensor CandidateAttention::forward(const torch::Tensor& x, const std::vector<int64_t>& group_ptr) const {
  const auto logits = x * torch::exp(-log_temperature_);
  std::vector<torch::Tensor> attended;
  for (size_t g = 0; g + 1 < group_ptr.size(); ++g) {
    const int64_t first = group_ptr[g], count = group_ptr[g + 1] - first;
    attended.push_back(torch::softmax(logits.narrow(0, first, count), 0) * static_cast<double>(count));
  }
  return torch::cat({x, x * torch::cat(attended)}, 1);
}

std::string CandidateAttention::describe(FormWriter& writer, const std::string& x) const {
  return writer.emit({.op = "group",
                      .result = {},
                      .inputs = {x},
                      .weights = {writer.constant(torch::exp(-log_temperature_))},
                      .mode = "softmax"});
}

}  // namespace foretime::models
