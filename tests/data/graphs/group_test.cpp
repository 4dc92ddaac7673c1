#include "data/graphs/group.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/dataset/group_files.h"
#include "data/dataset/pack.h"
#include "data/files/packed.h"
#include "data/graphs/pruning.h"
#include "data/graphs/segments.h"
#include "data/graphs/validate.h"
#include "plans/plan_source.h"
#include "plans/symbolic_plan.h"
#include "tests/data/groups.h"
#include "tests/support/layout_npz.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_graph.h"
#include "tests/support/values.h"

namespace foretime::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Collection, ComesFromThePath) {
  EXPECT_EQ(collection_in("data/npz/layout/xla/random/test/x.npz"), "layout:xla:random");
  EXPECT_EQ(collection_in("/a/layout/nlp/default/valid/y.npz"), "layout:nlp:default");
  EXPECT_EQ(collection_in("npz/tile/xla/test/z.npz"), "tile:xla");
  EXPECT_EQ(collection_in("elsewhere/z.npz"), "");
  for (int64_t i = 0; i < kCollections; ++i) {
    const auto collection = static_cast<Collection>(i);
    EXPECT_EQ(collection_named(to_string(collection)), collection);
  }
  EXPECT_EQ(collection_named("layout:gpu:random"), Collection::none);
}

TEST(Collection, QualifiesNamesOnce) {
  EXPECT_EQ(qualified_name(Collection::layout_xla_random, "g"), "layout:xla:random:g");
  EXPECT_EQ(qualified_name(Collection::layout_xla_random, "layout:xla:random:g"), "layout:xla:random:g");
  EXPECT_EQ(qualified_name(Collection::none, "g"), "g");
  EXPECT_EQ(plain_name("tile:xla:g:h"), "g:h");
  EXPECT_EQ(plain_name("layout:xla:random"), "layout:xla:random");
}

class Collections : public testing::ScratchTest {
 protected:
  std::filesystem::path put(const std::string& folder, const std::string& name, uint64_t seed) {
    std::filesystem::create_directories(folder_ / folder);
    const auto file = folder_ / folder / (name + ".npz");
    testing::write_layout_npz(file, testing::synthesize_layout_group({30, 5, 12, seed}, name));
    return file;
  }
  std::vector<std::string> names(const std::vector<std::string>& patterns) {
    std::vector<std::string> found;
    for (const auto& header : list_groups(patterns, folder_, CandidateKind::layout)) found.push_back(header.name);
    return found;
  }
};

TEST_F(Collections, OneNameInTwoOfThemIsTwoGroups) {
  put("layout/xla/random/train", "a", 1);
  put("layout/xla/default/train", "a", 2);
  put("layout/xla/default/train", "b", 3);
  EXPECT_THAT(names({"layout/xla/default"}), ElementsAre("a", "b"));
  EXPECT_THAT(names({"layout"}), ElementsAre("layout:xla:default:a", "layout:xla:default:b", "layout:xla:random:a"));
  for (const auto& header : list_groups({"layout"}, folder_, CandidateKind::layout)) {
    const auto group = load_group(header);
    EXPECT_EQ(group.name, header.name);
    EXPECT_EQ(group.collection, header.collection);
  }
  put("elsewhere", "a", 4);
  put("elsewhere/too", "a", 5);
  EXPECT_THROW(names({"elsewhere"}), DataError);
}

TEST_F(Collections, ArePackedWithTheirGroups) {
  put("layout/xla/random/train", "a", 1);
  put("layout/xla/default/train", "a", 2);
  const auto headers = list_groups({"layout"}, folder_, CandidateKind::layout);
  PackedWriter writer(folder_ / "all.foretime");
  for (const auto& header : headers) add_file(writer, header);
  writer.finish();
  const auto packed = packed_headers(folder_ / "all.foretime");
  ASSERT_EQ(packed.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(packed[i].name, headers[i].name);
    EXPECT_EQ(packed[i].collection, headers[i].collection);
    testing::expect_same(load_group(packed[i]), load_group(headers[i]));
  }
  // Two packed collections of one name each are qualified when they are listed together.
  for (const auto* part : {"random", "default"}) {
    PackedWriter one(folder_ / (std::string(part) + ".foretime"));
    add_file(one, list_groups({std::string("layout/xla/") + part}, folder_, CandidateKind::layout).at(0));
    one.finish();
  }
  const auto both = list_groups({"random.foretime", "default.foretime"}, folder_, CandidateKind::layout);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(load_group(both[1]).name, "layout:xla:random:a");
}

