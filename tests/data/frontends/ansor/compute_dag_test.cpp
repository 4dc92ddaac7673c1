#include "data/frontends/ansor/dag/compute_dag.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include "base/error.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "tests/data/frontends/ansor/schedules.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

using testing::data_dir;
using ::testing::HasSubstr;
using testing::samples_dir;

/// The lines of dags.jsonl, and what TVM printed of each DAG.
struct Printed {
  std::string table, text;
};

std::vector<Printed> read_tables(const std::filesystem::path& file) {
  std::vector<Printed> tables;
  LineSource lines(file);
  simdjson::dom::parser parser;
  while (const auto line = lines.next()) {
    const simdjson::dom::element root = parser.parse(line->text.data(), line->text.size());
    tables.push_back({std::string(line->text), std::string(std::string_view(root["printed"]))});
  }
  return tables;
}

/// Every table prints as TVM does, but where TVM left out the middle of very long texts. Returns how many do.
size_t check_tables(const std::filesystem::path& file) {
  size_t printed_as_tvm = 0;
  for (const auto& printed : read_tables(file)) {
    const ComputeDag dag = parse_compute_dag(printed.table);
    for (const DagStage& stage : dag.stages)
      EXPECT_EQ(stage.input, stage.bodies.empty()) << dag.workload_key << stage.name;
    if (printed.text.find("(OMITTED)") != std::string::npos) continue;
    EXPECT_EQ(to_text(dag), printed.text) << dag.workload_key;
    ++printed_as_tvm;
  }
  return printed_as_tvm;
}

TEST(DagReader, TablesPrintAsTvmDoes) { EXPECT_EQ(check_tables(samples_dir() / "ansor/dags.jsonl.gz"), 48u); }

TEST(DagReader, TablesOfTensetPrintAsTvmDoes) {
  FORETIME_NEEDS_DATA();
  EXPECT_EQ(check_tables(data_dir() / "tenset/dags.jsonl.gz"), 299u);
}

TEST(DagReader, StagesOfOneNameAreToldApart) {
  const std::string head = R"json({"workload_key": "[\"f\"]", "stages": [)json" + testing::input_stage(0, "x", "[4]") +
                           ", " + testing::input_stage(1, "x", "[4]") +
                           R"json(, {"id": 2, "name": "y", "shape": [4], "kind": "compute",
    "axes": [["i", 4]], "reduce_axes": [], "reads": [)json";
  const auto sources = [&](const std::string& body, const std::string& reads) {
    const ComputeDag dag = parse_compute_dag(head + reads + "], \"body\": \"" + body + "\", \"is_output\": true}]}");
    std::vector<int32_t> loads, targets;
    collect_loads(dag.expressions, dag.stages[2].bodies.front(), loads);
    for (const int32_t load : loads) targets.push_back(dag.expressions.node(load).target);
    return targets;
  };
  const std::string first = R"json({"op": 0, "name": "x", "indices": ["i"]})json",
                    second = R"json({"op": 1, "name": "x", "indices": ["i"]})json",
                    other = R"json({"op": 1, "name": "x", "indices": ["(3 - i)"]})json";
  EXPECT_EQ(sources("(x[i] - x[i])", first + ", " + second), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(sources("(x[i] - x[i])", second + ", " + first), (std::vector<int32_t>{1, 0}));
  // An access that occurs twice may stand once.
  EXPECT_EQ(sources("((x[i] - x[(3 - i)]) + x[i])", first + ", " + other), (std::vector<int32_t>{0, 1, 0}));
}

TEST(DagReader, FilesOfSeveralMachinesMayBeJoined) {
  const testing::Scratch scratch;
  const auto line = [](const std::string& axis) {
    return R"json({"workload_key": "[\"f\"]", "stages": [)json" + testing::input_stage(0, "x", "[4]") +
           R"json(, {"id": 1, "name": "y", "shape": [4], "kind": "compute", "axes": [[")json" + axis +
           R"json(", 4]], "reduce_axes": [], "reads": [{"op": 0, "name": "x", "indices": [")json" + axis +
           R"json("]}], "body": "x[)json" + axis + R"json(]", "is_output": true}]})json" + "\n";
  };
  const auto joined = scratch.path() / "joined.jsonl", other = scratch.path() / "other.jsonl";
  std::ofstream(joined) << line("i") << line("i");
  const DagTable table(joined);
  EXPECT_EQ(table.all().size(), 1u);
  ASSERT_NE(table.find_line("[\"f\"]"), nullptr);
  EXPECT_EQ(*table.find_line("[\"f\"]") + "\n", line("i"));
  EXPECT_EQ(table.find_line("[\"g\"]"), nullptr);
  std::ofstream(other) << line("i") << line("j");
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { DagTable{other}; }), "other.jsonl:2");
}

