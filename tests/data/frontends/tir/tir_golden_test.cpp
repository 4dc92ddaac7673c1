/// Real save_json text: against the trees that were made from it by TVM itself, and against the reference
/// implementation.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "data/dataset/group_files.h"
#include "data/files/packed.h"
#include "data/frontends/tir/tir_file.h"
#include "data/frontends/tir/tir_inspect.h"
#include "data/frontends/tir/tir_pack.h"
#include "data/graphs/validate.h"
#include "tests/data/frontends/tir/tir_reference.h"
#include "tests/data/frontends/tir/tir_trees.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

namespace fs = std::filesystem;
using testing::data_dir;
using testing::difference;
using testing::NpzTrees;
using testing::samples_dir;

const std::string& text_of(const TirRecord& record, const std::string& member) {
  for (const auto& [name, text] : record.texts) {
    if (name == member) return text;
  }
  static const std::string none;
  return none;
}

/// Every program before lowering equals the tree of its id, in every member; returns how many.
int64_t compare_with_trees(const fs::path& file, const fs::path& trees) {
  std::map<std::string, std::unique_ptr<NpzTrees>> workloads;
  TirReader reader;
  TirFile programs(file);
  TirRecord record;
  int64_t equal = 0;
  while (programs.next(record)) {
    auto& workload = workloads[record.workload];
    if (!workload) workload = std::make_unique<NpzTrees>(trees / (record.workload + ".npz"));
    ProgramNodes tree;
    EXPECT_EQ(reader.read(text_of(record, "before_lowering"), record.id, tree), 1);
    const int64_t graph = workload->find(record.id);
    if (graph < 0) {
      ADD_FAILURE() << record.id << " is not in " << record.workload << ".npz";
      continue;
    }
    const std::string what = difference(tree, workload->tree(graph));
    EXPECT_EQ(what, "") << record.id;
    equal += what.empty();
  }
  EXPECT_TRUE(reader.summary().unknown_types.empty());
  return equal;
}

