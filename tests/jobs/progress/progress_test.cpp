#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "jobs/error.h"
#include "jobs/progress/channel.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::jobs {
namespace {

using Kind = ProgressMessage::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ProgressMessage message(Kind kind, int64_t step) { return {.kind = kind, .step = step}; }

TEST(ProgressMessage, EveryKindReadsBackWhatWasWritten) {
  for (const ProgressMessage& sent : std::vector<ProgressMessage>{
           {.kind = Kind::progress, .step = 7, .total_steps = 100, .loss = 0.1, .eta_seconds = 12.5},
           {.kind = Kind::progress, .step = 7, .loss = 0.1, .values = {{"loss", 0.1}, {"memory_mib", 512}}},
           {.kind = Kind::evaluation, .step = 9, .iteration = 3, .metrics = {{"valid/kendall_tau", 0.5}}},
           {.kind = Kind::checkpoint, .step = 9, .path = "runs/a \"b\"/checkpoints/step-9"},
           {.kind = Kind::hello, .pid = 4711},
           {.kind = Kind::result, .step = 100, .metrics = {{"m", -1e-300}}}})
    EXPECT_TRUE(parse_progress_message(to_line(sent)) == sent) << to_line(sent);
  const auto evaluated = parse_progress_message(
      to_line({.kind = Kind::evaluation, .step = 9, .iteration = 3, .metrics = {{"valid/nan", std::nan("")}}}));
  EXPECT_TRUE(std::isnan(evaluated.metrics.at("valid/nan")));
}

TEST(ProgressMessage, ADivergedLossArrivesAsNotANumber) {
  auto progress = message(Kind::progress, 1);
  progress.loss = std::numeric_limits<double>::infinity();
  EXPECT_THAT(to_line(progress), HasSubstr("\"loss\":null"));
  EXPECT_TRUE(std::isnan(parse_progress_message(to_line(progress)).loss));
}

TEST(ProgressMessage, WhatIsNoMessageIsRefusedWithItsReason) {
  const std::vector<std::string> bad = {
      "",
      "[1]",
      "{}",
      R"({"type":"dance"})",
      R"({"type":"progress"})",
      R"({"type":"progress","step":-1})",
      R"({"type":"progress","step":1.5})",
      R"({"type":"progress","step":18446744073709551615})",
      R"({"type":"progress","step":1,"loss":1e999})",
      R"({"type":"progress","step":1,"loss":"low"})",
      R"({"type":"progress","step":1,"values":[1]})",
      R"({"type":"evaluation","step":1,"iteration":1})",
      R"({"type":"checkpoint","step":1})",
      R"({"type":"checkpoint","step":1,"path":""})",
      "{\"type\":\"progress\",\"step\":1,\"x\":\"" + std::string(kProgressLine, 'x') + "\"}",
      std::string(30000, '[')};
  for (const auto& line : bad)
    EXPECT_MESSAGE(testing::message_of<JobsError>([&] { parse_progress_message(line); })) << line.substr(0, 100);
}

TEST(ProgressMessage, EntriesThatAreNoNumbersAreLeftOutAndNamed) {
  const auto read = parse_progress_message(
      R"({"type":"result","step":3.0,"metrics":{"a":1,"b":"text","c":true,"d":null,"":1,"e":[NaN]}})");
  EXPECT_EQ(read.step, 3);
  EXPECT_EQ(read.metrics.size(), 2U);
  EXPECT_EQ(read.metrics.at("a"), 1);
  EXPECT_TRUE(std::isnan(read.metrics.at("d")));
  EXPECT_EQ(read.invalid_entries, (std::map<std::string, std::string>{{"metrics.b", "\"text\""},
                                                                      {"metrics.c", "true"},
                                                                      {"metrics.", "a name of 0 bytes, at most 200"},
                                                                      {"metrics.e", "[null]"}}));
  EXPECT_EQ(parse_progress_message(R"({"type":"progress","step":1,"values":{"rate":"high"}})").invalid_entries.size(),
            1U);
}

TEST(ProgressMessage, NumbersThatPythonWritesAreReadAsNotFinite) {
  const auto read = parse_progress_message(
      R"({"type":"evaluation","step":1,"iteration":1,"metrics":{"NaN \"Infinity":NaN,"b":-Infinity,"c":Infinity,"d":2}})");
  EXPECT_TRUE(std::isnan(read.metrics.at("NaN \"Infinity")));
  EXPECT_TRUE(std::isnan(read.metrics.at("b")));
  EXPECT_TRUE(std::isnan(read.metrics.at("c")));
  EXPECT_EQ(read.metrics.at("d"), 2);
  EXPECT_THROW(parse_progress_message(R"({"type":"progress","step":1,"loss":NaNs})"), JobsError);
}

TEST(ProgressMessage, OnlyAStopIsAStop) {
  EXPECT_TRUE(is_stop_line(stop_line("early stopping")));
  EXPECT_FALSE(is_stop_line(R"({"stop": false})"));
  EXPECT_FALSE(is_stop_line(R"({"stop": 1})"));
  EXPECT_FALSE(is_stop_line("stop"));
}

struct Pair {
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); }
  ~Pair() { close(ends[1]); }
  std::vector<std::string> lines() {
    std::vector<std::string> found;
    LineSplitter splitter(kProgressLine, false);
    char buffer[65536];
    for (ssize_t got = 1; got > 0;) {
      got = recv(ends[1], buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got > 0)
        splitter.feed({buffer, static_cast<size_t>(got)}, [&](std::string line, bool) { found.push_back(line); });
    }
    return found;
  }
  int ends[2];
};

