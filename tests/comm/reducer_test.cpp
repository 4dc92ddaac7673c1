#include <gmock/gmock.h>
#include <torch/types.h>

#include "base/check.h"
#include "comm/algorithms/gradient_reducer.h"
#include "tests/support/ranks.h"

/// The reducer against an obvious reference: every rank's gradients, computed here one rank after the other and added.
namespace foretime::comm {
namespace {

using foretime::testing::group_name;
using foretime::testing::rank_groups;
using foretime::testing::run_ranks;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Reducer = foretime::testing::RanksTest;

INSTANTIATE_TEST_SUITE_P(Groups, Reducer, ::testing::ValuesIn(rank_groups()), group_name);

/// Three layers, two types, one parameter that the loss uses only where asked, one that it never uses.
struct Net {
  std::vector<GradientReducer::Parameter> parameters;
  Net() {
    // Whole numbers keep sums exact in any order.
    const auto weights = [](int64_t rows, int64_t columns) {
      return ((torch::arange(rows * columns) % 7) - 3).view({rows, columns});
    };
    add("first", weights(4, 8).to(torch::kFloat));
    add("second", weights(8, 6).to(torch::kFloat));
    add("sometimes", weights(6, 1).to(torch::kDouble));
    add("third", weights(6, 5).to(torch::kFloat));
    add("never", torch::ones({3}));
  }
  void add(const std::string& name, const torch::Tensor& value) {
    parameters.push_back({name, value.clone().requires_grad_()});
  }
  const torch::Tensor& at(size_t i) const { return parameters[i].tensor; }