TEST_F(Collections, HaveOfficialIndicesOfTheirOwn) {
  EXPECT_THROW(read_eval_indices(folder_), DataError);
  scratch_.write("xla_random.json", R"({"a": [1, 2, 1]})");  // one of the published lists repeats ids
  scratch_.write("nlp_default.json", R"({"a": [3], "b": [4]})");
  const auto all = read_eval_indices(folder_);
  EXPECT_THAT(*find_indices(all, Collection::layout_xla_random, "a"), ElementsAre(1, 2, 1));
  EXPECT_THAT(*find_indices(all, Collection::layout_nlp_default, "layout:nlp:default:a"), ElementsAre(3));
  EXPECT_EQ(find_indices(all, Collection::layout_xla_random, "b"), nullptr);
  const auto one = read_eval_indices(folder_ / "nlp_default.json");
  EXPECT_THAT(*find_indices(one, Collection::layout_nlp_default, "layout:nlp:default:b"), ElementsAre(4));
}

using testing::values;

/// The slow, obvious way: distances of all nodes from all others, an edge being a way in both directions.
std::vector<int32_t> near_by_distances(const Group& group, int64_t hops) {
  const int64_t n = group.graphs.nodes();
  std::vector<std::vector<int64_t>> distance(static_cast<size_t>(n), std::vector<int64_t>(static_cast<size_t>(n), n));
  for (int64_t v = 0; v < n; ++v) distance[static_cast<size_t>(v)][static_cast<size_t>(v)] = 0;
  for (int64_t e = 0; e < group.graphs.edges(); ++e) {
    const auto u = static_cast<size_t>(group.graphs.edge_source[e]),
               v = static_cast<size_t>(group.graphs.edge_target[e]);
    if (u != v) distance[u][v] = distance[v][u] = 1;
  }
  for (size_t k = 0; k < distance.size(); ++k) {
    for (auto& row : distance) {
      for (size_t v = 0; v < row.size(); ++v) row[v] = std::min(row[v], row[k] + distance[k][v]);
    }
  }
  std::vector<int32_t> near;
  for (int64_t v = 0; v < n; ++v) {
    int64_t least = n;
    for (const int32_t c : group.layout.nodes)
      least = std::min(least, distance[static_cast<size_t>(c)][static_cast<size_t>(v)]);
    if (least <= hops && least < n) near.push_back(static_cast<int32_t>(v));
  }
  return near;
}

void expect_same_graph(const Group& a, const Group& b) {
  testing::expect_same(a.graphs, b.graphs);
  testing::expect_same(a.layout, b.layout);
}

/// A chain of `nodes` nodes with the given starts of computations.
Group chain(int64_t nodes, std::vector<int64_t> splits) {
  Group group = testing::make_group(CandidateKind::layout, "chain", 1);
  std::vector<int32_t> source, target;
  for (int32_t v = 1; v < nodes; ++v) {
    source.push_back(v - 1);
    target.push_back(v);
  }
  group.graphs.node_features = std::vector<float>(static_cast<size_t>(nodes * 3), 1.0F);
  group.graphs.node_types = std::vector<uint8_t>(static_cast<size_t>(nodes), 1);
  group.graphs.set_edges(source, target);
  group.node_splits = std::move(splits);
  return group;
}

TEST(PrunedGroup, IsTheInducedGroupOfTheNearNodes) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const auto group =
        testing::synthesize_layout_group({70 + 9 * static_cast<int64_t>(seed), 4, 10, seed}, "synthetic_pruned");
    int64_t before = 0;
    for (const int64_t hops : {0, 1, 2, 3, 5, 1000}) {
      const auto near = nodes_near_configurable(group, hops);
      EXPECT_EQ(near, near_by_distances(group, hops)) << "seed " << seed << ", " << hops << " hops";
      const auto pruned = pruned_group(group, hops);
      expect_same_graph(pruned, plans::induced_group(group, near));
      EXPECT_EQ(pruned.layout.configurable(), group.layout.configurable());
      EXPECT_EQ(configuration_hashes(pruned), configuration_hashes(group));
      EXPECT_EQ(values(pruned.runtimes), values(group.runtimes));
      validate_group(pruned, "pruned");
      EXPECT_GE(pruned.graphs.nodes(), before);
      before = pruned.graphs.nodes();
      expect_same_graph(pruned_group(pruned, hops), pruned);
    }
    EXPECT_EQ(pruned_group(group, 0).graphs.nodes(), group.layout.configurable());
  }
}

