/// What files are, by their first bytes, and what a reader of something else answers.
#include "data/files/file_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/error.h"
#include "data/dataset/group_files.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

class FileForms : public testing::ScratchTest {
 protected:
  std::filesystem::path gzip_of(const std::string& name, const std::string& bytes) const {
    const auto path = folder_ / name;
    const gzFile out = gzopen(path.c_str(), "wb");
    gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(out);
    return path;
  }
  /// The start of a zip archive whose first entry has this name.
  static std::string zip_of(const std::string& name) {
    return "PK\3\4"s + std::string(22, '\0') + static_cast<char>(name.size()) + "\0\0\0"s + name + "rest";
  }
};

const std::string kModule = "\x0a\x05small\x12\x04main\x1a\x02hi";
const std::string kRecord = R"({"i": [["[\"k\"]", "llvm"], [[], []]], "r": [[1], 0, 1, 1], "v": "v0.6"})";

TEST_F(FileForms, WhatForetimeReads) {
  const std::pair<std::string, FileForm> cases[] = {
      {"\x89"
       "FTPACK\nrest",
       FileForm::packed},
      {zip_of("node_feat.npy"), FileForm::npz},
      {kModule, FileForm::hlo},
      {kRecord, FileForm::records},
      {"\xef\xbb\xbf" + kRecord, FileForm::records},
      {"# a log\n\n{ \"i\" : [", FileForm::records},
      {"half a line\"}\n{\"i\": [", FileForm::records},
      {R"({"workload_key": "[\"k\"]", "stages": []})", FileForm::dag_table},
      {"# key\n[\"matmul\", 4]\nA = PLACEHOLDER [4, 4]\n", FileForm::foreign},
      {"{\n  \"root\": 1, \n  \"nodes\": [", FileForm::save_json},
      {R"({"id": 1, "tir": "{\n  \"root_index\": 1, \"nodes\": ["})", FileForm::save_json},
      {"a,b\n1,2\n", FileForm::table},
      {"\xef\xbb\xbf\"a, b\";c\r\n1;2\r\n", FileForm::table},
      {"a\tb\nx\t2\n", FileForm::table},
      {"op,time\nstablehlo.add,1\n", FileForm::table},
      {"\0\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"foretime-bundle\""s, FileForm::bundle},
      {"hello", FileForm::unknown},
      {"model:\n  hidden: 8\n", FileForm::unknown},
      {R"({"graph": [1, 2]})", FileForm::unknown},
      {std::string(1000, '\0'), FileForm::unknown},
      {"\n", FileForm::unknown},
  };
  for (const auto& [bytes, form] : cases) {
    EXPECT_EQ(form_of(scratch_.write("x", bytes)), form) << bytes;
    if (form == FileForm::packed || form == FileForm::npz) continue;
    EXPECT_EQ(form_of(gzip_of("y", bytes)), form) << bytes;
  }
  EXPECT_EQ(form_of(folder_), FileForm::unknown);
  EXPECT_EQ(form_of(folder_ / "missing"), FileForm::unknown);
}

TEST_F(FileForms, NeighboursAreNamedWithTheWayForward) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "an empty file"},
      {"HloModule jit_f, entry\n\nENTRY main.5 {\n", "HLO text, expected records; foretime data inspect"},
      {"name: \"jit_f\"\ncomputations {\n", "HLO as protobuf text"},
      {"version: 3\nresults {\n  device: \"x\"\n", "autotuning results of XLA"},
      {"module @jit_f attributes {a = 1} {\n  func.func public @main(", "StableHLO or other MLIR text"},
      {"#loc = loc(unknown)\nmodule {\n", "StableHLO or other MLIR text"},
      {"ML\xefR\x01", "MLIR bytecode"},
      {"# an AutoTVM log\n{\"input\": [\"llvm\"], \"config\": {}, \"result\": [], \"v\": 0.2}", "an AutoTVM log"},
      {"[0, [[[[\"GetBlock\", []", "a database of MetaSchedule"},
      {"[12, [[[], []], [0.1]", "a database of MetaSchedule"},
      {"[\"3425870132462345213\", \"eyJy",
       "a database of MetaSchedule, expected records; tools/data/export_metaschedule.py"},
      {R"({"key": [512], "configs_timings": [[{}, [0.02]]]})", "Triton's autotuning cache"},
      {R"({"device_name": "A100", "kernel_name": "k", "tune_params_keys": [)", "a cache or results of Kernel Tuner"},
      {"[\n  {\"i\": 1}]", "a JSON array"},
      {"[]", "a JSON array"},
      {"version https://git-lfs.github.com/spec/v1\noid", "a Git LFS pointer, expected records; git lfs pull"},
      {"\n<!DOCTYPE html><html>", "an HTML page"},
      {"# from\nfrom tvm.script import ir as I\n@I.ir_module\n", "TVMScript"},
      {"\xff\xfe{\0\"\0i\0"s, "UTF-16 text, expected records; save it as UTF-8"},
      {zip_of("[Content_Types].xml"), "an Excel workbook"},
      {zip_of("archive/data.pkl"), "a zip archive without NumPy's arrays"},
      {std::string(257, 'x') + "ustar", "a tar archive"},
      {"PAR1\x15", "a Parquet file"},
      {"\x93NUMPY\x01", "a .npy array"},
  };
  for (const auto& [bytes, words] : cases) {
    const auto message = [&](const std::filesystem::path& path) {
      return testing::message_of<DataError>([&] { expect_form(path, {FileForm::records}, "records"); });
    };
    EXPECT_THAT(message(scratch_.write("x", bytes)), HasSubstr("/x: found "s + words)) << bytes;
    if (bytes.starts_with(std::string(257, 'x')) || bytes.starts_with("PK")) continue;
    EXPECT_THAT(message(gzip_of("y", bytes)), HasSubstr("/y: found "s + words)) << bytes;
  }
  EXPECT_EQ(expect_form(scratch_.write("x", kRecord), {FileForm::records}, "records"), FileForm::records);
  EXPECT_EQ(expect_form(scratch_.write("x", "hello"), {FileForm::records}, "records"), FileForm::unknown);
}

TEST_F(FileForms, WhatGzipHoldsIsReadOrNamed) {
  const auto refused = [&](const std::filesystem::path& path) {
    return testing::message_of<DataError>([&] { list_groups({path.string()}, ".", CandidateKind::layout); });
  };
  EXPECT_MESSAGE(refused(gzip_of("a.npz.gz", zip_of("a.npy"))));
  EXPECT_MESSAGE(refused(gzip_of("a.tar.gz", std::string(257, 'x') + "ustar")));
  EXPECT_MESSAGE(refused(scratch_.write("cut.gz", "\x1f\x8b\x08")), "cut.gz");
  EXPECT_MESSAGE(refused(scratch_.write("notes.txt", "hello")), "notes.txt");
  EXPECT_MESSAGE(refused(scratch_.write("a.npz", "hello")), "a.npz");
}

TEST(DelimiterOf, TheOneThatStandsMostOftenOutsideOfQuotes) {
  EXPECT_EQ(delimiter_of("a,b;c,d"), ',');
  EXPECT_EQ(delimiter_of("\"a,b,c\";d"), ';');
  EXPECT_EQ(delimiter_of("a\tb,\tc"), '\t');
  EXPECT_EQ(delimiter_of("a"), ',');
}

}  // namespace
}  // namespace foretime::data
