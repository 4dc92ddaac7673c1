#include "base/output_target.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counter_random.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr FileKind kAll[] = {FileKind::collection, FileKind::bundle,  FileKind::torchscript, FileKind::ranking,
                             FileKind::report,     FileKind::machine, FileKind::experiment};

class OutputTarget : public ::testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(scratch_.path() / name, std::ios::binary) << bytes;
    return scratch_.path() / name;
  }
  static std::string refusal(const fs::path& output, FileKind kind, bool force = false,
                             const std::vector<fs::path>& inputs = {}) {
    return testing::message_of<OutputRefused>([&] { expect_replaceable("-o", output, kind, force, inputs); });
  }
  static bool is_free(const fs::path& output, FileKind kind, bool force = false,
                      const std::vector<fs::path>& inputs = {}) {
    try {
      expect_replaceable("-o", output, kind, force, inputs);
      return true;
    } catch (const OutputRefused&) {
      return false;
    }
  }
  testing::Scratch scratch_;
};

TEST_F(OutputTarget, EachKindReplacesItselfAndNoOther) {
  const std::pair<FileKind, std::string> written[] = {
      {FileKind::collection, std::string("\x89"
                                         "FTPACK\n") +
                                 std::string(100, '\0')},
      {FileKind::bundle, std::string("\x40\0\0\0\0\0\0\0", 8) + R"({"__metadata__":{"format":"foretime-bundle"}})"},
      {FileKind::torchscript, "PK\3\4 archive/data.pkl archive/extra/manifest.json"},
      {FileKind::ranking, "group,rank,candidate,id,score\n"},
      {FileKind::report, "<!doctype html>\n" + std::string(kReportMark)},
      {FileKind::machine, "name: \"cpu\"\nmultiply_add_gflop_s:\n"},
      {FileKind::experiment, "<svg>" + std::string(kExperimentMark) + "</svg>"}};
  for (const auto& [own, bytes] : written) {
    const auto path = write("output", bytes);
    for (const auto kind : kAll) EXPECT_EQ(is_free(path, kind), kind == own) << static_cast<int>(kind) << ": " << bytes;
    for (const auto kind : kAll) EXPECT_TRUE(is_free(path, kind, true));
    EXPECT_MESSAGE(refusal(path, own, false, {path}), "--force");
  }
}

TEST_F(OutputTarget, NothingAndEmptyFilesAreFree) {
  const auto empty = write("empty", "");
  for (const auto kind : kAll) {
    EXPECT_TRUE(is_free(scratch_.path() / "new", kind));
    EXPECT_TRUE(is_free(empty, kind));
    EXPECT_FALSE(is_free(scratch_.path(), kind, true));
  }
}

TEST_F(OutputTarget, SaysWhatIsThere) {
  EXPECT_MESSAGE(refusal(write("a", "#!/bin/sh\n"), FileKind::ranking));
  EXPECT_MESSAGE(refusal(write("a", "PK\3\4xxxx"), FileKind::ranking));
  EXPECT_MESSAGE(refusal(write("a", "\x1f\x8bxx"), FileKind::ranking));
  EXPECT_MESSAGE(refusal(write("a", std::string("x\0y", 3)), FileKind::ranking));
  EXPECT_THAT(refusal(write("a", "M,N\n"), FileKind::ranking), HasSubstr("-o " + (scratch_.path() / "a").string()));
  EXPECT_MESSAGE(refusal(write("a", "group,rank,candidate,id,score\n"), FileKind::bundle));
}

TEST_F(OutputTarget, FindsInputsBehindLinks) {
  const auto input = write("input.csv", "group,rank,candidate,id,score\n");
  fs::create_symlink(input, scratch_.path() / "link.csv");
  fs::create_hard_link(input, scratch_.path() / "hard.csv");
  fs::create_directory_symlink(scratch_.path(), scratch_.path() / "folder");
  for (const auto* name : {"link.csv", "hard.csv", "folder/input.csv", "./input.csv"})
    EXPECT_MESSAGE(refusal(scratch_.path() / name, FileKind::ranking, false, {"absent", input}));
  EXPECT_TRUE(is_free(input, FileKind::ranking, false, {"", "absent", scratch_.path()}));
}

TEST_F(OutputTarget, PipesTakeTextAndStayPipes) {
  const auto pipe = scratch_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(is_free(pipe, FileKind::ranking));
  EXPECT_MESSAGE(refusal(pipe, FileKind::bundle, true));
  const int reader = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  write_output(pipe, "text");
  char text[5] = {};
  EXPECT_EQ(::read(reader, text, 4), 4);
  EXPECT_STREQ(text, "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  write_output("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

/// Random bytes are never taken for a file of ours, whatever the length; cuts of magic bytes neither.
TEST_F(OutputTarget, RandomFilesAreRefused) {
  for (uint64_t round = 0; round < 300; ++round) {
    std::string bytes(1 + random_bits({7, round}) % 300, ' ');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(random_bits({7, round, i}));
    const auto path = write("random", bytes);
    for (const auto kind : kAll) EXPECT_FALSE(is_free(path, kind)) << round;
    std::ifstream again(path, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(again), {}), bytes);
  }
}

}  // namespace
}  // namespace foretime