  torch::Tensor loss(int rank, int draw, bool sometimes) const {
    const auto input = ((torch::arange(8) * (rank + 2) + draw) % 5 - 2).to(torch::kFloat).view({2, 4});
    const auto hidden = input.mm(at(0)).mm(at(1));
    auto total = hidden.mm(at(3)).sum();
    if (sometimes) total = total + hidden.to(torch::kDouble).mm(at(2)).sum();
    return total;
  }
  void zero_grad() {
    for (auto& each : parameters) each.tensor.mutable_grad().reset();
  }
  std::vector<torch::Tensor> gradients() const {
    std::vector<torch::Tensor> all;
    for (const auto& each : parameters) {
      all.push_back(each.tensor.grad().defined() ? each.tensor.grad().clone()
                                                 : torch::zeros_like(each.tensor).detach());
    }
    return all;
  }
};

using Losses = std::function<std::vector<torch::Tensor>(const Net&, int rank)>;

/// Adds the gradients of all ranks' losses, on one rank.
std::vector<torch::Tensor> sum_by_hand(int size, const Losses& losses) {
  Net net;
  for (int rank = 0; rank < size; ++rank) {
    for (auto& loss : losses(net, rank)) loss.backward();
  }
  return net.gradients();
}

/// Sums gradients through a reducer, with the losses before the last accumulated, and compares.
void check(Communicator& comm, Net& net, GradientReducer& reducer, const Losses& losses) {
  net.zero_grad();
  auto mine = losses(net, comm.rank());
  for (size_t i = 0; i + 1 < mine.size(); ++i) mine[i].backward();
  reducer.prepare();
  if (!mine.empty()) mine.back().backward();
  reducer.finish();
  const auto expected = sum_by_hand(comm.size(), losses);
  for (size_t i = 0; i < net.parameters.size(); ++i) {
    const auto& name = net.parameters[i].name;
    ASSERT_TRUE(net.at(i).grad().defined()) << name;
    EXPECT_TRUE(torch::equal(net.at(i).grad(), expected[i])) << name << " on rank " << comm.rank();
  }
}

const std::vector<int64_t> kBucketBytes{1, 200, 1 << 20};

FORETIME_RANKS_TEST(Reducer, SumsGradients) {
  for (const auto bytes : kBucketBytes) {
    Net net;
    GradientReducer reducer(comm, net.parameters, bytes);
    for (int step = 0; step < 3; ++step) {
      check(comm, net, reducer, [step](const Net& n, int rank) { return std::vector{n.loss(rank, step, true)}; });
    }
  }
}

FORETIME_RANKS_TEST(Reducer, ParametersThatOnlySomeRanksUse) {
  for (const auto bytes : kBucketBytes) {
    Net net;
    GradientReducer reducer(comm, net.parameters, bytes);
    const Losses losses = [](const Net& n, int rank) { return std::vector{n.loss(rank, 1, rank % 2 == 0)}; };
    check(comm, net, reducer, losses);
    if (comm.rank() % 2 == 0) {
      EXPECT_THAT(reducer.take_unused(), ElementsAre("never"));
    } else {
      EXPECT_THAT(reducer.take_unused(), ElementsAre("sometimes", "never"));
    }
    check(comm, net, reducer, losses);
    EXPECT_THAT(reducer.take_unused(), IsEmpty()) << "named once";
  }
}

FORETIME_RANKS_TEST(Reducer, AParameterThatIsUsedNoMoreIsNamed) {
  Net net;
  GradientReducer reducer(comm, net.parameters, 200);
  for (const bool sometimes : {true, false}) {
    check(comm, net, reducer, [&](const Net& n, int rank) { return std::vector{n.loss(rank, 1, sometimes)}; });
    EXPECT_THAT(reducer.take_unused(), ElementsAre(sometimes ? "never" : "sometimes"));
  }
}

FORETIME_RANKS_TEST(Reducer, ABucketIsFilledToItsLastByte) {
  std::vector<GradientReducer::Parameter> parameters;
  auto sum = torch::zeros({});
  for (const char* const name : {"a", "b", "c", "d"}) {
    parameters.push_back({name, torch::ones({4}).requires_grad_()});
    sum = sum + parameters.back().tensor.sum();
  }
  GradientReducer reducer(comm, parameters, 32);
  reducer.prepare();
  sum.backward();
  reducer.finish();
  std::vector<int64_t> bytes;
  for (const auto& bucket : reducer.timing().buckets) bytes.push_back(bucket.bytes);
  EXPECT_EQ(bytes, comm.size() > 1 ? (std::vector<int64_t>{32, 32}) : std::vector<int64_t>());
}

FORETIME_RANKS_TEST(Reducer, ARankWithoutWork) {
  Net net;
  GradientReducer reducer(comm, net.parameters, 200);
  check(comm, net, reducer, [&comm](const Net& n, int rank) {
    return rank == comm.size() - 1 ? std::vector<torch::Tensor>() : std::vector{n.loss(rank, 2, true)};
  });
  if (comm.rank() == comm.size() - 1) {
    EXPECT_THAT(reducer.take_unused(), IsEmpty()) << "no work is not unused";
  }
}

FORETIME_RANKS_TEST(Reducer, Accumulates) {
  Net net;
  GradientReducer reducer(comm, net.parameters, 200);
  for (int step = 0; step < 2; ++step) {
    // `sometimes` has gradients of the first backward only, which is not the armed one.
    check(comm, net, reducer, [step](const Net& n, int rank) {
      return std::vector{n.loss(rank, step, true), n.loss(rank, step + 5, false), n.loss(rank, step + 9, false)};
    });
  }
}

FORETIME_RANKS_TEST(Reducer, StartsBucketsDuringBackward) {
  Net net;
  net.parameters.pop_back();  // with a parameter that is never used, the last bucket in forward order waits for finish
  GradientReducer reducer(comm, net.parameters, 1);
  check(comm, net, reducer, [](const Net& n, int rank) { return std::vector{n.loss(rank, 0, true)}; });
  EXPECT_EQ(reducer.timing().started_early, comm.size() > 1 ? 4 : 0);
  EXPECT_GE(reducer.timing().exposed_seconds, 0.0);
}

FORETIME_RANKS_TEST(Reducer, SameBitsInEveryRun) {
  // Not torch's generator: threads of one process would draw from the same.
  const auto waves = [](int64_t rows, int64_t columns, double step) {
    return torch::sin(torch::arange(rows * columns) * step).to(torch::kFloat).view({rows, columns});
  };
  const auto input = waves(64, 40, 0.37 + comm.rank());
  std::vector<torch::Tensor> first;
  for (int run = 0; run < 4; ++run) {
    auto a = waves(40, 50, 1.1).requires_grad_(), b = waves(50, 30, 2.3).requires_grad_();
    auto bias = waves(1, 30, 0.7).requires_grad_();
    GradientReducer reducer(comm, {{"a", a}, {"b", b}, {"bias", bias}}, 4096);
    reducer.prepare();
    (torch::relu(input.mm(a)).mm(b) + bias).square().sum().backward();
    reducer.finish();
    const std::vector<torch::Tensor> now{a.grad(), b.grad(), bias.grad()};
    if (first.empty()) first = now;
    for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(torch::equal(now[i], first[i])) << run << " " << i;
  }
}

FORETIME_RANKS_TEST(Reducer, GradientsInBfloat16AreRoundedAndNothingElse) {
  for (const auto bytes : kBucketBytes) {
    Net net;
    GradientReducer reducer(comm, net.parameters, bytes, Wire::bfloat16);
    // The gradients are whole numbers that bfloat16 holds, but for their sums.
    const Losses losses = [](const Net& n, int rank) { return std::vector{n.loss(rank, 3, true)}; };
    net.zero_grad();
    reducer.prepare();
    losses(net, comm.rank())[0].backward();
    std::vector<torch::Tensor> own = net.gradients();
    for (const auto& gradient : own) {
      ASSERT_TRUE(torch::equal(gradient, gradient.to(torch::kBFloat16).to(gradient.scalar_type())));
    }
    reducer.finish();
    auto expected = sum_by_hand(comm.size(), losses);
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool travels = comm.size() > 1 && expected[i].scalar_type() == torch::kFloat;
      if (travels) expected[i] = expected[i].to(torch::kBFloat16).to(torch::kFloat);
      EXPECT_TRUE(torch::equal(net.at(i).grad(), expected[i])) << net.parameters[i].name << " " << bytes;
    }
  }
}

FORETIME_RANKS_TEST(Reducer, OtherCollectivesFitBetweenFlushAndFinish) {
  Net net;
  GradientReducer reducer(comm, net.parameters, 200);
  const Losses losses = [&comm](const Net& n, int rank) {
    return rank == comm.size() - 1 && rank > 0 ? std::vector<torch::Tensor>() : std::vector{n.loss(rank, 4, true)};
  };
  for (int step = 0; step < 3; ++step) {
    net.zero_grad();
    reducer.prepare();
    for (auto& loss : losses(net, comm.rank())) loss.backward();
    reducer.flush();
    reducer.flush();
    auto ranks = torch::ones({1});
    const auto work = comm.all_reduce(ranks);
    reducer.finish();
    work->wait();
    EXPECT_EQ(ranks.item<float>(), static_cast<float>(comm.size()));
    const auto expected = sum_by_hand(comm.size(), losses);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(net.at(i).grad(), expected[i]));
  }
}

