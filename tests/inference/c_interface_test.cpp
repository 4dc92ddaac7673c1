#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "inference/capi/foretime.h"
#include "inference/scoring/graph_scorer.h"
#include "inference/scoring/program_scorer.h"
#include "tests/inference/small_models.h"
#include "tests/support/golden.h"
#include "tests/support/scratch.h"

namespace foretime::inference::testing {
namespace {

using ::testing::HasSubstr;

template <auto close>
struct Close {
  void operator()(auto* object) const { close(object); }
};
using ModelPtr = std::unique_ptr<foretime_model, Close<foretime_close>>;
using GraphPtr = std::unique_ptr<foretime_graph, Close<foretime_graph_close>>;
using WorkloadPtr = std::unique_ptr<foretime_workload, Close<foretime_workload_close>>;

ModelPtr open(const Bundle& bundle, int32_t threads = 1) {
  const auto bytes = serialize_bundle(bundle);
  const foretime_options options = {sizeof options, threads, 0};
  foretime_model* model = nullptr;
  EXPECT_EQ(foretime_open_bytes(bytes.data(), bytes.size(), &options, &model), FORETIME_OK) << foretime_last_error();
  return ModelPtr(model);
}

foretime_graph_data data_of(const data::Group& group) {
  const auto& graph = group.graphs;
  return {.size = sizeof(foretime_graph_data),
          .nodes = graph.nodes(),
          .features = graph.feature_count,
          .node_features = graph.node_features.data(),
          .node_types = graph.node_types.data(),
          .edges = graph.edges(),
          .edge_consumer = graph.edge_target.data(),
          .edge_producer = graph.edge_source.data(),
          .configurable = group.layout.configurable(),
          .configurable_nodes = group.layout.nodes.data(),
          .collection = 0,
          .reserved = 0};
}

GraphPtr open_graph(const ModelPtr& model, const data::Group& group) {
  const auto data = data_of(group);
  foretime_graph* graph = nullptr;
  EXPECT_EQ(foretime_graph_open(model.get(), &data, &graph), FORETIME_OK) << foretime_last_error();
  return GraphPtr(graph);
}

WorkloadPtr open_workload(const ModelPtr& model, const std::string& table) {
  foretime_workload* workload = nullptr;
  EXPECT_EQ(foretime_workload_open(model.get(), table.data(), table.size(), &workload), FORETIME_OK)
      << foretime_last_error();
  return WorkloadPtr(workload);
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const auto& text : texts) all.push_back(text.c_str());
  return all;
}

/// EXPECT_FAILS(call, status, places...): what a call returns, and its message.
#define EXPECT_FAILS(call, status, ...)                               \
  do {                                                                \
    EXPECT_EQ(call, status) << foretime_last_error();                 \
    EXPECT_MESSAGE(foretime_last_error() __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)

TEST(CInterface, TellsVersionAndNames) {
  EXPECT_EQ(foretime_abi_version(), FORETIME_ABI_VERSION);
  EXPECT_STREQ(foretime_version(), "0.2.0");
  EXPECT_STREQ(foretime_status_name(FORETIME_OK), "ok");
  EXPECT_STREQ(foretime_status_name(FORETIME_BAD_BUNDLE), "bad bundle");
  EXPECT_STREQ(foretime_status_name(static_cast<foretime_status>(99)), "unknown status");
}

TEST(CInterface, OpensFilesAndBytes) {
  const foretime::testing::Scratch scratch;
  const auto file = scratch.path() / "a.foretime";
  write_bundle(file, trees_bundle());
  foretime_model* model = nullptr;
  ASSERT_EQ(foretime_open(file.c_str(), nullptr, &model), FORETIME_OK) << foretime_last_error();
  const ModelPtr owner(model);
  EXPECT_EQ(foretime_model_kind(model), FORETIME_TREES);
  EXPECT_EQ(foretime_model_file(model), file.string());
  EXPECT_STREQ(foretime_model_file(open(tile_bundle()).get()), "") << "opened from bytes";
  size_t size = 0;
  const char* text = foretime_describe(model, &size);
  EXPECT_EQ(std::strlen(text), size);
  EXPECT_EQ(nlohmann::json::parse(text), trees_bundle().manifest);
  EXPECT_EQ(foretime_model_kind(open(layout_bundle()).get()), FORETIME_LAYOUT);
  EXPECT_EQ(foretime_model_kind(open(tile_bundle()).get()), FORETIME_TILE);
  EXPECT_EQ(foretime_model_kind(open(loops_bundle()).get()), FORETIME_LOOPS);

  foretime_model* none = nullptr;
  EXPECT_FAILS(foretime_open((scratch.path() / "none").c_str(), nullptr, &none), FORETIME_FILE_ERROR);
  std::ofstream(scratch.path() / "damaged") << "damaged bundle";
  EXPECT_FAILS(foretime_open((scratch.path() / "damaged").c_str(), nullptr, &none), FORETIME_BAD_BUNDLE);
  EXPECT_FAILS(foretime_open_bytes("", 0, nullptr, &none), FORETIME_BAD_BUNDLE, "bundle: 0 bytes");
  EXPECT_EQ(none, nullptr);
}

TEST(CInterface, ChecksOptions) {
  const auto bytes = serialize_bundle(trees_bundle());
  foretime_model* model = nullptr;
  const auto opened = [&](const foretime_options& options) {
    return foretime_open_bytes(bytes.data(), bytes.size(), &options, &model);
  };
  EXPECT_FAILS(opened({0, 1, 0}), FORETIME_INVALID_ARGUMENT, "options");
  EXPECT_FAILS(opened({sizeof(foretime_options) - 1, 1, 0}), FORETIME_INVALID_ARGUMENT, "options");
  EXPECT_FAILS(opened({1 << 20, 1, 0}), FORETIME_INVALID_ARGUMENT, "options");
  EXPECT_FAILS(opened({sizeof(foretime_options), -1, 0}), FORETIME_INVALID_ARGUMENT, "options.threads: -1");
  EXPECT_FAILS(opened({sizeof(foretime_options), 257, 0}), FORETIME_INVALID_ARGUMENT, "options.threads: 257");
  EXPECT_FAILS(opened({sizeof(foretime_options), 1, -1}), FORETIME_INVALID_ARGUMENT, "options.max_states: -1");
  EXPECT_EQ(model, nullptr);
  // A caller of a later version, whose members are 0.
  struct {
    foretime_options known;
    int64_t later;
  } later = {{sizeof later, 256, 1000}, 0};
  ASSERT_EQ(opened(later.known), FORETIME_OK) << foretime_last_error();
  foretime_close(model);
  later.later = 1;
  EXPECT_FAILS(opened(later.known), FORETIME_INVALID_ARGUMENT);
}

TEST(CInterface, TellsWhichMachinesAModelDoesNotKnow) {
  const auto model = open(loops_bundle());
  EXPECT_STREQ(foretime_unknown_machine(model.get(), "llvm -mcpu=znver3 -model=far"), "far");
  EXPECT_STREQ(foretime_unknown_machine(model.get(), "llvm -mcpu=znver3"), "");
  EXPECT_STREQ(foretime_unknown_machine(model.get(), "llvm -model=unknown"), "") << "TVM's default";
  EXPECT_STREQ(foretime_unknown_machine(nullptr, "llvm -model=far"), "");
  EXPECT_STREQ(foretime_unknown_machine(model.get(), nullptr), "");
}

TEST(CInterface, TellsChancesOfFailure) {
  const auto model = open(loops_bundle(true, false, true)), other = open(loops_bundle());
  EXPECT_EQ(foretime_predicts_failures(model.get()), 1);
  EXPECT_EQ(foretime_predicts_failures(other.get()), 0);
  EXPECT_EQ(foretime_predicts_failures(nullptr), 0);
  const auto sample = sample_workload(6);
  const auto workload = open_workload(model, sample.compute_dag), of_other = open_workload(other, sample.compute_dag);
  std::vector<const char*> texts;
  for (const auto& record : sample.records) texts.push_back(record.c_str());
  texts[2] = "no record";
  const auto count = static_cast<int64_t>(texts.size());
  std::vector<float> scores(texts.size()), plain(texts.size()), failures(texts.size());
  int64_t failed = 0;
  ASSERT_EQ(foretime_score_records_and_failures(workload.get(), texts.data(), nullptr, count, scores.data(),
                                                failures.data(), &failed),
            FORETIME_OK);
  EXPECT_EQ(failed, 1);
  ASSERT_EQ(foretime_score_records(workload.get(), texts.data(), nullptr, count, plain.data(), nullptr), FORETIME_OK);
  EXPECT_EQ(scores, plain);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(std::isnan(failures[i]), i == 2) << i;
    if (i == 2) continue;
    EXPECT_GT(failures[i], 0.0F);
    EXPECT_LT(failures[i], 1.0F);
  }
  const auto wrong = FORETIME_WRONG_KIND, invalid = FORETIME_INVALID_ARGUMENT;
  EXPECT_FAILS(foretime_score_records_and_failures(of_other.get(), texts.data(), nullptr, count, scores.data(),
                                                   failures.data(), nullptr),
               wrong, "trained without model.failure_output");
  EXPECT_FAILS(
      foretime_score_tir_and_failures(other.get(), texts.data(), nullptr, 1, scores.data(), failures.data(), nullptr),
      wrong, "trained without model.failure_output");
  EXPECT_FAILS(
      foretime_score_records_and_failures(workload.get(), texts.data(), nullptr, 1, scores.data(), nullptr, nullptr),
      invalid, "failures");
  ASSERT_EQ(foretime_score_tir_and_failures(model.get(), texts.data() + 2, nullptr, 1, scores.data(), failures.data(),
                                            &failed),
            FORETIME_OK);
  EXPECT_EQ(failed, 1);
  EXPECT_TRUE(std::isnan(failures[0]));
}

TEST(CInterface, NullPointersAreErrors) {
  const auto layouts = open(layout_bundle()), tiles = open(tile_bundle()), loops = open(loops_bundle());
  const auto group = small_graph(data::CandidateKind::layout, 10, 2, 1);
  const auto graph = open_graph(layouts, group);
  const auto tile_graph = open_graph(tiles, small_graph(data::CandidateKind::tile, 10, 0, 1));
  const auto sample = sample_workload(1);
  const auto workload = open_workload(loops, sample.compute_dag);
  const auto data = data_of(group);
  foretime_model* model = nullptr;
  foretime_graph* made_graph = nullptr;
  foretime_workload* made = nullptr;
  float score = 0.0F;
  double seconds = 0.0;
  int64_t place = 0;
  const int8_t layout[36] = {};
  const float tile[24] = {};
  const char* texts[] = {sample.records[0].c_str()};
  const char* missing[] = {nullptr};
  const auto invalid = FORETIME_INVALID_ARGUMENT;
  EXPECT_FAILS(foretime_open(nullptr, nullptr, &model), invalid, "path");
  EXPECT_FAILS(foretime_open("x", nullptr, nullptr), invalid, "model");
  EXPECT_FAILS(foretime_open_bytes(nullptr, 3, nullptr, &model), invalid, "bytes");
  EXPECT_FAILS(foretime_open_bytes("x", 1, nullptr, nullptr), invalid, "model");
  EXPECT_FAILS(foretime_graph_open(nullptr, &data, &made_graph), invalid, "model");
  EXPECT_FAILS(foretime_graph_open(layouts.get(), nullptr, &made_graph), invalid, "data");
  EXPECT_FAILS(foretime_graph_open(layouts.get(), &data, nullptr), invalid, "graph");
  EXPECT_FAILS(foretime_graph_open_hlo(nullptr, "x", 1, &made_graph), invalid, "model");
  EXPECT_FAILS(foretime_graph_open_hlo(layouts.get(), nullptr, 1, &made_graph), invalid, "bytes");
  EXPECT_FAILS(foretime_graph_open_hlo(layouts.get(), "x", 1, nullptr), invalid, "graph");
  EXPECT_FAILS(foretime_score_layouts(nullptr, layout, 1, &score), invalid, "graph");
  EXPECT_FAILS(foretime_score_layouts(graph.get(), nullptr, 1, &score), invalid, "layouts");
  EXPECT_FAILS(foretime_score_layouts(graph.get(), layout, 1, nullptr), invalid, "scores");
  EXPECT_FAILS(foretime_score_tiles(nullptr, tile, 1, &score), invalid, "graph");
  EXPECT_FAILS(foretime_score_tiles(tile_graph.get(), nullptr, 1, &score), invalid, "tiles");
  EXPECT_FAILS(foretime_score_tiles(tile_graph.get(), tile, 1, nullptr), invalid, "scores");
  EXPECT_FAILS(foretime_workload_open(nullptr, "x", 1, &made), invalid, "model");
  EXPECT_FAILS(foretime_workload_open(loops.get(), nullptr, 1, &made), invalid, "compute_dag");
  EXPECT_FAILS(foretime_workload_open(loops.get(), "x", 1, nullptr), invalid, "workload");
  EXPECT_FAILS(foretime_score_records(nullptr, texts, nullptr, 1, &score, nullptr), invalid, "workload");
  EXPECT_FAILS(foretime_score_records(workload.get(), nullptr, nullptr, 1, &score, nullptr), invalid, "records");
  EXPECT_FAILS(foretime_score_records(workload.get(), missing, nullptr, 1, &score, nullptr), invalid, "records[0]: a");
  EXPECT_FAILS(foretime_score_records(workload.get(), texts, nullptr, 1, nullptr, nullptr), invalid, "scores");
  EXPECT_FAILS(foretime_score_tir(nullptr, texts, nullptr, 1, &score, nullptr), invalid, "model");
  EXPECT_FAILS(foretime_score_tir(loops.get(), nullptr, nullptr, 1, &score, nullptr), invalid, "programs");
  EXPECT_FAILS(foretime_rank(nullptr, 1, 1, &place), invalid, "scores");
  EXPECT_FAILS(foretime_rank(&score, 1, 1, nullptr), invalid, "order");
  EXPECT_FAILS(foretime_runtimes(nullptr, &score, 1, &seconds), invalid, "model");
  EXPECT_FAILS(foretime_runtimes(loops.get(), nullptr, 1, &seconds), invalid, "scores");
  EXPECT_FAILS(foretime_runtimes(loops.get(), &score, 1, nullptr), invalid, "seconds");

  // What cannot fail takes them.
  foretime_close(nullptr);
  foretime_graph_close(nullptr);
  foretime_workload_close(nullptr);
  EXPECT_STREQ(foretime_describe(nullptr, nullptr), "");
  EXPECT_STREQ(foretime_model_file(nullptr), "");
  EXPECT_EQ(foretime_graph_nodes(nullptr), 0);
  EXPECT_EQ(foretime_graph_configurable(nullptr), 0);
  EXPECT_EQ(foretime_graph_configurable_nodes(nullptr), nullptr);
  EXPECT_EQ(foretime_files_count(nullptr), 0);
  EXPECT_EQ(foretime_files_name(nullptr, 0), nullptr);
  EXPECT_EQ(foretime_files_path(nullptr, 0), nullptr);
  EXPECT_EQ(foretime_group_candidates(nullptr), 0);
  EXPECT_STREQ(foretime_group_describe(nullptr, nullptr), "");
  EXPECT_EQ(foretime_group_arrays(nullptr), 0);

  // Nothing asked for, nothing needed.
  EXPECT_EQ(foretime_score_layouts(graph.get(), nullptr, 0, nullptr), FORETIME_OK);
  EXPECT_EQ(foretime_score_tiles(tile_graph.get(), nullptr, 0, nullptr), FORETIME_OK);
  EXPECT_EQ(foretime_score_records(workload.get(), nullptr, nullptr, 0, nullptr, nullptr), FORETIME_OK);
  EXPECT_EQ(foretime_rank(nullptr, 0, -1, nullptr), FORETIME_OK);
  EXPECT_EQ(foretime_runtimes(loops.get(), nullptr, 0, nullptr), FORETIME_OK);
}

TEST(CInterface, ChecksSizes) {
  const auto layouts = open(layout_bundle()), tiles = open(tile_bundle());
  const auto group = small_graph(data::CandidateKind::layout, 10, 2, 1);
  const auto graph = open_graph(layouts, group);
  foretime_graph* made = nullptr;
  const auto opened = [&](const std::function<void(foretime_graph_data&)>& change,
                          const ModelPtr& model) -> foretime_status {
    auto data = data_of(group);
    change(data);
    return foretime_graph_open(model.get(), &data, &made);
  };
  const auto invalid = FORETIME_INVALID_ARGUMENT;
  EXPECT_FAILS(opened([](auto& d) { d.size = 8; }, layouts), invalid, "data");
  EXPECT_FAILS(opened([](auto& d) { d.reserved = 1; }, layouts), invalid, "reserved: 1");
  EXPECT_FAILS(opened([](auto& d) { d.nodes = 0; }, layouts), invalid, "nodes: 0, expected 1");
  EXPECT_FAILS(opened([](auto& d) { d.nodes = INT64_MAX; }, layouts), invalid, "nodes");
  EXPECT_FAILS(opened([](auto& d) { d.edges = -1; }, layouts), invalid, "edges: -1");
  EXPECT_FAILS(opened([](auto& d) { d.features = -1; }, layouts), invalid, "features: -1");
  EXPECT_FAILS(opened([](auto& d) { d.nodes = d.features = 2147483647; }, layouts), invalid);
  EXPECT_FAILS(opened([](auto& d) { d.configurable = 11; }, layouts), invalid, "configurable: 11");
  EXPECT_FAILS(opened([](auto& d) { d.collection = 6; }, layouts), invalid, "collection: 6");
  EXPECT_FAILS(opened([](auto& d) { d.node_types = nullptr; }, layouts), invalid, "node_types");
  EXPECT_FAILS(opened([](auto&) {}, tiles), invalid, "configurable: found 2");
  EXPECT_FAILS(opened([](auto& d) { d.features = 139; }, layouts), FORETIME_BAD_INPUT, "139 columns");
  float score = 0.0F;
  const int8_t layout[36] = {};
  EXPECT_FAILS(foretime_score_layouts(graph.get(), layout, -1, &score), invalid, "candidates: -1");
  EXPECT_FAILS(foretime_score_layouts(graph.get(), layout, INT64_MAX, &score), invalid, "candidates");
  int64_t order = 0;
  EXPECT_FAILS(foretime_rank(&score, -1, 1, &order), invalid, "count: -1");
  EXPECT_FAILS(foretime_rank(&score, INT64_MAX, 1, &order), invalid);
  EXPECT_EQ(made, nullptr);
}

TEST(CInterface, CallsOfAnotherKindSaySo) {
  const auto layouts = open(layout_bundle()), tiles = open(tile_bundle()), loops = open(loops_bundle()),
             trees = open(trees_bundle());
  const auto graph = open_graph(layouts, small_graph(data::CandidateKind::layout, 10, 2, 1));
  const auto data = data_of(small_graph(data::CandidateKind::layout, 10, 2, 1));
  foretime_graph* made = nullptr;
  foretime_workload* workload = nullptr;
  float score = 0.0F;
  double seconds = 0.0;
  const float tile[24] = {};
  const char* texts[] = {"{}"};
  EXPECT_FAILS(foretime_graph_open(loops.get(), &data, &made), FORETIME_WRONG_KIND);
  EXPECT_FAILS(foretime_graph_open_hlo(trees.get(), "x", 1, &made), FORETIME_WRONG_KIND);
  EXPECT_FAILS(foretime_workload_open(trees.get(), "{}", 2, &workload), FORETIME_WRONG_KIND);
  EXPECT_FAILS(foretime_score_tir(layouts.get(), texts, nullptr, 1, &score, nullptr), FORETIME_WRONG_KIND);
  EXPECT_FAILS(foretime_score_tiles(graph.get(), tile, 1, &score), FORETIME_WRONG_KIND);
  EXPECT_FAILS(foretime_runtimes(tiles.get(), &score, 1, &seconds), FORETIME_WRONG_KIND);
  EXPECT_FAILS(foretime_workload_open(loops.get(), "{}", 2, &workload), FORETIME_BAD_INPUT);
  EXPECT_FAILS(foretime_graph_open_hlo(layouts.get(), "x", 1, &made), FORETIME_BAD_INPUT);
}

TEST(CInterface, ScoresAsTheScorersDo) {
  const auto sample = sample_workload(30);
  const auto loops = open(loops_bundle(), 2);
  const auto workload = open_workload(loops, sample.compute_dag);
  const auto model = std::make_shared<const Model>(loops_bundle());
  std::vector<float> scores(30);
  int64_t failed = -1;
  ASSERT_EQ(
      foretime_score_records(workload.get(), pointers(sample.records).data(), nullptr, 30, scores.data(), &failed),
      FORETIME_OK);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(scores, WorkloadScorer(model, sample.compute_dag).score(views(sample.records)).scores);

  const auto texts = sample_trees(3);
  std::vector<size_t> sizes;
  for (const auto& text : texts) sizes.push_back(text.size());
  sizes[1] = 10;
  std::vector<float> trees(3);
  ASSERT_EQ(foretime_score_tir(loops.get(), pointers(texts).data(), sizes.data(), 3, trees.data(), &failed),
            FORETIME_OK);
  EXPECT_EQ(failed, 1);
  EXPECT_THAT(foretime_last_error(), HasSubstr("1: TIR"));
  EXPECT_TRUE(std::isinf(trees[1]));

  const auto group = small_graph(data::CandidateKind::layout, 40, 5, 8);
  const auto layouts = open(layout_bundle(), 3);
  const auto graph = open_graph(layouts, group);
  EXPECT_EQ(foretime_graph_nodes(graph.get()), 40);
  ASSERT_EQ(foretime_graph_configurable(graph.get()), 5);
  EXPECT_EQ(foretime_graph_configurable_nodes(graph.get())[1], 8);
  const auto chosen = random_layouts(200, 5, 1);
  scores.resize(200);
  ASSERT_EQ(foretime_score_layouts(graph.get(), chosen.data(), 200, scores.data()), FORETIME_OK);
  EXPECT_EQ(scores, GraphScorer(std::make_shared<const Model>(layout_bundle()), group).score_layouts(chosen, 200));

  foretime_graph* of_module = nullptr;
  const auto module = sample_module();
  ASSERT_EQ(foretime_graph_open_hlo(layouts.get(), module.data(), module.size(), &of_module), FORETIME_OK);
  EXPECT_EQ(foretime_graph_configurable(of_module), 3);
  foretime_graph_close(of_module);

  double seconds = 0.0;
  ASSERT_EQ(foretime_runtimes(loops.get(), trees.data() + 1, 1, &seconds), FORETIME_OK);
  EXPECT_TRUE(std::isinf(seconds));
}

TEST(CInterface, AGraphOutlivesItsModel) {
  auto model = open(layout_bundle());
  const auto graph = open_graph(model, small_graph(data::CandidateKind::layout, 10, 2, 1));
  model.reset();
  const auto layouts = random_layouts(4, 2, 1);
  std::vector<float> scores(4);
  EXPECT_EQ(foretime_score_layouts(graph.get(), layouts.data(), 4, scores.data()), FORETIME_OK);
}

TEST(CInterface, RanksFromTheLowestScore) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> scores = {2.0F, nan, 1.0F, infinity, 2.0F, nan, -0.0F, 0.0F};
  std::vector<int64_t> order(8, -1);
  ASSERT_EQ(foretime_rank(scores.data(), 8, -1, order.data()), FORETIME_OK);
  EXPECT_EQ(order, (std::vector<int64_t>{6, 7, 2, 0, 4, 3, 1, 5}));
  order.assign(8, -1);
  ASSERT_EQ(foretime_rank(scores.data(), 8, 3, order.data()), FORETIME_OK);
  EXPECT_EQ(order, (std::vector<int64_t>{6, 7, 2, -1, -1, -1, -1, -1}));
  ASSERT_EQ(foretime_rank(scores.data(), 2, 100, order.data()), FORETIME_OK);
  EXPECT_EQ(order[1], 1);
}

