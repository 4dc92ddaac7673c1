#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <mpi.h>
#include <sys/wait.h>
#include <torch/types.h>

#include "comm/algorithms/gradient_reducer.h"
#include "comm/algorithms/tree_sum.h"
#include "comm/backends/factory.h"
#include "comm/mpi/launched.h"
#include "tests/comm/standin/streams.h"

// MPI's profiling interface: an MPI that knows CUDA would make contexts on the GPU that is current when it starts.
static int gpu_at_start_of_mpi = -1;
extern "C" int MPI_Init_thread(int* count, char*** arguments, int required, int* provided) {
  cudaGetDevice(&gpu_at_start_of_mpi);
  return PMPI_Init_thread(count, arguments, required, provided);
}

/// comm/nccl/ without a GPU: over stand-ins of CUDA and NCCL whose streams are threads (standin/), under
/// ThreadSanitizer where the compiler has it. Runs as ranks of an mpirun; as one process, it starts those that fail.
namespace foretime::comm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<Communicator> nccl;  // of this rank

/// Whole numbers that are exact in every type.
torch::Tensor numbers(int rank, int64_t length) {
  return (torch::arange(length, torch::kLong) * (rank + 3)) % 11 + rank;
}
/// Arrives on the compute stream, some time later.
torch::Tensor late_numbers(int rank, int64_t length, torch::ScalarType type) {
  auto made = numbers(rank, length).sub(1).to(type).to(nccl->device());
  return made.add_(1);
}
torch::Tensor sum_of_all(int64_t length) {
  auto sum = torch::zeros({length}, torch::kLong);
  for (int rank = 0; rank < nccl->size(); ++rank) sum += numbers(rank, length);
  return sum;
}

TEST(NcclStandin, ReducesEveryTypeBehindTheComputeStream) {
  ASSERT_EQ(nccl->name(), "nccl");
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kLong, torch::kInt, torch::kHalf, torch::kBFloat16}) {
    for (const int64_t length : {1, 1000, 40001}) {
      auto least = numbers(0, length), most = least.clone();
      for (int rank = 1; rank < nccl->size(); ++rank) {
        least = torch::minimum(least, numbers(rank, length));
        most = torch::maximum(most, numbers(rank, length));
      }
      auto a = late_numbers(nccl->rank(), length, type), b = late_numbers(nccl->rank(), length, type);
      auto c = late_numbers(nccl->rank(), length, type);
      auto first = nccl->all_reduce(a, ReduceOp::sum), second = nccl->all_reduce(b, ReduceOp::max);
      auto third = nccl->all_reduce(c, ReduceOp::min);
      first->wait();
      second->wait();
      third->wait();
      // Read by the compute stream, to which nothing but the wait says when.
      EXPECT_TRUE(torch::equal(a.mul_(1).cpu().to(torch::kLong), sum_of_all(length))) << c10::toString(type);
      EXPECT_TRUE(torch::equal(b.mul_(1).cpu().to(torch::kLong), most)) << c10::toString(type);
      EXPECT_TRUE(torch::equal(c.mul_(1).cpu().to(torch::kLong), least)) << c10::toString(type);
    }
  }
}

TEST(NcclStandin, NoGpuButItsOwnIsTouched) {
  EXPECT_EQ(gpu_at_start_of_mpi, nccl->local_rank());
  auto tensor = late_numbers(nccl->rank(), 1000, torch::kFloat);
  standin::gpus_made_current();
  // Threads begin with GPU 0, as those of the autograd engine and of loaders do.
  std::thread([&] { nccl->all_reduce(tensor)->wait(); }).join();
  EXPECT_THAT(standin::gpus_made_current(), ::testing::IsSubsetOf({nccl->local_rank()}));
}

TEST(NcclStandin, SumsGoBeforeWhatIsComputed) {
  int least = 0, greatest = 0;
  cudaDeviceGetStreamPriorityRange(&least, &greatest);
  EXPECT_LT(greatest, least);
  EXPECT_EQ(standin::highest_priority(), greatest);
}

