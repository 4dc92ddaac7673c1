/// Draws of resident plans against plans of the drawn candidates alone: scores and gradients in double precision.
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "models/graph/error.h"
#include "models/sparse/resident_plan.h"
#include "plans/plan_source.h"
#include "tests/models/small_models.h"
#include "tests/support/gpu_kernels_on_cpu.h"
#include "tests/support/synthetic_graph.h"

namespace foretime::models {
namespace {

using data::Group;

/// Candidates of a group, in a batch.
using Drawn = std::pair<const Group*, std::vector<int64_t>>;

std::shared_ptr<const ResidentPlan> resident(const CostModel& model, const Group& group,
                                             const PlanTensorOptions& options,
                                             ResidentPlan::Home home = ResidentPlan::Home::device) {
  std::vector<int64_t> all(static_cast<size_t>(group.candidates));
  std::iota(all.begin(), all.end(), 0);
  plans::PlanBuilder builder(model.plan_request());
  builder.add(group, all);
  return std::make_shared<ResidentPlan>(std::move(builder).build(), options, home);
}

/// `homes`: where the plans of groups lie, in turns.
PlanTensors drawn_plan(const CostModel& model, const std::vector<Drawn>& batch, const PlanTensorOptions& options,
                       const std::vector<ResidentPlan::Home>& homes) {
  std::map<const Group*, std::shared_ptr<const ResidentPlan>> plans;
  std::vector<ResidentBatch::Entry> entries;
  for (const auto& [group, candidates] : batch) {
    auto& plan = plans[group];
    if (!plan) plan = resident(model, *group, options, homes[(plans.size() - 1) % homes.size()]);
    entries.push_back({plan, candidates});
  }
  ResidentBatch joined(entries, options);
  gpu::Arena arena(options.device, joined.max_bytes());
  auto result = joined.copy_into(arena);
  result.upload = std::move(joined).join(arena.upload());
  return result;
}

std::vector<torch::Tensor> scores_and_gradients(CostModel& model, const PlanTensors& plan) {
  model.zero_grad();
  torch::Tensor loss;
  std::vector<torch::Tensor> result;
  for (const auto& scores : model.member_scores(plan)) {
    const auto own = (scores * torch::cos(torch::arange(scores.numel(), scores.options()))).sum();
    loss = loss.defined() ? loss + own : own;
    result.push_back(scores.detach());
  }
  loss.backward();
  for (const auto& parameter : model.parameters()) result.push_back(parameter.grad().clone());
  return result;
}

class ResidentPlans : public ::testing::TestWithParam<std::string> {};

TEST_P(ResidentPlans, GiveTheScoresAndGradientsOfTheDrawnCandidates) {
  using P = configs::ReadoutPart;
  auto settings = testing::variant_settings(
      GetParam(),
      {P::mean, P::max, P::normalized_sum, P::configurable_normalized_sum, P::configurable_max, P::decision_sum});
  settings.layers = 2;
  // Of different sizes, and one with so many candidates that rows share sums.
  const auto a = foretime::testing::synthesize_layout_group(
                 {.nodes = 60, .configurable = 12, .candidates = 30, .seed = 1}, "a"),
             b = foretime::testing::synthesize_layout_group(
                 {.nodes = 25, .configurable = 5, .candidates = 400, .seed = 2}, "b"),
             c = foretime::testing::synthesize_layout_group(
                 {.nodes = 200, .configurable = 3, .candidates = 9, .seed = 3}, "c");
  const auto model = testing::fitted_model(settings, {&a, &b, &c});
  auto options = model->plan_tensor_options(torch::kCPU);
  options.dtype = torch::kDouble;
  const std::vector<std::vector<Drawn>> batches = {{{&a, {3, 1, 29, 1}}},
                                                   {{&b, {7, 399, 0}}, {&a, {5, 5, 17}}, {&b, {12}}, {&c, {8, 0, 2}}}};
  for (const auto& batch : batches) {
    using Home = ResidentPlan::Home;
    const auto expected = scores_and_gradients(*model, testing::plan_of(*model, batch)),
               found = scores_and_gradients(*model, drawn_plan(*model, batch, options, {Home::device}));
    ASSERT_EQ(found.size(), expected.size());
    // What lies on the host is brought up, one copy a plan, and changes nothing.
    const auto uploads = gpu::Arena::uploads();
    const auto mixed = drawn_plan(*model, batch, options, {Home::host, Home::device});
    EXPECT_EQ(gpu::Arena::uploads() - uploads, batch.size() == 1 ? 2 : 4);
    const auto of_mixed = scores_and_gradients(*model, mixed);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(of_mixed[i], found[i])) << i;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-9, 1e-11))
          << (i == 0 ? "scores" : model->named_parameters().keys()[i - 1]) << " of a batch of " << batch.size();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Variants, ResidentPlans, ::testing::ValuesIn(testing::variant_names()),
                         [](const auto& info) { return info.param; });

TEST(ResidentPlan, ArePutTogetherByTwoKernelsAtMost) {
  const gpu::GpuKernelsOnCpu on_gpu_kernels;
  const auto a =
      foretime::testing::synthesize_layout_group({.nodes = 60, .configurable = 12, .candidates = 30, .seed = 1}, "a");
  auto settings = testing::variant_settings("gcn", {configs::ReadoutPart::mean});
  const auto model = testing::fitted_model(settings, {&a});
  const auto options = model->plan_tensor_options(torch::kCPU);
  const auto plan = resident(*model, a, options);
  EXPECT_GT(plan->bytes(), 0);
  const std::vector<int64_t> candidates = {1, 2};
  ResidentBatch batch({{plan, candidates}, {plan, candidates}}, options);
  gpu::Arena arena(options.device, batch.max_bytes());
  const int64_t before = gpu::launches();
  batch.copy_into(arena);
  std::move(batch).join(arena.upload());
  EXPECT_LE(gpu::launches() - before, 2);
  EXPECT_LT(arena.used(), plan->bytes()) << "what never changes is copied again";
}

TEST(ResidentPlan, RefusePlansWithoutSharedStates) {
  const auto a =
      foretime::testing::synthesize_layout_group({.nodes = 20, .configurable = 4, .candidates = 6, .seed = 1}, "a");
  auto settings = testing::variant_settings("gcn", {configs::ReadoutPart::mean});
  settings.sharing = configs::StateSharing::none;
  const auto model = testing::fitted_model(settings, {&a});
  EXPECT_THROW(resident(*model, a, model->plan_tensor_options(torch::kCPU)), BrokenInvariant);
}

}  // namespace
}  // namespace foretime::models
