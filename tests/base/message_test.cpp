#include "base/message.h"

#include <array>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/files.h"
#include "base/stop_signals.h"
#include "tests/support/scratch.h"

namespace foretime {
namespace {

/// Standard output and standard error are other files while this lives.
class Redirected {
 public:
  Redirected(int out, int error) : out_(dup(STDOUT_FILENO)), error_(dup(STDERR_FILENO)) {
    std::fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
  }
  ~Redirected() {
    std::fflush(stdout);
    dup2(out_.get(), STDOUT_FILENO);
    dup2(error_.get(), STDERR_FILENO);
    std::clearerr(stdout);
  }

 private:
  Descriptor out_, error_;
};

TEST(Message, ComesAfterWhatStandardOutputBuffers) {
  const testing::Scratch scratch;
  const auto path = scratch.path() / "log";
  {
    const Descriptor log(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666));
    const Redirected redirected(log.get(), log.get());
    std::printf("a header\n");
    print_message("an error of {}\n", 7);
  }
  EXPECT_EQ(files().read(path), "a header\nan error of 7\n");
}

TEST(Message, WithoutAReaderGoesNowhere) {
  ignore_write_signals();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  const Descriptor end(ends[1]);
  const Redirected redirected(end.get(), end.get());
  for (int i = 0; i < 3; ++i) {
    print_message("an error\n");
    show(stdout, "text\n");
  }
  EXPECT_NO_THROW(flush_output());
}

TEST(Message, OutputWithoutAReaderIsABrokenPipe) {
  ignore_write_signals();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  const Descriptor end(ends[1]), null(open("/dev/null", O_WRONLY));
  const Redirected redirected(end.get(), null.get());
  std::printf("a table\n");
  try {
    flush_output();
    FAIL() << "no error";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::broken_pipe);
  }
}

TEST(Message, OutputOnAFullDiskIsTheStorageFailing) {
  const Descriptor full(open("/dev/full", O_WRONLY)), null(open("/dev/null", O_WRONLY));
  const Redirected redirected(full.get(), null.get());
  show(stdout, "a table\n");
  EXPECT_THROW(flush_output(), StorageError);
}

TEST(ErrorMessage, OfMemoryIsOneLineWithAdvice) {
  const std::runtime_error torch(
      "[enforce fail at alloc_cpu.cpp:66] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes. "
      "Error code 12 (Cannot allocate memory)\nframe #0: c10::ThrowEnforceNotMet\nframe #1: …");
  EXPECT_EQ(exit_code_of(torch), kOutOfMemory);
  EXPECT_THAT(text_of_error(torch), ::testing::AllOf(::testing::StartsWith("out of memory: [enforce fail at"),
                                                     ::testing::HasSubstr("allocate 7 bytes"),
                                                     ::testing::HasSubstr("sampler.max_segment_nodes"),
                                                     ::testing::Not(::testing::HasSubstr("\n"))));
  EXPECT_EQ(exit_code_of(std::bad_alloc()), kOutOfMemory);
  EXPECT_EQ(exit_code_of(std::runtime_error("can't allocate a room")), kInternal);
  EXPECT_EQ(text_of_error(DataError("C1.npz: two\nlines")), "C1.npz: two\nlines");
}

}  // namespace
}  // namespace foretime