TEST(ProgressSender, ProgressIsThinnedAndOtherMessagesAreNot) {
  Pair pair;
  ProgressSender sender(pair.ends[0]);
  for (int64_t step = 1; step <= 100; ++step) sender.send(message(Kind::progress, step));
  for (int64_t step = 1; step <= 3; ++step) sender.send(message(Kind::evaluation, step));
  const auto lines = pair.lines();
  size_t evaluations = 0;
  for (const auto& line : lines) evaluations += parse_progress_message(line).kind == Kind::evaluation ? 1 : 0;
  EXPECT_EQ(evaluations, 3U);
  EXPECT_LT(lines.size(), 50U);
}

TEST(ProgressSender, AnAgentThatDoesNotReadForAWhileCostsNoMessageAndNoHalfLine) {
  Pair pair;
  auto sender = std::make_unique<ProgressSender>(pair.ends[0]);
  const int small = 4096;
  setsockopt(pair.ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  auto checkpoint = message(Kind::checkpoint, 0);
  checkpoint.path = std::string(4000, 'p');
  // The second or third of these fills the socket and waits for a second.
  for (; checkpoint.step < 3; ++checkpoint.step) sender->send(checkpoint);
  std::vector<int64_t> steps;
  std::thread reader([&] {
    LineSplitter splitter(kProgressLine, false);
    char buffer[1000];
    for (ssize_t got = 0; (got = read(pair.ends[1], buffer, sizeof(buffer))) > 0;) {
      splitter.feed({buffer, static_cast<size_t>(got)},
                    [&](const std::string& line, bool) { steps.push_back(parse_progress_message(line).step); });
    }
  });
  for (; checkpoint.step < 8; ++checkpoint.step) sender->send(checkpoint);
  sender.reset();
  reader.join();
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(ProgressSender, StopArrivesInPiecesAndStays) {
  Pair pair;
  ProgressSender sender(pair.ends[0]);
  EXPECT_FALSE(sender.stop_requested());
  const std::string line = "{\"other\": 1}\n" + stop_line("cancelled by a user");
  ASSERT_GT(write(pair.ends[1], line.data(), 20), 0);
  EXPECT_FALSE(sender.stop_requested());
  ASSERT_GT(write(pair.ends[1], line.data() + 20, line.size() - 20), 0);
  EXPECT_TRUE(sender.stop_requested());
  EXPECT_TRUE(sender.stop_requested());
}

TEST(ProgressSender, ALostAgentIsNoFailure) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ProgressSender sender(ends[0]);
  close(ends[1]);
  sender.send(message(Kind::result, 1));
  sender.send(message(Kind::result, 2));
  EXPECT_FALSE(sender.stop_requested());
}

TEST(ProgressSender, ConnectsWhereTheEnvironmentSaysAndSaysHello) {
  testing::Scratch scratch;
  const auto path = (scratch.path() / "s").string();
  setenv("FORETIME_PROGRESS", path.c_str(), 1);
  EXPECT_EQ(ProgressSender::from_environment(), nullptr) << "nobody listens";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  const auto sender = ProgressSender::from_environment();
  ASSERT_NE(sender, nullptr);
  const int peer = accept(listener, nullptr, nullptr);
  char buffer[256];
  const auto got = read(peer, buffer, sizeof(buffer));
  ASSERT_GT(got, 0);
  EXPECT_EQ(parse_progress_message(std::string(buffer, static_cast<size_t>(got))).pid, getpid());
  close(peer);
  close(listener);
  unsetenv("FORETIME_PROGRESS");
  EXPECT_EQ(ProgressSender::from_environment(), nullptr);
}

TEST(DieWithParent, AChildOfAJobEndsWithItsParent) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    setenv("FORETIME_PROGRESS", "/nowhere", 1);
    if (fork() == 0) {
      die_with_parent_if_job();
      if (write(pipe_ends[1], "r", 1) != 1) _exit(1);
      pause();
    }
    pause();
  }
  close(pipe_ends[1]);
  char ready = 0;
  ASSERT_EQ(read(pipe_ends[0], &ready, 1), 1);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // The grandchild held the last write end: the end of the file is its end.
  EXPECT_EQ(read(pipe_ends[0], &ready, 1), 0);
  close(pipe_ends[0]);
}

std::vector<std::string> split(const std::vector<std::string>& pieces, size_t limit, bool returns) {
  std::vector<std::string> lines;
  LineSplitter splitter(limit, returns);
  const auto take = [&](std::string line, bool cut) { lines.push_back(line + (cut ? "+" : "")); };
  for (const auto& piece : pieces) splitter.feed(piece, take);
  splitter.finish(take);
  return lines;
}

TEST(LineSplitter, CutsLinesWhereverTheReadsEnd) {
  EXPECT_THAT(split({"a\nb", "c\n\nd"}, 10, false), ElementsAre("a", "bc", "", "d"));
  EXPECT_THAT(split({"10%\r2", "0%\r\r\ndone\r", "\n\nx"}, 10, true), ElementsAre("10%", "20%", "done", "", "x"));
  EXPECT_THAT(split({"12345678\n12345\n", "1234567"}, 5, false), ElementsAre("12345+", "12345", "12345+"));
}

TEST(PrintableText, ReplacesWhatIsNotUtf8AndDropsControls) {
  EXPECT_EQ(printable_utf8("gr\xC3\xBC\xC3\x9F\te \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "gr\xC3\xBC\xC3\x9F\te \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(printable_utf8("a\xFF\x1B[31m\x7F"), "a\xEF\xBF\xBD[31m");
  EXPECT_EQ(printable_utf8("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "overlong";
  EXPECT_EQ(printable_utf8("\xED\xA0\x80").find('\xED'), std::string::npos) << "surrogate";
  EXPECT_EQ(printable_utf8("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "cut short";
}

}  // namespace
}  // namespace foretime::jobs
