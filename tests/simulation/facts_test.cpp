#include "tests/simulation/cluster/facts.h"

#include <set>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/golden.h"

namespace foretime::simulation {
namespace {

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class FactsTest : public ::testing::Test {
 protected:
  FactsTest() {
    for (const auto* name : {"state:waiting", "ids"}) run({"ZADD", key(name), "1", "a"});
    run({"ZADD", key("waiting:c1g0"), "1", "a"});
    run({"SADD", key("shapes"), "c1g0"});
    look({"HSET", key("job:a"), "state", "waiting", "lease", "3 t 1 0 0 agent"}, {"a"});
  }
  static std::string key(const std::string& rest) { return "{foretime}:" + rest; }
  void run(const RedisModel::Command& command) { model_.run(command); }
  /// The words of the invariant that this command breaks; "" where none is.
  std::string look(const RedisModel::Command& command, const std::set<std::string>& told = {}) {
    run(command);
    return broken([&] { facts_.after_command(told, now_); });
  }
  template <class Call>
  static std::string broken(const Call& call) {
    try {
      call();
    } catch (const Broken& error) {
      return error.what();
    }
    return "";
  }

  RedisModel model_{[] { return int64_t{0}; }};
  Facts facts_{model_, [](const std::string& what) { throw Broken(what); }};
  Time now_ = kHour;
};

TEST_F(FactsTest, AJobThatIsGoneWithoutAWordIsLost) {
  for (const auto* name : {"state:waiting", "ids", "waiting:c1g0"}) run({"ZREM", key(name), "a"});
  EXPECT_MESSAGE(look({"DEL", key("job:a")}));
}

TEST_F(FactsTest, AJobThatWasForgottenIsNot) {
  for (const auto* name : {"state:waiting", "ids", "waiting:c1g0"}) run({"ZREM", key(name), "a"});
  EXPECT_EQ(look({"DEL", key("job:a")}, {"a"}), "");
}

TEST_F(FactsTest, IndexesAgreeWithTheStateAfterEachCommand) {
  EXPECT_MESSAGE(look({"ZADD", key("leases"), "1", "a"}));
  run({"ZREM", key("leases"), "a"});
  EXPECT_MESSAGE(look({"ZREM", key("waiting:c1g0"), "a"}));
  run({"ZADD", key("waiting:c1g0"), "1", "a"});
  EXPECT_MESSAGE(look({"ZADD", key("state:dead"), "1", "a"}));
  run({"ZREM", key("state:dead"), "a"});
  EXPECT_MESSAGE(look({"DEL", key("ids")}));
}

TEST_F(FactsTest, AFenceMovesWithAWordOnly) {
  EXPECT_MESSAGE(look({"HSET", key("job:a"), "lease", "4 t 1 0 0 agent"}));
  EXPECT_EQ(look({"HSET", key("job:a"), "lease", "4 t 1 0 0 agent"}, {"a"}), "");
}

TEST_F(FactsTest, AResultStaysAsItWasWritten) {
  run({"ZREM", key("waiting:c1g0"), "a"});
  run({"ZREM", key("state:waiting"), "a"});
  run({"ZADD", key("state:succeeded"), "1", "a"});
  ASSERT_EQ(look({"HSET", key("job:a"), "state", "succeeded", "results", "1", "objective", "0.5"}, {"a"}), "");
  EXPECT_EQ(look({"HSET", key("job:a"), "seconds", "7"}), "");
  EXPECT_MESSAGE(look({"HSET", key("job:a"), "objective", "0.7"}, {"a"}));
}

TEST_F(FactsTest, ACrashTakesTheLastMomentsAtMost) {
  model_.fsync();
  model_.run({"HSET", key("job:a"), "lease", "4 t 1 0 0 agent"});
  EXPECT_EQ(broken([&] { facts_.after_command({"a"}, now_); }), "");
  model_.crash(0);
  now_ += kSecond;
  auto lossy = facts_;
  EXPECT_EQ(broken([&] { lossy.after_crash(false, now_); }), "");
  auto lossless = facts_;
  EXPECT_MESSAGE(broken([&] { lossless.after_crash(true, now_); }));
  EXPECT_MESSAGE(broken([&] { facts_.after_crash(false, now_ + 2 * kSecond); }));
}

}  // namespace
}  // namespace foretime::simulation
