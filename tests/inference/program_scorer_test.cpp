#include "inference/scoring/program_scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/nest_program.h"
#include "data/frontends/loops/tree_program.h"
#include "data/frontends/tir/tir_reader.h"
#include "tests/inference/small_models.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::inference::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The same schedules as packing makes a group of them.
std::vector<float> packed_scores(const Model& model, const SampleWorkload& workload) {
  const auto dag = std::make_shared<const data::ComputeDag>(data::parse_compute_dag(workload.compute_dag));
  data::TuningRecord record;
  data::RecordProgram programs;
  data::LoopProgram program;
  std::unique_ptr<data::ProgramGraphs> graphs;
  for (const auto& text : workload.records) {
    data::RecordParser().parse(text, record);
    if (!graphs) {
      const auto machine = data::hardware_of_target(record.target, record.hardware.cores);
      graphs = data::make_program_graphs(configs::Representation::loops, machine);
    }
    programs.read(dag, record, program);
    graphs->add(program, dag->flops);
  }
  data::Group group;
  group.name = "packed";
  group.kind = data::CandidateKind::program;
  group.graphs = graphs->finish();
  group.candidates = group.graphs.graphs();
  return model.score_group(group);
}

std::string without_result(const std::string& record) { return record.substr(0, record.find("], \"r\": ")) + "]}"; }

TEST(ProgramScorer, RecordsScoreAsTheirPackedGroup) {
  const auto workload = sample_workload(80);
  for (const bool statements : {true, false}) {
    for (const bool hardware : {true, false}) {
      const auto model = model_of(loops_bundle(statements, hardware));
      const WorkloadScorer scorer(model, workload.compute_dag);
      const auto result = scorer.score(views(workload.records));
      EXPECT_EQ(result.failed, 0) << result.first_failure;
      expect_near(result.scores, packed_scores(*model, workload));
      EXPECT_NE(result.scores[0], result.scores[1]);
    }
  }
}

TEST(ProgramScorer, MeasurementsAreNotLookedAt) {
  const auto workload = sample_workload(5);
  const WorkloadScorer scorer(model_of(loops_bundle()), workload.compute_dag);
  auto texts = workload.records;
  texts[1] = without_result(texts[1]);
  texts[2].replace(texts[2].find("\"r\": [["), 7, "\"r\": [[\"x\"],[");
  EXPECT_EQ(scorer.score(views(texts)).scores, scorer.score(views(workload.records)).scores);
}

TEST(ProgramScorer, ARecordThatIsNoneFailsAlone) {
  auto workload = sample_workload(6);
  const WorkloadScorer scorer(model_of(loops_bundle()), workload.compute_dag);
  const auto expected = scorer.score(views(workload.records)).scores;
  auto texts = workload.records;
  texts[1] = "{\"i\": ";
  texts[2] = "";
  texts[3].replace(texts[3].find("128, 128, 128"), 13, "128, 128, 256");  // another workload
  texts[4].replace(texts[4].find("[\"SP\", 2, 0"), 11, "[\"SP\", 9, 0");  // no such stage
  const auto result = scorer.score(views(texts));
  EXPECT_EQ(result.failed, 4);
  EXPECT_THAT(result.first_failure, HasSubstr("1: no JSON"));
  for (const size_t i : {0U, 5U}) EXPECT_NEAR(result.scores[i], expected[i], 1e-4F * std::abs(expected[i]));
  for (const size_t i : {1U, 2U, 3U, 4U}) EXPECT_EQ(result.scores[i], std::numeric_limits<float>::infinity());
  const auto failure = [&](size_t i) { return scorer.score(std::vector<std::string_view>{texts[i]}).first_failure; };
  EXPECT_THAT(failure(3), HasSubstr("0: workload [\"matmul\", 128, 128, 256], expected [\"matmul\", 128, 128, 128]"));
  EXPECT_THAT(failure(4), HasSubstr("stage 9"));
  EXPECT_TRUE(scorer.score({}).scores.empty());
  EXPECT_EQ(scorer.score(std::vector<std::string_view>{""}).failed, 1);
}

TEST(ProgramScorer, ProgramsForGpusAreNotThoseOfCpus) {
  auto workload = sample_workload(2);
  auto& text = workload.records[1];
  const auto target = text.find("llvm");
  text.replace(target, 4, "cuda -max_num_threads=1024");
  const auto result = WorkloadScorer(model_of(loops_bundle()), workload.compute_dag).score(views(workload.records));
  EXPECT_EQ(result.failed, 1);
  EXPECT_THAT(result.first_failure, HasSubstr("1: target 'cuda -max_num_threads=1024"));
  EXPECT_MESSAGE(result.first_failure);
  const WorkloadScorer scorer(model_of(loops_bundle()), workload.compute_dag);
  EXPECT_MESSAGE(foretime::testing::message_of<WrongKind>([&] { scorer.score(views({text})); }));
}

TEST(ProgramScorer, SaysWhichRecordsAreOfUnknownMachines) {
  auto workload = sample_workload(3);
  const WorkloadScorer scorer(model_of(loops_bundle()), workload.compute_dag);
  EXPECT_THAT(scorer.score(views(workload.records)).unknown_machines, IsEmpty());
  auto& text = workload.records[1];
  text.replace(text.find("llvm"), 4, "llvm -model=far");
  const auto result = scorer.score(views(workload.records));
  EXPECT_EQ(result.failed, 0);
  EXPECT_THAT(result.unknown_machines, ElementsAre("", "far", ""));
}

