#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/error.h"
#include "comm/algorithms/tree_sum.h"
#include "comm/backends/factory.h"
#include "comm/communicator.h"
#include "configs/load.h"
#include "coordinator/checkpoint_store.h"
#include "models/model.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks.h"

/// What only the in-memory group can show in one process: failures.

namespace foretime::comm {
namespace {

using foretime::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Seconds = std::chrono::duration<double>;

std::string failure_of(const foretime::testing::RankGroup& group, const std::function<void(Communicator&)>& body) {
  return foretime::testing::message_of<std::exception>([&] { run_ranks(group, body); });
}

TEST(Threads, NamesTheLateRank) {
  const auto message = failure_of({"threads", 3, Seconds(3)}, [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) return;
    comm.all_reduce(torch::zeros({2}))->wait();
  });
  EXPECT_THAT(message, AllOf(HasSubstr("all_reduce #2 did not finish within 3.0 s"), HasSubstr("late: rank 1")));
}

TEST(Threads, ARankThatThrowsEndsTheGroupWithItsOwnMessage) {
  std::atomic<int> told = 0;
  const auto message = failure_of({"threads", 4}, [&](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 2) throw std::runtime_error("graph 17 is broken");
    try {
      comm.barrier();
    } catch (const PeerLostError& error) {
      if (std::string(error.what()).find("rank 2 ended: graph 17 is broken") != std::string::npos) ++told;
    }
  });
  EXPECT_EQ(message, "graph 17 is broken");
  EXPECT_EQ(told, 3);
}

TEST(Threads, DifferentCallsAreNamed) {
  const auto message =
      failure_of({"threads", 2}, [](Communicator& comm) { comm.all_reduce(torch::zeros({2 + comm.rank()}))->wait(); });
  EXPECT_THAT(message, AllOf(HasSubstr("call #1 differs"), HasSubstr("Float[2]"), HasSubstr("Float[3]")));
}

TEST(Threads, AddsInTheOrderOfTheRanks) {
  run_ranks({"threads", 4}, [](Communicator& comm) {
    // In floats, only this order gives 1: (1e8 - 1e8) + 1 + 0.
    auto value = torch::tensor({std::vector<float>{1e8f, -1e8f, 1.0f, 0.0f}[comm.rank()]});
    comm.all_reduce(value)->wait();
    EXPECT_EQ(value.item<float>(), 1.0f);
  });
}

/// One of four ranks, which keeps what it is to send.
class FirstOfFour final : public Communicator {
 public:
  std::vector<Stages> asked;
  int rank() const override { return 0; }
  int size() const override { return 4; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 4; }
  std::string name() const override { return "test"; }
  torch::Device device() const override { return torch::kCPU; }
  std::unique_ptr<Work> all_reduce(torch::Tensor, ReduceOp) override { return nullptr; }
  std::unique_ptr<Work> run(Stages stages) override {
    asked.push_back(std::move(stages));
    return nullptr;
  }
  void broadcast(torch::Tensor, int) override {}
  void barrier() override {}
  std::vector<std::string> all_gather_bytes(const std::string& bytes) override { return {bytes}; }
  std::string broadcast_bytes(const std::string& bytes, int) override { return bytes; }
  void finish() override {}
  void abort(const std::string&) noexcept override {}
};

TEST(TreeSum, SendsNoMoreThanTheTensorAndAtMostAValueForEachRank) {
  FirstOfFour comm;
  for (const auto& [length, piece] : {std::pair<int64_t, int64_t>{8, 2}, {9, 3}, {1, 1}}) {
    for (const auto wire : {Wire::float32, Wire::bfloat16}) {
      sum_in_tree(comm, torch::ones({length}), wire, Route::direct);
      const auto& sent = std::get<AllToAll>(comm.asked.back().list.front()).send;
      EXPECT_EQ(sent.sizes(), (std::vector<int64_t>{4, piece})) << length;
      EXPECT_EQ(sent.scalar_type(), wire == Wire::float32 ? torch::kFloat : torch::kBFloat16);
      EXPECT_EQ(sent.sum().item<float>(), static_cast<float>(length)) << "filled up with zeros";
    }
  }
}

TEST(Factory, RefusesUnknownBackendsAndTimeouts) {
  EXPECT_THROW(make_communicator({configs::Backend::single, Seconds(0)}), CommError);
  EXPECT_EQ(make_communicator({configs::Backend::auto_, Seconds(1)})->name(), "single");
}

TEST(Factory, DescribesEveryBackend) {
  const auto lines = describe_backends();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[1], HasSubstr("MPI"));
  EXPECT_THAT(lines[2], HasSubstr("nccl: "));
}

/// What each of three ranks throws, as text, when `failing` and all ranks behind it throw a
/// DataError in a common step, or `failing` alone.
std::vector<std::string> outcomes(int failing, bool alone = true) {
  std::vector<std::string> outcome(3, "went on");
  foretime::testing::run_threads(3, [&](Communicator& comm) {
    const int rank = comm.rank();
    try {
      run_together(comm, [&] {
        if (rank == failing || (!alone && rank > failing)) throw DataError("x.npz: broken");
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

TEST(Agree, OfSeveralFailuresTheFirstRanksIsToldByThatRankAlone) {
  EXPECT_EQ(outcomes(0, false),
            (std::vector<std::string>{"3 x.npz: broken", "3 rank 0: x.npz: broken", "3 rank 0: x.npz: broken"}));
  EXPECT_EQ(outcomes(1, false),
            (std::vector<std::string>{"3 rank 1: x.npz: broken", "3 x.npz: broken", "3 rank 1: x.npz: broken"}));
}

TEST(Agree, ExitCodesAreThoseOfTheReadme) {
  EXPECT_EQ(exit_code_of(configs::SettingsError("")), 2);
  EXPECT_EQ(exit_code_of(models::ModelError("")), 2);
  EXPECT_EQ(exit_code_of(DataError("")), 3);
  EXPECT_EQ(exit_code_of(coordinator::RunError("")), 3);
  EXPECT_EQ(exit_code_of(CommError("")), 4);
  EXPECT_EQ(exit_code_of(comm::PeerLostError("")), 5);
  EXPECT_EQ(exit_code_of(std::bad_alloc()), 8);
}

}  // namespace
}  // namespace foretime::comm
