#include <string>

#include <gtest/gtest.h>

#include "data/dataset/group_files.h"
#include "models/model.h"
#include "tests/models/small_models.h"
#include "tests/support/paths.h"

namespace foretime::models {
namespace {

/// Fitted to the first group alone, so that the others leave its range, an untrained model scores all groups finitely.
void expect_finite_scores(const std::string& pattern, data::CandidateKind kind, const std::string& transform) {
  constexpr int64_t kMostCodes = 4'000'000;  // larger groups take long to read
  const auto headers = data::list_groups({pattern}, testing::data_dir(), kind);
  std::shared_ptr<CostModel> model;
  for (const auto& header : headers) {
    if (header.candidates * header.configurable > kMostCodes) continue;
    const auto group = data::load_group(header);
    if (!model) {
      configs::ModelSettings settings;
      settings.features.transform = configs::choice_named<configs::FeatureTransform>(transform).value();
      if (kind == data::CandidateKind::tile) settings.readout = {configs::ReadoutPart::sum, configs::ReadoutPart::max};
      model = testing::fitted_model(settings, {&group});
      model->to(torch::kFloat);
      model->eval();
    }
    const torch::NoGradGuard no_gradient;
    const auto scores = model->score(testing::plan_of(*model, {{&group, {0, group.candidates - 1}}}, torch::kFloat));
    EXPECT_TRUE(torch::isfinite(scores).all().item<bool>()) << header.file << ' ' << transform << ": " << scores;
  }
  EXPECT_TRUE(model) << "no group was small enough";
}

TEST(RealData, UntrainedModelsScoreLayoutsFinitely) {
  FORETIME_NEEDS_DATA();
  for (const auto* transform : {"minmax", "zscore"}) {
    expect_finite_scores("tpugraphs/npz/layout/xla/default", data::CandidateKind::layout, transform);
  }
}

TEST(RealData, UntrainedModelsScoreTilesFinitely) {
  FORETIME_NEEDS_DATA();
  for (const auto* transform : {"minmax", "zscore"}) {
    expect_finite_scores("tpugraphs/npz/tile", data::CandidateKind::tile, transform);
  }
}

}  // namespace
}  // namespace foretime::models
