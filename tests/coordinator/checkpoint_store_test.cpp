#include "coordinator/checkpoint_store.h"

#include <cstring>
#include <fstream>

#include <gmock/gmock.h>

#include "base/atomic_file.h"
#include "tests/simulation/simulated_files.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::coordinator {
namespace {

const std::map<std::string, std::string> kFiles = {{"a.bin", std::string("ab\0cd", 5)}, {"state.json", "{}\n"}};

void flip_byte(const std::filesystem::path& file, int64_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at);
  const auto byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(at);
  stream.put(byte);
}

class Checkpoints : public ::testing::Test {
 protected:
  testing::Scratch scratch;
  CheckpointStore store{scratch.path() / "checkpoints"};
};

TEST_F(Checkpoints, ReadsBackWhatItWrote) {
  EXPECT_TRUE(store.steps().empty());
  store.commit(10, kFiles);
  store.commit(5, kFiles);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{5, 10}));
  EXPECT_EQ(store.read(10).files, kFiles);
  EXPECT_EQ(store.read(10).step, 10);
}

TEST_F(Checkpoints, EqualFilesGiveEqualBytes) {
  CheckpointStore a(scratch.path() / "a"), b(scratch.path() / "b");
  a.commit(1, kFiles);
  b.commit(1, kFiles);
  EXPECT_EQ(files().read(a.folder(1) / "manifest.json"), files().read(b.folder(1) / "manifest.json"));
}

TEST_F(Checkpoints, EveryFlippedByteIsFound) {
  store.commit(1, kFiles);
  for (int64_t at = 0; at < 5; ++at) {
    flip_byte(store.folder(1) / "a.bin", at);
    EXPECT_THAT(foretime::testing::message_of<RunError>([&] { store.read(1); }), ::testing::HasSubstr("a.bin")) << at;
    flip_byte(store.folder(1) / "a.bin", at);
  }
  EXPECT_EQ(store.read(1).files, kFiles);
}

TEST_F(Checkpoints, WhatIsIncompleteIsNotSeen) {
  store.commit(1, kFiles);
  store.commit(2, kFiles);
  std::filesystem::remove(store.folder(2) / "manifest.json");
  std::filesystem::create_directories(scratch.path() / "checkpoints/step-00000003.foretime-tmp");
  EXPECT_EQ(store.steps(), std::vector<int64_t>{1});
  EXPECT_THROW(store.read(2), RunError);
  std::filesystem::remove(store.folder(1) / "state.json");
  EXPECT_THROW(store.read(1), RunError);
}

TEST_F(Checkpoints, AManifestCannotNameFilesElsewhere) {
  store.commit(1, kFiles);
  write_file_atomically(store.folder(1) / "manifest.json",
                        R"({"step": 1, "files": {"../x": {"bytes": 0, "crc32": 0}}})");
  EXPECT_THROW(store.read(1), RunError);
}

TEST_F(Checkpoints, NumbersOfAManifestThatAreNoneOrDoNotFitAreDamage) {
  store.commit(1, kFiles);
  const auto text = files().read(store.folder(1) / "manifest.json");
  for (const auto* number : {"1e300", "-1", "0.5", "99999999999999999999", "null"}) {
    for (const auto* field : {"\"bytes\": ", "\"crc32\": ", "\"step\": "}) {
      auto changed = text;
      const auto at = changed.find(field) + std::strlen(field);
      changed.replace(at, changed.find_first_of(",\n", at) - at, number);
      write_file_atomically(store.folder(1) / "manifest.json", changed);
      EXPECT_THROW(store.read(1), RunError) << field << number;
    }
  }
}

TEST_F(Checkpoints, AManifestOfAnotherStepIsDamage) {
  for (const int64_t step : {1, 2}) store.commit(step, kFiles);
  auto text = files().read(store.folder(2) / "manifest.json");
  text.replace(text.find("\"step\": 2"), 9, "\"step\": 3");
  write_file_atomically(store.folder(2) / "manifest.json", text);
  EXPECT_MESSAGE(foretime::testing::message_of<RunError>([&] { store.read(2); }), "manifest.json");
  EXPECT_EQ(store.read_intact(2, [](const auto&) {}).step, 1);
}

