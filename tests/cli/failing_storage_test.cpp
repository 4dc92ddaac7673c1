#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/csv.h"
#include "base/descriptor.h"
#include "base/files.h"
#include "base/glob.h"
#include "configs/load.h"
#include "coordinator/checkpoint_store.h"
#include "data/dataset/group_files.h"
#include "data/files/line_source.h"
#include "data/files/packed.h"
#include "data/frontends/ansor/features/record_report.h"
#include "data/frontends/loops/record_packing.h"
#include "data/frontends/tir/tir_file.h"
#include "data/frontends/tir/type_embedding.h"
#include "inference/bundle/bundle.h"
#include "inference/candidates/candidates.h"
#include "models/baselines/record_rows.h"
#include "sharding/step_time.h"
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
      {"CandidatesJson", "candidates.json", [](const auto& path) { inference::read_candidates_file(path, {}); }},
      {"Bundle", "model.foretime", [](const auto& path) { inference::read_bundle(path); }},
      {"EvaluationIndices", "xla_default.json", [](const auto& path) { data::read_eval_indices(path); }},
      {"FolderOfEvaluationIndices", "xla_default.json",
       [](const auto& path) { data::read_eval_indices(path.parent_path()); }},
      {"RecordSplit", "split.json", [](const auto& path) { models::read_record_split(path); }},
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
      {"TirText", "module.json", [](const auto& path) { data::is_tir_text(path); }},
      {"TypeVectors", "types.vec", [](const auto& path) { data::read_type_vectors(path, {}, 4); }},
      {"MetricsOfARun", "metrics.jsonl", [](const auto& path) { worker::metrics_at(path.parent_path(), 3); }},
      {"EnvironmentOfARun", "environment.json",
       [](const auto& path) {
         std::ofstream(path.parent_path() / "config.yaml") << "{}\n";
         sharding::measure_compute(path.parent_path());
       }},
      {"Checkpoint", "manifest.json", [](const auto& path) { coordinator::read_checkpoint(path.parent_path()); }},
      {"IsPacked", "some.foretime", [](const auto& path) { data::is_packed(path); }},
      {"IsRecords", "some.json", [](const auto& path) { data::is_record_file(path); }},
      {"PackedCollection", "some.foretime", [](const auto& path) { data::packed_headers(path); }},
  };
  return all;
}

class FailingStorage : public ::testing::TestWithParam<Reader> {
 protected:
  testing::Scratch scratch_;
};

/// The kernel answers EIO to whoever reads the first page of its own memory.
TEST_P(FailingStorage, AnIoErrorIsNoBadData) {
  const auto path = scratch_.path() / GetParam().file;
  fs::create_symlink("/proc/self/mem", path);
  EXPECT_THROW(GetParam().read(path), StorageError);
}

/// No descriptor is left, so that nothing can be opened.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const Descriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next.get());
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST_P(FailingStorage, AFileThatCannotBeOpenedForWantOfDescriptorsIsNoBadData) {
  const auto path = scratch_.path() / GetParam().file;
  std::ofstream(path) << "some bytes\n";
  const std::string_view name = GetParam().name;
  if (name == "LinesOfRecordPacking" || name == "EnvironmentOfARun") GTEST_SKIP() << "writes a file first";
  const NoDescriptors none;
  EXPECT_THROW(GetParam().read(path), StorageError);
}

INSTANTIATE_TEST_SUITE_P(Readers, FailingStorage, ::testing::ValuesIn(readers()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(FailingStorageOfFolders, AFolderThatCannotBeListedIsNoEmptyOne) {
  const testing::Scratch scratch;
  std::ofstream(scratch.path() / "one.npz") << "no zip";
  const NoDescriptors none;
  EXPECT_THROW(glob("*.npz", scratch.path()), StorageError);
  EXPECT_THROW(data::list_groups({scratch.path().string()}, ".", data::CandidateKind::layout), StorageError);
  EXPECT_THROW(data::list_groups({"one.npz"}, scratch.path(), data::CandidateKind::layout), StorageError);
}

}  // namespace
}  // namespace foretime
