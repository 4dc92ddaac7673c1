#include "data/frontends/ansor/printed/printed_dag.h"

#include <map>
#include <ostream>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/printed/dag_conversion.h"
#include "data/frontends/ansor/printed/printed_line.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

using testing::data_dir;
using ::testing::HasSubstr;
using testing::samples_dir;

/// What TVM knows of each DAG, as tools/data/export_dags.py wrote it; with what it prints.
std::vector<nlohmann::json> tables(const std::filesystem::path& file) {
  std::vector<nlohmann::json> found;
  LineSource lines(file);
  while (const auto line = lines.next()) found.push_back(nlohmann::json::parse(line->text));
  return found;
}

/// Lengths that the splits of all records of each workload key name.
std::map<std::string, SplitLengths> splits(const std::filesystem::path& file, const std::vector<nlohmann::json>& dags) {
  std::map<std::string, PrintedProgram> programs;
  for (const auto& dag : dags) {
    const std::string key = dag["workload_key"], text = dag["printed"];
    try {
      programs.emplace(key, PrintedProgram(text));
    } catch (const DataError&) {
    }
  }
  std::map<std::string, SplitLengths> lengths;
  RecordReader reader(file);
  TuningRecord record;
  while (reader.next(record)) {
    const auto program = programs.find(record.workload_key);
    if (program == programs.end()) continue;
    add_split_lengths(record.schedule, program->second.axes(), program->second.spatial_axes(),
                      lengths[record.workload_key]);
  }
  return lengths;
}

