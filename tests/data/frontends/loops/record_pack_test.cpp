/// Tuning records packed into groups: the bytes depend on the records alone, not on workers or memory.
#include "data/frontends/loops/record_pack.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/files/packed.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/loops/loop_graph.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

namespace fs = std::filesystem;
using testing::samples_dir;

class RecordPack : public ::testing::Test {
 protected:
  RecordIndex index(const RecordChoice& choice = {}) const { return index_records({records_}, dags_, choice); }

  RecordPackCounts pack(const fs::path& file, const RecordIndex& index, RecordPackOptions options = {}) const {
    std::vector<int64_t> all(index.groups.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    return pack_records(file, index, all, options);
  }

  testing::Scratch scratch_;
  fs::path records_ = samples_dir() / "ansor" / "records.jsonl.gz";
  DagTable dags_{samples_dir() / "ansor" / "dags.jsonl.gz"};
};

TEST_F(RecordPack, HoldsEachWorkloadsRecords) {
  const auto found = index();
  EXPECT_EQ(found.groups.size(), 49U);
  EXPECT_EQ(found.records, 4835);
  EXPECT_EQ(found.left_out, 1);  // a workload with one record
  const auto counts = pack(scratch_.path() / "all.foretime", found);
  EXPECT_EQ(counts.programs, 4835);
  EXPECT_EQ(counts.refused, 0);
  RecordReader reader(records_);
  TuningRecord record;
  std::map<std::string, std::vector<double>> runtimes;
  std::map<std::string, std::vector<std::string>> ids;
  while (reader.next(record)) {
    runtimes[record.workload_key].push_back(record.mean_cost());
    ids[record.workload_key].push_back(std::to_string(record.line - 1));
  }
  const auto headers = packed_headers(scratch_.path() / "all.foretime");
  ASSERT_EQ(headers.size(), 49U);
  for (size_t i = 0; i < headers.size(); ++i) {
    const Group group = load_packed(headers[i]);
    const auto& key = found.groups[i].workload_key;
    EXPECT_EQ(group.candidate_ids, ids[key]);
    EXPECT_TRUE(std::ranges::equal(group.runtimes.span(), runtimes[key]));
    EXPECT_EQ(group.graphs.feature_count, program_columns(configs::Representation::loops));
    EXPECT_EQ(group.flops.size(), group.candidates);
  }
}

TEST_F(RecordPack, BytesDoNotDependOnWorkersOrMemory) {
  const auto found = index({.most = 20});
  pack(scratch_.path() / "one.foretime", found);
  pack(scratch_.path() / "little.foretime", found, {.memory = 1 << 20});  // a few workloads a pass
  const auto headers = headers_of(found, configs::Representation::loops);
  const PackParts parts(scratch_.path() / "three.foretime", headers, 3, "test");
  parts.pack([&](const fs::path& part, std::span<const int64_t> groups) { pack_records(part, found, groups, {}); });
  parts.join();
  const auto expected = testing::read_text(scratch_.path() / "one.foretime");
  EXPECT_TRUE(testing::read_text(scratch_.path() / "little.foretime") == expected);
  EXPECT_TRUE(testing::read_text(scratch_.path() / "three.foretime") == expected);
  EXPECT_EQ(verify_packed(scratch_.path() / "three.foretime"), 49);
}

TEST_F(RecordPack, TakesWhatIsChosen) {
  RecordChoice choice;
  choice.lines = {{std::vector<int64_t>{0, 49, 96, 1, 5000000}}};
  const auto lines = index(choice);
  ASSERT_EQ(lines.groups.size(), 1U);  // the other workload has one record, which is too few
  EXPECT_THAT(lines.groups[0].places, ::testing::ElementsAre(0, 49, 96));
  EXPECT_EQ(lines.left_out, 1);
  const auto few = index({.most = 5, .seed = 1}), others = index({.most = 5, .seed = 2});
  EXPECT_EQ(few.records, 245);
  EXPECT_EQ(others.records, 245);
  bool unlike = false;
  for (const auto& a : few.groups) {
    for (const auto& b : others.groups) unlike |= a.workload_key == b.workload_key && a.places != b.places;
  }
  EXPECT_TRUE(unlike) << "the seed chooses";
}

TEST_F(RecordPack, RecordsWithoutADagAreCounted) {
  const auto found = index_records({records_}, DagTable(), {});
  EXPECT_TRUE(found.groups.empty());
  EXPECT_EQ(found.without_dag, 4836);
  EXPECT_EQ(found.missing_keys.size(), 10U);
}

}  // namespace
}  // namespace foretime::data
