#include "comm/agree.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/threads/threads.h"
#include "configs/load.h"
#include "coordinator/error.h"
#include "models/model.h"

namespace foretime::comm {
namespace {

/// What each of three ranks throws, as text, when `failing` throws a DataError in a common step.
std::vector<std::string> outcomes(int failing) {
  auto ranks = comm::make_thread_group(3, std::chrono::seconds(20));
  std::vector<std::string> said(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_together(*ranks[static_cast<size_t>(rank)], [&] {
          if (rank == failing) throw DataError("x.npz: broken");
        });
        said[static_cast<size_t>(rank)] = "went on";
      } catch (const std::exception& error) {
        said[static_cast<size_t>(rank)] = std::to_string(exit_code_of(error)) + " " + error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return said;
}

TEST(Agree, AllGoOnTogether) { EXPECT_EQ(outcomes(-1), std::vector<std::string>(3, "went on")); }

TEST(Agree, OneFailureEndsAllWithItsExitCode) {
  const auto said = outcomes(1);
  EXPECT_EQ(said[0], "3 rank 1: x.npz: broken");
  EXPECT_EQ(said[1], "3 x.npz: broken");
  EXPECT_EQ(said[2], "3 rank 1: x.npz: broken");
}

TEST(Agree, ExitCodesAreThoseOfTheReadme) {
  EXPECT_EQ(exit_code_of(configs::SettingsError("")), 2);
  EXPECT_EQ(exit_code_of(models::ModelError("")), 2);
  EXPECT_EQ(exit_code_of(DataError("")), 3);
  EXPECT_EQ(exit_code_of(coordinator::RunError("")), 3);
  EXPECT_EQ(exit_code_of(CommError("")), 4);
  EXPECT_EQ(exit_code_of(comm::PeerLostError("")), 5);
  EXPECT_EQ(exit_code_of(std::bad_alloc()), 1);
}

}  // namespace
}  // namespace foretime::comm