TEST_F(Checkpoints, PruningKeepsTheNewestAndTheBest) {
  for (const int64_t step : {1, 2, 3, 4, 5}) store.commit(step, kFiles);
  store.mark_best(2, "valid/kendall_tau", 0.5);
  store.prune(2, true);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{2, 4, 5}));
  EXPECT_EQ(store.best_step(), 2);
  store.prune(1, false);
  EXPECT_EQ(store.steps(), std::vector<int64_t>{5});
}

// Promise storage/checkpoint-damaged
TEST_F(Checkpoints, WhatIsDamagedIsPassedOverForTheNewestIntactOlderOne) {
  for (const int64_t step : {10, 20, 30, 40}) store.commit(step, kFiles);
  flip_byte(store.folder(40) / "a.bin", 0);
  std::filesystem::remove(store.folder(30) / "state.json");
  std::vector<std::string> said;
  const auto warn = [&](const std::string& what) { said.push_back(what); };
  EXPECT_EQ(store.read_intact(40, warn).step, 20);
  ASSERT_EQ(said.size(), 2U);
  EXPECT_THAT(said[0], ::testing::AllOf(::testing::HasSubstr("step-00000040/a.bin"), ::testing::HasSubstr("CRC-32")));
  EXPECT_THAT(said[1], ::testing::HasSubstr("step-00000030/state.json"));
  EXPECT_EQ(read_intact_checkpoint(store.folder(40), warn).step, 20);
  EXPECT_EQ(read_intact_checkpoint(scratch.path(), warn).step, 20);
  EXPECT_THROW(read_intact_checkpoint(scratch.path() / "nothing", warn), RunError);
  // Pruning must not keep the damaged ones and remove the one that training went on from.
  store.set_aside_after(20);
  store.prune(1, false);
  EXPECT_EQ(store.steps(), std::vector<int64_t>{20});
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "checkpoints/damaged-step-00000040"));
  store.commit(40, kFiles);  // trained anew
  store.prune(2, false);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "checkpoints/damaged-step-00000040"));
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{20, 40}));
}

/// Training must not go back, and set aside what is whole, because a file server was away for a moment.
TEST_F(Checkpoints, WhatIsOutOfReachIsNotPassedOver) {
  simulation::SimulatedFiles disk;
  const FilesScope scope(disk);
  CheckpointStore own("/run/checkpoints");
  files().create_folders("/run/checkpoints");
  for (const int64_t step : {10, 20}) own.commit(step, kFiles);
  for (const int error : {ESTALE, EMFILE, ETIMEDOUT, EIO}) {
    disk.fail_by([&](const char* operation, const std::filesystem::path& path, size_t) {
      const bool newest = path.string().find("step-00000020/a.bin") != std::string::npos;
      return newest && std::string_view(operation) == "read" ? error : 0;
    });
    const auto ignore = [](const auto&) {};
    if (error == EIO) {
      EXPECT_EQ(own.read_intact(20, ignore).step, 10);  // damaged for good
    } else {
      EXPECT_THROW(own.read_intact(20, ignore), UnreachableError);
    }
  }
}

TEST_F(Checkpoints, WhereNoneIsIntactTheFirstDamageIsTheError) {
  for (const int64_t step : {10, 20}) store.commit(step, kFiles);
  for (const int64_t step : {10, 20}) flip_byte(store.folder(step) / "a.bin", 0);
  EXPECT_THAT(foretime::testing::message_of<RunError>([&] { store.read_intact(20, [](const auto&) {}); }),
              ::testing::HasSubstr("step-00000020"));
}