TEST(PrunedGroup, SharesTheLayouts) {
  const auto group = testing::synthesize_layout_group({200, 6, 500, 1}, "synthetic_codes");
  const auto pruned = pruned_group(group, 2);
  ASSERT_LT(pruned.graphs.nodes(), group.graphs.nodes());
  EXPECT_EQ(pruned.layout.codes.data(), group.layout.codes.data());
  EXPECT_EQ(pruned.layout.rows.data(), group.layout.rows.data());
  EXPECT_EQ(pruned.runtimes.data(), group.runtimes.data());
}

TEST(PrunedGroup, ComputationsKeepTheirBounds) {
  // A chain 0 - 1 - … - 9 with configurable nodes 1 and 6: one hop leaves 0 1 2 and 5 6 7.
  Group group = chain(10, {0, 2, 4, 6, 9, 10});
  group.layout.nodes = std::vector<int32_t>{1, 6};
  const auto pruned = pruned_group(group, 1);
  EXPECT_THAT(values(pruned.node_splits), ElementsAre(0, 2, 3, 4, 6, 6));
  EXPECT_THAT(values(pruned.layout.nodes), ElementsAre(1, 4));
  EXPECT_THAT(values(pruned.graphs.edge_source), ElementsAre(0, 1, 3, 4));
}

TEST(PrunedGroup, LeavesOtherGroupsAlone) {
  const auto program = testing::make_group(CandidateKind::program, "program", 1);
  const auto tile = testing::make_group(CandidateKind::tile, "tile", 1);
  auto layout = testing::synthesize_layout_group({50, 5, 10, 1}, "synthetic_whole");
  for (const auto* group : {&program, &tile})
    EXPECT_EQ(pruned_group(*group, 0).graphs.node_types.data(), group->graphs.node_types.data());
  EXPECT_EQ(pruned_group(layout, kNoPruning).graphs.nodes(), 50);
  layout.layout.nodes = std::vector<int32_t>();
  layout.layout.row_ptr = std::vector<int64_t>{0};
  layout.layout.rows = std::vector<int8_t>();
  layout.layout.codes = std::vector<uint8_t>();
  EXPECT_EQ(pruned_group(layout, 1).graphs.nodes(), 50) << "nothing to be near to";
}

std::vector<int64_t> sizes(const Segments& segments) {
  std::vector<int64_t> result;
  for (int64_t s = 0; s < segments.count(); ++s) result.push_back(static_cast<int64_t>(segments[s].size()));
  return result;
}

/// What every cut promises, found by looking at each node.
void expect_valid(const Group& group, const Segments& segments, int64_t max_nodes) {
  std::vector<int> seen(static_cast<size_t>(group.graphs.nodes()), 0);
  const auto of_nodes = segments.of_nodes();
  for (int64_t s = 0; s < segments.count(); ++s) {
    const auto nodes = segments[s];
    ASSERT_FALSE(nodes.empty()) << group.name << " segment " << s;
    ASSERT_LE(static_cast<int64_t>(nodes.size()), max_nodes) << group.name << " segment " << s;
    ASSERT_TRUE(std::ranges::is_sorted(nodes));
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
    std::ranges::sort(splits);
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
  group.graphs.set_edges(source, target);
  EXPECT_EQ(cut_edges(group, make_segments(group, {100, SegmentMethod::metis})), 0);
  EXPECT_EQ(cut_edges(group, make_segments(group, {100})), 2);
}

TEST(Segments, RealGraphsKeepThePromises) {
  FORETIME_NEEDS_DATA();
  const auto folder = testing::data_dir() / "tpugraphs" / "npz" / "layout";
  int graphs = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".npz") continue;
    ++graphs;
    const Group group = load_group(list_groups({file.path().string()}, {}, CandidateKind::layout).front());
    for (const int64_t most : {300, 1000}) {
      for (const auto method : {SegmentMethod::contiguous, SegmentMethod::metis})
        expect_valid(group, make_segments(group, {most, method}), most);
    }
  }
  EXPECT_GT(graphs, 0) << folder;
}

}  // namespace
}  // namespace foretime::data