TEST(NcclStandin, BroadcastsFromEveryRank) {
  for (int root = 0; root < nccl->size(); ++root) {
    auto value = late_numbers(nccl->rank(), 70000, torch::kFloat);
    nccl->broadcast(value, root);
    EXPECT_TRUE(torch::equal(value.mul_(1).cpu().to(torch::kLong), numbers(root, 70000))) << root;
  }
}

TEST(NcclStandin, SumsAsBfloat16EqualTheHosts) {
  for (const auto wire : {Wire::float32, Wire::bfloat16}) {
    for (const int64_t length : {1, 13, 1000, 30001}) {
      torch::manual_seed(nccl->rank() * 100 + length);
      auto host = torch::randn({length});
      auto here = (host * 2).to(nccl->device());
      here.mul_(0.5);
      sum_in_tree(*nccl, host, wire, Route::direct)->wait();
      sum_in_tree(*nccl, here, wire)->wait();
      EXPECT_TRUE(torch::equal(here.mul_(1).cpu(), wire == Wire::bfloat16 ? host : here.cpu())) << length;
      EXPECT_TRUE(torch::allclose(here.cpu(), host, 1e-5, 1e-5)) << length;
    }
  }
}

/// Parameters of three layers on the device, and the gradients of all ranks' losses added up on the host.
struct Net {
  explicit Net(torch::Device device) {
    torch::manual_seed(7);
    for (const int64_t width : {8, 6, 5})
      weights.push_back(torch::randint(-2, 3, {width == 8 ? 4 : width == 6 ? 8 : 6, width}).to(torch::kFloat));
    for (auto& each : weights) each = each.to(device).requires_grad_();
  }
  torch::Tensor loss(int rank, int step, torch::Device device) const {
    auto hidden = ((torch::arange(8) * (rank + 2) + step) % 5 - 2).to(torch::kFloat).view({2, 4}).to(device);
    for (const auto& each : weights) hidden = hidden.mm(each);
    return hidden.sum();
  }
  std::vector<torch::Tensor> weights;
};

void train(Wire wire) {
  Net net(nccl->device()), reference(torch::kCPU);
  std::vector<GradientReducer::Parameter> parameters;
  for (const auto& each : net.weights) parameters.push_back({"w", each});
  GradientReducer reducer(*nccl, parameters, 150, wire);
  for (int step = 0; step < 6; ++step) {
    for (auto& each : net.weights) each.mutable_grad().reset();
    for (auto& each : reference.weights) each.mutable_grad().reset();
    reducer.prepare();
    net.loss(nccl->rank(), step, nccl->device()).backward();
    reducer.finish();
    for (int rank = 0; rank < nccl->size(); ++rank) reference.loss(rank, step, torch::kCPU).backward();
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < net.weights.size(); ++i) {
      auto sum = net.weights[i].grad();
      sum.mul_(1);  // the optimiser
      const auto here = sum.cpu(), there = reference.weights[i].grad();
      EXPECT_TRUE(wire == Wire::float32 ? torch::equal(here, there) : torch::allclose(here, there, 0.02, 0.02))
          << "step " << step << " weight " << i << "\n"
          << here << there;
    }
  }
  EXPECT_GT(reducer.timing().buckets.size(), 1U);
}

TEST(NcclStandin, BucketsAreSummedWhileBackwardGoesOn) { train(Wire::float32); }
TEST(NcclStandin, BucketsAsBfloat16) { train(Wire::bfloat16); }

TEST(NcclStandin, AThreadMayHaveAnotherGpuCurrent) {
  std::thread([] {  // begins with GPU 0
    auto tensor = late_numbers(nccl->rank(), 10, torch::kFloat);
    nccl->all_reduce(tensor)->wait();
    auto ordered = late_numbers(nccl->rank(), 10, torch::kFloat);
    nccl->all_reduce(ordered)->order();
    EXPECT_TRUE(torch::equal(ordered.mul_(1).cpu(), tensor.cpu()));
  })
      .join();
  nccl->settle();
}

