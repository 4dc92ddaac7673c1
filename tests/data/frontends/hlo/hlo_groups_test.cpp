#include "data/frontends/hlo/hlo_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset/group_files.h"
#include "data/graphs/validate.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"
#include "tests/support/values.h"

/// Groups of files: which message they hold, and which runs are candidates.
namespace foretime::data {
namespace {

using testing::bytes_field;
using ::testing::HasSubstr;
using testing::layout_run;
using testing::module_tuning;
using testing::number_field;
using testing::Scratch;
using testing::small_module;
using testing::tile_run;
using testing::values;
using testing::write_file;

std::vector<int8_t> layouts(const Group& group, int64_t candidate, int64_t node) {
  const auto& layout = group.layout;
  const int64_t row = layout.row_ptr[node] + layout.codes[candidate * layout.configurable() + node];
  const auto start = layout.rows.begin() + row * kLayoutFeatures;
  return {start, start + kLayoutFeatures};
}

std::vector<int8_t> row_of(std::vector<int8_t> output, std::vector<int8_t> input = {},
                           std::vector<int8_t> kernel = {}) {
  std::vector<int8_t> row;
  for (auto* part : {&output, &input, &kernel}) {
    part->resize(6, -1);
    row.insert(row.end(), part->begin(), part->end());
  }
  return row;
}

Group group_of(const Scratch& folder, const std::string& bytes) {
  const HloFile file(write_file(folder, bytes));
  Group read = read_hlo_group(file, file.modules().at(0));
  validate_group(read, "test");
  return read;
}

Group load(const std::filesystem::path& file, CandidateKind kind, size_t at = 0) {
  return load_group(list_groups({file.string()}, ".", kind).at(at));
}

void expect_equal_graphs(const GraphBlock& a, const GraphBlock& b) {
  EXPECT_EQ(a.feature_count, b.feature_count);
  EXPECT_EQ(a.node_type_count, b.node_type_count);
  EXPECT_EQ(values(a.node_types), values(b.node_types));
  EXPECT_EQ(values(a.node_features), values(b.node_features));
  EXPECT_EQ(values(a.edge_source), values(b.edge_source));
  EXPECT_EQ(values(a.edge_target), values(b.edge_target));
  EXPECT_EQ(values(a.graph_ptr), values(b.graph_ptr));
}

TEST(HloFiles, ContentTellsTheMessage) {
  const Scratch folder;
  const auto message = [&](const std::string& bytes) { return HloFile(write_file(folder, bytes)).message(); };
  const auto tuned = module_tuning(small_module(), {layout_run({{{1, 0}}}, 5)}, {4});
  EXPECT_EQ(message(small_module()), HloMessage::module);
  EXPECT_EQ(message(tuned), HloMessage::module_tuning);
  EXPECT_EQ(message(module_tuning(small_module(), {tile_run({1}, 5, true)})), HloMessage::module_tuning);
  EXPECT_EQ(message(testing::tuning({tuned, tuned})), HloMessage::tuning);
  // HloProto: the buffer assignment's field 3 is a message.
  const auto buffers = bytes_field(1, "") + bytes_field(3, number_field(1, 1) + number_field(2, 64));
  EXPECT_EQ(message(bytes_field(1, small_module()) + bytes_field(3, buffers)), HloMessage::hlo);
}

TEST(HloFiles, DumpsOfXla) {
  const Scratch folder;
  const auto buffers = bytes_field(3, number_field(1, 1));
  const auto dumped = group_of(folder, bytes_field(1, small_module()) + bytes_field(3, buffers));
  const auto bare = group_of(folder, small_module());
  EXPECT_EQ(dumped.candidates, 1);
  EXPECT_EQ(values(dumped.graphs.node_features), values(bare.graphs.node_features));
}

TEST(HloGroups, ModulesWithoutRunsHaveOneCandidate) {
  const Scratch folder;
  const auto read = group_of(folder, small_module());
  EXPECT_EQ(read.name, "test");
  EXPECT_EQ(read.kind, CandidateKind::layout);
  EXPECT_EQ(read.candidates, 1);
  EXPECT_FALSE(read.labelled());
  EXPECT_EQ(values(read.layout.nodes), (std::vector<int32_t>{4, 5, 6}));
  for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(layouts(read, 0, j), row_of({}));
  // Nodes that the file names win.
  EXPECT_EQ(values(group_of(folder, module_tuning(small_module(), {}, {8, 2})).layout.nodes),
            (std::vector<int32_t>{2, 8}));
}

TEST(HloGroups, LayoutRuns) {
  const Scratch folder;
  auto failed = layout_run({{{0}}, {{0}}}, 999);
  failed.set_error(true);
  hlo::ConfigProfile unmeasured = layout_run({{{0}}, {{0}}}, 0);
  unmeasured.clear_profile();
  const int64_t late = int64_t{5'000'000'000};
  // The nodes of a configuration come in any order; 7 dimensions are cut to 6.
  const auto read =
      group_of(folder, module_tuning(small_module(),
                                     {layout_run({{{1, 0}, {0, 1}, {2}}, {{3, 2, 1, 0}}}, 10, true), failed,
                                      layout_run({{{}}, {{6, 5, 4, 3, 2, 1, 0}}}, late), unmeasured},
                                     {6, 4}));
  EXPECT_EQ(values(read.runtimes), (std::vector<double>{10, 5e9}));
  EXPECT_EQ(values(read.layout.nodes), (std::vector<int32_t>{4, 6}));
  EXPECT_EQ(layouts(read, 0, 0), row_of({3, 2, 1, 0}));
  EXPECT_EQ(layouts(read, 0, 1), row_of({1, 0}, {0, 1}, {2}));
  EXPECT_EQ(layouts(read, 1, 0), row_of({6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(layouts(read, 1, 1), row_of({}));
}

TEST(HloGroups, TileRuns) {
  const Scratch folder;
  auto first = tile_run({4, 8}, 30);
  first.mutable_op_config()->mutable_tile_size_config()->add_kernel_bounds(3);
  const auto read = group_of(
      folder, module_tuning(small_module(), {first, tile_run({2}, 1), tile_run({0, 5}, 20, true), tile_run({}, 10)}));
  // A time of 1 ns is none; times are relative to the default of 20 ns.
  EXPECT_EQ(values(read.runtimes), (std::vector<double>{1.5, 1.0, 0.5}));
  std::vector<float> expected(72, 0.0f);  // products of empty lists are 0 here
  const auto set = [&](size_t at, std::vector<float> row) {
    std::ranges::copy(row, expected.begin() + static_cast<int64_t>(at));
  };
  set(0, {3, 0, 0, 0, 0, 0, 3, 3, 4, 8, 0, 0, 0, 0, 12, 32});
  set(24 + 8, {0, 5, 0, 0, 0, 0, 5, 0});
  EXPECT_EQ(values(read.tile_features), expected);
}

TEST(HloGroups, CandidatesThatNobodyMeasured) {
  const Scratch folder;
  auto one = tile_run({4}, 0), two = tile_run({8}, 0);
  one.clear_profile();
  auto failed = two;
  failed.set_error(true);
  const auto read = group_of(folder, module_tuning(small_module(), {one, failed, two}));
  EXPECT_EQ(read.candidates, 2);
  EXPECT_FALSE(read.labelled());
}

TEST(HloGroups, TuningDataLeavesModulesOut) {
  const Scratch folder;
  const auto good = module_tuning(small_module("k"), {tile_run({4}, 9, true)});
  const auto reference = module_tuning(small_module("k"), {tile_run({4}, 8, true)}, {}, 0xabc);
  const auto odd = module_tuning(small_module("../x y"), {tile_run({4}, 8, true)});
  const auto without_default = module_tuning(small_module("n"), {tile_run({4}, 9)});
  const auto path = write_file(
      folder, testing::tuning({good, without_default, module_tuning(small_module("r"), {}), reference, odd}));
  const HloFile file(path);
  std::vector<std::string> names;
  for (const auto& header : list_groups({path.string()}, ".", CandidateKind::tile)) {
    names.push_back(header.name);
    EXPECT_EQ(load_group(header).name, header.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"test_.._x_y", "test_k", "test_k_0000000000000abc"}));
  EXPECT_THAT(skip_reason_of(file, file.modules().at(1)), HasSubstr("default"));
  EXPECT_MESSAGE(skip_reason_of(file, file.modules().at(2)));
  const auto none = write_file(folder, testing::tuning({without_default}), "none.pb");
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { hlo_headers(none); }));
}

TEST(HloGroups, ChangedFilesAreNoticed) {
  const Scratch folder;
  const auto path = write_file(folder, small_module());
  const auto header = list_groups({folder.path().string()}, ".", CandidateKind::layout).at(0);  // folders have them too
  write_file(folder, small_module("other"));
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { load_group(header); }));
}

}  // namespace

