#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <unistd.h>

#include "base/csv.h"
#include "base/descriptor.h"
#include "base/files.h"
#include "base/glob.h"
#include "base/logger/logger.h"
#include "base/output_target.h"
#include "configs/load.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/run_directory.h"
#include "coordinator/run_lock.h"
#include "data/dataset/group_files.h"
#include "data/dataset/records/record_packing.h"
#include "data/dataset/records/record_report.h"
#include "data/files/file_form.h"
#include "data/files/line_source.h"
#include "data/files/npz_reader.h"
#include "data/files/packed.h"
#include "data/frontends/hlo/candidates.h"
#include "data/frontends/tir/embedding/type_embedding.h"
#include "data/frontends/tir/tir_file.h"
#include "inference/bundle/bundle.h"
#include "tests/support/failing_calls.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/npz_writer.h"
#include "tests/support/scratch.h"
#include "worker/export/bundles.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;

/// What reads a file of the user's: `path` is that file, or the file of this name in a folder of its own.
struct Reader {
  const char* name;
  const char* file;
  std::function<void(const fs::path&)> read;
};
std::ostream& operator<<(std::ostream& out, const Reader& reader) { return out << reader.name; }

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      {"Settings", "run.yaml", [](const auto& path) { configs::load_settings(path); }},
      {"Csv", "rankings.csv", [](const auto& path) { read_csv(path); }},
      {"CandidatesJson", "candidates.json", [](const auto& path) { data::read_candidates_file(path, {}); }},
      {"Bundle", "model.foretime", [](const auto& path) { inference::read_bundle(path); }},
      {"EvaluationIndices", "xla_default.json", [](const auto& path) { data::read_eval_indices(path); }},
      {"FolderOfEvaluationIndices", "xla_default.json",
       [](const auto& path) { data::read_eval_indices(path.parent_path()); }},
      {"LinesOfRecordPacking", "lines.json",
       [](const auto& path) {
         std::ofstream(path.parent_path() / "records.json") << "";
         data::RecordPackRequest request;
         request.out = path.parent_path() / "out.foretime";
         request.in = {path.parent_path() / "records.json"};
         request.lines = path.string();
         data::RecordPacking(request, {});
       }},
      {"TuningRecords", "records.json", [](const auto& path) { data::inspect_records(path); }},
      {"FormOfAFile", "module.json", [](const auto& path) { data::form_of(path); }},
      {"TypeVectors", "types.vec", [](const auto& path) { data::read_type_vectors(path, {}, 4); }},
      {"MetricsOfARun", "metrics.jsonl", [](const auto& path) { worker::metrics_at(path.parent_path(), 3); }},
      {"Checkpoint", "manifest.json", [](const auto& path) { coordinator::read_checkpoint(path.parent_path()); }},
      {"IsPacked", "some.foretime", [](const auto& path) { data::is_packed(path); }},
      {"BundleToReplace", "old.foretime",
       [](const auto& path) { expect_replaceable("-o", path, FileKind::bundle, false); }},
      {"LockOfARun", "run.lock", [](const auto& path) { coordinator::RunLock(path.parent_path()); }},
      {"PackedCollection", "some.foretime", [](const auto& path) { data::packed_headers(path); }},
  };
  return all;
}

class FailingStorage : public ::testing::TestWithParam<Reader> {
 protected:
  testing::Scratch scratch_;
};

/// The kernel answers EIO to whoever reads the first page of its own memory.
// Promise storage/disk-io-error: an I/O error is never reported as bad data or a mistake of the caller
TEST_P(FailingStorage, AnIoErrorIsNoBadData) {
  const auto path = scratch_.path() / GetParam().file;
  const std::string_view name = GetParam().name;
  if (name == "Checkpoint" || name == "MetricsOfARun" || name == "EnvironmentOfARun") {  // links are refused there
    std::ofstream(path) << "{}\n";
    const testing::FailingCall failing("read", EIO);
    EXPECT_THROW(GetParam().read(path), StorageError);
    return;
  }
  fs::create_symlink("/proc/self/mem", path);
  EXPECT_THROW(GetParam().read(path), StorageError);
}

