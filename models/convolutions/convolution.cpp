#include "models/convolutions/convolution.h"

#include <utility>

#include <fmt/format.h>

#include "models/error.h"
#include "models/sparse/csr_ops.h"

namespace foretime::models {
namespace {

/// The parts' parameters are named producers.… and consumers.….
class TwoDirections : public Convolution {
 public:
  TwoDirections(std::shared_ptr<Convolution> producers, std::shared_ptr<Convolution> consumers)
      : producers_(register_module("producers", std::move(producers))),
        consumers_(register_module("consumers", std::move(consumers))) {}

  torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) override {
    const auto part = [&](Convolution& convolution, size_t relation) {
      std::vector<LayerTensors> own;
      for (const auto& hop : hops) own.push_back({{hop.relations[relation]}, hop.self});
      return convolution.forward(states, own, layout, 1.0);
    };
    return activated(part(*producers_, 0) + part(*consumers_, 1), slope);
  }

  std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops, const FormLayout& layout,
                       double slope) const override {
    const auto part = [&](const Convolution& convolution, size_t relation) {
      FormHops own;
      for (const auto& hop : hops) own.push_back({{hop.relations[relation]}, hop.self});
      return convolution.describe(writer, states, own, layout, 1.0);
    };
    const auto producers = part(*producers_, 0);
    return writer.activated(writer.add({producers, part(*consumers_, 1)}), slope);
  }

 private:
  std::shared_ptr<Convolution> producers_, consumers_;
};

}  // namespace

torch::Tensor own_states(const torch::Tensor& states, const LayerTensors& layer) {
  return layer.self.defined() ? csr_matmul(layer.self, states) : states;
}

torch::Tensor own_states(const torch::Tensor& states, Hops hops) {
  auto x = states;
  for (const auto& hop : hops) x = own_states(x, hop);
  return x;
}

torch::Tensor activated(const torch::Tensor& x, double slope) { return slope == 1.0 ? x : torch::leaky_relu(x, slope); }

int64_t head_width(int64_t width, int64_t heads) {
  if (heads < 1 || width % heads != 0)
    throw ModelError(fmt::format("model.heads: {}, expected a divisor of model.hidden, {}", heads, width));
  return width / heads;
}

ConvolutionSpec in_each_direction(const ConvolutionSpec& spec) {
  auto producers = spec.relations.at(0), consumers = producers;
  producers.direction = plans::Direction::in;
  consumers.direction = plans::Direction::out;
  return {{producers, consumers}, spec.hops, [make = spec.make](int64_t input) {
            // One after the other: the order in which weights are drawn is the parameters'.
            auto first = make(input);
            return std::make_shared<TwoDirections>(std::move(first), make(input));
          }};
}

}  // namespace foretime::models
