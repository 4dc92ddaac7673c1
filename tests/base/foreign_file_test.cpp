#include "base/foreign_file.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

class ForeignFile : public testing::ScratchTest {
 protected:
  ForeignFile() {
    fs::create_directories(run_ / "checkpoints");
    testing::write_text(folder_ / "secret", "private");
  }
  const fs::path run_ = folder_ / "run";

  void write(const std::string& name, const std::string& bytes) const { testing::write_text(run_ / name, bytes); }
  std::string refusal(const fs::path& name, uint64_t most_bytes = 100) const {
    return message_of<ForeignFileError>([&] { read_foreign(run_, name, most_bytes); });
  }
};

TEST_F(ForeignFile, IsReadWhole) {
  write("metrics.jsonl", "line\n");
  write("checkpoints/best.json", std::string(200'000, 'b'));
  write("empty", "");
  EXPECT_EQ(read_foreign(run_, "metrics.jsonl", 5), "line\n");
  EXPECT_EQ(read_foreign(run_, "checkpoints/./best.json", UINT64_MAX), std::string(200'000, 'b'));
  EXPECT_EQ(read_foreign(run_, "empty", 0), "");
  EXPECT_TRUE(foreign_exists(run_, "metrics.jsonl"));
  EXPECT_TRUE(foreign_exists(run_, "checkpoints"));
}

TEST_F(ForeignFile, IsNothingWhereNoneIs) {
  write("file", "");
  for (const auto* name : {"none", "none/file", "file/below"}) {
    EXPECT_FALSE(read_foreign(run_, name, 100)) << name;
    EXPECT_FALSE(foreign_exists(run_, name)) << name;
  }
  EXPECT_FALSE(read_foreign(folder_ / "none", "file", 100));
  EXPECT_FALSE(foreign_exists(folder_ / "none", "file"));
  EXPECT_FALSE(read_foreign_lines(run_, "none", 100, [](std::string_view) { FAIL(); }));
}

// Promise agents/job-foreign-files
TEST_F(ForeignFile, IsNoLinkWhereverItLeads) {
  write("inside", "inside");
  fs::create_symlink("../secret", run_ / "out");
  fs::create_symlink(folder_ / "secret", run_ / "absolute");
  fs::create_symlink("inside", run_ / "in");
  fs::create_symlink("none", run_ / "dangling");
  fs::create_symlink("loop", run_ / "loop");
  fs::create_symlink("/dev/zero", run_ / "zero");
  fs::create_symlink("/proc/self/root", run_ / "magic");
  for (const auto* name : {"out", "absolute", "in", "dangling", "loop", "zero", "magic"}) {
    EXPECT_MESSAGE(refusal(name), (run_ / name).string());
    EXPECT_TRUE(foreign_exists(run_, name)) << name;
  }
}

TEST_F(ForeignFile, IsBehindNoLink) {
  fs::create_directory_symlink("..", run_ / "up");
  fs::create_directory_symlink("checkpoints", run_ / "own");
  write("checkpoints/file", "text");
  EXPECT_MESSAGE(refusal("up/secret"), (run_ / "up").string());
  EXPECT_MESSAGE(refusal("own/file"), (run_ / "own").string());
  EXPECT_FALSE(foreign_exists(run_, "up/secret"));
  EXPECT_FALSE(foreign_exists(run_, "own/file"));
  // The folder itself is the caller's, and may be reached by a link.
  fs::create_directory_symlink(run_, folder_ / "runs");
  EXPECT_EQ(read_foreign(folder_ / "runs", "checkpoints/file", 4), "text");
}

TEST_F(ForeignFile, HasANameBelowTheFolder) {
  for (const std::string name : {"../secret", "checkpoints/../../secret", "/etc/passwd", "..", "/", "", ".", "./."}) {
    EXPECT_NE(refusal(name), "no exception") << name;
    EXPECT_FALSE(foreign_exists(run_, name)) << name;
  }
  EXPECT_MESSAGE(refusal("../secret"), run_.string());
  EXPECT_NE(refusal(std::string("a\0b", 3)), "no exception");
  EXPECT_THROW(read_foreign(run_, std::string(5000, 'n'), 1), FileError);
  EXPECT_FALSE(foreign_exists(run_, std::string(5000, 'n')));
}

// Promise agents/job-foreign-files: a FIFO, link, device or huge file in place of a job's file ends that job only;
// nothing outside a run directory is published
TEST_F(ForeignFile, IsRegular) {
  ASSERT_EQ(::mkfifo((run_ / "fifo").c_str(), 0600), 0);
  const Descriptor bound(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const fs::path before = fs::current_path();
  fs::current_path(run_);  // a path of a socket has at most 107 bytes
  std::string("socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(bound.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  fs::current_path(before);
  EXPECT_MESSAGE(refusal("fifo"), (run_ / "fifo").string());
  EXPECT_MESSAGE(refusal("socket"), (run_ / "socket").string());
  EXPECT_MESSAGE(refusal("checkpoints"), (run_ / "checkpoints").string());
  EXPECT_FALSE(read_foreign(run_, "fifo/below", 1));
}

TEST_F(ForeignFile, IsNoDevice) {
  EXPECT_MESSAGE(message_of<ForeignFileError>([] { read_foreign("/dev", "zero", UINT64_MAX); }), "/dev/zero");
  EXPECT_MESSAGE(message_of<ForeignFileError>([] { open_foreign("/dev", "null", UINT64_MAX); }), "/dev/null");
}

TEST_F(ForeignFile, HasAtMostSoManyBytes) {
  write("file", "12345");
  EXPECT_MESSAGE(refusal("file", 4), (run_ / "file").string());
  EXPECT_MESSAGE(message_of<ForeignFileError>([&] { read_foreign_lines(run_, "file", 4, [](std::string_view) {}); }),
                 (run_ / "file").string());
  fs::resize_file(run_ / "file", uint64_t{1} << 40);  // takes no room on the disk
  EXPECT_MESSAGE(refusal("file"), (run_ / "file").string());
}

/// A file of procfs has the size 0 and yet bytes, as a file has that grows after it was opened.
TEST_F(ForeignFile, DoesNotGrowBeyondItsBytes) {
  EXPECT_EQ(read_foreign("/proc/self", "comm", 100)->back(), '\n');
  EXPECT_NE(message_of<ForeignFileError>([] {
              read_foreign("/proc/self", "status", 10);
            }).find(" bytes, expected at most 10"),
            std::string::npos);
  EXPECT_THROW(read_foreign_lines("/proc/self", "status", 10, [](std::string_view) {}), ForeignFileError);
}

TEST_F(ForeignFile, IsReadByLines) {
  write("lines", "one\n\n" + std::string(2 << 20, 'x') + "\nthree\nhalf");
  std::vector<std::string> lines;
  EXPECT_TRUE(read_foreign_lines(run_, "lines", 3 << 20, [&](std::string_view line) { lines.emplace_back(line); }));
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "three", "half"}));
}

/// Opening a file that another process has leased for writing would wait for /proc/sys/fs/lease-break-time.
TEST_F(ForeignFile, IsNotWaitedForWhereItIsLeased) {
  write("leased", "text");
  const Descriptor holder(::open((run_ / "leased").c_str(), O_WRONLY));
  struct sigaction ignored {};
  struct sigaction before {};
  ignored.sa_handler = SIG_IGN;
  sigaction(SIGIO, &ignored, &before);
  if (::fcntl(holder.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases here: " << std::strerror(errno);
  EXPECT_MESSAGE(refusal("leased"));
  ::fcntl(holder.get(), F_SETLEASE, F_UNLCK);
  sigaction(SIGIO, &before, nullptr);
  EXPECT_EQ(read_foreign(run_, "leased", 4), "text");
}

TEST_F(ForeignFile, HasATimeOfItsOwn) {
  write("file", "");
  const auto then = fs::last_write_time(run_ / "file") - std::chrono::hours(1000);
  fs::last_write_time(run_ / "file", then);
  fs::create_symlink("file", run_ / "link");
  fs::create_directory_symlink("..", run_ / "up");
  EXPECT_EQ(foreign_write_time(run_, "file"), then);
  EXPECT_GT(foreign_write_time(run_, "link"), then + std::chrono::hours(1));
  for (const auto* name : {"none", "up/secret", "../secret"}) EXPECT_FALSE(foreign_write_time(run_, name)) << name;
}

TEST_F(ForeignFile, GivesItsDescriptor) {
  write("file", "12345");
  const auto file = open_foreign(run_, "file", 5);
  EXPECT_EQ(file->size(), 5U);
  char byte = 0;
  EXPECT_EQ(::pread(file->descriptor(), &byte, 1, 4), 1);
  EXPECT_EQ(byte, '5');
  std::string bytes(3, '\0');
  EXPECT_EQ(file->read(bytes), 3U);
  EXPECT_EQ(bytes, "123");
  EXPECT_EQ(file->read(bytes), 2U);
  EXPECT_EQ(file->read(bytes), 0U);
}

TEST_F(ForeignFile, NamesPermissions) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  write("file", "text");
  fs::permissions(run_ / "file", fs::perms::none);
  EXPECT_NE(message_of<FileError>([&] { read_foreign(run_, "file", 4); }).find("Permission denied"), std::string::npos);
  fs::permissions(run_ / "checkpoints", fs::perms::none);
  EXPECT_FALSE(foreign_exists(run_, "checkpoints/file"));
  fs::permissions(run_ / "checkpoints", fs::perms::owner_all);
}

/// While another thread exchanges the file and the folder above it for links to a private file, what is read is the
/// file or an error, and never the private one.
TEST_F(ForeignFile, IsNotExchangedBetweenCheckAndUse) {
  const auto in = run_ / "folder";
  fs::create_directory(in);
  fs::create_directory(folder_ / "private");
  testing::write_text(folder_ / "private" / "file", "private");
  testing::write_text(in / "file", "own");
  fs::create_symlink("../../private/file", in / "link");
  fs::create_directory_symlink("../private", run_ / "elsewhere");
  std::atomic<bool> done = false;
  std::thread attacker([&] {
    const auto exchange = [](const fs::path& a, const fs::path& b) {
      real_files().exchange(a, b);
      real_files().exchange(a, b);
    };
    while (!done) {
      exchange(in / "file", in / "link");
      exchange(in, run_ / "elsewhere");
    }
  });
  int64_t read = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    try {
      const auto bytes = read_foreign(run_, "folder/file", 100);
      EXPECT_EQ(bytes, "own");
      ++read;
    } catch (const ForeignFileError&) {
      ++refused;
    }
  }
  done = true;
  attacker.join();
  EXPECT_EQ(read + refused, 20'000);
}

}  // namespace
}  // namespace foretime