TEST(NcclStandin, TheHostGoesOnWhileAPeerIsLate) {
  Net net(nccl->device());
  GradientReducer reducer(*nccl, {{"w", net.weights[0]}, {"v", net.weights[1]}}, 1);
  for (int step = 0; step < 2; ++step) {
    auto totals = torch::ones({3}).to(nccl->device());  // a copy from the host waits for the stream
    nccl->barrier();
    const auto start = std::chrono::steady_clock::now();
    if (nccl->rank() + 1 == nccl->size()) std::this_thread::sleep_for(std::chrono::seconds(step == 0 ? 10 : 2));
    reducer.prepare();
    net.loss(nccl->rank(), step, nccl->device()).backward();
    reducer.finish();
    nccl->all_reduce(totals)->order();
    if (nccl->rank() == 0 && step == 0) {
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    }
    nccl->settle();
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(nccl->rank() == 0 ? 1000 : 0));
    EXPECT_EQ(totals.cpu()[1].item<float>(), static_cast<float>(nccl->size()));
    if (nccl->rank() == 0) {
      EXPECT_GT(reducer.timing().exposed_seconds, 0.5);
    }
  }
}

TEST(NcclStandin, OrderedWorkIsWaitedForByTheStreamAlone) {
  std::vector<torch::Tensor> sums;
  for (int i = 0; i < 20; ++i) {
    auto tensor = late_numbers(nccl->rank(), 30000, torch::kFloat);
    auto work = nccl->all_reduce(tensor);
    work->order();
    work.reset();
    sums.push_back(tensor.mul(1));  // the tensor itself goes
  }
  nccl->settle();
  for (const auto& sum : sums) EXPECT_TRUE(torch::equal(sum.cpu().to(torch::kLong), sum_of_all(30000)));
}

TEST(NcclStandin, WorkThatNobodyWaitsForKeepsItsTensors) {
  for (int i = 0; i < 5; ++i) {
    auto tensor = late_numbers(nccl->rank(), 50000, torch::kFloat);
    nccl->all_reduce(tensor);
  }
  auto last = late_numbers(nccl->rank(), 10, torch::kFloat);
  nccl->all_reduce(last)->wait();
  EXPECT_TRUE(torch::equal(last.cpu().to(torch::kLong), sum_of_all(10)));
}

TEST(NcclStandin, TensorsOfTheHostAndBytesGoByMpi) {
  auto host = numbers(nccl->rank(), 100);
  nccl->all_reduce(host)->wait();
  EXPECT_TRUE(torch::equal(host, sum_of_all(100)));
  EXPECT_EQ(nccl->broadcast_bytes("x" + std::to_string(nccl->rank()), 1), "x1");
}

