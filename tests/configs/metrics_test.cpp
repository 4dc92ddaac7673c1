#include "configs/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/load.h"
#include "tests/support/golden.h"

namespace foretime::configs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// What is said of these settings by whoever trains.
std::string conflict(const std::string& yaml, bool needed = false) {
  return find_metric_conflict(parse_settings(yaml, "test"), needed);
}

TEST(Metrics, UnknownNamesAreRefusedWithTheNearest) {
  for (const auto& [name, nearest] :
       std::vector<std::pair<std::string, std::string>>{{"holdout/mea", "holdout/mae"},
                                                        {"val/mae", "valid/mae"},
                                                        {"test/kendal_tau", "test/kendall_tau"},
                                                        {"kendall_tau", "valid/kendall_tau"},
                                                        {"holdout/tau", "holdout/kendall_tau"},
                                                        {"a/b/mae", "valid/mae"}})
    EXPECT_MESSAGE(metric_name_fault(name), name, nearest);
  // What is like none of them gets no suggestion.
  for (const std::string name : {"val_loss", "valid/noise_ceiling_tau", "valid/seconds", "/"})
    EXPECT_THAT(metric_name_fault(name), AllOf(HasSubstr("found " + name), Not(HasSubstr("did you mean"))));
  for (const char* name : {"holdout/mae", "valid/top5_score", "test/contest_score"})
    EXPECT_THAT(metric_name_fault(name), IsEmpty());
}

TEST(Metrics, OneThatIsNotMeasuredIsAConflictUnlessItIsTheDefault) {
  EXPECT_MESSAGE(conflict("trainer: {metric: valid/opa}"));
  EXPECT_MESSAGE(conflict("trainer: {metric: test/opa}"));
  EXPECT_THAT(conflict("trainer: {metric: holdout/opa}"), HasSubstr("data.holdout is 0"));
  EXPECT_THAT(conflict("{data: {holdout: 0.1}, trainer: {metric: holdout/opa}}"), IsEmpty());
  EXPECT_THAT(conflict("{}"), IsEmpty());
  EXPECT_MESSAGE(metric_warning({}));
  EXPECT_MESSAGE(conflict("{}", /*needed=*/true));
  EXPECT_MESSAGE(conflict("trainer: {early_stop: {patience: 1}, eval_every: 1}"));
  EXPECT_THAT(conflict("data: {valid: [a.npz]}", /*needed=*/true), IsEmpty());
}

TEST(Metrics, ScoresWithoutTieThresholdsAreOfHoldoutAlone) {
  const std::string sets = "data: {holdout: 0.1, test: [a.npz]}";
  const auto trainer = [](const char* set, int thresholds) {
    return fmt::format(", trainer: {{metric: {}/kendall_tau_of_scores, tie_threshold_candidates: {}}}}}", set,
                       thresholds);
  };
  EXPECT_THAT(conflict("{" + sets + trainer("holdout", 100)), IsEmpty());
  EXPECT_THAT(conflict("{" + sets + trainer("holdout", 0)), HasSubstr("choose holdout/kendall_tau"));
  EXPECT_THAT(conflict("{" + sets + trainer("test", 100)), HasSubstr("choose test/kendall_tau"));
}

TEST(Metrics, ErrorsNeedALossThatPredictsRunTimes) {
  const std::string data = "data: {valid: [a.npz]}";
  for (const char* loss : {"listmle", "pairwise_hinge", "pairwise_logistic"})
    EXPECT_THAT(conflict("{" + data + ", trainer: {metric: valid/mape}, loss: {type: " + loss + "}}"),
                HasSubstr("set loss.huber_weight above 0"));
  EXPECT_THAT(conflict("{" + data + ", trainer: {metric: valid/mape}, loss: {huber_weight: 0.1}}"), IsEmpty());
  EXPECT_THAT(conflict("{" + data + ", trainer: {metric: valid/mape}, loss: {type: l1}}"), IsEmpty());
}

TEST(Metrics, TheGoalIsTheMetricsOwn) {
  const auto goal = [](const std::string& metric, const std::string& word) {
    return parse_settings(
        "{data: {valid: [a.npz]}, loss: {type: huber}, trainer: {metric: " + metric + ", metric_goal: " + word + "}}",
        "test");
  };
  EXPECT_FALSE(maximizes(goal("valid/mae", "auto").trainer));
  EXPECT_TRUE(maximizes(goal("valid/opa", "auto").trainer));
  EXPECT_TRUE(maximizes(goal("valid/mae", "maximize").trainer));
  EXPECT_MESSAGE(find_metric_conflict(goal("valid/mae", "maximize"), false), "trainer.metric_goal");
  EXPECT_MESSAGE(find_metric_conflict(goal("valid/opa", "minimize"), false));
  EXPECT_THAT(find_metric_conflict(goal("valid/opa", "maximize"), false), IsEmpty());
}

}  // namespace
}  // namespace foretime::configs
