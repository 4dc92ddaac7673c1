#include "base/mapped_file.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "tests/support/scratch.h"

namespace foretime {
namespace {

using ::testing::ExitedWithCode;
namespace fs = std::filesystem;

class MappedFiles : public testing::ScratchTest {
 protected:
  static constexpr size_t kBytes = 64 << 10;
  const fs::path file_ = scratch_.write("mapped", std::string(kBytes, 'x'));

  std::unique_ptr<MappedFile> map(uint64_t first = 0, uint64_t last = kBytes) const {
    const Descriptor opened(open(file_.c_str(), O_RDONLY));
    return std::make_unique<MappedFile>(opened.get(), file_, first, last);
  }
  static int sum(const MappedFile& mapped, uint64_t first, uint64_t size) {
    int total = 0;
    for (const auto byte : mapped.bytes(first, size)) total += static_cast<int>(byte);
    return total;
  }
};

TEST_F(MappedFiles, GiveTheBytesOfTheirRange) {
  EXPECT_EQ(sum(*map(), 0, kBytes), 'x' * static_cast<int>(kBytes));
  EXPECT_EQ(sum(*map(5000, 9001), 5000, 4001), 'x' * 4001);
  for (int i = 0; i < 3000; ++i) EXPECT_EQ(sum(*map(), 7, 1), 'x') << "places are used again";
}

// Promise storage/files-cut: a packed file that is cut while it is mapped ends the program with its name
TEST_F(MappedFiles, ThatAreCutEndTheProcessWithTheirName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto read_cut = [&] {
    const auto mapped = map();
    fs::resize_file(file_, 100);
    std::exit(sum(*mapped, 0, kBytes) > 0 ? 9 : 10);
  };
  EXPECT_EXIT(read_cut(), ExitedWithCode(kData), "mapped: was cut while it was read");
}

TEST_F(MappedFiles, ThatAreCutAndReplacedEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto read_replaced = [&] {
    const auto mapped = map();
    fs::resize_file(file_, 0);
    fs::rename(file_, folder_ / "old");
    scratch_.write("mapped", std::string(kBytes, 'y'));
    std::thread([&] { std::exit(sum(*mapped, 0, kBytes)); }).join();
  };
  EXPECT_EXIT(read_replaced(), ExitedWithCode(kData), "mapped: was cut and replaced");
}

TEST_F(MappedFiles, OthersBusErrorsStayWhatTheyAre) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto raise_elsewhere = [&] {
    const auto mapped = map();
    std::raise(SIGBUS);
  };
  EXPECT_EXIT(raise_elsewhere(), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace foretime
