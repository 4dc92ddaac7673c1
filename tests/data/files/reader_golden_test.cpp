/// The public files, against sums that numpy computed from the same members.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "data/dataset/group_files.h"
#include "data/files/npz_reader.h"
#include "data/graphs/schema.h"
#include "data/graphs/validate.h"
#include "tests/support/paths.h"

namespace foretime::data {
namespace {

using testing::data_dir;

struct LayoutGolden {
  const char* file;
  int64_t nodes, edges, candidates, configurable;
  double features;   // sum of node_feat
  int64_t opcodes;   // sum of node_opcode
  int64_t layout;    // sum of (k + 1) * node_config_feat[:, :, k]
  int64_t runtimes;  // sum of config_runtime
  int64_t consumers, producers;
  int64_t distinct_rows;  // summed over configurable nodes
};

const LayoutGolden kLayouts[] = {
    {"layout/nlp/default/test/3a0c5517a87df8d82fd637b83298a3ba.npz", 21918, 36278, 1001, 848, 41890921298.0, 1063832,
     -56119526, 0, 460421445, 387413953, 6437},
    {"layout/nlp/random/test/23559853d9702baaaacbb0c83fd32266.npz", 1096, 1688, 1000, 56, 455704773.0, 47817, -5550880,
     0, 1025754, 885617, 329},
    {"layout/xla/default/test/cd708819d3f5103afd6460b15e74eaf3.npz", 490, 749, 1000, 38, 118817931.0, 22619, -4743973,
     0, 213237, 185214, 234},
    {"layout/xla/default/train/alexnet_train_batch_32.npz", 372, 597, 47712, 26, 484674094.0, 17259, -95677180,
     5279798311404, 128949, 107422, 199},
    {"layout/xla/default/train/unet3d.npz", 2774, 4730, 1159, 56, 47772249581.0, 129549, -1258025, 29806017728988,
     7321162, 6256082, 290},
    {"layout/xla/default/valid/unet_3d.4x4.bf16.npz", 3163, 5112, 1965, 62, 30551286504.0, 139867, -3339209,
     1793239995063, 9113143, 7244333, 318},
    {"layout/xla/random/test/cd708819d3f5103afd6460b15e74eaf3.npz", 490, 749, 1000, 38, 118817931.0, 22619, -4618253, 0,
     213237, 185214, 234},
    {"layout/xla/random/train/openai_v0_rnn_optimized.npz", 1277, 2063, 20, 62, 5188204584.0, 55731, -137080,
     9227805346, 1474237, 1303034, 62},
};

template <class T>
double sum(const Array<T>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(ReaderGolden, LayoutFiles) {
  FORETIME_NEEDS_DATA();
  for (const auto& golden : kLayouts) {
    SCOPED_TRACE(golden.file);
    const auto headers = list_groups({golden.file}, data_dir() / "tpugraphs" / "npz", CandidateKind::layout);
    ASSERT_EQ(headers.size(), 1u);
    const Group group = load_group(headers[0]);
    validate_group(group, golden.file);
    EXPECT_EQ(group.graphs.nodes(), golden.nodes);
    EXPECT_EQ(group.graphs.edges(), golden.edges);
    EXPECT_EQ(group.candidates, golden.candidates);
    EXPECT_EQ(group.layout.configurable(), golden.configurable);
    EXPECT_EQ(headers[0].nodes, golden.nodes);
    EXPECT_EQ(headers[0].edges, golden.edges);
    EXPECT_EQ(headers[0].candidates, golden.candidates);
    EXPECT_EQ(headers[0].configurable, golden.configurable);
    EXPECT_EQ(headers[0].feature_count, kHloFeatures);
    EXPECT_DOUBLE_EQ(sum(group.graphs.node_features), golden.features);
    EXPECT_EQ(sum(group.graphs.node_types), static_cast<double>(golden.opcodes));
    EXPECT_EQ(sum(group.runtimes), static_cast<double>(golden.runtimes));
    EXPECT_EQ(group.labelled(), golden.runtimes != 0);
    EXPECT_EQ(sum(group.graphs.edge_target), static_cast<double>(golden.consumers));
    EXPECT_EQ(sum(group.graphs.edge_source), static_cast<double>(golden.producers));
    EXPECT_EQ(group.layout.row_ptr[golden.configurable], golden.distinct_rows);
    EXPECT_EQ(group.node_splits[group.node_splits.size() - 1], golden.nodes);
    int64_t layout = 0;
    for (int64_t c = 0; c < group.candidates; ++c) {
      for (int64_t j = 0; j < golden.configurable; ++j) {
        const int64_t row = group.layout.row_ptr[j] + group.layout.codes[c * golden.configurable + j];
        for (int64_t k = 0; k < kLayoutFeatures; ++k) layout += (k + 1) * group.layout.rows[row * kLayoutFeatures + k];
      }
    }
    EXPECT_EQ(layout, golden.layout);
  }
}

/// The coder against the array that it never materialises.
TEST(ReaderGolden, CodesReproduceEveryLayoutRow) {
  FORETIME_NEEDS_DATA();
  for (const char* name :
       {"train/unet3d.npz", "valid/unet_3d.4x4.bf16.npz", "test/cd708819d3f5103afd6460b15e74eaf3.npz"}) {
    const auto headers = list_groups({name}, data_dir() / "tpugraphs/npz/layout/xla/default", CandidateKind::layout);
    const Group group = load_group(headers.at(0));
    const auto slow = NpzReader(headers[0].file).open("node_config_feat").read_all<float>();
    const int64_t configurable = group.layout.configurable();
    ASSERT_EQ(static_cast<int64_t>(slow.size()), group.candidates * configurable * kLayoutFeatures);
    int64_t wrong = 0;
    for (int64_t i = 0; i < group.candidates * configurable; ++i) {
      const int64_t row = group.layout.row_ptr[i % configurable] + group.layout.codes[i];
      for (int64_t k = 0; k < kLayoutFeatures; ++k)
        wrong += slow[static_cast<size_t>(i * kLayoutFeatures + k)] != group.layout.rows[row * kLayoutFeatures + k];
    }
    EXPECT_EQ(wrong, 0) << name;
  }
}

TEST(ReaderGolden, TileFiles) {
  FORETIME_NEEDS_DATA();
  const auto headers = list_groups({"tile/xla"}, data_dir() / "tpugraphs" / "npz", CandidateKind::tile);
  EXPECT_EQ(headers.size(), 23u);
  double features = 0, labels = 0;
  int64_t candidates = 0;
  for (const auto& header : headers) {
    const Group group = load_group(header);
    validate_group(group, header.name);
    EXPECT_EQ(group.candidates, header.candidates);
    EXPECT_EQ(group.unit, RuntimeUnit::normalized);
    candidates += group.candidates;
    features += sum(group.tile_features);
    labels += sum(group.runtimes);
  }
  EXPECT_EQ(candidates, 5912);
  EXPECT_DOUBLE_EQ(features, 2371072.0);
  EXPECT_NEAR(labels, 2715.3117067612643, 1e-9);
}

void expect_programs(const std::string& folder, size_t groups, int64_t graphs, int64_t nodes, double extents,
                     double values, double seconds) {
  const auto headers = list_groups({folder}, data_dir() / "tir", CandidateKind::program);
  EXPECT_EQ(headers.size(), groups);
  for (const auto& header : headers) {
    const Group group = load_group(header);
    validate_group(group, header.name);
    EXPECT_EQ(group.graphs.edges(), header.edges);
    EXPECT_EQ(group.graphs.nodes(), header.nodes);
    EXPECT_EQ(static_cast<int64_t>(group.candidate_ids.size()), group.candidates);
    EXPECT_EQ(group.graphs.graphs(), header.graphs);
    graphs -= group.candidates;
    nodes -= group.graphs.nodes();
    for (int64_t i = 0; i < group.graphs.nodes(); ++i) {
      extents -= group.graphs.node_features[i * ProgramColumns::count + ProgramColumns::extent];
      values -= group.graphs.node_features[i * ProgramColumns::count + ProgramColumns::value];
    }
    seconds -= sum(group.runtimes);
  }
  EXPECT_EQ(graphs, 0);
  EXPECT_EQ(nodes, 0);
  EXPECT_NEAR(extents, 0.0, 0.1);  // float32 features
  EXPECT_NEAR(values, 0.0, 0.1);
  EXPECT_NEAR(seconds, 0.0, 1e-9);
}

TEST(ReaderGolden, MeasuredPrograms) {
  FORETIME_NEEDS_DATA();
  expect_programs("resnet18_conv2d", 12, 10024, 1402144, 703863.7553095149, 1715951.797147941, 54.553901425482216);
  expect_programs("ansor/trees", 50, 4836, 964746, 363100.4390808419, 1107345.212549827, 24.279529718748982);
}

TEST(ReaderGolden, OfficialEvaluationIndices) {
  FORETIME_NEEDS_DATA();
  const auto indices = read_eval_indices(data_dir() / "tpugraphs/eval_indices/xla_default.json");
  const auto& ids = indices.at("unet_3d.4x4.bf16");
  EXPECT_LE(ids.size(), 1000u);
  EXPECT_LT(*std::ranges::max_element(ids), 1965);
}

TEST(ReaderGolden, SamplesAreThere) {
  const auto headers = list_groups({"resnet18_conv2d/{C1,C1?}.npz"}, testing::samples_dir(), CandidateKind::program);
  ASSERT_EQ(headers.size(), 4u);
  EXPECT_EQ(headers[0].name, "C1");
  EXPECT_EQ(headers[3].name, "C12");
  const Group group = load_group(headers[0]);
  EXPECT_EQ(group.candidates, 308);
  EXPECT_EQ(group.graphs.nodes(), 43282);
  EXPECT_EQ(group.candidate_ids.front(), "C1_00077");
  EXPECT_EQ(group.flops[0], 237138804.0);
  EXPECT_EQ(group.graphs.node_types[0], tir_type_id("PrimFunc"));
  const auto hashes = configuration_hashes(group);
  auto distinct = hashes;
  std::ranges::sort(distinct);
  EXPECT_EQ(std::unique(distinct.begin(), distinct.end()) - distinct.begin(), 308);
}

}  // namespace
}  // namespace foretime::data
