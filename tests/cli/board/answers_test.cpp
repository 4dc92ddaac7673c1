#include "cli/board/answers.h"

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "server/http/http.h"

namespace foretime::cli {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{600'000};

TEST(Answers, ThoseWhoAskTheSameShareOneAnswer) {
  Answers answers({.kept = kLong, .patience = kLong});
  std::atomic<int> made{0};
  std::latch begun(1), goes_on(1);
  const auto slow = [&] {
    ++made;
    begun.count_down();
    goes_on.wait();
    return std::string("slow");
  };
  std::vector<std::jthread> threads;
  std::atomic<int> answered{0};
  const auto ask = [&] {
    EXPECT_EQ(*answers.get("slow", slow), "slow");
    ++answered;
  };
  threads.emplace_back(ask);
  begun.wait();
  for (int i = 0; i < 5; ++i) threads.emplace_back(ask);
  // Other questions do not wait for it.
  EXPECT_EQ(*answers.get("quick", [] { return std::string("quick"); }), "quick");
  EXPECT_EQ(answered, 0);
  goes_on.count_down();
  threads.clear();
  EXPECT_EQ(answered, 6);
  EXPECT_EQ(made, 1);
}

TEST(Answers, WhoWaitsForSomebodyElsesAnswerGivesUp) {
  Answers answers({.kept = kLong, .patience = milliseconds(1)});
  std::latch begun(1), goes_on(1);
  std::jthread maker([&] {
    answers.get("slow", [&] {
      begun.count_down();
      goes_on.wait();
      return std::string("slow");
    });
  });
  begun.wait();
  int status = 0;
  try {
    answers.get("slow", [] { return std::string("never made"); });
  } catch (const server::HttpError& error) {
    status = error.status;
  }
  EXPECT_EQ(status, 503);
  goes_on.count_down();
}

TEST(Answers, AreKeptForAWhile) {
  int made = 0;
  const auto make = [&] { return std::to_string(++made); };
  Answers kept({.kept = kLong});
  EXPECT_EQ(*kept.get("a", make), "1");
  EXPECT_EQ(*kept.get("a", make), "1");
  EXPECT_EQ(*kept.get("b", make), "2");
  kept.clear();
  EXPECT_EQ(*kept.get("a", make), "3");
  Answers gone({.kept = milliseconds(0)});
  EXPECT_EQ(*gone.get("a", make), "4");
  EXPECT_EQ(*gone.get("a", make), "5");
}

TEST(Answers, ThatAreTooMuchAreNotKept) {
  Answers answers({.kept = kLong, .most_bytes = 1000});
  int made = 0;
  const auto make = [&] { return std::string(400, static_cast<char>('a' + made++)); };
  for (const auto* question : {"a", "b", "c", "c", "a"}) answers.get(question, make);
  EXPECT_EQ(made, 4) << "a and b are kept, c is made twice";
  answers.clear();
  for (const auto* question : {"c", "d", "c", "d"}) answers.get(question, make);
  EXPECT_EQ(made, 6);
}

TEST(Answers, AFailureIsForThoseWhoWaitAndIsNotKept) {
  Answers answers({.kept = kLong, .patience = kLong});
  std::latch begun(1), goes_on(1);
  std::atomic<int> failures{0};
  const auto ask = [&] {
    try {
      answers.get("a", [&]() -> std::string {
        begun.count_down();
        goes_on.wait();
        throw server::HttpError{404, "not_found", "no such page"};
      });
    } catch (const server::HttpError& error) {
      failures += error.status == 404 ? 1 : 0;
    }
  };
  {
    const std::jthread first(ask);
    begun.wait();
    goes_on.count_down();
  }
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(*answers.get("a", [] { return std::string("now"); }), "now");
}

/// What changed meanwhile is seen by who asks afterwards.
TEST(Answers, AnAnswerThatWasBegunBeforeAChangeIsNotKept) {
  Answers answers({.kept = kLong, .patience = kLong});
  std::latch begun(1), goes_on(1);
  std::jthread old([&] {
    answers.get("a", [&] {
      begun.count_down();
      goes_on.wait();
      return std::string("before");
    });
  });
  begun.wait();
  answers.clear();
  EXPECT_EQ(*answers.get("a", [] { return std::string("after"); }), "after");
  goes_on.count_down();
  old.join();
  EXPECT_EQ(*answers.get("a", [] { return std::string("never made"); }), "after");
}

}  // namespace
}  // namespace foretime::cli
