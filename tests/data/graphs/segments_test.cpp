#include "data/graphs/segments.h"

#include <filesystem>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/dataset/group_files.h"
#include "data/dataset/synth.h"
#include "tests/data/groups.h"
#include "tests/support/paths.h"

namespace foretime::data {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> sizes(const Segments& segments) {
  std::vector<int64_t> result;
  for (int64_t s = 0; s < segments.count(); ++s) result.push_back(static_cast<int64_t>(segments[s].size()));
  return result;
}

/// A chain of `nodes` nodes with the given starts of computations.
Group chain(int64_t nodes, std::vector<int64_t> splits) {
  Group group = testing::make_group(CandidateKind::layout, "chain", 1);
  std::vector<int32_t> source, target;
  for (int32_t v = 1; v < nodes; ++v) {
    source.push_back(v - 1);
    target.push_back(v);
  }
  group.graphs.graph_ptr = std::vector<int64_t>{0, nodes};
  group.graphs.edge_ptr = std::vector<int64_t>{0, nodes - 1};
  group.graphs.node_features = std::vector<float>(static_cast<size_t>(nodes * 3), 1.0F);
  group.graphs.node_types = std::vector<uint8_t>(static_cast<size_t>(nodes), 1);
  group.graphs.edge_source = source;
  group.graphs.edge_target = target;
  group.node_splits = std::move(splits);
  return group;
}

/// What every cut promises, found by looking at each node.
void expect_valid(const Group& group, const Segments& segments, int64_t max_nodes) {
  std::vector<int> seen(static_cast<size_t>(group.graphs.nodes()), 0);
  const auto of_nodes = segments.of_nodes();
  for (int64_t s = 0; s < segments.count(); ++s) {
    const auto nodes = segments[s];
    ASSERT_FALSE(nodes.empty()) << group.name << " segment " << s;
    ASSERT_LE(static_cast<int64_t>(nodes.size()), max_nodes) << group.name << " segment " << s;
    ASSERT_TRUE(std::is_sorted(nodes.begin(), nodes.end()));
    ASSERT_TRUE(s == 0 || segments[s - 1].front() < nodes.front());
    for (const int32_t v : nodes) {
      ++seen[static_cast<size_t>(v)];
      ASSERT_EQ(of_nodes[static_cast<size_t>(v)], s);
    }
  }
  for (size_t v = 0; v < seen.size(); ++v) ASSERT_EQ(seen[v], 1) << group.name << " node " << v;

  std::set<int64_t> bounds(group.node_splits.begin(), group.node_splits.end());
  bounds.insert({0, group.graphs.nodes()});
  for (auto at = bounds.begin(); std::next(at) != bounds.end(); ++at) {
    std::set<int32_t> here;
    for (int64_t v = *at; v < *std::next(at); ++v) here.insert(of_nodes[static_cast<size_t>(v)]);
    if (*std::next(at) - *at <= max_nodes) {
      EXPECT_EQ(here.size(), 1U) << group.name << ": the computation at " << *at << " would fit";
      continue;
    }
    for (const int32_t s : here) {
      EXPECT_GE(segments[s].front(), *at) << group.name;
      EXPECT_LT(segments[s].back(), *std::next(at)) << group.name << ": a large computation shares a segment";
    }
  }
}

TEST(Segments, SmallGraphsAndNoLimitGiveOne) {
  const Group group = chain(10, {0, 4, 10});
  EXPECT_THAT(sizes(make_segments(group, {0})), ElementsAre(10));
  EXPECT_THAT(sizes(make_segments(group, {10})), ElementsAre(10));
}

TEST(Segments, ConsecutiveComputationsShareASegmentWhileTheyFit) {
  EXPECT_THAT(sizes(make_segments(chain(10, {0, 2, 4, 9, 10}), {5})), ElementsAre(4, 5, 1));
  // Lists without the start or the end, and with computations of no nodes.
  EXPECT_THAT(sizes(make_segments(chain(10, {2, 2, 4, 9}), {5})), ElementsAre(4, 5, 1));
}

TEST(Segments, LargeComputationsAreCutEvenlyAndAlone) {
  EXPECT_THAT(sizes(make_segments(chain(20, {0, 2, 15, 17}), {5})), ElementsAre(2, 4, 4, 5, 5));
}

TEST(Segments, RefuseWhatIsNoLayoutGroup) {
  EXPECT_THROW(make_segments(testing::make_group(CandidateKind::tile, "t", 1), {2}), DataError);
}

TEST(Segments, RandomGraphsKeepThePromises) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const int64_t nodes = 2 + static_cast<int64_t>(random() % 120), most = 1 + static_cast<int64_t>(random() % 40);
    std::vector<int64_t> splits;
    for (unsigned i = 0; i < random() % 8; ++i) splits.push_back(static_cast<int64_t>(random()) % (nodes + 1));
    std::sort(splits.begin(), splits.end());
    const Group group = chain(nodes, splits);
    expect_valid(group, make_segments(group, {most}), most);
    const auto cut = make_segments(group, {most, SegmentMethod::metis});
    expect_valid(group, cut, most);
    EXPECT_EQ(cut.nodes, make_segments(group, {most, SegmentMethod::metis}).nodes);
  }
}

int64_t cut_edges(const Group& group, const Segments& segments) {
  const auto of_nodes = segments.of_nodes();
  int64_t cut = 0;
  for (int64_t e = 0; e < group.graphs.edges(); ++e) {
    cut += of_nodes[static_cast<size_t>(group.graphs.edge_source[e])] !=
           of_nodes[static_cast<size_t>(group.graphs.edge_target[e])];
  }
  return cut;
}

TEST(Segments, MetisFindsTheComponents) {
  // Two chains whose nodes alternate: runs of ids cut nearly every edge, a partition cuts none.
  Group group = chain(200, {});
  std::vector<int32_t> source, target;
  for (int32_t v = 2; v < 200; ++v) {
    source.push_back(v - 2);
    target.push_back(v);
  }
  group.graphs.edge_ptr = std::vector<int64_t>{0, static_cast<int64_t>(source.size())};
  group.graphs.edge_source = source;
  group.graphs.edge_target = target;
  EXPECT_EQ(cut_edges(group, make_segments(group, {100, SegmentMethod::metis})), 0);
  EXPECT_EQ(cut_edges(group, make_segments(group, {100})), 2);
}

TEST(Segments, RealGraphsKeepThePromises) {
  FORETIME_NEEDS_DATA();
  const auto folder = foretime::testing::data_dir() / "tpugraphs" / "npz" / "layout";
  int graphs = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".npz") continue;
    ++graphs;
    const Group group = load_group(list_groups({file.path().string()}, {}, CandidateKind::layout).front());
    for (const int64_t most : {300, 1000}) {
      for (const auto method : {SegmentMethod::contiguous, SegmentMethod::metis}) {
        expect_valid(group, make_segments(group, {most, method}), most);
      }
    }
  }
  EXPECT_GT(graphs, 0) << folder;
}

}  // namespace
}  // namespace foretime::data