TEST(CInterface, MessagesBelongToTheirThread) {
  foretime_model* model = nullptr;
  foretime_open("/no/such/file", nullptr, &model);
  const std::string here = foretime_last_error();
  std::thread([] {
    EXPECT_STREQ(foretime_last_error(), "");
    foretime_rank(nullptr, 1, 1, nullptr);
    EXPECT_THAT(foretime_last_error(), HasSubstr("scores"));
  }).join();
  EXPECT_EQ(here, foretime_last_error());
}

TEST(CInterface, EightThreadsScoreAtOnce) {
  const auto sample = sample_workload(40);
  const auto loops = open(loops_bundle(false), 2);
  const auto workload = open_workload(loops, sample.compute_dag);
  const auto layouts = open(layout_bundle(), 2);
  const auto group = small_graph(data::CandidateKind::layout, 40, 5, 8);
  const auto graph = open_graph(layouts, group);
  const auto chosen = random_layouts(300, 5, 1);
  const auto texts = pointers(sample.records);
  const auto trees = sample_trees(2);
  const auto run = [&] {
    std::vector<float> all(342);
    EXPECT_EQ(foretime_score_records(workload.get(), texts.data(), nullptr, 40, all.data(), nullptr), FORETIME_OK);
    EXPECT_EQ(foretime_score_layouts(graph.get(), chosen.data(), 300, all.data() + 40), FORETIME_OK);
    EXPECT_EQ(foretime_score_tir(loops.get(), pointers(trees).data(), nullptr, 2, all.data() + 340, nullptr),
              FORETIME_OK);
    const auto own = open_graph(layouts, group);
    const auto again = open_workload(loops, sample.compute_dag);
    return all;
  };
  const auto expected = run();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(run(), expected);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace foretime::inference::testing