FORETIME_RANKS_TEST(Reducer, TellsWhenEachBucketTravelled) {
  Net net;
  GradientReducer reducer(comm, net.parameters, 1);
  const auto begin = GradientReducer::Clock::now();
  check(comm, net, reducer, [](const Net& n, int rank) { return std::vector{n.loss(rank, 0, true)}; });
  const auto end = GradientReducer::Clock::now();
  const auto timing = reducer.timing();
  ASSERT_EQ(timing.buckets.size(), comm.size() > 1 ? net.parameters.size() : 0);
  for (const auto& bucket : timing.buckets) {
    EXPECT_GT(bucket.bytes, 0);
    EXPECT_LE(begin, bucket.started);
    EXPECT_LE(bucket.started, bucket.done);
    EXPECT_LE(bucket.done, timing.wait_ended);
    EXPECT_LE(timing.wait_ended, end);
  }
}

FORETIME_RANKS_TEST(Reducer, FrozenParametersAreLeftAlone) {
  auto frozen = torch::ones({2});
  auto free = torch::ones({2}).requires_grad_();
  GradientReducer reducer(comm, {{"frozen", frozen}, {"free", free}}, 100);
  reducer.prepare();
  (frozen * free).sum().backward();
  reducer.finish();
  EXPECT_FALSE(frozen.grad().defined());
  EXPECT_TRUE(torch::equal(free.grad(), torch::full({2}, static_cast<float>(comm.size()))));
  EXPECT_THAT(reducer.take_unused(), IsEmpty());
}

FORETIME_RANKS_TEST(Reducer, HooksEndWithTheReducer) {
  auto weight = torch::ones({2}).requires_grad_();
  { GradientReducer reducer(comm, {{"weight", weight}}, 100); }
  weight.sum().backward();
  EXPECT_TRUE(torch::equal(weight.grad(), torch::ones({2})));
}

TEST(ReducerMisuse, ASecondBackwardAfterPrepareIsRefusedAndNotLost) {
  run_ranks({"threads", 2}, [](Communicator& comm) {
    auto weight = torch::ones({2}).requires_grad_();
    GradientReducer reducer(comm, {{"weight", weight}}, 100);
    reducer.prepare();
    weight.sum().backward();
    EXPECT_THROW(weight.sum().backward(), BrokenInvariant);
    EXPECT_THROW(reducer.finish(), BrokenInvariant) << "also for callers that went on";
  });
}

TEST(ReducerMisuse, FailuresOfTheGroupReachTheCaller) {
  EXPECT_THROW(run_ranks({"threads", 2},
                         [](Communicator& comm) {
                           auto weight = torch::ones({2}).requires_grad_();
                           GradientReducer reducer(comm, {{"weight", weight}}, 100);
                           if (comm.rank() == 1) throw PeerLostError("gone");
                           reducer.prepare();
                           weight.sum().backward();
                           reducer.finish();
                         }),
               PeerLostError);
}

TEST(ReducerMisuse, OrderOfCalls) {
  run_ranks({"threads", 2}, [](Communicator& comm) {
    auto weight = torch::ones({2}).requires_grad_();
    GradientReducer reducer(comm, {{"weight", weight}}, 100);
    EXPECT_THROW(reducer.finish(), BrokenInvariant);
    reducer.prepare();
    EXPECT_THROW(reducer.prepare(), BrokenInvariant);
    reducer.finish();
  });
}

}  // namespace
}  // namespace foretime::comm
