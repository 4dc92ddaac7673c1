#include "coordinator/best_checkpoint.h"

#include <cerrno>
#include <string_view>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "tests/simulation/simulated_files.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::coordinator {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

/// A run of steps 10, 20 and 30, of which 10 is the best.
class BestCheckpoint : public ::testing::Test {
 protected:
  BestCheckpoint() : scope_(disk_) {
    files().create_folders("/run");
    for (const int64_t step : {10, 20, 30}) store_.commit(step, {{"model.safetensors", "weights"}});
    store_.mark_best(10, "valid/kendall_tau", 0.5);
  }
  void damage(int64_t step) { write_whole(store_.folder(step) / "model.safetensors", "weightz"); }
  static std::string warning(const fs::path& path, int64_t step) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(read_best_or_newest(path).step, step);
    return ::testing::internal::GetCapturedStderr();
  }

  simulation::SimulatedFiles disk_;
  FilesScope scope_;
  CheckpointStore store_{"/run/checkpoints"};
};

TEST_F(BestCheckpoint, IsReadWhereItIsIntact) {
  damage(30);
  EXPECT_EQ(warning("/run", 10), "");
  EXPECT_EQ(warning("/run/checkpoints", 10), "");
  EXPECT_EQ(read_best_only("/run").step, 10);
}

// Promise storage/checkpoint-damaged-best-read: `evaluate` and `rank` then read the newest intact one with a warning,
// `export` ends with an error ([why](../how-to/export.md#where-the-best-checkpoint-is-damaged)); a checkpoint named by
// the user is never replaced
TEST_F(BestCheckpoint, WhereItIsDamagedTheNewestIntactOneIsReadWithAWarningThatNamesBoth) {
  damage(10);
  damage(30);
  EXPECT_MESSAGE(warning("/run", 20), "step-00000010/model.safetensors: CRC-32");
  EXPECT_MESSAGE(message_of<RunError>([] { read_best_only("/run"); }), "step-00000010/model.safetensors: CRC-32");
}

TEST_F(BestCheckpoint, WithoutItsManifestItIsDamaged) {
  files().remove(store_.folder(10) / "manifest.json");
  EXPECT_THAT(warning("/run", 30), HasSubstr("step-00000010: no manifest.json"));
  EXPECT_THROW(read_best_only("/run"), RunError);
}

// Promise storage/newer-version
TEST_F(BestCheckpoint, OfANewerVersionIsNotReplaced) {
  const auto manifest = store_.folder(10) / "manifest.json";
  auto parsed = nlohmann::json::parse(files().read(manifest));
  parsed["format"] = parsed["format"].get<int64_t>() + 1;
  write_whole(manifest, parsed.dump());
  EXPECT_THROW(read_best_or_newest("/run"), NewerFormat);
  EXPECT_THROW(read_best_only("/run"), NewerFormat);
}

TEST_F(BestCheckpoint, ThatNothingTellsOfIsDamagedAsWell) {
  write_whole("/run/checkpoints/best.json", "{\"st");
  EXPECT_THAT(warning("/run", 30), AllOf(HasSubstr("best.json: "), HasSubstr("step-00000030\n")));
  EXPECT_THROW(read_best_only("/run"), RunError);
}

// Promise storage/checkpoint-damaged-best-read
TEST_F(BestCheckpoint, WhereItsFolderIsMissingItIsDamagedAsWell) {
  files().remove(store_.folder(10));
  EXPECT_MESSAGE(warning("/run", 30), "warning: /run/checkpoints/step-00000010");
  EXPECT_MESSAGE(message_of<RunError>([] { read_best_only("/run"); }), "step-00000010");
}

TEST_F(BestCheckpoint, ThatARunDoesNotKeepIsItsNewestOne) {
  store_.unmark_best();
  EXPECT_EQ(warning("/run", 30), "");
  store_.mark_best(0, "valid/kendall_tau", 0);  // by an earlier version, where there was none yet
  EXPECT_EQ(warning("/run", 30), "");
  EXPECT_EQ(read_best_only("/run").step, 30);
}

// Promise storage/checkpoint-pruned
TEST_F(BestCheckpoint, ThatIsReplacedWhileItIsReadIsReadAnew) {
  bool replaced = false;
  disk_.fail_by([&](const char* operation, const fs::path& path, size_t) {
    if (!replaced && std::string_view(operation) == "read" && path.filename() == "model.safetensors") {
      replaced = true;
      store_.mark_best(20, "valid/kendall_tau", 0.6);
      store_.prune(1, true);
    }
    return 0;
  });
  EXPECT_EQ(warning("/run", 20), "");
}

TEST_F(BestCheckpoint, OneThatIsNamedIsNeverReplaced) {
  damage(30);
  EXPECT_THAT(message_of<RunError>([] { read_best_or_newest("/run/checkpoints/step-00000030"); }), HasSubstr("CRC-32"));
  EXPECT_THROW(read_best_only("/run/checkpoints/step-00000030/"), RunError);
}

TEST_F(BestCheckpoint, WhereNoneIsIntactTheErrorIsThatOfTheBest) {
  for (const int64_t step : {10, 20, 30}) damage(step);
  EXPECT_THAT(message_of<RunError>([] { read_best_or_newest("/run"); }), HasSubstr("step-00000010"));
  EXPECT_MESSAGE(message_of<RunError>([] { read_best_or_newest("/nothing"); }));
}

TEST_F(BestCheckpoint, AFailingStorageIsNoDamage) {
  disk_.fail_by([](const char*, const fs::path& path, size_t) {
    return path.string().find("step-00000010/model") != std::string::npos ? EIO : 0;
  });
  EXPECT_THROW(read_best_or_newest("/run"), StorageError);
  EXPECT_THROW(read_best_only("/run"), StorageError);
}

}  // namespace
}  // namespace foretime::coordinator
