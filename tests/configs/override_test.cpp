#include <ctime>
#include <map>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/fields.h"
#include "configs/load.h"
#include "tests/configs/equal_settings.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::configs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Settings with(const std::vector<std::string>& overrides) { return parse_settings("{}", "run.yaml", overrides); }

std::string override_error(const std::vector<std::string>& overrides, const std::string& yaml = "{}") {
  return foretime::testing::message_of<SettingsError>([&] { parse_settings(yaml, "run.yaml", overrides); });
}

TEST(Overrides, SetAnyType) {
  const Settings settings = with({"optimizer.learning_rate=3e-4", "trainer.steps=7", "model.residual=false",
                                  "trainer.seed=12", " run.directory = runs/a ", "trainer.early_stop.min_delta=0.5"});
  EXPECT_EQ(settings.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(settings.trainer.steps, 7);
  EXPECT_FALSE(settings.model.residual);
  EXPECT_EQ(settings.trainer.seed, 12u);
  EXPECT_EQ(settings.run.directory, "runs/a");
  EXPECT_EQ(settings.trainer.early_stop.min_delta, 0.5);
}

TEST(Overrides, ReadLists) {
  EXPECT_THAT(with({"data.train=[a,b]"}).data.train, ElementsAre("a", "b"));
  EXPECT_THAT(with({"data.train=[\"a, b\", 'c']"}).data.train, ElementsAre("a, b", "c"));
  EXPECT_THAT(with({"data.train=[]"}).data.train, IsEmpty());
  EXPECT_THAT(with({"data.train=samples/a.npz"}).data.train, ElementsAre("samples/a.npz"));
}

TEST(Overrides, TakeUnquotedTextAsItStands) {
  EXPECT_THAT(with({"data.train=*.npz"}).data.train, ElementsAre("*.npz"));
  EXPECT_EQ(with({"run.directory=runs/a: b # c=d"}).run.directory, "runs/a: b # c=d");
  EXPECT_EQ(with({"data.eval_indices="}).data.eval_indices, "");
  EXPECT_EQ(with({"data.eval_indices=\"x\\ty\""}).data.eval_indices, "x\ty");
}

TEST(Overrides, TheLastOneWinsAndBoundsAreCheckedAtTheEnd) {
  EXPECT_EQ(with({"trainer.steps=0", "trainer.steps=9"}).trainer.steps, 9);
  EXPECT_EQ(parse_settings("trainer: {steps: -1}", "run.yaml", {"trainer.steps=4"}).trainer.steps, 4);
}

TEST(Overrides, ReplaceWholeSections) {
  const Settings settings = with({"optimizer={type: adamw, beta1: 0.5}"});
  EXPECT_EQ(settings.optimizer.type, OptimizerType::adamw);
  EXPECT_EQ(settings.optimizer.beta1, 0.5);
}

TEST(Overrides, ErrorsNameTheOverride) {
  EXPECT_MESSAGE(override_error({"optimizer.learning_rate=-1"}),
                 "override optimizer.learning_rate=-1: optimizer.learning_rate");
  EXPECT_MESSAGE(override_error({"trainer.steps=1.5"}), "override trainer.steps=1.5: trainer.steps");
  EXPECT_MESSAGE(override_error({"trainer.steps=[1]"}), "override trainer.steps=[1]: trainer.steps");
  EXPECT_MESSAGE(override_error({"trainer.steps="}), "override trainer.steps=: trainer.steps");
  EXPECT_MESSAGE(override_error({"trainer.stpes=3"}), "override trainer.stpes=3: trainer.stpes");
  EXPECT_MESSAGE(override_error({"trainer.steps"}), "override trainer.steps");
  EXPECT_THAT(override_error({"=3"}), HasSubstr("found no key=value"));
  EXPECT_MESSAGE(override_error({"trainer=3"}));
  EXPECT_MESSAGE(override_error({"data.train=[a"}));
  EXPECT_MESSAGE(override_error({"optimizer={typ: adam}"}));
}

TEST(Overrides, AFixInTheWrongPlaceStillNamesTheFile) {
  EXPECT_EQ(override_error({"trainer.steps=4"}, "\nmodel: {hidden: 0}"),
            "run.yaml:2: model.hidden: found 0, expected >= 1");
}

TEST(ApplyOverride, SetsOneKey) {
  Settings settings;
  apply_override(settings, "data.train", "[a, b]");
  apply_override(settings, "sampler.candidates_per_group", "1");
  EXPECT_THAT(settings.data.train, ElementsAre("a", "b"));
  EXPECT_EQ(settings.sampler.candidates_per_group, 1);
}

TEST(ApplyOverride, LeavesTheSettingsAloneOnFailure) {
  Settings settings;
  EXPECT_THROW(apply_override(settings, "optimizer.learning_rate", "-1"), SettingsError);
  EXPECT_THROW(apply_override(settings, "optimizer.learning_rates", "1"), SettingsError);
  EXPECT_THROW(apply_override(settings, "optimizer={type: adamw, beta1: 2}", "1"), SettingsError);
  expect_equal(settings, Settings());
}

using Values = std::map<std::string, std::string>;

/// The settings, or why they are refused: by the slow, obvious way.
std::string by_apply_override(const Settings& base, const Values& values) {
  try {
    Settings settings = base;
    for (const auto& [key, value] : values) apply_override(settings, key, value);
    return to_yaml(settings);
  } catch (const SettingsError& error) {
    return error.what();
  }
}

std::string by_variation(Variation& variation, const Values& values) {
  try {
    variation.reset();
    for (const auto& [key, value] : values) variation.set(key, value);
    return to_yaml(variation.settings());
  } catch (const SettingsError& error) {
    return error.what();
  }
}

TEST(Variation, DoesWhatApplyOverrideDoes) {
  Settings base;
  base.trainer.steps = 7;
  base.data.train = {"a"};
  Variation variation(base);
  Settings scratch;
  const auto list = list_fields(scratch);
  std::mt19937 random(5);
  const std::vector<std::string> words = {"1",  "0", "-1",   "0.5", "adamw", "true", "[a, b]",
                                          "[1", "",  "  3 ", "'x'", "1e400", "gcn"};
  for (int round = 0; round < 3000; ++round) {
    Values values;
    for (int i = 0; i < 3; ++i) {
      const auto& field = list.fields[random() % list.fields.size()];
      values[random() % 20 == 0 ? field.key + "s" : field.key] = words[random() % words.size()];
    }
    if (round % 50 == 0) values["optimizer"] = "{type: adamw, beta1: 2}";
    ASSERT_EQ(by_variation(variation, values), by_apply_override(base, values)) << round;
  }
}

TEST(Variation, TakesAFractionOfTheTimeOfApplyOverride) {
  const Settings base;
  Variation variation(base);
  const auto seconds = [](const auto& call) {
    const auto start = std::clock();
    for (int i = 0; i < 500; ++i)
      call("optimizer.learning_rate", fmt::format("{}", 1e-4 * (i + 1))), call("model.hidden", "64");
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;  // of this process
  };
  const double slow = seconds([&](const std::string& key, const std::string& value) {
    Settings settings = base;
    apply_override(settings, key, value);
  });
  const double fast = seconds([&](const std::string& key, const std::string& value) {
    variation.reset();
    variation.set(key, value);
  });
  EXPECT_LT(fast, slow / 4);
}

}  // namespace
}  // namespace foretime::configs
