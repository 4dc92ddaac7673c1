#include <cmath>

#include <gtest/gtest.h>

#include "base/check.h"
#include "models/graph/error.h"
#include "models/losses/losses.h"
#include "models/model.h"
#include "models/statistics.h"
#include "tests/data/groups.h"

namespace foretime::models {
namespace {

using data::CandidateKind;

configs::LossSettings loss_settings(const std::string& target, double scale = 1.0) {
  configs::LossSettings settings;
  settings.target = configs::choice_named<configs::LossTarget>(target).value();
  settings.target_scale = scale;
  return settings;
}

TEST(TargetTransform, HandComputedValuesAndInverses) {
  auto runtime = TargetTransform::from(loss_settings("runtime", 1e-7));
  EXPECT_DOUBLE_EQ(runtime.to_target(3e7, 0), 3.0);
  const auto per_flop = TargetTransform::from(loss_settings("log_runtime_per_flop"));
  EXPECT_NEAR(per_flop.to_target(std::exp(2.0), std::exp(5.0)), -3.0, 1e-12);
  for (const auto* target : {"runtime", "log_runtime", "log_runtime_per_flop"}) {
    auto transform = TargetTransform::from(loss_settings(target, 0.5));
    transform.mean = 0.25;
    transform.deviation = 3.0;
    EXPECT_NEAR(transform.to_runtime(transform.to_target(7.5, 11.0), 11.0), 7.5, 1e-12) << target;
    EXPECT_LT(transform.to_target(7.0, 11.0), transform.to_target(7.5, 11.0)) << target;
  }
}

TEST(TargetTransform, RefusesWhatHasNoLogarithm) {
  EXPECT_THROW(TargetTransform::from(loss_settings("log_runtime")).to_target(0.0, 1.0), ModelError);
  const auto per_flop = TargetTransform::from(loss_settings("log_runtime_per_flop"));
  EXPECT_THROW(per_flop.to_target(1.0, 0.0), ModelError);
  const auto tile = testing::make_group(CandidateKind::tile, "kernel", 1);
  EXPECT_THROW(per_flop.targets(tile, {0}), ModelError) << "no flop counts";
}

TEST(TargetStatistics, StandardisesAndSumsOverParts) {
  const auto a = testing::make_group(CandidateKind::program, "a", 1);
  const auto b = testing::make_group(CandidateKind::program, "b", 2);
  const auto transform = TargetTransform::from(loss_settings("log_runtime"));
  TargetStatistics whole(transform), left(transform), right(transform);
  whole.add(a, {0, 1, 2, 3, 4});
  whole.add(b, {0, 1, 2});
  left.add(a, {0, 1, 2, 3, 4});
  right.add(b, {0, 1, 2});
  left.sums().add_(right.sums());
  const auto fitted = whole.fit();
  const auto targets = torch::cat({fitted.targets(a, {0, 1, 2, 3, 4}), fitted.targets(b, {0, 1, 2})});
  EXPECT_NEAR(targets.mean().item<double>(), 0.0, 1e-12);
  EXPECT_NEAR(targets.square().mean().item<double>(), 1.0, 1e-12);
  EXPECT_NEAR(left.fit().mean, fitted.mean, 1e-12);
  EXPECT_NEAR(left.fit().deviation, fitted.deviation, 1e-12);
  EXPECT_THROW(TargetStatistics(transform).fit(), ModelError);

  TargetStatistics same(transform);
  same.add(a, {2, 2, 2});
  EXPECT_DOUBLE_EQ(same.fit().deviation, 1.0);

  // Small is not equal.
  TargetStatistics small(TargetTransform::from(loss_settings("runtime", 1e-12)));
  small.add(a, {0, 1, 2, 3, 4});
  EXPECT_NEAR(small.fit().targets(a, {0, 1, 2, 3, 4}).square().mean().item<double>(), 1.0, 1e-9);

  TargetStatistics one(transform);
  one.add(a, {2});
  EXPECT_DOUBLE_EQ(one.fit().mean, transform.targets(a, {2}).item<double>());
  EXPECT_DOUBLE_EQ(one.fit().deviation, 1.0);
}

TEST(StatisticsAccumulator, EqualsDirectComputationAndReducesOverParts) {
  const auto a = testing::make_group(CandidateKind::tile, "a", 3);
  const auto b = testing::make_group(CandidateKind::tile, "b", 4);
  const InputSchema schema{CandidateKind::tile, 3, 7};
  const auto rows = [](const Array<float>& values, int64_t columns) {
    return torch::tensor(std::vector<float>(values.begin(), values.end())).to(torch::kDouble).view({-1, columns});
  };
  for (const bool log : {false, true}) {
    StatisticsAccumulator left(schema, log), right(schema, log), empty(schema, log);
    left.add(a);
    right.add(b);
    for (auto* other : {&right, &empty}) {
      left.sums().add_(other->sums());
      left.minima().copy_(torch::minimum(left.minima(), other->minima()));
      left.maxima().copy_(torch::maximum(left.maxima(), other->maxima()));
    }
    const auto found = left.finish();
    auto nodes = torch::cat({rows(a.graphs.node_features, 3), rows(b.graphs.node_features, 3)});
    auto tiles = torch::cat({rows(a.tile_features, 24), rows(b.tile_features, 24)});
    if (log) nodes = torch::sign(nodes) * torch::log1p(nodes.abs()), tiles = torch::log1p(tiles);
    EXPECT_TRUE(torch::equal(found.minimum, nodes.amin(0)));
    EXPECT_TRUE(torch::equal(found.maximum, nodes.amax(0)));
    EXPECT_TRUE(torch::allclose(found.mean, nodes.mean(0)));
    EXPECT_TRUE(torch::allclose(found.deviation, nodes.std(0, /*unbiased=*/false)));
    EXPECT_TRUE(torch::equal(found.candidate_maximum, tiles.amax(0)));
    EXPECT_TRUE(torch::allclose(found.candidate_mean, tiles.mean(0)));
    EXPECT_TRUE(torch::allclose(found.candidate_deviation, tiles.std(0, /*unbiased=*/false)));
    EXPECT_THROW(empty.finish(), ModelError);
  }
  StatisticsAccumulator layouts({CandidateKind::layout, 3, 7}, false);
  EXPECT_THROW(layouts.add(a), BrokenInvariant);
}

/// Of a model whose only layer sums its transformed features: what it scores of graphs of one node.
TEST(FeatureTransform, ScalesToTheTrainingRangeAndZeroesConstants) {
  const auto x = torch::tensor({{1.0F, 5.0F, 1e12F}, {3.0F, 5.0F, -1e12F}});
  const auto wide = x.to(torch::kDouble);
  const auto fit = [&](const configs::FeatureSettings& features) {
    configs::ModelSettings settings;
    settings.type = configs::ModelType::mlp;
    settings.features = features;
    settings.node_type_embedding = 0;
    settings.readout = {configs::ReadoutPart::sum};
    const auto model = make_model(settings, {CandidateKind::tile, 3, 7});
    model->fit_transform({.minimum = wide.amin(0),
                          .maximum = wide.amax(0),
                          .mean = wide.mean(0),
                          .deviation = wide.std(0, false),
                          .candidate_minimum = torch::zeros({24}, torch::kDouble),
                          .candidate_maximum = torch::ones({24}, torch::kDouble),
                          .candidate_mean = torch::zeros({24}, torch::kDouble),
                          .candidate_deviation = torch::ones({24}, torch::kDouble),
                          .type_vectors = {}});
    const auto buffers = model->named_buffers();
    const auto shaped = features.log ? torch::sign(x) * torch::log1p(x.abs()) : x;
    return (shaped - buffers["encoder.node_features.offset"]) * buffers["encoder.node_features.scale"];
  };
  configs::FeatureSettings features;
  features.transform = configs::FeatureTransform::minmax;
  EXPECT_TRUE(torch::allclose(fit(features), torch::tensor({{0.0F, 0.0F, 1.0F}, {1.0F, 0.0F, 0.0F}})));
  features.transform = configs::FeatureTransform::zscore;
  EXPECT_TRUE(torch::allclose(fit(features), torch::tensor({{-1.0F, 0.0F, 1.0F}, {1.0F, 0.0F, -1.0F}})));
  features.transform = configs::FeatureTransform::none;
  EXPECT_TRUE(torch::equal(fit(features), x));
}

}  // namespace
}  // namespace foretime::models