TEST(ProgramScorer, ThreadsGiveTheSameScores) {
  auto workload = sample_workload(100);
  const auto records = workload.records;
  while (workload.records.size() < 700) workload.records.insert(workload.records.end(), records.begin(), records.end());
  workload.records[300] = "damaged";
  for (const bool statements : {true, false}) {
    const WorkloadScorer one(model_of(loops_bundle(statements)), workload.compute_dag);
    const WorkloadScorer four(model_of(loops_bundle(statements), {.threads = 4}), workload.compute_dag);
    const auto expected = one.score(views(workload.records));
    for (int i = 0; i < 3; ++i) {
      const auto result = four.score(views(workload.records));
      EXPECT_EQ(result.scores, expected.scores);
      EXPECT_EQ(result.first_failure, expected.first_failure);
      EXPECT_EQ(result.failed, 1);
    }
  }
}

TEST(ProgramScorer, TreesScoreAsTheirGroup) {
  const auto texts = sample_trees(12);
  const auto model = model_of(trees_bundle(), {.threads = 2});
  data::TirReader reader;
  data::ProgramNodes nodes;
  for (const auto& text : texts) reader.read(text, "text", nodes);
  data::Group group;
  group.name = "trees";
  group.kind = data::CandidateKind::program;
  group.graphs = data::program_graphs(nodes);
  group.candidates = group.graphs.graphs();
  const auto result = score_tir(*model, views(texts));
  EXPECT_EQ(result.failed, 0) << result.first_failure;
  expect_near(result.scores, model->score_group(group));

  const auto loops = model_of(loops_bundle(true, true));
  const auto graphs = data::make_program_graphs(configs::Representation::loops, *loops->spec().hardware);
  data::TreeProgram trees;
  data::LoopProgram program;
  for (int64_t graph = 0; graph < nodes.graphs(); ++graph) {
    trees.read(nodes, graph, program);
    graphs->add(program, 0.0);
  }
  group.graphs = graphs->finish();
  expect_near(score_tir(*loops, views(texts)).scores, loops->score_group(group));
}

TEST(ProgramScorer, ATextThatIsNoProgramFailsAlone) {
  auto texts = sample_trees(3);
  texts[1] = "{\"root\": 1}";
  for (const bool trees : {true, false}) {
    const auto model = model_of(trees ? trees_bundle() : loops_bundle());
    const auto result = score_tir(*model, views(texts));
    EXPECT_EQ(result.failed, 1);
    EXPECT_THAT(result.first_failure, HasSubstr("1: TIR"));
    EXPECT_TRUE(std::isinf(result.scores[1]));
    EXPECT_TRUE(std::isfinite(result.scores[0]) && std::isfinite(result.scores[2]));
  }
}

TEST(ProgramScorer, RefusesModelsOfAnotherKindAndDamagedDags) {
  const auto workload = sample_workload(1);
  const auto complaint = [&](const std::string& table) {
    return foretime::testing::message_of<DataError>([&] { WorkloadScorer(model_of(loops_bundle()), table); });
  };
  EXPECT_THAT(complaint("{"), HasSubstr("compute DAG: no JSON"));
  EXPECT_THAT(complaint("[]"), HasSubstr("compute DAG: workload_key"));
  EXPECT_THAT(complaint(R"({"workload_key": "x", "stages": []})"), HasSubstr("compute DAG: "));
  EXPECT_THROW(WorkloadScorer(model_of(trees_bundle()), workload.compute_dag), WrongKind);
  EXPECT_THROW(WorkloadScorer(model_of(layout_bundle()), workload.compute_dag), WrongKind);
  EXPECT_THROW(score_tir(*model_of(tile_bundle()), {}), WrongKind);
}

TEST(Model, PredictsRuntimesWhereItWasTrainedTo) {
  const auto seconds = [](Bundle bundle) { return Model(std::move(bundle)).seconds(std::vector<float>{1.5F}); };
  EXPECT_DOUBLE_EQ(seconds(loops_bundle()).front(), std::exp(1.5 * 2.0 - 9.0));
  EXPECT_DOUBLE_EQ(seconds(layout_bundle()).front(), std::exp(1.5 * 2.0 - 9.0) * 1e-9);
  EXPECT_THROW(seconds(tile_bundle()), WrongKind);
  EXPECT_DOUBLE_EQ(Model(tile_bundle()).runtimes(std::vector<float>{0.0F}).front(), std::exp(-9.0));
  auto bundle = loops_bundle();
  bundle.manifest["targets"]["kind"] = "runtime";
  bundle.manifest["targets"]["scale"] = 10.0;
  EXPECT_DOUBLE_EQ(seconds(bundle).front(), (1.5 * 2.0 - 9.0) / 10.0);
  bundle.manifest["targets"]["kind"] = "log_runtime_per_flop";
  EXPECT_THROW(seconds(bundle), WrongKind);
  EXPECT_DOUBLE_EQ(Model(bundle).seconds(std::vector<float>{0.0F}, std::vector<double>{2.0}).front(),
                   std::exp(-9.0) * 2.0);
  bundle.manifest["predicts_runtimes"] = false;
  EXPECT_THROW(seconds(bundle), WrongKind);
  const auto none = Model(loops_bundle()).seconds(std::vector<float>{std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(std::isinf(none.front()));
}

}  // namespace
}  // namespace foretime::inference::testing
