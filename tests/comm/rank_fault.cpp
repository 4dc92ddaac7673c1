/// One rank of a small run that goes wrong as its first argument says; process_test.cpp starts it under mpirun. The
/// main function has the shape that every program on a Communicator should have: finish or abort, return the code.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <torch/types.h>

#include "comm/algorithms/bfloat16_sum.h"
#include "comm/backends/factory.h"
#include "comm/mpi/mpi_communicator.h"

namespace {

using foretime::comm::Communicator;

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
    if (how == "late") sleep(60'000);
    if (how == "slow") sleep(700);  // later than the others ask where it is, but within the time limit
    if (how == "astray") comm.barrier();
    if (how == "throws") throw std::runtime_error("graph 17 is broken");
    if (how == "leaves") return 0;
    if (how == "killed") std::raise(SIGKILL);
  }
  wait_for_all(comm);
  return how == "preempted" ? 75 : 0;
}

/// Calls that must travel in several pieces.
int in_pieces() {
  using foretime::comm::MpiCommunicator;
  const auto group = std::make_shared<foretime::comm::MpiGroup>(std::chrono::duration<double>(20));
  MpiCommunicator comm(group, 7);
  const auto expect = [](bool right, const char* what) {
    if (!right) throw std::runtime_error(what);
  };
  auto sum = torch::arange(100) + comm.rank();
  comm.all_reduce(sum, foretime::comm::ReduceOp::sum)->wait();
  const int n = comm.size();
  expect(torch::equal(sum, torch::arange(100) * n + n * (n - 1) / 2), "all_reduce in pieces");
  auto rounded = torch::arange(100, torch::kFloat) + comm.rank();
  foretime::comm::all_reduce_bfloat16(comm, rounded)->wait();
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
    if (how == "pieces") return in_pieces();
    comm = foretime::comm::make_communicator(
        {how == "nccl" ? foretime::configs::Backend::nccl : foretime::configs::Backend::auto_,
         std::chrono::duration<double>(how == "throws" || how == "fine" ? 30.0 : 1.0)});
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
