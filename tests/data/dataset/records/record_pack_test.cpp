/// Tuning records packed into groups: the bytes depend on the records alone, not on workers or memory.
#include "data/dataset/records/record_pack.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset/pack.h"
#include "data/files/line_source.h"
#include "data/files/packed.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/loops/loop_graph.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
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
  EXPECT_EQ(found.skipped, 1);  // a workload with one record
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

/// One workload's records of two machines are two groups, each with columns of its own machine.
TEST_F(RecordPack, MachinesAreNotMixed) {
  const auto file = scratch_.path() / "two.jsonl";
  {
    LineSource source(records_);
    std::ofstream out(file);
    for (int i = 0; i < 6;) {
      std::string text(source.next().value().text);
      if (text.find("\\\"matmul\\\", 128, 128, 128]") == std::string::npos) continue;
      if (i++ % 2 == 1) {
        const auto target = text.find("llvm");
        ASSERT_NE(target, std::string::npos);
        text.insert(target + 4, " -model=other");
      }
      out << text << "\n";
    }
  }
  const Machines known(
      {{"other", {}, {.cores = 4, .l2_bytes = 1 << 21, .multiply_add_gflop_s = 50.0, .copy_gb_s = 5.0}}});
  const auto found = index_records({file}, dags_, {}, {.known = known});
  ASSERT_EQ(found.groups.size(), 2U);
  EXPECT_EQ(found.groups[0].workload_key, found.groups[1].workload_key);
  EXPECT_EQ(found.groups[1].name, found.groups[0].name + "@other");
  EXPECT_EQ(found.groups[0].places.size(), 3U);
  pack(scratch_.path() / "two.foretime", found);
  const auto headers = packed_headers(scratch_.path() / "two.foretime");
  ASSERT_EQ(headers.size(), 2U);
  const auto measured = [&](size_t i) {
    const Group group = load_packed(headers[i]);
    return group.graphs.node_features[LoopColumns::machine];
  };
  EXPECT_EQ(measured(0), 0.0F);
  EXPECT_EQ(measured(1), 1.0F);
  EXPECT_EQ(index_records({file}, dags_, {}, {.all = Hardware{}}).groups.size(), 1U);
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
  choice.lines = {{std::vector<int64_t>{0, 49, 96, 1, 4836}}};
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { index(choice); }));
  choice.lines = {{std::vector<int64_t>{0, 49, 96, 1}}};
  const auto lines = index(choice);
  ASSERT_EQ(lines.groups.size(), 1U);  // the other workload has one record, which is too few
  EXPECT_THAT(lines.groups[0].places, ::testing::ElementsAre(0, 49, 96));
  EXPECT_EQ(lines.skipped, 1);
  const auto few = index({.most = 5, .seed = 1}), others = index({.most = 5, .seed = 2});
  EXPECT_EQ(few.records, 245);
  EXPECT_EQ(others.records, 245);
  bool unlike = false;
  for (const auto& a : few.groups) {
    for (const auto& b : others.groups) unlike |= a.workload_key == b.workload_key && a.places != b.places;
  }
  EXPECT_TRUE(unlike) << "the seed chooses";
}

TEST_F(RecordPack, MeasurementsThatFailedAreProgramsOfInfiniteRunTime) {
  // Every third record of the first workload failed, and all of another one.
  LineSource lines(records_);
  std::string text, first_key, other_key;
  int64_t of_first = 0, failed = 0;
  RecordParser parser;
  TuningRecord record;
  while (const auto line = lines.next()) {
    parser.parse(line->text, record);
    if (first_key.empty()) first_key = record.workload_key;
    if (other_key.empty() && record.workload_key != first_key) other_key = record.workload_key;
    if (record.workload_key != first_key && record.workload_key != other_key) continue;
    std::string copy(line->text);
    if (record.workload_key == other_key || of_first++ % 3 == 0) {
      const size_t result = copy.find("\"r\":"), costs = copy.find("[[", result), end = copy.find("], 0,", costs);
      ASSERT_NE(end, std::string::npos) << copy;
      copy.replace(costs, end + 5 - costs, "[[1e+10], 7,");
      failed += record.workload_key == first_key;
    }
    text += copy + "\n";
  }
  const auto file = scratch_.write("failed.json", text);
  const auto found = index_records({file}, dags_, {});
  ASSERT_EQ(found.groups.size(), 1U) << "a workload none of whose programs ran is left out";
  EXPECT_EQ(found.groups[0].workload_key, first_key);
  EXPECT_EQ(found.groups[0].successful, of_first - failed);
  const auto packed = scratch_.path() / "failed.foretime";
  const auto counts = pack(packed, found);
  EXPECT_EQ(counts.programs, of_first);
  EXPECT_EQ(counts.failed, failed);
  const auto group = load_packed(packed_headers(packed).at(0));
  EXPECT_EQ(std::ranges::count_if(group.runtimes.span(), [](double t) { return std::isinf(t); }), failed);

  const auto without = index_records({file}, dags_, {.failures = false});
  EXPECT_EQ(without.groups.at(0).places.size(), static_cast<size_t>(of_first - failed));
  EXPECT_EQ(pack(scratch_.path() / "ran.foretime", without).failed, 0);
}

TEST_F(RecordPack, RecordsWithoutADagAreCounted) {
  const auto found = index_records({records_}, DagTable(), {});
  EXPECT_TRUE(found.groups.empty());
  EXPECT_EQ(found.without_dag, 4836);
  EXPECT_EQ(found.missing_keys.size(), 10U);
}

}  // namespace
}  // namespace foretime::data
