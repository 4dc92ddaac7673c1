#include <filesystem>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "cli/parsing/commands.h"
#include "configs/load.h"
#include "tests/support/scratch.h"

namespace foretime::cli {
namespace {

/// What `foretime ARGUMENTS` prints; failures leave as exceptions.
std::string output_of(const std::string& arguments) {
  CLI::App app("foretime");
  add_config_command(app);
  app.require_subcommand(1);
  ::testing::internal::CaptureStdout();
  try {
    app.parse(arguments);
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  return ::testing::internal::GetCapturedStdout();
}

class ConfigCommand : public foretime::testing::ScratchTest {
 protected:
  const std::filesystem::path file_ = scratch_.write("settings.yaml", "model: {hidden: 8}\n");
};

TEST_F(ConfigCommand, PrintsTheReference) { EXPECT_EQ(output_of("config --reference"), configs::reference_page()); }

TEST_F(ConfigCommand, PrintsResolvedSettings) {
  configs::Settings expected;
  expected.model.hidden = 8;
  expected.trainer.steps = 3;
  expected.data.train = {"a", "b"};
  EXPECT_EQ(output_of("config " + file_.string() + " trainer.steps=3 data.train=[a,b]"), configs::to_yaml(expected));
}

TEST_F(ConfigCommand, RefusesBadUseAndBadSettings) {
  EXPECT_THROW(output_of("config"), CLI::RequiredError);
  EXPECT_THROW(output_of("config --reference " + file_.string()), CLI::ExcludesError);
  EXPECT_THROW(output_of("config " + file_.string() + " trainer.stpes=3"), configs::SettingsError);
  EXPECT_THROW(output_of("config /nowhere/settings.yaml"), configs::SettingsError);
}

}  // namespace
}  // namespace foretime::cli