// Real tuning data of TpuGraphs against the .npz files that others made of it.

namespace {

std::filesystem::path tpugraphs() { return testing::data_dir() / "tpugraphs"; }

/// The layouts of all nodes in one candidate.
std::vector<int8_t> layouts_of(const Group& group, int64_t c) {
  std::vector<int8_t> all;
  for (int64_t node = 0; node < group.layout.configurable(); ++node) {
    const auto row = layouts(group, c, node);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

TEST(HloGolden, LayoutModuleEqualsThePublishedFile) {
  FORETIME_NEEDS_DATA();
  const auto published = tpugraphs() / "npz/layout/xla/default/valid/unet_3d.4x4.bf16.npz";
  const Group expected = load(published, CandidateKind::layout);
  const Group group = load(tpugraphs() / "pb/module_tuning_data_layout.pb", CandidateKind::layout);
  ASSERT_EQ(group.graphs.nodes(), 3163);
  expect_equal_graphs(group.graphs, expected.graphs);
  EXPECT_EQ(values(group.layout.nodes), values(expected.layout.nodes));
  EXPECT_EQ(values(group.node_splits), values(expected.node_splits));

  // 10 of the 122 runs failed; the others stand among the published 1,965 with the same time.
  ASSERT_EQ(group.candidates, 112);
  std::map<std::vector<int8_t>, std::multiset<double>> times;
  for (int64_t c = 0; c < expected.candidates; ++c) times[layouts_of(expected, c)].insert(expected.runtimes[c]);
  for (int64_t c = 0; c < group.candidates; ++c)
    EXPECT_EQ(times[layouts_of(group, c)].count(group.runtimes[c]), 1u) << "candidate " << c;
}

TEST(HloGolden, TileModulesEqualFilesOfOthers) {
  FORETIME_NEEDS_DATA();
  const auto headers = list_groups({(tpugraphs() / "pb/op_tuning_data.pb").string()}, ".", CandidateKind::tile);
  ASSERT_EQ(headers.size(), 15u);
  for (const auto& header : headers) {
    const Group group = load_group(header);
    EXPECT_EQ(group.name, header.name);
    EXPECT_EQ(group.graphs.nodes(), header.nodes);
    EXPECT_EQ(group.graphs.edges(), header.edges);
    EXPECT_EQ(group.candidates, header.candidates);
    const std::string prefix = "op_tuning_data_";
    ASSERT_TRUE(group.name.starts_with(prefix));
    const auto kernel = group.name.substr(prefix.size());
    const Group expected =
        load(tpugraphs() / "npz/tile/xla/from_pb" / ("testdata_" + kernel + ".npz"), CandidateKind::tile);
    expect_equal_graphs(group.graphs, expected.graphs);
    EXPECT_EQ(values(group.tile_features), values(expected.tile_features));
    EXPECT_EQ(values(group.runtimes), values(expected.runtimes));
  }
}

TEST(HloGolden, StreamedEqualsWhole) {
  FORETIME_NEEDS_DATA();
  const auto header =
      list_groups({(tpugraphs() / "pb/module_tuning_data_layout.pb").string()}, ".", CandidateKind::layout).at(0);
  const Group whole = load_group(header);
  EXPECT_EQ(header.nodes, whole.graphs.nodes());
  EXPECT_EQ(header.edges, whole.graphs.edges());
  EXPECT_EQ(header.candidates, whole.candidates);
  EXPECT_EQ(header.configurable, whole.layout.configurable());
  std::vector<float> features;
  std::vector<uint8_t> codes;
  const Group streamed = load_group(
      header, {[&](std::span<const float> rows, int64_t) { features.insert(features.end(), rows.begin(), rows.end()); },
               [&](std::span<const uint8_t> rows, int64_t) { codes.insert(codes.end(), rows.begin(), rows.end()); }});
  EXPECT_TRUE(streamed.graphs.node_features.empty());
  EXPECT_TRUE(streamed.layout.codes.empty());
  EXPECT_EQ(features, values(whole.graphs.node_features));
  EXPECT_EQ(codes, values(whole.layout.codes));
  EXPECT_EQ(values(streamed.layout.rows), values(whole.layout.rows));
}

}  // namespace
}  // namespace foretime::data
