#include <thread>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "base/check.h"
#include "comm/algorithms/tree_sum.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks.h"

/// What every backend promises, for every group that this process can be (also run under mpirun).
namespace foretime::comm {
namespace {

using foretime::testing::group_name;
using foretime::testing::message_of;
using foretime::testing::rank_groups;

using CommunicatorContract = foretime::testing::RanksTest;

INSTANTIATE_TEST_SUITE_P(Groups, CommunicatorContract, ::testing::ValuesIn(rank_groups()), group_name);

const std::vector<torch::ScalarType> kTypes{torch::kFloat, torch::kDouble, torch::kLong,    torch::kInt,
                                            torch::kByte,  torch::kHalf,   torch::kBFloat16};
const std::vector<int64_t> kLengths{0, 1, 7, 1000, 300001};

/// Small whole numbers, so that every order of summation and every type gives the same.
torch::Tensor numbers(int rank, int64_t length, torch::ScalarType type) {
  return ((torch::arange(length, torch::kLong) * (rank + 3)) % 11 + rank).to(type);
}

FORETIME_RANKS_TEST(CommunicatorContract, ReducesEveryTypeAndLength) {
  for (const auto type : kTypes) {
    for (const auto length : kLengths) {
      auto sum = torch::zeros({length}, torch::kLong);
      auto most = numbers(0, length, torch::kLong), least = most.clone();
      for (int rank = 0; rank < comm.size(); ++rank) {
        const auto theirs = numbers(rank, length, torch::kLong);
        sum += theirs;
        most = torch::maximum(most, theirs);
        least = torch::minimum(least, theirs);
      }
      auto a = numbers(comm.rank(), length, type), b = a.clone(), c = a.clone();
      // Several under way at once.
      auto first = comm.all_reduce(a, ReduceOp::sum);
      auto second = comm.all_reduce(b, ReduceOp::max);
      auto third = comm.all_reduce(c, ReduceOp::min);
      first->wait();
      second->wait();
      third->wait();
      EXPECT_TRUE(torch::equal(a.to(torch::kLong), sum)) << c10::toString(type) << " " << length;
      EXPECT_TRUE(torch::equal(b.to(torch::kLong), most)) << c10::toString(type) << " " << length;
      EXPECT_TRUE(torch::equal(c.to(torch::kLong), least)) << c10::toString(type) << " " << length;
    }
  }
}

FORETIME_RANKS_TEST(CommunicatorContract, WaitsOutOfOrder) {
  auto a = torch::full({3}, 1.0), b = torch::full({2}, 2.0);
  auto first = comm.all_reduce(a);
  auto second = comm.all_reduce(b);
  second->wait();
  first->wait();
  EXPECT_TRUE(torch::equal(a, torch::full({3}, 1.0 * comm.size())));
  EXPECT_TRUE(torch::equal(b, torch::full({2}, 2.0 * comm.size())));
}

FORETIME_RANKS_TEST(CommunicatorContract, SumsTheSameBitsEveryTimeAndEverywhere) {
  const auto mine = torch::sin(torch::arange(70001) * (0.37 + comm.rank())).to(torch::kFloat) * 1e3;
  torch::Tensor expected;
  for (int run = 0; run < 5; ++run) {
    auto sum = mine.clone();
    comm.all_reduce(sum)->wait();
    if (!expected.defined()) expected = sum;
    EXPECT_TRUE(torch::equal(sum, expected)) << "run " << run;
  }
  auto of_rank_0 = expected.clone();
  comm.broadcast(of_rank_0, 0);
  EXPECT_TRUE(torch::equal(of_rank_0, expected));
}

float sum_of_tree(const std::vector<float>& values, size_t from, size_t to) {
  if (to - from == 1) return values[from];
  size_t left = 1;
  while (2 * left < to - from) left *= 2;
  return sum_of_tree(values, from, from + left) + sum_of_tree(values, from + left, to);
}

/// What sum_in_tree promises, number by number.
torch::Tensor sum_by_hand(const std::vector<torch::Tensor>& values, Wire wire) {
  const auto round = [&](float x) {
    return wire == Wire::bfloat16 && values.size() > 1 ? static_cast<float>(c10::BFloat16(x)) : x;
  };
  auto sum = torch::zeros_like(values.front());
  for (int64_t i = 0; i < sum.numel(); ++i) {
    std::vector<float> column;
    for (const auto& each : values) column.push_back(round(each.data_ptr<float>()[i]));
    sum.data_ptr<float>()[i] = round(sum_of_tree(column, 0, column.size()));
  }
  return sum;
}

FORETIME_RANKS_TEST(CommunicatorContract, SumsInATreeWhateverTheWireAndTheRoute) {
  const auto values_of = [](int rank, int64_t length) {
    return (torch::sin(torch::arange(length) * (0.37 + rank)) * torch::exp2(torch::arange(length) % 20 - 10))
        .to(torch::kFloat);
  };
  struct Sum {
    int64_t length;
    Wire wire;
    Route route;
  };
  std::vector<Sum> sums;
  for (const auto length : kLengths) {
    for (const auto wire : {Wire::float32, Wire::bfloat16}) {
      for (const auto route : {Route::by_hosts, Route::direct, Route::fastest}) sums.push_back({length, wire, route});
    }
  }
  std::vector<torch::Tensor> own;
  std::vector<std::unique_ptr<Work>> work;
  for (const auto& [length, wire, route] : sums) {
    own.push_back(values_of(comm.rank(), length));
    work.push_back(sum_in_tree(comm, own.back(), wire, route));
    // Other collectives between the stages of these.
    comm.barrier();
  }
  auto count = torch::ones({1});
  comm.all_reduce(count)->wait();
  EXPECT_EQ(count.item<float>(), static_cast<float>(comm.size()));
  // Polls and waits in an order that differs from rank to rank.
  for (size_t i = 0; i < work.size(); ++i) work[(i + static_cast<size_t>(comm.rank())) % work.size()]->poll();
  for (size_t i = work.size(); i-- > 0;) work[(i + static_cast<size_t>(comm.rank())) % work.size()]->wait();
  for (size_t i = 0; i < sums.size(); ++i) {
    std::vector<torch::Tensor> all;
    for (int rank = 0; rank < comm.size(); ++rank) all.push_back(values_of(rank, sums[i].length));
    EXPECT_TRUE(torch::equal(own[i], sum_by_hand(all, sums[i].wire)))
        << sums[i].length << " wire " << static_cast<int>(sums[i].wire) << " route " << static_cast<int>(sums[i].route)
        << " on rank " << comm.rank();
  }
}

FORETIME_RANKS_TEST(CommunicatorContract, ManySmallBfloat16ValuesAreNotLost) {
  if (comm.size() < 4) return;
  // 256 + 1 + 1 + 1: in bfloat16 each 1 would be rounded away, in float32 the sum of 259 is, once, to 260.
  for (const auto route : {Route::direct, Route::by_hosts}) {
    auto value = torch::full({3, 5}, comm.rank() == 0 ? 256.0f : 1.0f);
    sum_in_tree(comm, value, Wire::bfloat16, route)->wait();
    EXPECT_EQ(value.min().item<float>(), static_cast<float>(c10::BFloat16(255.0f + static_cast<float>(comm.size()))));
    EXPECT_EQ(value.sizes(), (std::vector<int64_t>{3, 5}));
  }
}

FORETIME_RANKS_TEST(CommunicatorContract, BroadcastsFromEveryRoot) {
  for (int root = 0; root < comm.size(); ++root) {
    for (const auto type : kTypes) {
      auto value = numbers(comm.rank(), 4097, type).view({17, 241});
      comm.broadcast(value, root);
      EXPECT_TRUE(torch::equal(value, numbers(root, 4097, type).view({17, 241})));
    }
    const std::string text = "from " + std::to_string(root) + std::string(root * 1000, '\0');
    EXPECT_EQ(comm.broadcast_bytes(comm.rank() == root ? text : "ignored", root), text);
    EXPECT_EQ(comm.broadcast_bytes("", root), "");
  }
}

FORETIME_RANKS_TEST(CommunicatorContract, BroadcastsIntoAParameter) {
  auto parameter = torch::full({5}, static_cast<float>(comm.rank())).requires_grad_();
  comm.broadcast(parameter, comm.size() - 1);
  EXPECT_TRUE(torch::equal(parameter.detach(), torch::full({5}, comm.size() - 1.0f)));
  EXPECT_TRUE(parameter.is_leaf() && parameter.requires_grad());
}

FORETIME_RANKS_TEST(CommunicatorContract, GathersBytesOfAnyLength) {
  // Rank 0 has nothing, the others more and more, with zeros inside.
  const auto text_of = [](int rank) {
    return std::string(rank * 70000, static_cast<char>(rank)) + (rank ? "end" : "");
  };
  const auto all = comm.all_gather_bytes(text_of(comm.rank()));
  ASSERT_EQ(all.size(), static_cast<size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) EXPECT_TRUE(all[rank] == text_of(rank)) << rank;
  EXPECT_EQ(comm.all_gather_bytes(""), std::vector<std::string>(comm.size()));
}

FORETIME_RANKS_TEST(CommunicatorContract, BarrierWaitsForTheLast) {
  using Clock = std::chrono::steady_clock;
  comm.barrier();
  const auto start = Clock::now();
  if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  comm.barrier();
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(90));
}

FORETIME_RANKS_TEST(CommunicatorContract, LocalRanksAreWithinTheirHost) {
  EXPECT_GE(comm.local_rank(), 0);
  EXPECT_LT(comm.local_rank(), comm.local_size());
  EXPECT_LE(comm.local_size(), comm.size());
  EXPECT_TRUE(comm.device().is_cpu());
  EXPECT_EQ(comm.size() % comm.host_block(), 0);
  if (comm.name() == "mpi") {
    EXPECT_EQ(comm.host_block(), comm.size() & -comm.size()) << "all are on this host";
  }
}

FORETIME_RANKS_TEST(CommunicatorContract, RefusesWhatItCannotDo) {
  using Call = std::function<void()>;
  const std::vector<std::pair<Call, std::string>> cases = {
      {[&] {
         comm.all_reduce(torch::zeros({4, 3}).t());
       },
       "all_reduce"},
      {[&] { comm.all_reduce(torch::zeros({4}, torch::kBool)); }, "Bool"},
      {[&] { sum_in_tree(comm, torch::zeros({4}, torch::kDouble), Wire::bfloat16); }, "all_reduce_bfloat16"},
      {[&] { sum_in_tree(comm, torch::zeros({4}, torch::kDouble), Wire::float32); }, "all_reduce"},
      {[&] { comm.broadcast(torch::zeros({4}), comm.size()); }, "root"},
      {[&] { comm.broadcast_bytes("", -1); }, "root -1"},
  };
  for (const auto& [call, words] : cases) {
    const auto message = message_of<BrokenInvariant>(call);
    EXPECT_THAT(message, ::testing::HasSubstr("rank " + std::to_string(comm.rank())));
    EXPECT_THAT(message, ::testing::HasSubstr(words));
  }
  // None of these counted as a collective: the group still works.
  comm.barrier();
}

}  // namespace
}  // namespace foretime::comm