// Promise storage/disk-io-error
TEST_P(FailingStorage, AFileThatCannotBeOpenedForWantOfDescriptorsIsNoBadData) {
  const auto path = scratch_.path() / GetParam().file;
  std::ofstream(path) << "some bytes\n";
  const std::string_view name = GetParam().name;
  if (name == "LinesOfRecordPacking" || name == "EnvironmentOfARun") GTEST_SKIP() << "writes a file first";
  const testing::NoDescriptors none;
  EXPECT_THROW(GetParam().read(path), StorageError);
}

INSTANTIATE_TEST_SUITE_P(Readers, FailingStorage, ::testing::ValuesIn(readers()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(FailingStorageOfFolders, AFolderThatCannotBeListedIsNoEmptyOne) {
  const testing::Scratch scratch;
  std::ofstream(scratch.path() / "one.npz") << "no zip";
  const testing::NoDescriptors none;
  EXPECT_THROW(glob("*.npz", scratch.path()), StorageError);
  EXPECT_THROW(data::list_groups({scratch.path().string()}, ".", data::CandidateKind::layout), StorageError);
  EXPECT_THROW(data::list_groups({"one.npz"}, scratch.path(), data::CandidateKind::layout), StorageError);
}

TEST(FailingStorageOfCollections, AStaleHandleIsNoBadData) {
  const testing::Scratch scratch;
  const auto path = scratch.write("some.foretime", "no collection");
  const testing::FailingCall stale("fstat", ESTALE);
  EXPECT_THROW(data::packed_headers(path), UnreachableError);
}

TEST(FailingStorageOfArchives, OneThatCannotBeOpenedForWantOfDescriptorsIsNoBadData) {
  const testing::Scratch scratch;
  const auto path = scratch.write("some.npz", "some bytes\n");
  const testing::NoDescriptors none;
  EXPECT_THROW(data::ZipArchive{path}, StorageError);
}

TEST(FailingStorageOfArchives, AnEntryThatCannotBeReadIsNoBadData) {
  const testing::Scratch scratch;
  const auto path = scratch.path() / "some.npz";
  {
    testing::NpzWriter writer(path, testing::NpzCompression::stored);
    writer.add("one", {1 << 14}, std::vector<double>(1 << 14));
    writer.close();
  }
  const data::ZipArchive archive(path);
  // The disk fails after the directory was read: the archive's descriptor becomes one that gives EIO.
  const Descriptor failing(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const bool is_archive = fs::read_symlink(entry.path(), gone) == path;
    if (is_archive) {
      ASSERT_GE(::dup2(failing.get(), std::stoi(entry.path().filename())), 0);
    }
  }
  EXPECT_THROW(archive.open(archive.entries().front()), StorageError);
}

// Promise storage/disk-io-error
TEST(FailingStorageOfRuns, ALockThatCannotBeReadIsNotTakenOver) {
  const testing::Scratch scratch;
  scratch.write("run.lock", R"({"host": "elsewhere", "pid": 7, "kernel": "another", "start": "1"})");
  const testing::FailingCall failing("pread", EIO);
  EXPECT_THROW(coordinator::RunLock(scratch.path(), {}), StorageError);
}

TEST(FailingStorageOfRuns, ALogThatCannotBeOpenedForWantOfDescriptorsIsAStorageError) {
  const testing::Scratch scratch;
  const testing::NoDescriptors none;
  EXPECT_THROW(make_logger(scratch.path() / "log.txt", spdlog::level::info), StorageError);
}

TEST(FailingStorageOfSystems, ErrorsOfNetworkAndDamagedFileSystemsTellOfTheStorage) {
  for (const int error : {EHOSTDOWN, ESHUTDOWN, ECONNABORTED})
    EXPECT_THROW(throw_file_error("a", "cannot be read", error), UnreachableError) << error;
  for (const int error : {EUCLEAN, EBADMSG})
    EXPECT_THROW(throw_file_error("a", "cannot be read", error), StorageError) << error;
}

}  // namespace
}  // namespace foretime
