// What is left after a loss of power at any moment of a write opens as before it or as after it, never between.

#include "tests/simulation/power_loss.h"

#include <map>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/run_directory.h"
#include "data/dataset/group_files.h"
#include "data/files/packed.h"
#include "inference/bundle/bundle.h"
#include "tests/data/groups.h"
#include "tests/inference/small_models.h"
#include "tests/support/scratch.h"

namespace foretime::simulation {
namespace {

using coordinator::CheckpointStore;
using Contents = std::map<std::string, std::string>;

Contents checkpoint(char letter) {
  return {{"model.safetensors", std::string(3000, letter)}, {"state.json", std::string(200, letter)}};
}

// Promise storage/files-power-loss: after a loss of power, files, checkpoints, exports, bundles and packed collections
// are entirely old or entirely new
TEST(PowerLoss, AFileIsTheOldOneOrTheNewOne) {
  at_every_power_loss(
      [] {
        files().create_folders("/run");
        write_file_atomically("/run/best.json", "old");
      },
      [] {
        AtomicFile file("/run/best.json");
        file.write(std::string(300000, 'n'));
        file.seek(0);
        file.write("new");
        file.commit();
      },
      [](const std::string& where) {
        const auto found = files().read("/run/best.json");
        EXPECT_TRUE(found == "old" || found == "new" + std::string(299997, 'n'))
            << where << ": " << found.size() << " bytes";
      });
}

/// A loss of power in the very first write of a file leaves none, or the whole.
TEST(PowerLoss, ANewFileIsThereWholeOrNotAtAll) {
  at_every_power_loss([] { files().create_folders("/out"); },
                      [] { write_file_atomically("/out/model.foretime", "bundle"); },
                      [](const std::string& where) {
                        if (!files().exists("/out/model.foretime")) return;
                        EXPECT_EQ(files().read("/out/model.foretime"), "bundle") << where;
                      });
}

TEST(PowerLoss, ANewCheckpointLeavesTheOlderOnes) {
  at_every_power_loss(
      [] {
        files().create_folders("/run/checkpoints");
        CheckpointStore store("/run/checkpoints");
        store.commit(10, checkpoint('a'));
        store.mark_best(10, "opa", 0.5);
      },
      [] {
        CheckpointStore store("/run/checkpoints");
        store.commit(20, checkpoint('b'));
        store.mark_best(20, "opa", 0.75);
        store.prune(1, true);
      },
      [](const std::string& where) {
        CheckpointStore store("/run/checkpoints");
        ASSERT_FALSE(store.steps().empty()) << where;
        for (const auto step : store.steps())
          EXPECT_EQ(store.read(step).files, checkpoint(step == 10 ? 'a' : 'b')) << where;
        const auto read = coordinator::read_checkpoint("/run");
        EXPECT_EQ(read.files, checkpoint(read.step == 10 ? 'a' : 'b')) << where;
        // Training goes on over whatever is left.
        store.commit(30, checkpoint('c'));
        EXPECT_EQ(store.read(30).files, checkpoint('c')) << where;
      });
}

/// The names of new folders are names too: a checkpoint that was committed in them must not go with them.
TEST(PowerLoss, AFirstCheckpointInNewFoldersStays) {
  bool committed = false;
  at_every_power_loss([&] { committed = false; },
                      [&] {
                        create_folders_synced("/runs/job/attempt-1");  // as a run makes its directory
                        CheckpointStore("/runs/job/attempt-1/checkpoints").commit(10, checkpoint('a'));
                        committed = true;
                      },
                      [&](const std::string& where) {
                        if (!committed) return;
                        EXPECT_EQ(CheckpointStore("/runs/job/attempt-1/checkpoints").read(10).files, checkpoint('a'))
                            << where;
                      });
  EXPECT_TRUE(committed);
}

// Promise storage/files-power-loss
TEST(PowerLoss, ACheckpointThatIsWrittenAgainIsTheOldOneOrTheNewOne) {
  at_every_power_loss(
      [] {
        files().create_folders("/run/checkpoints");
        CheckpointStore("/run/checkpoints").commit(10, checkpoint('a'));
      },
      [] { CheckpointStore("/run/checkpoints").commit(10, checkpoint('b')); },
      [](const std::string& where) {
        const auto found = CheckpointStore("/run/checkpoints").read(10).files;
        EXPECT_TRUE(found == checkpoint('a') || found == checkpoint('b')) << where;
      });
}

TEST(PowerLoss, AnExportThatReplacesAnotherIsTheOldOneOrTheNewOne) {
  const auto contents = [](char letter) {
    auto files = checkpoint(letter);
    files["config.yaml"] = "run: {}\n";
    return files;
  };
  at_every_power_loss(
      [&] {
        files().create_folders("/out");
        coordinator::write_folder("/out/best", contents('a'));
      },
      [&] { coordinator::write_folder("/out/best", contents('b')); },
      [&](const std::string& where) {
        Contents found;
        for (const auto& path : files().list("/out/best")) found[path.filename().string()] = files().read(path);
        EXPECT_TRUE(found == contents('a') || found == contents('b')) << where << ": " << found.size() << " files";
        coordinator::write_folder("/out/best", contents('c'));  // over whatever is left beside it
        EXPECT_EQ(files().list("/out").size(), 1U) << where;
      });
}

configs::Settings settings_of_run() {
  configs::Settings settings;
  settings.run.directory = "/run";
  return settings;
}

nlohmann::json metrics_of(int64_t step) { return {{"kind", "train"}, {"step", step}, {"loss", 0.5}}; }

/// A run that resumes writes the lines after its checkpoint again; those up to it are there, once and whole.
// Promise storage/checkpoint-metrics: if a checkpoint exists, all metrics up to its step are whole
TEST(PowerLoss, TheMetricsUpToACheckpointAreWholeWhereItIsThere) {
  std::set<int64_t> resumed;
  at_every_power_loss(
      [] {
        files().create_folders("/run");
        coordinator::RunDirectory run(settings_of_run(), {7, 7});
        files().sync_folder("/run");
      },
      [] {
        coordinator::RunDirectory run(settings_of_run(), {7, 7});
        for (int64_t step = 1; step <= 3; ++step) {
          run.append_metrics(metrics_of(step));
          if (step == 2) continue;
          run.sync_metrics();
          run.checkpoints().commit(step, checkpoint('a'));
        }
      },
      [&](const std::string& where) {
        coordinator::RunDirectory run(settings_of_run(), {7, 7});
        const auto steps = run.checkpoints().steps();
        const auto last = steps.empty() ? 0 : steps.back();
        resumed.insert(last);
        run.rewind_metrics(last);
        std::string expected;
        for (int64_t step = 1; step <= last; ++step) expected += metrics_of(step).dump() + "\n";
        EXPECT_EQ(files().exists("/run/metrics.jsonl") ? files().read("/run/metrics.jsonl") : "", expected) << where;
      });
  EXPECT_EQ(resumed, (std::set<int64_t>{0, 1, 3}));
}

TEST(PowerLoss, ABundleThatReplacesAnotherIsTheOldOneOrTheNewOne) {
  const auto bundle = [](const char* name) {
    auto made = inference::testing::trees_bundle();
    made.manifest["name"] = name;
    return made;
  };
  const auto name_there = [](const std::string& where) {
    try {
      return inference::parse_bundle(files().read("/out/model.foretime"), "bundle").manifest.value("name", "");
    } catch (const std::exception& error) {
      return where + ": " + error.what();
    }
  };
  at_every_power_loss(
      [&] {
        files().create_folders("/out");
        inference::write_bundle("/out/model.foretime", bundle("old"));
      },
      [&] { inference::write_bundle("/out/model.foretime", bundle("new")); },
      [&](const std::string& where) {
        const auto found = name_there(where);
        EXPECT_TRUE(found == "old" || found == "new") << found;
      });
}

TEST(PowerLoss, APackedCollectionIsTheOldOneOrTheNewOne) {
  const auto pack = [](uint32_t seed, int groups) {
    data::PackedWriter writer("/data/all.foretime");
    for (int i = 0; i < groups; ++i)
      writer.add(
          foretime::testing::make_group(data::CandidateKind::tile, std::string(1, static_cast<char>('a' + i)), seed));
    writer.finish();
  };
  const foretime::testing::Scratch scratch;
  at_every_power_loss(
      [&] {
        files().create_folders("/data");
        pack(1, 1);
      },
      [&] { pack(2, 2); },
      [&](const std::string& where) {
        const auto real = scratch.path() / "left.foretime";
        foretime::testing::write_text(real, files().read("/data/all.foretime"));
        const auto headers = data::packed_headers(real);
        ASSERT_TRUE(headers.size() == 1 || headers.size() == 2) << where;
        for (const auto& header : headers) data::load_group(header);
      });
}

/// A folder that is removed first leaves none for a moment: this file system shows it.
TEST(PowerLoss, AFolderThatIsRemovedBeforeItIsReplacedIsSeenToBeMissing) {
  std::set<size_t> seen;
  at_every_power_loss([] { coordinator::write_folder("/best", checkpoint('a')); },
                      [] {
                        files().remove("/best");
                        coordinator::write_folder("/best", checkpoint('b'));
                      },
                      [&](const std::string&) { seen.insert(files().list("/best").size()); });
  EXPECT_GT(seen.size(), 1U);
}

/// Without a sync in the right place this file system shows it: the check can fail.
TEST(PowerLoss, AWriteWithoutSyncIsSeenToTear) {
  std::set<std::string> seen;
  at_every_power_loss(
      [] { files().create_folders("/run"); },
      [] {
        const auto file = files().open("/run/aside", Files::Open::replace);
        file->write("whole");
        files().rename("/run/aside", "/run/file");
        files().sync_folder("/run");
      },
      [&](const std::string&) { seen.insert(files().exists("/run/file") ? files().read("/run/file") : "none"); });
  EXPECT_EQ(seen, (std::set<std::string>{"", "none", "wh", "whole"}));
}

// Promise storage/files-half-written: no half-written file stays: a full disk removes it at once, the next run removes
// those of killed processes only
TEST(SimulatedFiles, AFullDiskIsAStorageErrorThatKeepsWhatFits) {
  SimulatedFiles disk;
  disk.set_capacity(10);
  const FilesScope scope(disk);
  EXPECT_THROW(write_file_atomically("/a", "eleven bytes"), StorageError);
  EXPECT_TRUE(disk.contents().empty());  // nothing is left behind to keep it full
  write_file_atomically("/a", "ten bytes.");
  EXPECT_EQ(files().read("/a"), "ten bytes.");
}

}  // namespace
}  // namespace foretime::simulation
