#include "coordinator/run_directory.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "configs/load.h"
#include "coordinator/run_lock.h"
#include "tests/simulation/simulated_files.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::coordinator {
namespace {

class RunDirectoryTest : public ::testing::Test {
 protected:
  RunDirectoryTest() {
    settings.data.train = {"x.npz"};
    settings.run.directory = (scratch.path() / "run").string();
  }
  /// Leaves a run with a checkpoint there.
  void run_once(DataFingerprints data) {
    RunDirectory directory(settings, data);
    directory.checkpoints().commit(1, {{"model.safetensors", "weights"}});
  }
  testing::Scratch scratch;
  configs::Settings settings;
};

TEST_F(RunDirectoryTest, HoldsTheResolvedSettings) {
  const RunDirectory directory(settings, {7, 7});
  EXPECT_EQ(configs::to_yaml(configs::load_settings(directory.path() / "config.yaml")), configs::to_yaml(settings));
}

TEST_F(RunDirectoryTest, RefusesAnotherConfigurationAndNamesTheKey) {
  settings.model.hidden = 16;
  run_once({7, 7});
  settings.trainer.steps += 100;  // more steps continue a run
  EXPECT_FALSE(RunDirectory(settings, {7, 7}).restarts_empty_run());
  settings.model.hidden = 99;
  settings.model.type = configs::ModelType::gat;
  EXPECT_THAT(foretime::testing::message_of<configs::SettingsError>([&] {
                RunDirectory(settings, {7, 7});
              }),
              ::testing::AllOf(::testing::HasSubstr("\n  model.hidden: 16 -> 99\n"),
                               ::testing::HasSubstr("\n  model.gat.heads: unused -> ")));
  settings.run.overwrite = true;
  EXPECT_NO_THROW(RunDirectory(settings, {7, 7}));
}

TEST_F(RunDirectoryTest, BeginsAgainWhereTheRunHasNoCheckpoint) {
  { RunDirectory(settings, {7, 7}).write("metrics.jsonl", "{}\n"); }
  write_file_atomically(scratch.path() / "run/notes.txt", "mine");
  settings.model.hidden = 99;
  EXPECT_TRUE(RunDirectory(settings, {8, 8}).restarts_empty_run());
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "run/metrics.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "run/notes.txt"));
}

TEST_F(RunDirectoryTest, LeavesAConfigYamlThatIsNoRuns) {
  std::filesystem::create_directories(settings.run.directory);
  write_file_atomically(scratch.path() / "run/config.yaml", "trainer: {steps: 3}\n");
  write_file_atomically(scratch.path() / "run/metrics.jsonl", "mine");
  settings.model.hidden = 99;
  EXPECT_THROW(RunDirectory(settings, {7, 7}), configs::SettingsError);
  EXPECT_EQ(files().read(scratch.path() / "run/metrics.jsonl"), "mine");
}

// Promise storage/disk-obstacles: other obstacles to writing in a run's directory are exit code 74: a moved folder, a
// replaced file, a limit of file sizes
TEST_F(RunDirectoryTest, WritesThatFailWhileItIsLockedAreTheStorageFailing) {
  const RunLock lock(settings.run.directory);
  RunDirectory directory(settings, {7, 7});
  directory.append_metrics({{"step", 1}});
  std::filesystem::rename(settings.run.directory, scratch.path() / "gone");
  EXPECT_THROW(directory.append_metrics({{"step", 2}}), StorageError);
  EXPECT_THROW(directory.write("rankings.csv", ""), StorageError);
  EXPECT_THROW(directory.checkpoints().mark_best(1, "valid/mae", 2), StorageError);
  write_file_atomically(settings.run.directory, "a file in its place");
  EXPECT_THROW(directory.append_metrics({{"step", 2}}), StorageError) << "ENOTDIR";
  EXPECT_THROW(directory.checkpoints().commit(1, {}), StorageError);
  // What is only read, and what lies elsewhere, is not.
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const std::exception& error) {
      return exit_code_of(error);
    }
    return 0;
  };
  EXPECT_EQ(code_of([&] { files().read(directory.path() / "config.yaml"); }), kData);
  EXPECT_EQ(code_of([&] { write_file_atomically(scratch.path() / "no/file", ""); }), kData);
  std::filesystem::remove(settings.run.directory);
}

