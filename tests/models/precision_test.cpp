/// What models compute in float32 although products are in bfloat16.
#include <set>
#include <string>

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "models/autograd/autocast.h"
#include "tests/data/groups.h"
#include "tests/models/small_models.h"

namespace foretime::models {
namespace {

/// Types of what is normed, as LibTorch is asked for it.
std::set<torch::ScalarType>& normed_types() {
  static std::set<torch::ScalarType> types;
  return types;
}

TEST(MixedPrecision, LayerNormsAreInFloat32) {
  const auto group = foretime::testing::make_group(data::CandidateKind::layout, "a", 61);
  auto settings = foretime::testing::variant_settings("gcn", {configs::ReadoutPart::mean});
  settings.norm = configs::Norm::layer;
  const auto model = foretime::testing::fitted_model(settings, {&group});
  model->to(torch::kFloat);
  const auto plan = foretime::testing::plan_of(*model, {{&group, {0, 1, 2}}}, torch::kFloat);
  normed_types().clear();
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        if (std::string(function.name()) == "aten::native_layer_norm")
          normed_types().insert(function.inputs()[0].toTensor().scalar_type());
        return nullptr;
      }).needsInputs(true));
  torch::Tensor scores;
  {
    const Autocast mixed(torch::kCPU, true);
    scores = model->score(plan);
  }
  at::removeCallback(handle);
  EXPECT_EQ(normed_types(), std::set<torch::ScalarType>{torch::kFloat});
  scores.sum().backward();
  for (const auto& parameter : model->parameters()) {
    EXPECT_EQ(parameter.grad().scalar_type(), torch::kFloat);
    EXPECT_TRUE(torch::isfinite(parameter.grad()).all().item<bool>());
  }
}

}  // namespace
}  // namespace foretime::models