TEST(DagReader, StagesMakeSeveralTensors) {
  const auto dag = testing::sums_of_rows(4, 8);
  ASSERT_EQ(dag->stages[1].outputs(), 2u);
  EXPECT_EQ(dag->stages[1].bodies.size(), 2u);
  EXPECT_EQ(dag->stages[1].reads[0].body, 0);
  EXPECT_EQ(dag->stages[1].reads[2].body, 1);
  EXPECT_EQ(dag->stages[2].reads[1].output, 0);
  EXPECT_EQ(dag->stages[2].reads[2].output, 1);
  // As TVM prints them: of each tensor what the first one combines.
  EXPECT_EQ(to_text(*dag),
            "A = PLACEHOLDER [4, 8]\nT(i).v0 += A[i, k]\nT(i).v1 += A[i, k]\n"
            "norm(ax0, ax1) = ((A[ax0, ax1] - T.v0[ax0])*T.v1[ax0])\n");
}

TEST(DagReader, CombinersHaveOneOperandForEachTensor) {
  const std::string good =
      R"json({"workload_key": "[\"f\"]", "stages": [)json" + testing::input_stage(0, "A", "[4, 8]") + R"json(,
      {"id": 1, "name": "T", "dtypes": ["int32", "float32"], "shape": [4], "kind": "compute", "axes": [["i", 4]],
       "reduce_axes": [["k", 8]], "combiner": "tuple", "body": "k, A[i, k]", "reads": [{"op": 0, "name": "A",
       "indices": ["i", "k"]}], "combine": {"lhs": ["a", "b"], "rhs": ["c", "d"],
       "result": ["select((b >= d), a, c)", "max(b, d)"]}}]})json";
  const auto dag = parse_compute_dag(good);
  EXPECT_EQ(dag.stages[1].combine.size(), 2u);
  EXPECT_EQ(dag.stages[1].reads[0].body, 1);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_MESSAGE(testing::message_of<DataError>([&] { parse_compute_dag(bad); }), "stages[1]: combine");
  };
  refused(R"("rhs": ["c", "d"])", R"("rhs": ["c"])");
  refused("max(b, d)", "max(b, e)");
  refused(R"("lhs": ["a", "b"])", R"("lhs": ["a", 3])");
}

TEST(DagReader, FindsBothFormsOfAKey) {
  ComputeDag dag = *testing::matmul(8, 8, 8);
  dag.workload_key = R"(["08f7449d79e570b7274174709e5e5e01", [8, 8], [8, 8], [8, 8]])";
  DagTable table;
  table.add(std::make_shared<const ComputeDag>(dag));
  table.add(testing::matmul(16, 8, 8));
  EXPECT_EQ(table.find(dag.workload_key), table.all()[0]);
  EXPECT_EQ(table.find(R"(["08f7449d79e570b7274174709e5e5e01", 8, 8, 8, 8, 8, 8])"), table.all()[0]);
  EXPECT_EQ(table.find(R"(["08f7449d79e570b7274174709e5e5e01", 8, 8, 8, 8, 8, 9])"), nullptr);
  EXPECT_EQ(table.find(R"(["matmul", 16, 8, 8])"), table.all()[1]);
  EXPECT_EQ(table.find(R"(["matmul", [16], 8, 8])"), nullptr);
  EXPECT_THROW(table.find("matmul"), DataError);
  EXPECT_THROW(table.add(testing::matmul(16, 8, 8)), DataError);
}

TEST(DagReader, BadTablesNameStageAndField) {
  const std::string good = read_tables(samples_dir() / "ansor/dags.jsonl.gz").front().table;
  const auto message = [&](std::string_view from, std::string_view to) {
    std::string table = good;
    const size_t at = table.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    table.replace(at, from.size(), to);
    return testing::message_of<DataError>([&] { parse_compute_dag(table); });
  };
  EXPECT_EQ(message("matmul", "matmul"), "no exception");
  EXPECT_MESSAGE(message("\"op\": 0", "\"op\": 7"), "stages[2]: reads");
  EXPECT_THAT(message("\"op\": 0", "\"op\": -1"), HasSubstr("reads: stage -1"));
  for (const char* output : {"\"output\": -1, \"op\": 0", "\"output\": 1, \"op\": 0"})
    EXPECT_MESSAGE(message("\"op\": 0", output));
  EXPECT_MESSAGE(message("[\"i\", \"k\"]", "[\"i\", \"q\"]"));
  EXPECT_MESSAGE(message("[\"i\", \"k\"]", "[\"i\"]"));
  EXPECT_THAT(message("\"id\": 1", "\"id\": 4"), HasSubstr("stages[1]: id 4, expected 1"));
  EXPECT_MESSAGE(message("[\"k\", 128]", "[\"k\", 0]"));
  EXPECT_THAT(message("[\"k\", 128]", "[\"k\", \"(i*q)\"]"), HasSubstr("variable q"));
  EXPECT_MESSAGE(message("[\"k\", 128]", "[\"k\", \"k\"]"));
  EXPECT_MESSAGE(message("[\"i\", 128]", "[\"i\", \"j\"]"));
  EXPECT_MESSAGE(message("\"shape\": [128, 128]", "\"shape\": [128, 1e99]"), "shape");
  EXPECT_THAT(message("\"kind\": \"compute\"", "\"kind\": \"extern\""), HasSubstr("kind: extern"));
  EXPECT_THAT(message("{\"workload_key\"", "{\"key\""), HasSubstr("workload_key: expected"));
}

