#include <memory>
#include <set>
#include <string>
#include <utility>

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "models/autograd/autocast.h"
#include "models/losses/losses.h"
#include "models/model.h"
#include "models/sparse/sparse_ops.h"
#include "tests/worker/samples.h"
#include "tests/worker/training_run.h"

/// Mixed precision against the same model in float32.
namespace foretime::worker {
namespace {

using models::Autocast;

TEST(Autocast, BeginsNestsAndEnds) {
  const auto weight = torch::ones({3, 4}), input = torch::ones({2, 4});
  const auto type = [&] { return torch::linear(input, weight).scalar_type(); };
  {
    const Autocast mixed(torch::kCPU, true);
    EXPECT_EQ(type(), torch::kBFloat16);
    {
      const Autocast full(torch::kCPU, false);
      EXPECT_EQ(type(), torch::kFloat);
    }
    EXPECT_EQ(type(), torch::kBFloat16);
  }
  EXPECT_EQ(type(), torch::kFloat);
  EXPECT_THROW(Autocast(torch::Device("meta"), true), models::ModelError);
}

TEST(Autocast, SeesTheWeightsOfTheLastStep) {
  auto weight = torch::ones({3, 4}).requires_grad_();
  const auto input = torch::ones({2, 4});
  const auto first_output = [&] {
    const Autocast mixed(torch::kCPU, true);
    return torch::linear(input, weight)[0][0].item<float>();
  };
  EXPECT_EQ(first_output(), 4.0f);
  {
    const torch::NoGradGuard no_grad;
    weight.fill_(2.0);
  }
  EXPECT_EQ(first_output(), 8.0f);
}

/// [[1, 2], [0, 3], [0, 0]] with its transpose.
models::CsrTensor matrix() {
  models::CsrTensor m;
  m.rows = 3;
  m.cols = 2;
  m.row_ptr = torch::tensor({0, 2, 3, 3}, models::row_ptr_type_on(torch::kCPU));
  m.columns = torch::tensor({0, 1, 1}, torch::kInt);
  m.values = torch::tensor({1.0f, 2.0f, 3.0f});
  m.transposed_row_ptr = torch::tensor({0, 1, 3}, models::row_ptr_type_on(torch::kCPU));
  m.transposed_columns = torch::tensor({0, 0, 1}, torch::kInt);
  m.transposed_values = torch::tensor({1.0f, 2.0f, 3.0f});
  return m;
}

TEST(Autocast, SparseSumsOfBfloat16AreThoseOfFloat32) {
  const auto m = matrix();
  models::CsrTensor gather;
  gather.rows = 4;
  gather.cols = 2;
  gather.columns = torch::tensor({1, 0, 1, 1}, torch::kInt);
  gather.transposed_row_ptr = torch::tensor({0, 1, 4}, models::row_ptr_type_on(torch::kCPU));
  gather.transposed_columns = torch::tensor({1, 0, 2, 3}, torch::kInt);
  const std::vector<std::function<torch::Tensor(const torch::Tensor&)>> operations = {
      [&](const auto& x) { return models::csr_matmul(m, x); }, [&](const auto& x) { return models::csr_max(m, x); },
      [&](const auto& x) { return models::csr_matmul(gather, x); }};
  for (const auto& operation : operations) {
    auto half = torch::sin(torch::arange(10.0)).view({2, 5}).to(torch::kBFloat16).requires_grad_();
    auto full = half.detach().to(torch::kFloat).requires_grad_();
    const auto from_half = operation(half), from_full = operation(full);
    EXPECT_EQ(from_half.scalar_type(), torch::kFloat);
    EXPECT_TRUE(torch::equal(from_half, from_full));
    from_half.square().sum().backward();
    from_full.square().sum().backward();
    EXPECT_EQ(half.grad().scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(torch::equal(half.grad(), full.grad().to(torch::kBFloat16)));
  }
}

TEST(Autocast, ModelsScoreAndLearnNearlyAsInFloat32) {
  const testing::RunParts run(testing::sample_settings(), 1);
  for (const std::string type : {"mlp", "gcn", "sage"}) {
    auto settings = run.settings.model;
    settings.type = configs::choice_named<configs::ModelType>(type).value();
    settings.readout = {configs::ReadoutPart::mean, configs::ReadoutPart::sum, configs::ReadoutPart::max};
    torch::manual_seed(3);
    const auto& group = run.store.get(0).group;
    const auto model = models::make_model(
        settings, {data::CandidateKind::program, group.graphs.feature_count, group.graphs.node_type_count});
    plans::PlanBuilder builder(model->plan_request());
    const std::vector<int64_t> candidates = {0, 1, 2, 3, 4, 5, 6, 7};
    builder.add(group, candidates);
    const auto plan = models::to_tensors(std::move(builder).build());
    std::vector<std::pair<torch::Tensor, std::vector<torch::Tensor>>> results;
    for (const bool mixed : {false, true}) {
      model->zero_grad();
      torch::Tensor scores;
      {
        const Autocast precision(torch::kCPU, mixed);
        scores = model->score(plan);
      }
      EXPECT_EQ(scores.scalar_type(), torch::kFloat) << type;
      scores.square().sum().backward();
      std::vector<torch::Tensor> gradients;
      for (const auto& parameter : model->parameters()) {
        EXPECT_EQ(parameter.scalar_type(), torch::kFloat) << type;
        EXPECT_EQ(parameter.grad().scalar_type(), torch::kFloat) << type;
        gradients.push_back(parameter.grad().flatten().clone());
      }
      results.emplace_back(scores.detach(), gradients);
    }
    const auto distance = [](const torch::Tensor& a, const torch::Tensor& b) {
      return ((a - b).norm() / a.norm()).item<double>();
    };
    const double scores = distance(results[0].first, results[1].first),
                 gradients = distance(torch::cat(results[0].second), torch::cat(results[1].second));
    EXPECT_LT(scores, 0.03) << type;
    EXPECT_LT(gradients, 0.15) << type;  // 0.05 with AVX-512, 0.09 where sums of products are rounded as well
    EXPECT_GT(scores, 1e-6) << type << ": nothing was rounded";
  }
}

class Tf32Training : public testing::RunTest {};

TEST_F(Tf32Training, IsAllowedInStepsAlone) {
  // By what LibTorch is allowed at each dense product: true in forward and backward, false in evaluations.
  static std::set<bool> seen;
  const auto allowed_in = [&](configs::Precision precision, const std::string& name) {
    auto settings = testing::sample_settings();
    settings.trainer.steps = 2;
    settings.trainer.precision = precision;
    seen.clear();
    const auto handle = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
          const std::string operation = function.name();
          if (operation == "aten::mm" || operation == "aten::addmm") seen.insert(at::globalContext().allowTF32CuBLAS());
          return nullptr;
        }));
    const auto weights = train(settings, 1, name).weights();
    at::removeCallback(handle);
    return std::pair(seen, weights);
  };
  const auto [plain, weights] = allowed_in(configs::Precision::float32, "float32");
  const auto [rounded, same] = allowed_in(configs::Precision::tf32, "tf32");
  EXPECT_EQ(plain, std::set<bool>{false});
  EXPECT_EQ(rounded, (std::set<bool>{false, true}));
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  EXPECT_TRUE(weights == same) << "a CPU has no such products";
}

}  // namespace
}  // namespace foretime::worker
