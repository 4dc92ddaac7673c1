#include "server/batcher.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

#include "server/store.h"
#include "tests/support/processes.h"

namespace foretime::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongWindow = 24h;  // nobody waits for its end

/// Scores a tile row by its first number; texts by their length, and "bad" ones not at all.
class FakeTarget : public Target {
 public:
  explicit FakeTarget(bool joins_requests = true) : joins_(joins_requests) {}

  Scored score(const Work& work) const override {
    ++calls;
    while (held) std::this_thread::sleep_for(1ms);
    Scored scored;
    for (const float tile : work.tiles) {
      if (tile < 0.0F) throw std::runtime_error("a negative one");
      scored.scores.push_back(tile);
    }
    if (std::count(work.texts.begin(), work.texts.end(), "far") > 0) {
      for (const auto text : work.texts) scored.unknown_machines.emplace_back(text == "far" ? "far" : "");
    }
    for (size_t i = 0; i < work.texts.size(); ++i) {
      const bool bad = work.texts[i] == "bad";
      scored.scores.push_back(bad ? std::numeric_limits<float>::infinity() : static_cast<float>(work.texts[i].size()));
      if (bad && scored.failed++ == 0) scored.first_failure = std::to_string(i) + ": it is bad: really";
    }
    return scored;
  }
  bool joins_requests() const override {
    is_asked = true;
    return joins_;
  }

  mutable std::atomic<int> calls{0};
  mutable std::atomic<bool> is_asked{false};  // a request for this target has come
  std::atomic<bool> held{false};

 private:
  bool joins_;
};

Work tiles(std::vector<float> values) {
  Work work;
  work.count = static_cast<int64_t>(values.size());
  work.tiles = std::move(values);
  return work;
}

Work texts(std::vector<std::string_view> values) {
  Work work;
  work.count = static_cast<int64_t>(values.size());
  work.texts = std::move(values);
  return work;
}

std::future<Scored> ask(Batcher& batcher, const std::shared_ptr<FakeTarget>& target, Work work) {
  return std::async(std::launch::async,
                    [&batcher, target, work = std::move(work)] { return batcher.score(target, work); });
}

