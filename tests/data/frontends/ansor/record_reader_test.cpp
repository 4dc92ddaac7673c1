#include "data/frontends/ansor/records/record_reader.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/error.h"
#include "data/dataset/records/record_report.h"
#include "data/files/file_form.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::samples_dir;

constexpr const char* kRecord =
    R"json({"i": [["[\"matmul\", 8, 8, 8]", "llvm -keys=cpu", [24, 64, 64, 0, 0, 0, 0, 0], "", 2, []], [[], [["SP", 2, 0, 8, [2, null], 1], ["PR", 2, 0, "auto_unroll_max_step$64"], ["CI", 1]]]], "r": [[0.25, 0.75], 0, 1.5, 1730465253], "v": "v0.6"})json";

std::string changed(std::string_view from, std::string_view to) {
  std::string text = kRecord;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string reason(const std::string& text) {
  TuningRecord record;
  return testing::message_of<DataError>([&] { RecordParser().parse(text, record); });
}

std::string compressed(std::string_view text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class Records : public ::testing::Test {
 protected:
  testing::Scratch scratch_;
};

TEST(Record, IsReadWhole) {
  TuningRecord record;
  RecordParser().parse(kRecord, record);
  EXPECT_EQ(record.workload_key, "[\"matmul\", 8, 8, 8]");
  EXPECT_EQ(record.target, "llvm -keys=cpu");
  EXPECT_EQ(record.hardware.cores, 24);
  EXPECT_EQ(record.hardware.cache_line_bytes, 64);
  EXPECT_EQ(record.layout_rewrite, 2);
  EXPECT_EQ(record.version, "v0.6");
  EXPECT_EQ(record.error, RecordError::none);
  EXPECT_THAT(record.costs, ElementsAre(0.25, 0.75));
  EXPECT_DOUBLE_EQ(record.mean_cost(), 0.5);
  EXPECT_DOUBLE_EQ(record.timestamp, 1730465253.0);
  const auto& schedule = record.schedule;
  ASSERT_EQ(schedule.steps.size(), 3u);
  EXPECT_EQ(schedule.steps[0].kind, StepKind::split);
  EXPECT_THAT(schedule.list(schedule.steps[0]), ElementsAre(2, 0));
  EXPECT_TRUE(schedule.steps[0].inner_to_outer);
  EXPECT_EQ(schedule.text_of(schedule.steps[1]), "auto_unroll_max_step$64");
  EXPECT_EQ(schedule.steps[2].stage, 1);
}

TEST(Record, TaskMayEndEarly) {
  constexpr std::string_view kOptional = R"(, [24, 64, 64, 0, 0, 0, 0, 0], "", 2, [])";
  TuningRecord record;
  for (const std::string_view kept : {R"(, [24, 64, 64, 0, 0, 0, 0, 0], "", 2)", R"(, [24, 64, 64, 0, 0, 0, 0, 0], "")",
                                      R"(, [24, 64, 64, 0, 0, 0, 0, 0])", ""}) {
    RecordParser().parse(changed(kOptional, kept), record);
    EXPECT_EQ(record.hardware.cores, kept.empty() ? 0 : 24);
    EXPECT_EQ(record.layout_rewrite, kept.ends_with('2') ? 2 : 0);
    EXPECT_EQ(record.schedule.steps.size(), 3u);
  }
  EXPECT_MESSAGE(reason(changed(R"(, "llvm -keys=cpu", [24, 64, 64, 0, 0, 0, 0, 0], "", 2, [])", "")), "i[0]");
}

TEST(Record, SaysWhatIsWrong) {
  EXPECT_THAT(reason("{"), HasSubstr("no JSON"));
  EXPECT_MESSAGE(reason("[]"));
  EXPECT_MESSAGE(reason("{}"));
  EXPECT_THAT(reason(std::string(kRecord) + "}"), HasSubstr("no JSON"));
  EXPECT_THAT(reason(std::string(kRecord).substr(0, 150)), HasSubstr("no JSON"));
  EXPECT_MESSAGE(reason(changed("\"CI\"", "\"XY\"")), "i[1][1]");
  EXPECT_MESSAGE(reason(changed("[\"CI\", 1]", "[\"CI\"]")));
  EXPECT_MESSAGE(reason(changed("[\"CI\", 1]", "[\"CI\", 1, 2]")));
  EXPECT_MESSAGE(reason(changed("[\"CI\", 1]", "[\"CI\", -1]")));
  EXPECT_MESSAGE(reason(changed("[\"CI\", 1]", "[\"CI\", 99999999999]")));
  EXPECT_MESSAGE(reason(changed("[\"CI\", 1]", "[\"AN\", 1, 1, 12]")));
  EXPECT_MESSAGE(reason(changed("[2, null]", "[2, 0]")));
  EXPECT_MESSAGE(reason(changed("[2, null]", "\"2\"")));
  EXPECT_MESSAGE(reason(changed("1730465253", "\"x\"")), "r[3]");
  EXPECT_MESSAGE(reason(changed("0.75], 0,", "0.75], 9,")), "r[1]");
  EXPECT_MESSAGE(reason(changed("0.25, 0.75", "")), "r[0]");
  EXPECT_THAT(reason(changed("0.25, 0.75", "1e10")), HasSubstr("r[0]: cost 10000000000"));
  EXPECT_MESSAGE(reason(changed("0.25, 0.75", "-1")));
  EXPECT_THAT(reason(changed("[24, 64, 64,", "[24, 64,")), HasSubstr("i[0][2]: 7 values"));
}

TEST(Record, EqualSchedulesHaveEqualHashes) {
  TuningRecord a, b;
  RecordParser().parse(kRecord, a);
  RecordParser().parse(kRecord, b);
  EXPECT_EQ(schedule_hash(a.schedule), schedule_hash(b.schedule));
  for (const auto& [from, to] : {std::pair("[2, null]", "[4, null]"), std::pair("$64", "$65"),
                                 std::pair("\"CI\"", "\"CR\""), std::pair("[\"SP\", 2, 0", "[\"SP\", 2, 1")}) {
    RecordParser().parse(changed(from, to), b);
    EXPECT_NE(schedule_hash(a.schedule), schedule_hash(b.schedule)) << to;
  }
}

TEST(Keys, BothFormsOfAHashAgree) {
  const auto nested = parse_workload_key(R"(["08f7449d79e570b7274174709e5e5e01", [1, 4096], [1, 1000]])");
  const auto flat = parse_workload_key(R"(["08f7449d79e570b7274174709e5e5e01", 1, 4096, 1, 1000])");
  EXPECT_TRUE(nested.is_hash && flat.is_hash);
  EXPECT_EQ(nested.flat, flat.flat);
  EXPECT_FALSE(parse_workload_key(R"(["matmul", 1, "float32"])").is_hash);
  EXPECT_THROW(parse_workload_key("matmul"), DataError);
  EXPECT_THROW(parse_workload_key("[]"), DataError);
  EXPECT_THROW(parse_workload_key("[1]"), DataError);
  EXPECT_THROW(parse_workload_key("[\"f\"," + std::string(1000, '[')), DataError);
}

TEST_F(Records, AreCountedByKindAndFailuresKeptOut) {
  const std::string good = kRecord;
  const std::string failed = changed("[0.25, 0.75], 0", "[1e10], 4"), other = changed("[0.25, 0.75], 0", "[1e10], 7");
  RecordReader reader(scratch_.write("records.jsonl", "# made by a test\n" + good + "\n\n" + failed + "\n{\"i\": 3}\n" +
                                                          other + "\r\n" + good + "\r\n {\n" + failed));
  TuningRecord record;
  std::vector<int64_t> lines;
  while (reader.next(record)) lines.push_back(record.line);
  EXPECT_THAT(lines, ElementsAre(2, 7));
  const auto& counts = reader.counts();
  EXPECT_EQ(counts.lines, 9);
  EXPECT_EQ(counts.records, 2);
  EXPECT_EQ(counts.skipped, 3);
  EXPECT_EQ(counts.failed(), 3);
  EXPECT_EQ(counts.errors[static_cast<size_t>(RecordError::runtime)], 2);
  EXPECT_EQ(counts.errors[static_cast<size_t>(RecordError::run_timeout)], 1);
  EXPECT_EQ(counts.malformed, 1);
  ASSERT_EQ(counts.first_malformed.size(), 1u);
  EXPECT_EQ(counts.first_malformed[0].line, 5);
  EXPECT_MESSAGE(counts.first_malformed[0].reason);
}

TEST_F(Records, MembersOfGzipFollowEachOther) {
  std::string bytes, text;
  for (int i = 0; i < 300; ++i) {
    text = std::string(kRecord) + "\n";
    if (i % 7 == 0) text += text;
    bytes += compressed(text);
  }
  RecordReader reader(scratch_.write("records.jsonl.gz", bytes));
  TuningRecord record;
  int64_t count = 0;
  while (reader.next(record)) ++count;
  EXPECT_EQ(count, 343);
  EXPECT_EQ(reader.counts().malformed, 0);
}

TEST_F(Records, SharesMakeUpTheWhole) {
  const auto file = samples_dir() / "ansor/records.jsonl.gz";
  std::vector<int64_t> all, shared;
  int64_t lines = 0;
  TuningRecord record;
  RecordReader whole(file);
  while (whole.next(record)) all.push_back(record.line);
  for (int64_t part = 0; part < 3; ++part) {
    RecordReader reader(file, {part, 3});
    int64_t count = 0;
    for (; reader.next(record); ++count) shared.push_back(record.line);
    EXPECT_NEAR(static_cast<double>(count), static_cast<double>(all.size()) / 3.0, RecordShare::kBlock);
    lines += reader.counts().lines;
  }
  std::ranges::sort(shared);
  EXPECT_EQ(shared, all);
  EXPECT_EQ(lines, whole.counts().lines);
  EXPECT_THROW(RecordReader(file, {3, 3}), DataError);
}

TEST_F(Records, DamagedGzipIsAnErrorAfterWhatIsWhole) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += changed("1730465253", std::to_string(i * 7919)) + "\n";
  const std::string bytes = compressed(text);
  const auto read_all = [&](const std::string& damaged) {
    RecordReader reader(scratch_.write("damaged.jsonl.gz", damaged));
    TuningRecord record;
    while (reader.next(record)) continue;
  };
  EXPECT_NO_THROW(read_all(bytes));
  EXPECT_THROW(read_all(bytes.substr(0, bytes.size() / 2)), DataError);
  EXPECT_THROW(read_all(bytes.substr(0, bytes.size() - 4)), DataError);
  std::string wrong = bytes;
  wrong[wrong.size() - 6] = static_cast<char>(wrong[wrong.size() - 6] ^ 1);  // of the checksum
  EXPECT_THROW(read_all(wrong), DataError);
  EXPECT_THROW(read_all(bytes + "no gzip"), DataError);
  EXPECT_THROW(RecordReader(scratch_.path() / "missing"), DataError);
  EXPECT_THROW(RecordReader(scratch_.path()), DataError);
}

TEST_F(Records, LinesThatAreTooLongAreMalformed) {
  const auto file =
      scratch_.write("long.txt", "ab\n" + std::string(2000000, 'x') + "\ncd\n" + std::string(700000, 'y'));
  LineSource lines(file, 100);
  std::vector<std::pair<size_t, bool>> seen;
  while (const auto line = lines.next()) seen.emplace_back(line->text.size(), line->too_long);
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0], std::pair(size_t{2}, false));
  EXPECT_TRUE(seen[1].second);
  EXPECT_EQ(seen[2], std::pair(size_t{2}, false));
  EXPECT_TRUE(seen[3].second);
  EXPECT_LT(seen[1].first, 1000000u);
}

TEST(RecordReportOfSamples, SaysWhatIsInThem) {
  const auto file = samples_dir() / "ansor/records.jsonl.gz";
  ASSERT_EQ(form_of(file), FileForm::records);
  EXPECT_EQ(form_of(samples_dir() / "resnet18_conv2d/C1.npz"), FileForm::npz);
  EXPECT_EQ(form_of(samples_dir()), FileForm::unknown);
  const RecordReport report = inspect_records(file);
  EXPECT_EQ(report.counts.records, 4836);
  EXPECT_EQ(report.counts.failed(), 0);
  EXPECT_EQ(report.workloads, 50);
  EXPECT_EQ(report.with_repeats, 4836);
  EXPECT_GT(report.repeat_spread.quantiles[3], 0.001);
  EXPECT_LT(report.repeat_spread.quantiles[3], 0.03);
  EXPECT_LE(report.costs.minimum, report.costs.quantiles[0]);
  EXPECT_THAT(to_text(report), HasSubstr("4836 tuning records of 50 workloads"));
  EXPECT_THAT(to_json({report}), HasSubstr("\"workloads\": 50"));
}

}  // namespace
}  // namespace foretime::data