struct Compared {
  int equal = 0, smaller = 0, asked = 0, refused = 0;
  bool operator==(const Compared&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Compared& c) {
  return out << c.equal << " equal, " << c.smaller << " smaller, " << c.asked << " asked, " << c.refused << " refused";
}

/// What a user would write above a DAG: windows of pools, and which of several stages of one name is read.
PrintedHints hints_of(const nlohmann::json& dag, bool helped) {
  PrintedHints hints;
  for (const auto& stage : dag["stages"]) {
    const std::string name = stage["name"];
    if (stage["dtype"] != "float32") hints.types[name] = stage["dtype"];
    if (!helped || stage["kind"] != "compute") continue;
    for (const auto& axis : stage["reduce_axes"]) {
      if (axis[1].is_number()) hints.extents[fmt::format("{}.{}", name, axis[0].get<std::string>())] = axis[1];
    }
    for (const auto& read : stage["reads"]) hints.reads[{stage["id"], read["name"]}] = read["op"];
  }
  return hints;
}

/// As read from what TVM prints, `mine`, and as TVM knew it. Returns whether the lengths are the same, too.
bool expect_same(const nlohmann::json& mine, const nlohmann::json& dag) {
  bool same = true;
  EXPECT_EQ(mine["stages"].size(), dag["stages"].size());
  for (size_t s = 0; s < dag["stages"].size(); ++s) {
    const auto &read = mine["stages"][s], &known = dag["stages"][s];
    for (const char* field : {"name", "kind", "dtype", "combiner", "body", "is_output"}) {
      if (known.contains(field)) {
        EXPECT_EQ(read[field], known[field]) << s << ' ' << field;
      }
    }
    same = same && read["shape"] == known["shape"];
    if (known["kind"] != "compute") continue;
    same = same && read["axes"] == known["axes"] && read["reduce_axes"] == known["reduce_axes"];
    // Older tables have a read once where it stands several times.
    EXPECT_EQ(std::set<nlohmann::json>(read["reads"].begin(), read["reads"].end()),
              std::set<nlohmann::json>(known["reads"].begin(), known["reads"].end()))
        << s;
  }
  if (same) {
    EXPECT_EQ(mine["flop_ct"], dag["flop_ct"]);
  }
  return same;
}

/// A padded input may come out smaller, where nothing needs its last row.
Compared compare(const std::vector<nlohmann::json>& dags, const std::map<std::string, SplitLengths>& lengths,
                 bool helped) {
  Compared compared;
  for (const auto& dag : dags) {
    const std::string key = dag["workload_key"], text = dag["printed"];
    SCOPED_TRACE(key + "\n" + text);
    const auto known = lengths.find(key);
    try {
      const PrintedProgram program(text);
      if (parse_workload_key(key).is_hash) {
        EXPECT_EQ(printed_hash(text), nlohmann::json::parse(key)[0].get<std::string>());
      }
      const auto line =
          program.to_json(key, known == lengths.end() ? SplitLengths() : known->second, hints_of(dag, helped));
      (expect_same(nlohmann::json::parse(line), dag) ? compared.equal : compared.smaller)++;
    } catch (const DataError& error) {
      (std::string(error.what()).find("does not tell") != std::string::npos ? compared.asked : compared.refused)++;
    }
  }
  return compared;
}

TEST(PrintedDag, SamplesAreReadAsTvmKnowsThem) {
  const auto dags = tables(samples_dir() / "ansor/dags.jsonl.gz");
  const auto lengths = splits(samples_dir() / "ansor/records.jsonl.gz", dags);
  EXPECT_EQ(compare(dags, {}, false), (Compared{29, 9, 10, 2}));
  EXPECT_EQ(compare(dags, lengths, false), (Compared{33, 11, 4, 2}));
  EXPECT_EQ(compare(dags, lengths, true), (Compared{34, 11, 3, 2}));
}

/// Two stages with windows that depend on the place, and those that TVM cut or prints in part, are not read.
TEST(PrintedDag, OperatorsAreReadAsTvmKnowsThem) {
  const auto folder = testing::source_dir() / "tests/data/frontends/ansor";
  const auto cpu = tables(folder / "operators_dags.jsonl.gz"), gpu = tables(folder / "gpu_operators_dags.jsonl.gz");
  EXPECT_EQ(compare(cpu, {}, false), (Compared{71, 7, 19, 28}));
  EXPECT_EQ(compare(cpu, {}, true), (Compared{85, 14, 5, 21}));
  EXPECT_EQ(compare(gpu, {}, true), (Compared{31, 5, 3, 9}));
}

TEST(PrintedDag, TensetsAreReadAsTvmKnowsThem) {
  FORETIME_NEEDS_DATA();
  const auto dags = tables(data_dir() / "tenset/dags.jsonl.gz");
  EXPECT_EQ(compare(dags, {}, false), (Compared{222, 21, 42, 47}));
  EXPECT_EQ(compare(dags, {}, true), (Compared{273, 26, 0, 33}));
}

constexpr const char* kInput =
    "PLACE"
    "HOLDER";

std::string message(const std::string& text, const std::string& key = "[\"f\"]", const PrintedHints& hints = {}) {
  std::string filled = text;
  while (filled.find('$') != std::string::npos) filled.replace(filled.find('$'), 1, kInput);
  return testing::message_of<DataError>([&] { PrintedProgram(filled).to_json(key, {}, hints); });
}

TEST(PrintedDag, WhatIsWrongIsSaid) {
  EXPECT_THAT(message("a = $ [4]\nb(i) = a[i] + 1f ..(OMITTED).. 2f\n"), HasSubstr("line 2: TVM left out the middle"));
  EXPECT_THAT(message("a = $ [4]\nb(i).v0 += a[k]\nb(i).v1 += a[k]\n"), HasSubstr("several results"));
  EXPECT_THAT(message("a = $ [4]\nb(i) = c[i]\n"),
              HasSubstr("b reads c with 1 indices, and no stage before it is that"));
  EXPECT_THAT(message("a = $ [4]\nb(i) = a[i, i]\n"), HasSubstr("b reads a with 2 indices"));
  EXPECT_THAT(message("a = $ [4]\nb(i) = a[j]\n"), HasSubstr("variable j, expected one of i"));
  EXPECT_THAT(message("a = $ [4, x]\n"), HasSubstr("found x, expected a number"));
  EXPECT_THAT(message("a: something\n"), HasSubstr("line 1: 'a: something', expected a stage"));
  const std::string key = R"(["00000000000000000000000000000000", [8], [4]])";
  EXPECT_THAT(message("a = $ [9]\nb(i) = a[i]\n", key), HasSubstr("input a is [9], which the key does not have"));
  EXPECT_THAT(message("a = $ [8]\nb(i) = a[(i*3)]\n", key), HasSubstr("reads a up to 9 in dimension 0, which has 8"));
  EXPECT_THAT(message("a = $ [8]\nb(i) max= a[((i*2) + w)]\n", key),
              HasSubstr("does not tell: b.w; write them above it, as in # b.w=3"));
  EXPECT_THAT(message("a = $ [8]\nb(i) += int32(a[((i*2) + w)])\n", key, {.extents = {{"b.w", 2}}}),
              HasSubstr("input a is cast to int32, so it is of another type"));
  const std::string twice =
      "a = $ [8]\nx(i) = (a[(i*2)] + 1f)\nx(i) = (x[i]*2f)\ny(i) = (x[i]/3f)\nz(i) = (x[i] + y[i])\n";
  EXPECT_THAT(message(twice, key), HasSubstr("of this name are stages 1 and 2; write above it which, as in # "));
  EXPECT_EQ(message(twice, key, {.reads = {{{3, "x"}, 2}, {{4, "x"}, 1}}}), "no exception");
  EXPECT_THAT(message(twice, key, {.reads = {{{4, "x"}, 0}}}), HasSubstr("# 4.x=0: expected one of 1, 2"));
}

/// As users keep them: texts with what is known above them, and a log of records.
TEST(PrintedDag, FilesBecomeTables) {
  const testing::Scratch scratch;
  const auto dags = tables(samples_dir() / "ansor/dags.jsonl.gz");
  std::string text;
  for (const auto& dag : dags) {
    const std::string key = dag["workload_key"];
    text += "# printed by TVM\n" + (parse_workload_key(key).is_hash ? "" : key + "\n") +
            dag["printed"].get<std::string>() + "\n";
  }
  testing::write_text(scratch.path() / "printed.txt", text);
  const auto records = samples_dir() / "ansor/records.jsonl.gz";
  const auto done = convert_printed_dags({scratch.path() / "printed.txt"}, {records}, scratch.path() / "dags.jsonl.gz");
  EXPECT_EQ(done.written, 44);
  EXPECT_EQ(done.left_out.size(), 6u);
  EXPECT_GT(done.replayed, 44 * 30);
  EXPECT_EQ(DagTable(scratch.path() / "dags.jsonl.gz").all().size(), 44u);
  // Without records, the keys in the file say what is what; and a wrong one is found out by its records.
  testing::write_text(scratch.path() / "one.txt",
                      "[\"matmul\", 128, 128, 128]\n# C.i=64 C.j=128\nA = " + std::string(kInput) +
                          " [64, 128]\nB = " + kInput + " [128, 128]\nC(i, j) += (A[i, k]*B[k, j])\n");
  EXPECT_EQ(convert_printed_dags({scratch.path() / "one.txt"}, {}, scratch.path() / "one.jsonl").written, 1);
  EXPECT_THAT(testing::message_of<DataError>(
                  [&] { convert_printed_dags({scratch.path() / "one.txt"}, {records}, scratch.path() / "two.jsonl"); }),
              HasSubstr("axis C.i: 64 by what was given, and 128 by what else is known"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "two.jsonl"));
  testing::write_text(scratch.path() / "damaged.jsonl", "no record\nnor this\n");
  const auto told = convert_printed_dags({scratch.path() / "one.txt"}, {scratch.path() / "damaged.jsonl"},
                                         scratch.path() / "three.jsonl");
  EXPECT_EQ(told.written, 1);
  ASSERT_EQ(told.left_out.size(), 1u);
  EXPECT_THAT(told.left_out[0].what, HasSubstr("damaged.jsonl:1"));
  EXPECT_THAT(told.left_out[0].why, HasSubstr("the first of 2 lines that are no records"));
}

}  // namespace
}  // namespace foretime::data