TEST(DagReader, FilesNameTheLine) {
  const testing::Scratch scratch;
  const auto file = scratch.path() / "dags.jsonl";
  std::ofstream(file) << "# comment\n" << read_tables(samples_dir() / "ansor/dags.jsonl.gz").front().table << "\n{}\n";
  EXPECT_THAT(testing::message_of<DataError>([&] { const DagTable table(file); }),
              HasSubstr("dags.jsonl:3: workload_key"));
}

TEST(DagReader, MutatedTablesAreErrorsOrDags) {
  testing::Draw random(1);
  constexpr std::string_view kBytes = "0123456789[]{}\",:()-+*/ ijkx";
  const auto tables = read_tables(samples_dir() / "ansor/dags.jsonl.gz");
  size_t errors = 0;
  constexpr int kTrials = 3000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto& printed = random.of(tables);
    std::string table = printed.table.substr(0, printed.table.find("\"printed\"") - 2) + "}";
    for (size_t i = random.below(4) + 1; i-- > 0;) random.of(table) = random.of(kBytes);
    try {
      validate(parse_compute_dag(table));
    } catch (const DataError&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, static_cast<size_t>(kTrials) / 4);
}

std::string round_trip(const std::string& text) {
  ExpressionTree tree;
  return to_text(tree, parse_expression(text, tree));
}

TEST(Expression, PrintsWhatItRead) {
  for (const char* text : {"i",
                           "-3",
                           "((yy*4) + ry)",
                           "(p0[i0, k]*p1[i1, k])",
                           "floordiv(p, 16)",
                           "((floormod(floordiv(p, 4), 4)*4) + eps)",
                           "max(conv2d_nhwc[i0, (i1 - 1)], 0f)",
                           "3.40282e+38f",
                           "-1e-05f",
                           "select(((floormod(i, 6) == 5) && (floormod(j, 6) == 4)), 1f, -0.5f)",
                           "float32(x)",
                           "(int64)5",
                           "(bool)1",
                           "tir.if_then_else((!(i < 3) || (i >= 14)), a.local[i.c], 0f)",
                           "(a % 4)",
                           "(a/b)",
                           "(a != b)",
                           "min(a, b)",
                           "tir.call_extern(\"exp\", x)",
                           "f()",
                           "s[]"})
    EXPECT_EQ(round_trip(text), text);
}

TEST(Expression, KnowsPrecedence) {
  EXPECT_EQ(round_trip("a+b*c-d"), "((a + (b*c)) - d)");
  EXPECT_EQ(round_trip("a<b&&c||d"), "(((a < b) && c) || d)");
  EXPECT_EQ(round_trip("-(a)"), "(0 - a)");
}

TEST(Expression, SaysWhereItStopped) {
  const auto message = [](const std::string& text) {
    return testing::message_of<DataError>([&] { round_trip(text); });
  };
  EXPECT_MESSAGE(message("(a + "));
  EXPECT_THAT(message("(a + b"), HasSubstr("expected ')'"));
  EXPECT_MESSAGE(message("a b"));
  EXPECT_MESSAGE(message("f(a,)"));
  EXPECT_MESSAGE(message("99999999999999999999"));
  EXPECT_MESSAGE(message("\"open"));
  EXPECT_MESSAGE(message(std::string(100000, '(')));
  EXPECT_THAT(message(std::string(100000, '-')), HasSubstr("nested"));
  EXPECT_THAT(message(std::string(100000, '!')), HasSubstr("nested"));
  std::string chain = "a";
  for (int i = 0; i < 100000; ++i) chain += "+a";
  EXPECT_MESSAGE(message(chain));
}

}  // namespace
}  // namespace foretime::data
