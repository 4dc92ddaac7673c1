#include "models/convolutions/sage.h"

#include <fmt/format.h>

#include "models/convolutions/products.h"
#include "models/error.h"

namespace foretime::models {

SageConvolution::SageConvolution(int64_t input, int64_t output, Aggregation aggregation, bool apart)
    : aggregation_(aggregation), own_(register_module("own", dense_linear(input, output, true))) {
  const auto add = [&](const char* name) {
    others_.push_back(register_module(name, dense_linear(input, output, false)));
  };
  if (apart) {
    add("producers");
    add("consumers");
  } else {
    add("neighbours");
  }
}

std::vector<plans::RelationSpec> SageConvolution::relations(Aggregation aggregation, bool apart) {
  // A maximum does not look at the weights.
  const auto norm = aggregation == Aggregation::mean ? plans::EdgeNorm::mean : plans::EdgeNorm::sum;
  if (!apart) return {{plans::Direction::both, norm, false}};
  return {{plans::Direction::in, norm, false}, {plans::Direction::out, norm, false}};
}

torch::Tensor SageConvolution::forward(const torch::Tensor& states, Hops hops, const StateLayout&, double slope) {
  const LayerTensors& layer = hops[0];
  const auto early = [&](size_t r) { return multiplies_first(layer.relations[r], others_[r]->weight); };
  bool all_early = aggregation_ != Aggregation::max;
  for (size_t r = 0; r < others_.size(); ++r) all_early = all_early && early(r);
  if (all_early) {
    const auto own = torch::linear(states, own_->weight);
    std::vector<CsrTermTensor> terms;
    for (size_t r = 0; r < others_.size(); ++r)
      terms.emplace_back(&layer.relations[r], torch::linear(states, others_[r]->weight));
    if (layer.self.defined()) {
      terms.emplace_back(&layer.self, own);
      return csr_sum(terms, {own_->bias, slope});
    }
    return activated(csr_sum(terms, {own_->bias, 1.0}) + own, slope);
  }
  std::vector<torch::Tensor> inputs = {own_states(states, layer)}, weights = {own_->weight};
  for (size_t r = 0; r < others_.size(); ++r) {
    const CsrTensor& matrix = layer.relations[r];
    inputs.push_back(aggregation_ == Aggregation::max ? csr_max(matrix, states) : csr_matmul(matrix, states));
    weights.push_back(others_[r]->weight);
  }
  return activated(torch::linear(torch::cat(inputs, 1), torch::cat(weights, 1), own_->bias), slope);
}

Aggregation aggregation_named(const std::string& name) {
  if (name == "mean") return Aggregation::mean;
  if (name == "sum") return Aggregation::sum;
  if (name == "max") return Aggregation::max;
  throw ModelError(fmt::format("model.aggregation: '{}', expected mean, sum or max", name));
}

std::string SageConvolution::describe(FormWriter& writer, const std::string& states, const FormHops& hops,
                                      const FormLayout&, double slope) const {
  const FormHop& hop = hops[0];
  const auto own = writer.dense(states, writer.weight(own_->weight));
  std::vector<FormWriter::Term> terms = {{hop.self, own}};
  for (size_t r = 0; r < others_.size(); ++r) {
    const auto weight = writer.weight(others_[r]->weight);
    if (aggregation_ != Aggregation::max) {
      terms.emplace_back(hop.relations[r], writer.dense(states, weight));
      continue;
    }
    const auto largest =
        writer.emit({.op = "csr_max", .result = {}, .inputs = {states}, .matrices = {hop.relations[r]}});
    terms.emplace_back("", writer.dense(largest, weight));
  }
  return writer.csr_sum(terms, writer.weight(own_->bias), slope);
}

}  // namespace foretime::models
