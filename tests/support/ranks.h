#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/backends/factory.h"
#include "comm/mpi/launched.h"
#include "tests/support/thread_group.h"

/// One test body on every rank of a group: threads of this process, or this process as one rank of an mpirun.
namespace foretime::testing {

struct RankGroup {
  std::string backend;  // single, threads or mpi
  int size = 1;         // of a group of threads
  std::chrono::duration<double> timeout{600.0};
  int host_block = 1;  // of a group of threads
};

inline std::ostream& operator<<(std::ostream& out, const RankGroup& group) {
  out << group.backend;
  if (group.backend == "threads") out << group.size;
  return group.host_block > 1 ? out << "by" << group.host_block : out;
}

/// Names the instances of a suite.
inline std::string group_name(const ::testing::TestParamInfo<RankGroup>& info) {
  return ::testing::PrintToString(info.param);
}

/// The groups that this process can be: mpi under mpirun, else one rank and several sizes of threads.
inline std::vector<RankGroup> rank_groups() {
  if (comm::launched_by_mpi()) return {{"mpi"}};
  const std::chrono::duration<double> timeout{600.0};
  return {{"single"}, {"threads", 1}, {"threads", 2}, {"threads", 4}, {"threads", 6, timeout, 2}};
}

/// Keeps the MPI communicator of this process from the first use until the tests are over.
class MpiEnvironment : public ::testing::Environment {
 public:
  /// MPI can be started only once in a process.
  static comm::Communicator& communicator(std::chrono::duration<double> timeout) {
    static auto* environment = [] {
      auto* made = new MpiEnvironment;  // GoogleTest deletes it
      ::testing::AddGlobalTestEnvironment(made);
      return made;
    }();
    if (!environment->communicator_)
      environment->communicator_ = comm::make_communicator({configs::Backend::mpi, timeout});
    return *environment->communicator_;
  }
  void TearDown() override {
    try {
      if (communicator_) communicator_->finish();
    } catch (const comm::CommError&) {  // after a failure that a test has reported
    }
    communicator_.reset();
  }

 private:
  std::unique_ptr<comm::Communicator> communicator_;
};

/// Runs `body` on so many ranks, each a thread of this process, and returns when all are through. A rank that throws
/// ends the group at once, and its own exception leaves this function.
inline void run_threads(int size, const std::function<void(comm::Communicator&)>& body,
                        std::chrono::duration<double> timeout = std::chrono::seconds(60), int host_block = 1) {
  auto ranks = make_thread_group(size, timeout, host_block);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (auto& rank : ranks) {
    threads.emplace_back([&, communicator = rank.get()] {
      try {
        body(*communicator);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        communicator->abort(error.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

/// Runs `body` on every rank of `group` and returns when all are through. A rank that throws ends the group at once:
/// its own exception leaves this function (under MPI: on its rank; the others throw PeerLostError, and so does every
/// later test).
inline void run_ranks(const RankGroup& group, const std::function<void(comm::Communicator&)>& body) {
  if (group.backend == "mpi") {
    auto& communicator = MpiEnvironment::communicator(group.timeout);
    try {
      body(communicator);
    } catch (const std::exception& error) {
      communicator.abort(error.what());
      throw;
    }
    return;
  }
  if (group.backend == "single") {
    body(*comm::make_communicator({configs::Backend::single, group.timeout}));
    return;
  }
  run_threads(group.size, body, group.timeout, group.host_block);
}

/// A test of every rank group in rank_groups(): its body runs on each rank, with `comm`.
class RanksTest : public ::testing::TestWithParam<RankGroup> {};
#define FORETIME_RANKS_TEST(suite, name)                                                        \
  void suite##_##name##_on_rank(::foretime::comm::Communicator& comm);                          \
  TEST_P(suite, name) { ::foretime::testing::run_ranks(GetParam(), suite##_##name##_on_rank); } \
  void suite##_##name##_on_rank([[maybe_unused]] ::foretime::comm::Communicator& comm)

}  // namespace foretime::testing