/// One rank of a run that fails; returns its exit code.
int misbehave(const std::string& how) {
  std::unique_ptr<Communicator> comm;
  try {
    const bool finds_out = how == "auto" || how == "host";
    comm = make_communicator({finds_out ? configs::Backend::auto_ : configs::Backend::nccl,
                              std::chrono::duration<double>(how == "throws" || finds_out ? 3000.0 : 15.0),
                              how != "host" && how != "nccl on the host"});
    if (how == "host" && !standin::gpus_made_current().empty()) return 1;
    std::printf("backend %s\n", comm->name().c_str());
    for (int i = 0; i < 6; ++i) {
      auto sum = torch::ones({1000}).to(comm->device());
      if (i == 3 && comm->rank() == 1) {
        if (how == "late") std::this_thread::sleep_for(std::chrono::hours(100));
        if (how == "throws") throw std::runtime_error("graph 17 is broken");
      }
      auto work = comm->all_reduce(sum);
      if (how == "late") {
        work->order();
        comm->settle();
      } else {
        work->wait();
      }
      if (sum.cpu()[7].item<float>() != static_cast<float>(comm->size())) return 1;
    }
    comm->finish();
    return 0;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    if (comm) comm->abort(error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    if (comm) comm->abort(error.what());
    return 3;
  }
}

struct Outcome {
  std::string output;
  int code = -1;
};

Outcome run(const std::string& environment, const std::string& how) {
  const std::string command = environment + " " FORETIME_MPIEXEC " -n 2 " FORETIME_BEFORE " " +
                              std::string(program_invocation_name) + " --fault " + how + " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> part;
  while (const size_t got = fread(part.data(), 1, part.size(), pipe)) outcome.output.append(part.data(), got);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

TEST(NcclStandinProcess, EndsAsItsRanksDo) {
  struct Case {
    std::string environment, how;
    ::testing::Matcher<int> code;
    ::testing::Matcher<std::string> output;
  };
  const auto late =
      ::testing::ContainsRegex("all_reduce #[0-9]+ did not finish within 15.0 s; late: rank 1 .no answer");
  const std::vector<Case> cases = {
      {"FORETIME_STANDIN_VIEW=own", "auto", 0, AllOf(HasSubstr("backend nccl"), Not(HasSubstr("backend mpi")))},
      {"FORETIME_STANDIN_VIEW=shared", "auto", 0, AllOf(HasSubstr("backend mpi"), Not(HasSubstr("backend nccl")))},
      // trainer.device=cpu
      {"FORETIME_STANDIN_VIEW=own", "host", 0, AllOf(HasSubstr("backend mpi"), Not(HasSubstr("backend nccl")))},
      {"", "'nccl on the host'", 4, HasSubstr("trainer.device is cpu")},
      {"FORETIME_STANDIN_VIEW=shared", "nccl", 4, HasSubstr("ranks 0 and 1 would share GPU 0000:01:00.0 of host ")},
      {"FORETIME_STANDIN_FAULT=slow:1", "nccl", 0, HasSubstr("backend nccl")},
      {"FORETIME_STANDIN_FAULT=error:1", "nccl", AnyOf(4, 5),
       HasSubstr("remote error")},  // 5: mpirun names the rank that lost it
      {"", "late", 5, late},
      {"", "throws", 3, HasSubstr("rank 1 ended: graph 17 is broken")},
      {"FORETIME_STANDIN_FAULT=stuck_abort", "late", 5, late},
  };
  std::vector<std::future<Outcome>> outcomes;
  std::counting_semaphore<> places(4);  // they sleep much, but start slowly under ThreadSanitizer
  for (const auto& each : cases)
    outcomes.push_back(std::async(std::launch::async, [&each, &places] {
      places.acquire();
      auto outcome = run(each.environment, each.how);
      places.release();
      return outcome;
    }));
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [environment, how, code, output] = cases[i];
    const auto outcome = outcomes[i].get();
    EXPECT_THAT(outcome.code, code) << environment << " " << how << ": " << outcome.output;
    EXPECT_THAT(outcome.output, output) << environment << " " << how;
  }
}

}  // namespace
}  // namespace foretime::comm

int main(int count, char** arguments) {
  using namespace foretime::comm;
  if (count == 3 && std::string(arguments[1]) == "--fault") return misbehave(arguments[2]);
  ::testing::InitGoogleTest(&count, arguments);
  const bool ranks = launched_by_mpi();
  ::testing::GTEST_FLAG(filter) = ranks ? "NcclStandin.*" : "NcclStandinProcess.*";
  if (ranks) nccl = make_communicator({foretime::configs::Backend::nccl, std::chrono::duration<double>(60.0)});
  int code = RUN_ALL_TESTS();
  if (ranks) nccl->finish();
  nccl.reset();
  return code;
}