TEST(TirGolden, SamplesEqualTvmsTrees) {
  EXPECT_EQ(
      compare_with_trees(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz", samples_dir() / "resnet18_conv2d"),
      24);
}

TEST(TirGolden, AllOfResnetEqualsTvmsTrees) {
  FORETIME_NEEDS_DATA();
  EXPECT_EQ(
      compare_with_trees(data_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz", data_dir() / "tir/resnet18_conv2d"),
      144);
}

TEST(TirGolden, EqualsTheReference) {
  TirReader reader;
  TirFile programs(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz");
  TirRecord record;
  int64_t compared = 0;
  while (programs.next(record)) {
    for (const auto& [member, text] : record.texts) {
      ProgramNodes tree;
      reader.read(text, record.id, tree);
      EXPECT_EQ(difference(tree, testing::TirReference(text).tree()), "") << record.id << " " << member;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 48);
}

/// A model that was trained on packed trees sees the same group, whichever way the programs come in.
TEST(TirGolden, GroupsEqualPackedTrees) {
  const auto groups = read_tir_groups(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz", "before_lowering");
  ASSERT_EQ(groups.size(), 12u);
  for (const Group& group : groups) {
    SCOPED_TRACE(group.name);
    validate_group(group, group.name);
    EXPECT_TRUE(group.labelled());
    const auto headers = list_groups({group.name + ".npz"}, samples_dir() / "resnet18_conv2d", CandidateKind::program);
    const Group whole = load_group(headers.at(0));
    const auto hashes = configuration_hashes(group), all_hashes = configuration_hashes(whole);
    for (int64_t c = 0; c < group.candidates; ++c) {
      const auto found = std::find(whole.candidate_ids.begin(), whole.candidate_ids.end(),
                                   group.candidate_ids[static_cast<size_t>(c)]);
      ASSERT_NE(found, whole.candidate_ids.end());
      const auto graph = static_cast<int64_t>(found - whole.candidate_ids.begin());
      EXPECT_EQ(group.runtimes[c], whole.runtimes[graph]);
      EXPECT_EQ(hashes[static_cast<size_t>(c)], all_hashes[static_cast<size_t>(graph)]);
      const int64_t nodes = group.graphs.graph_ptr[c + 1] - group.graphs.graph_ptr[c];
      ASSERT_EQ(nodes, whole.graphs.graph_ptr[graph + 1] - whole.graphs.graph_ptr[graph]);
      const int64_t features = group.graphs.feature_count;
      EXPECT_TRUE(std::equal(group.graphs.node_features.begin() + group.graphs.graph_ptr[c] * features,
                             group.graphs.node_features.begin() + group.graphs.graph_ptr[c + 1] * features,
                             whole.graphs.node_features.begin() + whole.graphs.graph_ptr[graph] * features));
    }
  }
}

TEST(TirGolden, PackedProgramsAreTheSameGroups) {
  testing::Scratch scratch;
  const auto file = samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz", out = scratch.path() / "tir.foretime";
  EXPECT_EQ(pack_tir(out, {file}, "lowered"), 12);
  EXPECT_EQ(verify_packed(out), 12);
  for (const Group& group : read_tir_groups(file, "lowered")) {
    const auto headers = packed_headers(out);
    const auto found =
        std::find_if(headers.begin(), headers.end(), [&](const auto& header) { return header.name == group.name; });
    ASSERT_NE(found, headers.end());
    EXPECT_EQ(configuration_hashes(load_packed(*found)), configuration_hashes(group));
  }
  EXPECT_THROW(pack_tir(out, {file, file}, "lowered"), DataError);
  EXPECT_EQ(verify_packed(out), 12);  // what was there stays
}

TEST(TirGolden, AmbiguousMemberIsNamed) {
  EXPECT_THAT(foretime::testing::message_of<DataError>(
                  [&] { read_tir_groups(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz", ""); }),
              ::testing::HasSubstr("before_lowering, lowered"));
}

TEST(TirGolden, InspectionOfTheSamples) {
  const auto report = inspect_tir(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz");
  EXPECT_EQ(report.records, 24);
  EXPECT_EQ(report.workloads, 12);
  EXPECT_EQ(report.labelled, 24);
  EXPECT_EQ(report.failures, 0);
  ASSERT_EQ(report.members.size(), 2u);
  const TirSummary& before = report.members.at("before_lowering");
  EXPECT_EQ(before.trees, 24);
  EXPECT_EQ(before.versions, (std::map<std::string, int64_t>{{"0.14.0", 24}}));
  EXPECT_EQ(before.node_types[tir_type_id("PrimFunc")], 24);
  EXPECT_THAT(to_text(report), ::testing::AllOf(::testing::HasSubstr("24 records of 12 workloads"),
                                                ::testing::HasSubstr("0.14.0 (24)"), ::testing::HasSubstr("Ramp")));
  EXPECT_TRUE(is_tir_text(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz"));
  EXPECT_FALSE(is_tir_text(samples_dir() / "resnet18_conv2d/C1.npz"));
}

std::multiset<int64_t> loops_of(const ProgramNodes& tree) {
  std::multiset<int64_t> extents;
  for (size_t i = 0; i < tree.nodes(); ++i) {
    if (tree.type[i] == tir_type_id("For")) extents.insert(tree.extent[i]);
  }
  return extents;
}

/// By record: extents of the iterators that TVM's own replay leaves, of all stages that are computed. Loops of one
/// iteration and symbolic extents are left out.
std::map<std::string, std::multiset<int64_t>> golden_loops(const fs::path& file) {
  std::map<std::string, std::multiset<int64_t>> loops;
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> stream(gzopen(file.c_str(), "rb"), &gzclose);
  std::string line(1 << 20, '\0');
  while (gzgets(stream.get(), line.data(), static_cast<int>(line.size())) != nullptr) {
    const auto json = nlohmann::json::parse(line.c_str());
    auto& extents = loops[json.at("line").dump()];
    for (const auto& stage : json.at("stages")) {
      if (stage.at("compute_at") == "inlined") continue;
      for (const auto& iterator : stage.at("iters")) {
        const auto& extent = iterator.at("extent");
        if (extent.is_number_integer() && extent > 1) extents.insert(extent.get<int64_t>());
      }
    }
  }
  return loops;
}

/// TenSet's programs, scheduled and lowered: all of them can be read, those compared with the reference implementation
/// are equal, and every iterator of TVM's own replay is a loop of the scheduled tree (which has further ones, that set
/// reductions to 0).
TEST(TirGolden, Tenset) {
  FORETIME_NEEDS_DATA();
  std::map<std::string, TirReader> readers;
  const auto expected_loops = golden_loops(data_dir() / "tenset/golden_states.jsonl.gz");
  TirFile programs(data_dir() / "tenset/tir_json.jsonl.gz");
  TirRecord record;
  int64_t number = 0;
  while (programs.next(record)) {
    for (const auto& [member, text] : record.texts) {
      ProgramNodes tree;
      EXPECT_NO_THROW(readers[member].read(text, record.id, tree)) << record.id << " " << member;
      if (member == "scheduled") {
        const auto loops = loops_of(tree), &expected = expected_loops.at(record.id);
        EXPECT_TRUE(std::includes(loops.begin(), loops.end(), expected.begin(), expected.end())) << record.id;
      }
      if (number % 23 == 0) {
        EXPECT_EQ(difference(tree, testing::TirReference(text).tree()), "") << record.id << " " << member;
      }
    }
    ++number;
  }
  EXPECT_EQ(readers["scheduled"].summary().trees, 694);
  EXPECT_EQ(readers["lowered"].summary().trees, 323);
  for (const auto& [member, reader] : readers) {
    EXPECT_TRUE(reader.summary().unknown_types.empty()) << member;
    GTEST_LOG_(INFO) << member << ": largest tree " << reader.summary().largest_tree << ", deepest "
                     << reader.summary().deepest_tree;
  }
}

}  // namespace
}  // namespace foretime::data
