#include "coordinator/run_directory.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "configs/load.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::coordinator {
namespace {

configs::Settings settings_in(const std::filesystem::path& folder) {
  configs::Settings settings;
  settings.data.train = {"x.npz"};
  settings.run.directory = (folder / "run").string();
  return settings;
}

TEST(RunDirectory, HoldsTheResolvedSettings) {
  const testing::Scratch scratch;
  const auto settings = settings_in(scratch.path());
  const RunDirectory directory(settings, 7);
  EXPECT_EQ(configs::to_yaml(configs::load_settings(directory.path() / "config.yaml")), configs::to_yaml(settings));
}

TEST(RunDirectory, RefusesAnotherConfigurationAndNamesTheKey) {
  const testing::Scratch scratch;
  auto settings = settings_in(scratch.path());
  { const RunDirectory directory(settings, 7); }
  settings.trainer.steps += 100;  // more steps continue a run
  EXPECT_NO_THROW(RunDirectory(settings, 7));
  settings.model.hidden = 99;
  EXPECT_THAT(foretime::testing::message_of<configs::SettingsError>([&] { RunDirectory(settings, 7); }),
              ::testing::HasSubstr("hidden"));
  settings.run.overwrite = true;
  EXPECT_NO_THROW(RunDirectory(settings, 7));
}

TEST(RunDirectory, RefusesChangedData) {
  const testing::Scratch scratch;
  const auto settings = settings_in(scratch.path());
  { const RunDirectory directory(settings, 7); }
  EXPECT_THROW(RunDirectory(settings, 8), RunError);
}

TEST(RunDirectory, RewindsMetricsToTheCheckpoint) {
  const testing::Scratch scratch;
  RunDirectory directory(settings_in(scratch.path()), 7);
  for (const int64_t step : {1, 2, 3}) directory.append_metrics({{"step", step}});
  directory.rewind_metrics(2);
  EXPECT_EQ(read_file(directory.path() / "metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

}  // namespace
}  // namespace foretime::coordinator
