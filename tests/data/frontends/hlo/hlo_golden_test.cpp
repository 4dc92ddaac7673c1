/// Real tuning data of TpuGraphs against the .npz files that others made of it.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "data/dataset/group_files.h"
#include "data/dataset/hlo_convert.h"
#include "data/files/npz_reader.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"
#include "tests/support/values.h"

namespace foretime::data {
namespace {

using foretime::testing::values;

std::filesystem::path tpugraphs() { return testing::data_dir() / "tpugraphs"; }

Group load(const std::filesystem::path& file, CandidateKind kind) {
  return load_group(list_groups({file.string()}, ".", kind).at(0));
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

/// The bytes of an .npz entry, header and all.
std::string entry_bytes(const std::filesystem::path& file, const std::string& name) {
  const ZipArchive archive(file);
  const ZipEntry* entry = archive.find(name + ".npy");
  EXPECT_NE(entry, nullptr) << name;
  std::string bytes(entry == nullptr ? 0 : entry->size, '\0');
  if (entry != nullptr) archive.open(*entry).read(bytes.data(), bytes.size());
  return bytes;
}

using LayoutRow = std::vector<int8_t>;

LayoutRow layouts_of(const Group& group, int64_t c) {
  const auto& layout = group.layout;
  LayoutRow row;
  for (int64_t j = 0; j < layout.configurable(); ++j) {
    const auto at = (layout.row_ptr[j] + layout.codes[c * layout.configurable() + j]) * kLayoutFeatures;
    row.insert(row.end(), layout.rows.begin() + at, layout.rows.begin() + at + kLayoutFeatures);
  }
  return row;
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
  std::map<LayoutRow, std::multiset<double>> times;
  for (int64_t c = 0; c < expected.candidates; ++c) times[layouts_of(expected, c)].insert(expected.runtimes[c]);
  for (int64_t c = 0; c < group.candidates; ++c)
    EXPECT_EQ(times[layouts_of(group, c)].count(group.runtimes[c]), 1u) << "candidate " << c;
}

TEST(HloGolden, ConvertedMembersEqualThePublishedOnes) {
  FORETIME_NEEDS_DATA();
  const testing::Scratch scratch;
  const auto published = tpugraphs() / "npz/layout/xla/default/valid/unet_3d.4x4.bf16.npz";
  const auto out = scratch.path() / "unet.npz";
  convert_hlo(tpugraphs() / "pb/module_tuning_data_layout.pb", out, {}, [](const HloConversion& done) {
    EXPECT_EQ(done.what.runs_left_out, 10);
    EXPECT_TRUE(done.what.unknown_opcodes.empty());
  });
  for (const char* name : {"edge_index", "node_feat", "node_opcode", "node_config_ids", "node_splits"})
    EXPECT_EQ(entry_bytes(out, name), entry_bytes(published, name)) << name;
}

TEST(HloGolden, TileModulesEqualFilesOfOthers) {
  FORETIME_NEEDS_DATA();
  const testing::Scratch scratch;
  size_t groups = 0;
  convert_hlo(tpugraphs() / "pb/op_tuning_data.pb", scratch.path(), {}, [&](const HloConversion& done) {
    const std::string prefix = "op_tuning_data_";
    ASSERT_TRUE(done.name.starts_with(prefix));
    const auto theirs = tpugraphs() / "npz/tile/xla/from_pb" / ("testdata_" + done.name.substr(prefix.size()) + ".npz");
    for (const char* name :
         {"node_feat", "node_opcode", "edge_index", "config_feat", "config_runtime", "config_runtime_normalizers"})
      EXPECT_EQ(entry_bytes(done.out, name), entry_bytes(theirs, name)) << done.name << " " << name;
    const Group expected = load(theirs, CandidateKind::tile), group = load(done.out, CandidateKind::tile);
    expect_equal_graphs(done.what.group.graphs, expected.graphs);
    EXPECT_EQ(values(done.what.group.tile_features), values(expected.tile_features));
    EXPECT_EQ(values(done.what.group.runtimes), values(expected.runtimes));
    EXPECT_EQ(values(group.runtimes), values(expected.runtimes));
    ++groups;
  });
  EXPECT_EQ(groups, 15u);
  const auto headers = list_groups({(tpugraphs() / "pb/op_tuning_data.pb").string()}, ".", CandidateKind::tile);
  ASSERT_EQ(headers.size(), 15u);
  for (const auto& header : headers) {
    const Group group = load_group(header);
    EXPECT_EQ(group.name, header.name);
    EXPECT_EQ(group.graphs.nodes(), header.nodes);
    EXPECT_EQ(group.graphs.edges(), header.edges);
    EXPECT_EQ(group.candidates, header.candidates);
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
