#include "data/dataset/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/dataset/group_files.h"
#include "data/files/packed.h"
#include "data/graphs/validate.h"
#include "tests/data/groups.h"
#include "tests/support/layout_npz.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_graph.h"

namespace foretime::data {
namespace {

using testing::expect_same;
using ::testing::HasSubstr;
using testing::make_group;

std::vector<int8_t> features_of(const Group& group) {
  const LayoutCandidates& layout = group.layout;
  std::vector<int8_t> all;
  for (int64_t i = 0; i < layout.codes.size(); ++i) {
    const int64_t row = layout.row_ptr[i % layout.configurable()] + layout.codes[i];
    const auto values = layout.rows.subspan(row * kLayoutFeatures, kLayoutFeatures);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Tables of rows may be in another order, and codes with them.
void expect_same_meaning(const Group& a, const Group& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.candidates, b.candidates);
  EXPECT_EQ(a.graphs.feature_count, b.graphs.feature_count);
  expect_same("node_features", a.graphs.node_features, b.graphs.node_features);
  expect_same("node_types", a.graphs.node_types, b.graphs.node_types);
  expect_same("edge_source", a.graphs.edge_source, b.graphs.edge_source);
  expect_same("edge_target", a.graphs.edge_target, b.graphs.edge_target);
  expect_same("layout nodes", a.layout.nodes, b.layout.nodes);
  EXPECT_EQ(features_of(a), features_of(b));
  expect_same("runtimes", a.runtimes, b.runtimes);
  expect_same("node_splits", a.node_splits, b.node_splits);
}

std::vector<GroupHeader> list(const std::filesystem::path& file, CandidateKind kind) {
  return list_groups({file.string()}, ".", kind);
}

class Synth : public testing::ScratchTest {
 protected:
  const testing::SynthSettings settings_{200, 20, 300, 7};
};

TEST_F(Synth, MakesValidGroupsOfTheSizeAskedFor) {
  const Group group = testing::synthesize_layout_group(settings_, "synthetic_a");
  validate_group(group, "synthetic_a");
  EXPECT_EQ(group.graphs.nodes(), 200);
  EXPECT_EQ(group.layout.configurable(), 20);
  EXPECT_EQ(group.candidates, 300);
  EXPECT_EQ(group.graphs.feature_count, kHloFeatures);
  for (int64_t e = 0; e < group.graphs.edges(); ++e)
    EXPECT_LT(group.graphs.edge_source[e], group.graphs.edge_target[e]);
  for (int64_t j = 0; j < 20; ++j) EXPECT_LE(group.layout.row_ptr[j + 1] - group.layout.row_ptr[j], 9);
  expect_same(group, testing::synthesize_layout_group(settings_, "synthetic_a"));
  const Group other = testing::synthesize_layout_group({200, 20, 300, 8}, "synthetic_a");
  EXPECT_NE(features_of(group), features_of(other));
}

TEST_F(Synth, HasRunTimesThatDependOnLayouts) {
  const Group group = testing::synthesize_layout_group(settings_, "synthetic_a");
  const GroupReport report = inspect_group(group, "here");
  EXPECT_LT(report.distinct_configurations, report.candidates);
  EXPECT_GT(report.noise_ceiling, 0.95);
  EXPECT_LT(report.noise_ceiling, 1.0);
  EXPECT_GT(report.runtimes.maximum / report.runtimes.minimum, 1.2);
  // Noise of 1 % must not hide the effect of the layouts.
  EXPECT_GT(report.runtimes.quantiles[5] / report.runtimes.quantiles[1], 1.1);
}

TEST_F(Synth, RefusesImpossibleSizes) {
  EXPECT_THROW(testing::synthesize_layout_group({1, 1, 1, 1}, "s"), DataError);
  EXPECT_THROW(testing::synthesize_layout_group({10, 11, 1, 1}, "s"), DataError);
  EXPECT_THROW(testing::synthesize_layout_group({10, 1, 0, 1}, "s"), DataError);
  EXPECT_THROW(testing::write_synthetic(folder_ / "synthetic_x.txt", settings_), DataError);
  EXPECT_THROW(testing::write_synthetic(folder_ / "missing" / "synthetic_x.npz", settings_), DataError);
}

TEST_F(Synth, WritesNpzAndPackedFilesThatReadBack) {
  const auto npz = folder_ / "synthetic_a.npz", packed = folder_ / "packed" / "synthetic_a.foretime";
  std::filesystem::create_directory(folder_ / "packed");
  testing::write_synthetic(npz, settings_);
  testing::write_synthetic(packed, settings_);
  const Group group = testing::synthesize_layout_group(settings_, "synthetic_a");
  const auto headers = list(npz, CandidateKind::layout);
  ASSERT_EQ(headers.size(), 1U);
  EXPECT_EQ(headers[0].configurable, 20);
  expect_same_meaning(load_group(headers[0]), group);
  expect_same(load_packed(packed_headers(packed)[0]), group);
}

TEST_F(Synth, NpzWritesTheSameBytesAgain) {
  testing::write_synthetic(folder_ / "synthetic_a.npz", settings_);
  testing::write_synthetic(folder_ / "synthetic_b.npz", settings_);
  EXPECT_EQ(testing::read_text(folder_ / "synthetic_a.npz"), testing::read_text(folder_ / "synthetic_b.npz"));
}

TEST(LayoutNpz, RefusesOtherKinds) {
  EXPECT_THROW(testing::write_layout_npz("nowhere.npz", make_group(CandidateKind::tile, "t", 1)), DataError);
}

TEST(Inspect, CountsWhatAGroupHolds) {
  const GroupReport report = inspect_group(make_group(CandidateKind::layout, "small", 3), "small.npz");
  EXPECT_EQ(report.candidates, 5);
  EXPECT_EQ(report.distinct_configurations, 4);  // candidates 1 and 3 have codes 2, 1
  EXPECT_EQ(report.most_repeated, 2);
  EXPECT_EQ(report.configurable, 2);
  EXPECT_EQ(report.fewest_rows, 2);
  EXPECT_EQ(report.most_rows, 3);
  EXPECT_DOUBLE_EQ(report.mean_rows, 2.5);
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("5, of which 4 distinct; the commonest occurs 2 times"));
  EXPECT_THAT(text, HasSubstr("2 configurable nodes with 2 to 3 distinct rows each, 2.50"));
}

TEST(Inspect, SummarizesRunTimesAsNumpyDoes) {
  Group group = make_group(CandidateKind::program, "p", 1);
  group.runtimes = std::vector<double>{4, 1, 3, 2, 10};
  const RuntimeSummary times = inspect_group(group, "p").runtimes;
  EXPECT_EQ(times.minimum, 1);
  EXPECT_EQ(times.maximum, 10);
  EXPECT_EQ(times.mean, 4);
  EXPECT_EQ(times.distinct, 5);
  // numpy.quantile([4, 1, 3, 2, 10], [.01, .1, .25, .5, .75, .9, .99])
  const std::array<double, 7> expected = {1.04, 1.4, 2, 3, 4, 7.6, 9.76};
  for (size_t q = 0; q < expected.size(); ++q) EXPECT_NEAR(times.quantiles[q], expected[q], 1e-12);
}

TEST(Inspect, SaysUnlabelled) {
  Group group = make_group(CandidateKind::tile, "tile", 1);
  group.runtimes = std::vector<double>(5, 0.0);
  const GroupReport report = inspect_group(group, "f");
  EXPECT_THAT(to_text(report), HasSubstr("unlabelled"));
  const auto json = nlohmann::json::parse(to_json({report, report}));
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["labelled"], false);
  EXPECT_EQ(json[0]["candidates"], 5);
  EXPECT_FALSE(json[0].contains("runtimes"));
}

class RealData : public testing::ScratchTest {
 protected:
  void round_trip(const std::vector<GroupHeader>& headers) {
    const auto file = folder_ / "packed.foretime";
    PackedWriter writer(file);
    for (const auto& header : headers) writer.add(load_group(header), header.fingerprint);
    writer.finish();
    const auto packed = list(file, headers[0].kind);
    ASSERT_EQ(packed.size(), headers.size());
    for (size_t i = 0; i < headers.size(); ++i) {
      EXPECT_EQ(packed[i].fingerprint, headers[i].fingerprint);
      EXPECT_EQ(packed[i].nodes, headers[i].nodes);
      EXPECT_EQ(packed[i].edges, headers[i].edges);
      expect_same(load_group(packed[i]), load_group(headers[i]));
    }
  }
  static double ceiling(const std::filesystem::path& file) {
    return inspect_group(load_group(list(file, CandidateKind::layout).at(0)), "").noise_ceiling;
  }
};

TEST_F(RealData, SamplesSurvivePacking) {
  round_trip(list_groups({testing::samples_dir() / "resnet18_conv2d"}, ".", CandidateKind::program));
}

TEST_F(RealData, TilesSurvivePacking) {
  FORETIME_NEEDS_DATA();
  round_trip(list_groups({"tpugraphs/npz/tile"}, testing::data_dir(), CandidateKind::tile));
}

TEST_F(RealData, LayoutsSurvivePackingAndWriting) {
  FORETIME_NEEDS_DATA();
  const auto headers =
      list_groups({"tpugraphs/npz/layout/xla/default/train"}, testing::data_dir(), CandidateKind::layout);
  round_trip(headers);
  for (const auto& header : headers) {
    if (header.candidates > 5000) continue;
    const Group group = load_group(header);
    const auto copy = folder_ / (group.name + ".npz");
    testing::write_layout_npz(copy, group);
    expect_same_meaning(load_group(list(copy, CandidateKind::layout).at(0)), group);
  }
}

TEST_F(RealData, HasTheKnownNoiseCeilings) {
  FORETIME_NEEDS_DATA();
  const auto folder = testing::data_dir() / "tpugraphs/npz/layout/xla/default";
  EXPECT_NEAR(ceiling(folder / "train/unet3d.npz"), 0.927, 5e-4);
  // Published as 0.876; a separate computation over the file's float32 rows gives 0.877926.
  EXPECT_NEAR(ceiling(folder / "train/alexnet_train_batch_32.npz"), 0.877926, 1e-6);
  EXPECT_NEAR(ceiling(folder / "valid/unet_3d.4x4.bf16.npz"), 0.804, 5e-4);
}

}  // namespace
}  // namespace foretime::data
