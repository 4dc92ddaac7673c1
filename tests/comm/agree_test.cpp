#include "comm/agree.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "configs/load.h"
#include "coordinator/error.h"
#include "models/model.h"
#include "tests/support/ranks.h"

namespace foretime::comm {
namespace {

/// What each of three ranks throws, as text, when `failing` throws a DataError in a common step.
std::vector<std::string> outcomes(int failing) {
  std::vector<std::string> outcome(3, "went on");
  foretime::testing::run_threads(3, [&](Communicator& comm) {
    const int rank = comm.rank();
    try {
      run_together(comm, [&] {
        if (rank == failing) throw DataError("x.npz: broken");
      });
    } catch (const std::exception& error) {
      outcome[static_cast<size_t>(rank)] = std::to_string(exit_code_of(error)) + " " + error.what();
    }
  });
  return outcome;
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
