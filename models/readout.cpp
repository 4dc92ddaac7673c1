#include "models/readout.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "models/csr_ops.h"
#include "models/dense.h"
#include "models/error.h"

namespace foretime::models {
namespace {

constexpr std::string_view kConfigurable = "configurable_";

/// Sums over one set of nodes, taken once for all parts that need them.
class Pooled {
 public:
  Pooled(const CsrTensor& matrix, const torch::Tensor& states) : matrix_(matrix), states_(states) {}
  const torch::Tensor& sum() {
    if (!sum_.defined()) sum_ = csr_matmul(matrix_, states_);
    return sum_;
  }
  torch::Tensor mean() { return sum() / csr_row_sums(matrix_).clamp_min(1.0); }
  torch::Tensor max() const { return csr_max(matrix_, states_); }

 private:
  const CsrTensor& matrix_;
  const torch::Tensor& states_;
  torch::Tensor sum_;
};

}  // namespace

Readout::Readout(const std::vector<std::string>& parts, data::CandidateKind kind) {
  if (parts.empty()) throw ModelError("model.readout: empty, expected at least one part");
  for (size_t i = 0; i < parts.size(); ++i) {
    std::string_view name = parts[i];
    if (std::find(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i), name) !=
        parts.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw ModelError(fmt::format("model.readout: '{}' stands there twice", name));
    }
    Part part{};
    part.configurable = name.substr(0, kConfigurable.size()) == kConfigurable;
    if (part.configurable) name.remove_prefix(kConfigurable.size());
    if (name == "mean") {
      part.pooling = Pooling::mean;
    } else if (name == "sum") {
      part.pooling = Pooling::sum;
    } else if (name == "max") {
      part.pooling = Pooling::max;
    } else if (name == "normalized_sum") {
      part.pooling = Pooling::normalized_sum;
    } else {
      throw ModelError(fmt::format(
          "model.readout: '{}', expected mean, sum, max or normalized_sum, or one of these after configurable_",
          parts[i]));
    }
    if (part.configurable && kind != data::CandidateKind::layout) {
      throw ModelError(
          fmt::format("model.readout: '{}' needs configurable nodes, which only layout data have", parts[i]));
    }
    parts_.push_back(part);
  }
}

torch::Tensor Readout::operator()(const torch::Tensor& states, const PlanTensors& plan) const {
  Pooled nodes(plan.readout_nodes, states), configurable(plan.readout_configurable, states);
  std::vector<torch::Tensor> columns;
  for (const Part& part : parts_) {
    Pooled& pooled = part.configurable ? configurable : nodes;
    switch (part.pooling) {
      case Pooling::mean:
        columns.push_back(pooled.mean());
        break;
      case Pooling::sum:
        columns.push_back(pooled.sum());
        break;
      case Pooling::max:
        columns.push_back(pooled.max());
        break;
      case Pooling::normalized_sum:
        columns.push_back(l2_normalized(pooled.sum()));
        break;
    }
  }
  return torch::cat(columns, 1);
}

}  // namespace foretime::models
