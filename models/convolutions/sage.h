#pragma once

#include <string>

#include "models/convolutions/convolution.h"

namespace foretime::models {

enum class Aggregation { mean, sum, max };

/// GraphSAGE (Hamilton et al., arXiv 1706.02216). Neighbours' states x are aggregated by their mean, sum or maximum
/// (0 for a node without neighbours), producers and consumers apart,
///   W_self x + W_in agg(x of producers) + W_out agg(x of consumers) + b,
/// or both together, as TpuGraphs' EarlyJoinSAGE does: W_self x + W agg(x of neighbours) + b.
/// Parameters: own.weight, own.bias, and producers.weight and consumers.weight, or neighbours.weight.
class SageConvolution : public Convolution {
 public:
  SageConvolution(int64_t input, int64_t output, Aggregation aggregation, bool apart);
  static std::vector<plans::RelationSpec> relations(Aggregation aggregation, bool apart);
  torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) override;
  std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops, const FormLayout& layout,
                       double slope) const override;

 private:
  Aggregation aggregation_;
  torch::nn::Linear own_{nullptr};
  std::vector<torch::nn::Linear> others_;  // one for each relation
};

/// Throws ModelError for another name than mean, sum or max.
Aggregation aggregation_named(const std::string& name);

}  // namespace foretime::models