/// A disk that fails is what the user must mend; training anew would not help.
TEST_F(Checkpoints, WhereNoneIsIntactTheDiskThatFailedFirstIsTheError) {
  simulation::SimulatedFiles disk;
  const FilesScope scope(disk);
  CheckpointStore own("/run/checkpoints");
  files().create_folders("/run/checkpoints");
  for (const int64_t step : {10, 20, 30}) own.commit(step, kFiles);
  files().remove(own.folder(30) / "state.json");
  disk.fail_by([&](const char* operation, const std::filesystem::path& path, size_t) {
    const bool fails = path.filename() == "a.bin" && path.string().find("step-00000030") == std::string::npos;
    return fails && std::string_view(operation) == "read" ? EIO : 0;
  });
  EXPECT_THAT(foretime::testing::message_of<StorageError>([&] { own.read_intact(30, [](const auto&) {}); }),
              ::testing::HasSubstr("step-00000020"));
}

TEST_F(Checkpoints, WhatIsDamagedStaysWhereNothingElseIsThere) {
  store.commit(10, kFiles);
  store.set_aside_after(5);
  std::ofstream(scratch.path() / "checkpoints/note") << "somebody's";
  store.prune(1, false);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "checkpoints/damaged-step-00000010"));
  store.commit(5, kFiles);
  store.prune(1, false);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "checkpoints/damaged-step-00000010")) << "not trained anew yet";
  EXPECT_EQ(store.steps(), std::vector<int64_t>{5});
}

TEST_F(Checkpoints, WhatIsDamagedAgainTakesThePlaceOfWhatWasDamagedBefore) {
  store.commit(10, kFiles);
  for (const auto& [name, content] : {std::pair{"first", "1"}, {"second", "2"}}) {
    store.commit(20, {{name, content}});
    store.set_aside_after(10);
    EXPECT_EQ(store.steps(), std::vector<int64_t>{10});
    EXPECT_EQ(files().read(scratch.path() / "checkpoints/damaged-step-00000020" / name), content);
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "checkpoints/damaged-step-00000020/first"));
}

/// Folders are listed by name, and names of more than eight digits come before those of eight.
TEST_F(Checkpoints, StepsAreInTheirOrderWhateverTheirDigits) {
  for (const int64_t step : {99'999'999, 100'000'000, 5}) store.commit(step, kFiles);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{5, 99'999'999, 100'000'000}));
  store.prune(1, false);
  EXPECT_EQ(store.steps(), std::vector<int64_t>{100'000'000});
}

/// Another attempt of the same job, which has lost its lease and does not know it, prunes what this one reads.
// Promise storage/checkpoint-pruned: a checkpoint that disappears while it is read is skipped
TEST_F(Checkpoints, WhatIsPrunedWhileItIsReadIsPassedOver) {
  simulation::SimulatedFiles disk;
  const FilesScope scope(disk);
  CheckpointStore own("/run/checkpoints");
  files().create_folders("/run/checkpoints");
  own.commit(10, kFiles);
  bool pruned = false;
  disk.fail_by([&](const char* operation, const std::filesystem::path& path, size_t) {
    if (!pruned && std::string_view(operation) == "read" && path.filename() == "state.json") {
      pruned = true;
      own.commit(20, kFiles);
      own.prune(1, false);
    }
    return 0;
  });
  EXPECT_EQ(own.read_intact(10, [](const auto&) {}).step, 20);
}

TEST_F(Checkpoints, ARunDirectoryStandsForItsBestCheckpoint) {
  store.commit(1, kFiles);
  store.commit(2, kFiles);
  EXPECT_EQ(read_checkpoint(scratch.path()).step, 2);
  store.mark_best(1, "valid/kendall_tau", 0.5);
  EXPECT_EQ(read_checkpoint(scratch.path()).step, 1);
  EXPECT_EQ(read_checkpoint(store.folder(2)).step, 2);
  EXPECT_THROW(read_checkpoint(scratch.path() / "nothing"), RunError);
}

}  // namespace
}  // namespace foretime::coordinator
