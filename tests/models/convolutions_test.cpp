#include <gtest/gtest.h>

#include "models/autograd/run.h"
#include "models/convolutions/convolution.h"
#include "models/model.h"
#include "tests/data/groups.h"
#include "tests/support/gradcheck.h"

/// Convolutions alone, with widths that make them multiply by their weights first, and after the sum.
namespace foretime::models {
namespace {

struct TestWidths {
  int64_t input, output;
};
constexpr TestWidths kWidths[] = {{9, 2}, {5, 5}, {2, 9}};

/// A convolution alone: it takes the node features for states, from one level of a small graph to the next.
class Alone {
 public:
  Alone(MakeConvolution* make, int64_t input, int64_t output, double slope) {
    settings_.hidden = output;
    const auto convolution = make(settings_, {});
    GraphBuilder builder;
    builder.provide_features(input);
    Messages messages{.states = inference::kNodeFeatures, .slope = slope};
    messages.hops.push_back({{}, {MatrixRef::Kind::self}});
    for (int32_t r = 0; r < static_cast<int32_t>(convolution.relations.size()); ++r)
      messages.hops[0].relations.push_back({MatrixRef::Kind::relation, 0, r});
    result_ = convolution.build(builder, messages);
    builder.begin_score(result_);
    model_.graph = builder.finish({.layers = 1, .relations = convolution.relations}, inference::kEmbedded);
    model_.tensors = builder.tensors();
    for (const auto& spec : model_.tensors)
      tensors[spec.name] = torch::randn(spec.shape, torch::kDouble).requires_grad_(true);
    graph_ = std::make_unique<AutogradGraph>(model_, tensors, input);
    const auto group = testing::make_group(data::CandidateKind::program, "a", 21);
    plans::PlanBuilder plan(model_.graph.request);
    plan.add(group, std::vector<int64_t>{0, 1, 2});
    plan_ = to_tensors(std::move(plan).build(), {.dtype = torch::kDouble});
    plan_.node_features = torch::randn({relation(0).cols, input}, torch::kDouble).requires_grad_(true);
  }
  const CsrTensor& relation(size_t r) const { return plan_.layers.at(0)->relations.at(r); }
  const torch::Tensor& states() const { return plan_.node_features; }
  torch::Tensor forward() const {
    AutogradMatrices matrices(plan_, model_, true);
    return graph_->embed(&plan_, &matrices, {result_}).front();
  }

  std::map<std::string, torch::Tensor> tensors;

 private:
  configs::ModelSettings settings_;
  ModelGraph model_;
  Value result_;
  std::unique_ptr<AutogradGraph> graph_;
  PlanTensors plan_;
};

torch::Tensor dense_of(const CsrTensor& matrix) {
  auto dense = torch::zeros({matrix.rows, matrix.cols}, torch::kDouble);
  const auto row_ptr = matrix.row_ptr.to(torch::kLong);
  const auto* first = row_ptr.data_ptr<int64_t>();
  for (int64_t r = 0; r < matrix.rows; ++r) {
    for (int64_t e = first[r]; e < first[r + 1]; ++e) {
      dense[r][matrix.columns[e].item<int64_t>()] +=
          matrix.values.defined() ? matrix.values[e] : torch::ones({}, torch::kDouble);
    }
  }
  return dense;
}

/// `definition`: what the convolution gives before its activation.
void expect_definition(MakeConvolution* make, torch::Tensor (*definition)(const Alone& alone)) {
  torch::manual_seed(1);
  for (const auto& [input, output] : kWidths) {
    for (const double slope : {1.0, 0.1}) {
      const Alone alone(make, input, output, slope);
      const auto sum = definition(alone);
      const auto expected = torch::where(sum > 0, sum, sum * slope).detach(), found = alone.forward();
      EXPECT_TRUE(torch::allclose(found, expected, 1e-10, 1e-12)) << " slope " << slope;
      const auto weights = torch::cos(torch::arange(found.numel(), torch::kDouble)).view_as(found);
      std::vector<std::pair<std::string, torch::Tensor>> leaves = {{"states", alone.states()}};
      for (const auto& item : alone.tensors) leaves.emplace_back(item.first, item.second);
      testing::expect_gradients([&] { return (alone.forward() * weights).sum(); }, leaves, 1e-5);
    }
  }
}

TEST(GcnConvolution, EqualsItsDefinitionInEitherOrder) {
  expect_definition(gcn, [](const Alone& alone) {
    const auto& t = alone.tensors;
    return dense_of(alone.relation(0)).matmul(alone.states()).matmul(t.at("linear.weight").t()) + t.at("linear.bias");
  });
}

TEST(SageConvolution, EqualsItsDefinitionInEitherOrder) {
  expect_definition(sage, [](const Alone& alone) {
    const auto& t = alone.tensors;
    const auto in = dense_of(alone.relation(0)), out = dense_of(alone.relation(1));
    const auto& states = alone.states();
    return states.matmul(t.at("own.weight").t()) + t.at("own.bias") +
           in.matmul(states).matmul(t.at("producers.weight").t()) +
           out.matmul(states).matmul(t.at("consumers.weight").t());
  });
}

}  // namespace
}  // namespace foretime::models
