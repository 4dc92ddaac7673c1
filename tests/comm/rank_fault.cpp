/// One rank of a small run that goes wrong as its first argument says; process_test.cpp starts it under mpirun. The
/// main function has the shape that every program on a Communicator should have: finish or abort, return the code.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <torch/types.h>

#include "comm/algorithms/tree_sum.h"
#include "comm/backends/factory.h"
#include "comm/mpi/mpi_communicator.h"
#include "tests/comm/late_data.h"

namespace {

using foretime::comm::Communicator;

constexpr double kLimit = 10;         // seconds; long enough for ranks that a busy machine runs late
constexpr int kForEver = 10'000'000;  // milliseconds; longer than any test

void wait_for_all(Communicator& comm) {
  auto ones = torch::ones({1000});
  comm.all_reduce(ones)->wait();
  if (ones[0].item<float>() != static_cast<float>(comm.size())) throw std::runtime_error("wrong sum");
}

int misbehave(const std::string& how, Communicator& comm) {
  comm.barrier();
  const auto sleep = [](int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); };
  if (how == "agree") throw std::runtime_error("settings are wrong");
  if (comm.rank() == 1) {  // the culprit
    if (how == "late") sleep(kForEver);
    if (how.starts_with("works")) {  // for longer than the time limit, and then perhaps no more
      for (int i = 0; i < 150; ++i, sleep(100)) comm.keep_alive();
      if (how == "works_and_stops") sleep(kForEver);
    }
    if (how == "slow") sleep(6000);  // later than the others ask where it is, but within the time limit
    if (how == "astray") comm.barrier();
    if (how == "throws") throw std::runtime_error("graph 17 is broken");
    if (how == "leaves") return 0;
    if (how == "killed") std::raise(SIGKILL);
  }
  wait_for_all(comm);
  return how == "preempted" ? 75 : 0;
}

/// Sums by hosts, of which each `block` ranks are said to be one: several under way at once, of which some go directly.
void sum_by_hosts(foretime::comm::MpiCommunicator& comm) {
  using foretime::comm::Route, foretime::comm::Wire;
  const int n = comm.size();
  std::vector<torch::Tensor> sums;
  std::vector<std::unique_ptr<foretime::comm::Work>> work;
  for (int i = 0; i < 12; ++i) {
    sums.push_back(torch::arange(100 + i, torch::kFloat) + comm.rank());
    work.push_back(sum_in_tree(comm, sums.back(), i % 3 == 0 ? Wire::bfloat16 : Wire::float32,
                               i % 4 == 3 ? Route::direct : Route::by_hosts));
  }
  for (int i = 12; i-- > 0;) {
    work[i]->wait();
    auto expected = torch::arange(100 + i, torch::kFloat) * n + n * (n - 1) / 2;
    if (i % 3 == 0) expected = expected.to(torch::kBFloat16).to(torch::kFloat);
    if (!torch::equal(sums[i], expected)) throw std::runtime_error("sum by hosts " + std::to_string(i));
  }
}

/// Calls that must travel in several pieces.
int in_pieces(int host_block) {
  using foretime::comm::MpiCommunicator;
  const auto group = std::make_shared<foretime::comm::MpiGroup>(std::chrono::duration<double>(kForEver));
  MpiCommunicator comm(group, 7, host_block);
  if (host_block > 0) sum_by_hosts(comm);
  const auto expect = [](bool right, const char* what) {
    if (!right) throw std::runtime_error(what);
  };
  auto sum = torch::arange(100) + comm.rank();
  comm.all_reduce(sum, foretime::comm::ReduceOp::sum)->wait();
  const int n = comm.size();
  expect(torch::equal(sum, torch::arange(100) * n + n * (n - 1) / 2), "all_reduce in pieces");
  auto rounded = torch::arange(100, torch::kFloat) + comm.rank();
  foretime::comm::sum_in_tree(comm, rounded, foretime::comm::Wire::bfloat16)->wait();
  auto whole = (torch::arange(100, torch::kFloat) * n + n * (n - 1) / 2).to(torch::kBFloat16).to(torch::kFloat);
  expect(torch::equal(rounded, whole), "all_reduce_bfloat16 in pieces");
  auto value = torch::arange(50, torch::kFloat) * (comm.rank() + 1);
  comm.broadcast(value, n - 1);
  expect(torch::equal(value, torch::arange(50, torch::kFloat) * n), "broadcast in pieces");
  const auto all = comm.all_gather_bytes(std::string(comm.rank() * 15, 'x'));
  for (int rank = 0; rank < n; ++rank) expect(all[rank] == std::string(rank * 15, 'x'), "gather in pieces");
  expect(comm.broadcast_bytes(std::string(30, 'y'), 0) == std::string(30, 'y'), "bytes in pieces");
  comm.finish();
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string how = count > 1 ? arguments[1] : "fine";
  std::unique_ptr<Communicator> comm;
  int code = 0;
  try {
    if (how == "pieces") return in_pieces(0);
    if (how == "hosts") return in_pieces(2);
    if (how.starts_with("late_")) return late_data(how, count > 2 ? arguments[2] : "");
    comm = foretime::comm::make_communicator(
        {how == "nccl" ? foretime::configs::Backend::nccl : foretime::configs::Backend::auto_,
         std::chrono::duration<double>(how == "throws" || how == "fine" ? kForEver : kLimit)});
    code = misbehave(how, *comm);
    comm->finish();
  } catch (const foretime::comm::PeerLostError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    code = 5;
  } catch (const foretime::comm::CommError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    code = 4;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    if (comm) comm->abort(error.what());
    code = 3;
  }
  if (comm && code >= 4 && code <= 5) comm->abort("a collective failed");
  comm.reset();
  return code;
}
