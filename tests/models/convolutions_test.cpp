#include <gtest/gtest.h>

#include "models/convolutions/gcn.h"
#include "models/convolutions/sage.h"
#include "tests/data/groups.h"
#include "tests/support/gradcheck.h"

/// Convolutions alone, with widths that make them multiply by their weights first, and after the sum.
namespace foretime::models {
namespace {

struct Widths {
  int64_t input, output;
};
constexpr Widths kWidths[] = {{9, 2}, {5, 5}, {2, 9}};

/// A layer between the nodes of a small graph, with self loops of its own only where the convolution asks for them.
LayerTensors layer_of(const std::vector<plans::RelationSpec>& relations) {
  const auto group = testing::make_group(data::CandidateKind::program, "a", 21);
  plans::PlanBuilder builder({1, relations});
  builder.add(group, std::vector<int64_t>{0, 1, 2});
  return *to_tensors(std::move(builder).build(), {.dtype = torch::kDouble}).layers.at(0);
}

torch::Tensor dense_of(const CsrTensor& matrix) {
  auto dense = torch::zeros({matrix.rows, matrix.cols}, torch::kDouble);
  const auto* first = matrix.row_ptr.data_ptr<int64_t>();
  for (int64_t r = 0; r < matrix.rows; ++r) {
    for (int64_t e = first[r]; e < first[r + 1]; ++e) {
      dense[r][matrix.columns[e].item<int64_t>()] +=
          matrix.values.defined() ? matrix.values[e] : torch::ones({}, torch::kDouble);
    }
  }
  return dense;
}

void expect_definition(Convolution& convolution, const LayerTensors& layer, const torch::Tensor& states, double slope,
                       const torch::Tensor& expected) {
  const auto found = convolution.forward(states, {&layer, 1}, {}, slope);
  EXPECT_TRUE(torch::allclose(found, expected, 1e-10, 1e-12)) << convolution.name() << " slope " << slope;
  const auto weights = torch::cos(torch::arange(found.numel(), torch::kDouble)).view_as(found);
  std::vector<std::pair<std::string, torch::Tensor>> leaves = {{"states", states}};
  for (const auto& item : convolution.named_parameters()) leaves.emplace_back(item.key(), item.value());
  testing::expect_gradients(
      [&] {
        return (convolution.forward(states, {&layer, 1}, {}, slope) * weights).sum();
      },
      leaves, 1e-5);
}

TEST(GcnConvolution, EqualsItsDefinitionInEitherOrder) {
  torch::manual_seed(1);
  const auto layer = layer_of(GcnConvolution::relations());
  const auto adjacency = dense_of(layer.relations[0]);
  for (const auto& [input, output] : kWidths) {
    GcnConvolution convolution(input, output);
    convolution.to(torch::kDouble);
    const auto states = torch::randn({adjacency.size(1), input}, torch::kDouble).requires_grad_(true);
    const auto values = convolution.named_parameters();
    const auto sum = adjacency.matmul(states).matmul(values["linear.weight"].t()) + values["linear.bias"];
    for (const double slope : {1.0, 0.1})
      expect_definition(convolution, layer, states, slope, torch::where(sum > 0, sum, sum * slope).detach());
  }
}

TEST(SageConvolution, EqualsItsDefinitionInEitherOrder) {
  torch::manual_seed(2);
  const auto layer = layer_of(SageConvolution::relations(Aggregation::mean, true));
  const auto in = dense_of(layer.relations[0]), out = dense_of(layer.relations[1]);
  for (const auto& [input, output] : kWidths) {
    SageConvolution convolution(input, output, Aggregation::mean, true);
    convolution.to(torch::kDouble);
    const auto states = torch::randn({in.size(1), input}, torch::kDouble).requires_grad_(true);
    const auto values = convolution.named_parameters();
    const auto sum = states.matmul(values["own.weight"].t()) + values["own.bias"] +
                     in.matmul(states).matmul(values["producers.weight"].t()) +
                     out.matmul(states).matmul(values["consumers.weight"].t());
    for (const double slope : {1.0, 0.1})
      expect_definition(convolution, layer, states, slope, torch::where(sum > 0, sum, sum * slope).detach());
  }
}

}  // namespace
}  // namespace foretime::models