/// A file server may say only at the end that its disk is full.
TEST_F(RunDirectoryTest, MetricsThatAreLostAtTheEndOfTheFileAreAnError) {
  simulation::SimulatedFiles disk;
  const FilesScope scope(disk);
  RunDirectory directory(settings, {7, 7});
  directory.append_metrics({{"step", 1}});
  disk.fail_by(
      [](const char* operation, const auto&, size_t) { return std::string_view(operation) == "close" ? ENOSPC : 0; });
  EXPECT_THROW(directory.append_metrics({{"step", 2}}), StorageError);
}

TEST_F(RunDirectoryTest, DataJsonThatIsNoneIsNamed) {
  run_once({7, 7});
  write_file_atomically(scratch.path() / "run/data.json", "[1]");
  EXPECT_MESSAGE(foretime::testing::message_of<RunError>([&] { RunDirectory(settings, {7, 7}); }), "data.json");
}

TEST_F(RunDirectoryTest, TakesNoFolderThatHoldsFilesOfOthers) {
  const auto path = scratch.path() / "run";
  for (const bool overwrite : {false, true}) {
    settings.run.overwrite = overwrite;
    for (const auto* name : {"config.yaml", "data.json", "metrics.jsonl", "checkpoints", "baselines"}) {
      std::filesystem::remove_all(path);
      std::filesystem::create_directories(path);
      write_file_atomically(path / name, configs::to_yaml(settings));  // without the first line of a run
      write_file_atomically(path / "notes.txt", "mine");
      EXPECT_MESSAGE(foretime::testing::message_of<configs::SettingsError>([&] {
                       RunDirectory(settings, {7, 7});
                     }),
                     name);
      EXPECT_EQ(files().read(path / name), configs::to_yaml(settings));
    }
  }
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  write_file_atomically(path / "notes.txt", "mine");
  EXPECT_NO_THROW(RunDirectory(settings, {7, 7}));
}

TEST_F(RunDirectoryTest, BeginningAnewForgetsWhatTheFormerRunTook) {
  settings.run.overwrite = true;
  { RunDirectory(settings, {7, 7}).write("resources.json", "{}"); }
  write_file_atomically(scratch.path() / "run/notes.txt", "mine");
  const RunDirectory anew(settings, {7, 7});
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "run/resources.json"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "run/notes.txt"));
}

TEST_F(RunDirectoryTest, WhatAKilledProcessHadWrittenAsideIsRemoved) {
  { const RunDirectory directory(settings, {7, 7}); }
  const auto half = scratch.path() / "run" / ("metrics.jsonl.77-0" + std::string(kAsideSuffix));
  const auto mine = scratch.path() / "run" / ("notes.txt.77-0" + std::string(kAsideSuffix));
  for (const auto& file : {half, mine}) write_synced(file, "half");
  const RunDirectory again(settings, {7, 7});
  EXPECT_FALSE(std::filesystem::exists(half));
  EXPECT_TRUE(std::filesystem::exists(mine)) << "not the run's";
}

TEST_F(RunDirectoryTest, RefusesChangedData) {
  run_once({7, 7});
  EXPECT_THROW(RunDirectory(settings, {8, 8}), RunError);
}

TEST_F(RunDirectoryTest, TestGroupsMayBeOthers) {
  run_once({7, 1});
  settings.data.test = {"y.npz"};
  EXPECT_NO_THROW(RunDirectory(settings, {8, 1}));
  EXPECT_THROW(RunDirectory(settings, {8, 2}), RunError);
  settings.data.valid = {"y.npz"};
  EXPECT_THROW(RunDirectory(settings, {8, 1}), configs::SettingsError);
}

TEST_F(RunDirectoryTest, RewindsMetricsToTheCheckpoint) {
  RunDirectory directory(settings, {7, 7});
  for (const int64_t step : {1, 2, 3}) directory.append_metrics({{"step", step}});
  directory.rewind_metrics(2);
  EXPECT_EQ(files().read(directory.path() / "metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(RunDirectoryTest, RewindsMetricsThatSomeoneHasChanged) {
  RunDirectory directory(settings, {7, 7});
  directory.append_metrics({{"step", 1}});
  directory.append_metrics({{"step", "two"}});
  directory.append_metrics({{"note", "without a step"}});
  directory.append_metrics(nlohmann::json::array({3}));
  directory.rewind_metrics(2);
  EXPECT_EQ(files().read(directory.path() / "metrics.jsonl"), "{\"step\":1}\n{\"note\":\"without a step\"}\n");
}

}  // namespace
}  // namespace foretime::coordinator
