#include "coordinator/packing.h"

#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/communicator.h"
#include "data/dataset/group_files.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/synthetic_graph.h"

namespace foretime::coordinator {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Packing : public ::testing::Test {
 protected:
  Packing() {
    fs::create_directories(folder_ / "npz");
    for (int i = 0; i < 6; ++i) {
      foretime::testing::write_synthetic(folder_ / "npz" / ("synthetic_" + std::to_string(i) + ".npz"),
                                         {50 + 9 * i, 6, 80, static_cast<uint64_t>(i + 1)});
    }
    headers_ = data::list_groups({(folder_ / "npz").string()}, ".", data::CandidateKind::layout);
  }

  /// What each rank threw, as exit code and text; empty where it went on. Only rank 0 knows the headers at first.
  std::vector<std::string> pack(int ranks, int64_t threads) {
    std::vector<std::string> said(static_cast<size_t>(ranks));
    foretime::testing::run_threads(ranks, [&](comm::Communicator& comm) {
      try {
        const auto headers = share_headers(comm, comm.rank() == 0 ? headers_ : std::vector<data::GroupHeader>());
        pack_collection(comm, out_, headers, {.threads = threads});
      } catch (const std::exception& error) {
        said[static_cast<size_t>(comm.rank())] = std::to_string(exit_code_of(error)) + " " + error.what();
      }
    });
    return said;
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }

  foretime::testing::Scratch scratch_;
  fs::path folder_ = scratch_.path(), out_ = folder_ / "out.foretime";
  std::vector<data::GroupHeader> headers_;
};

TEST_F(Packing, GivesOneFileForAnyNumberOfRanksAndThreads) {
  EXPECT_THAT(pack(1, 1), ::testing::Each(""));
  const auto expected = bytes_of(out_);
  EXPECT_EQ(data::verify_packed(out_), 6);
  for (const auto& [ranks, threads] : std::vector<std::pair<int, int64_t>>{{1, 3}, {2, 1}, {3, 2}, {8, 1}}) {
    fs::remove(out_);
    EXPECT_THAT(pack(ranks, threads), ::testing::Each(""));
    EXPECT_TRUE(bytes_of(out_) == expected) << ranks << " ranks with " << threads << " threads";
    EXPECT_EQ(files(), (std::set<std::string>{"npz", "out.foretime"}));
  }
}

TEST_F(Packing, OneFailureEndsAllAndLeavesNothing) {
  std::ofstream(out_) << "what was there";
  std::fstream damaged(headers_[3].file, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(static_cast<std::streamoff>(fs::file_size(headers_[3].file) / 2));
  damaged.write("damaged?", 8).flush();
  for (const auto& [ranks, threads] : std::vector<std::pair<int, int64_t>>{{1, 1}, {1, 3}, {3, 1}, {2, 2}}) {
    for (const auto& said : pack(ranks, threads)) {
      EXPECT_THAT(said, ::testing::StartsWith("3 "));
      EXPECT_THAT(said, ::testing::HasSubstr("synthetic_3.npz"));
    }
    EXPECT_EQ(files(), (std::set<std::string>{"npz", "out.foretime"}));
    EXPECT_EQ(bytes_of(out_), "what was there");
  }
}

}  // namespace
}  // namespace foretime::coordinator