TEST(Batcher, RequestsWithinTheWindowAreOneCall) {
  Batcher batcher(2, kLongWindow, 6);  // as many candidates as come for the first target
  const auto target = std::make_shared<FakeTarget>(), other = std::make_shared<FakeTarget>();
  auto a = ask(batcher, target, tiles({1, 2})), b = ask(batcher, target, tiles({3})),
       c = ask(batcher, target, tiles({4, 5, 6})), d = ask(batcher, other, tiles({7}));
  EXPECT_EQ(a.get().scores, (std::vector<float>{1, 2}));
  EXPECT_EQ(b.get().scores, (std::vector<float>{3}));
  const auto last = c.get();
  EXPECT_EQ(last.scores, (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(last.requests, 3);
  EXPECT_EQ(target->calls, 1);
  EXPECT_EQ(other->calls, 0);
  batcher.stop_waiting();
  EXPECT_EQ(d.get().requests, 1);
}

TEST(Batcher, RequestsThatComeWhileAllThreadsAreBusyAreOneCall) {
  // Whether the two have come before the thread is free cannot be seen from outside, so several rounds are tried.
  EXPECT_TRUE(foretime::testing::eventually([] {
    Batcher batcher(1, 0us, 100);
    const auto target = std::make_shared<FakeTarget>();
    target->held = true;
    auto first = ask(batcher, target, tiles({1}));
    while (target->calls == 0) std::this_thread::sleep_for(1ms);
    auto a = ask(batcher, target, tiles({2})), b = ask(batcher, target, tiles({3}));
    std::this_thread::sleep_for(50ms);
    target->held = false;
    EXPECT_EQ(first.get().requests, 1);
    EXPECT_EQ(b.get().scores, (std::vector<float>{3}));
    return a.get().requests == 2;
  }));
}

TEST(Batcher, CandidatesThatAreComparedAreNotMixed) {
  Batcher batcher(2, kLongWindow, 100);
  const auto target = std::make_shared<FakeTarget>(/*joins=*/false);
  auto a = ask(batcher, target, tiles({1})), b = ask(batcher, target, tiles({2}));
  EXPECT_EQ(a.get().requests, 1);  // without waiting for the window, too
  EXPECT_EQ(b.get().requests, 1);
  EXPECT_EQ(target->calls, 2);
}

TEST(Batcher, AFullCallStartsAtOnceAndTheNextRequestBeginsAnother) {
  Batcher batcher(1, kLongWindow, 3);
  const auto target = std::make_shared<FakeTarget>();
  auto a = ask(batcher, target, tiles({1, 2, 3}));
  EXPECT_EQ(a.get().scores.size(), 3);
  auto b = ask(batcher, target, tiles({1, 2}));
  std::this_thread::sleep_for(50ms);
  auto c = ask(batcher, target, tiles({3, 4}));  // does not fit
  std::this_thread::sleep_for(50ms);
  batcher.stop_waiting();
  EXPECT_EQ(b.get().requests, 1);
  EXPECT_EQ(c.get().requests, 1);
}

TEST(Batcher, AFailureIsItsOwnRequestsAlone) {
  Batcher batcher(1, kLongWindow, 3);
  const auto target = std::make_shared<FakeTarget>();
  auto a = ask(batcher, target, tiles({1})), b = ask(batcher, target, tiles({-1})),
       c = ask(batcher, target, tiles({2}));
  EXPECT_EQ(a.get().scores, (std::vector<float>{1}));
  EXPECT_THROW(b.get(), std::runtime_error);
  EXPECT_EQ(c.get().scores, (std::vector<float>{2}));
}

TEST(Batcher, WhatWasNotScoredIsToldInTermsOfItsRequest) {
  Batcher batcher(1, kLongWindow, 6);
  const auto target = std::make_shared<FakeTarget>();
  auto a = ask(batcher, target, texts({"a", "bad"})), b = ask(batcher, target, texts({"far"})),
       c = ask(batcher, target, texts({"bad", "c", "bad"}));
  const auto first = a.get(), second = b.get(), third = c.get();
  EXPECT_EQ(first.failed, 1);
  EXPECT_EQ(first.first_failure, "1: it is bad: really");
  EXPECT_EQ(second.failed, 0);
  EXPECT_EQ(second.first_failure, "");
  EXPECT_EQ(third.failed, 2);
  EXPECT_EQ(third.first_failure, "0: it is bad: really");
  EXPECT_EQ(third.scores[1], 1.0F);
  EXPECT_EQ(first.unknown_machines, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(second.unknown_machines, (std::vector<std::string>{"far"}));
}

TEST(Batcher, WhoeverWaitsIsAnsweredBeforeItEnds) {
  const auto target = std::make_shared<FakeTarget>();
  std::future<Scored> waiting;
  {
    Batcher batcher(1, kLongWindow, 100);
    waiting = ask(batcher, target, tiles({1}));
    while (!target->is_asked) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(waiting.get().scores.size(), 1);
}

std::shared_ptr<const int> number(int value) { return std::make_shared<const int>(value); }

TEST(RecentStore, ForgetsWhatWasUsedLongestAgo) {
  RecentStore<int> store(2, 100);
  store.keep("a", number(1), 1);
  store.keep("b", number(2), 1);
  const auto a = store.find("a");
  store.keep("c", number(3), 1);
  EXPECT_EQ(store.find("b"), nullptr);
  EXPECT_EQ(store.find("a"), a);
  EXPECT_EQ(*store.find("c"), 3);
  EXPECT_EQ(store.find(""), nullptr);
}

TEST(RecentStore, KeepsTheFirstOfAnId) {
  RecentStore<int> store(2, 100);
  store.keep("a", number(1), 1);
  store.keep("a", number(2), 99);
  store.keep("b", number(3), 99);
  EXPECT_EQ(*store.find("a"), 1);
}

TEST(RecentStore, WeighsWhatItKeeps) {
  RecentStore<int> store(10, 100);
  store.keep("a", number(1), 60);
  store.keep("b", number(2), 30);
  const auto used = store.find("a");
  store.keep("c", number(3), 20);  // 110: b goes
  EXPECT_NE(store.find("a"), nullptr);
  EXPECT_EQ(store.find("b"), nullptr);
  store.keep("d", number(4), 200);  // alone, since somebody wants it now
  EXPECT_NE(store.find("d"), nullptr);
  EXPECT_EQ(store.find("a"), nullptr);
  EXPECT_EQ(*used, 1);
}

}  // namespace

}  // namespace foretime::server
