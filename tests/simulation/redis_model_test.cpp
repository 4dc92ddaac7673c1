#include "tests/simulation/redis/redis_model.h"

#include <algorithm>
#include <charconv>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "jobs/redis/redis_client.h"
#include "tests/simulation/redis/model_connection.h"
#include "tests/support/redis_server.h"

namespace foretime::simulation {
namespace {

using Command = RedisModel::Command;

/// Numbers in one form: Redis 7.0 writes the score 0.1 as 0.10000000000000001, later ones as 0.1.
std::string with_one_form(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? fmt::format("{}", value) : text;
}

/// An answer as text; of answers without an order, the sorted elements. Which of two errors Redis finds first is not
/// compared.
std::string text_of(const redisReply& reply, bool sorted) {
  switch (reply.type) {
    case REDIS_REPLY_NIL: return "nil";
    case REDIS_REPLY_INTEGER: return fmt::format("({})", reply.integer);
    case REDIS_REPLY_ERROR: return "error";
    case REDIS_REPLY_ARRAY: {
      std::vector<std::string> elements;
      for (size_t i = 0; i < reply.elements; ++i) elements.push_back(text_of(*reply.element[i], false));
      if (sorted) std::sort(elements.begin(), elements.end());
      return fmt::format("[{}]", fmt::join(elements, ", "));
    }
    default: return fmt::format("'{}'", with_one_form(std::string(reply.str, reply.len)));
  }
}

/// Random commands of the subset, over few keys and members, so that they meet; also with wrong types and numbers.
class Commands {
 public:
  explicit Commands(uint64_t seed) : random_(seed) {}

  Command next() {
    const auto key = one_of({"a", "b", "c", "d"}), member = one_of({"x", "y", "z", "zz", ""});
    const auto score = one_of({"0", "-1", "1.5", "3", "1e17", "-inf", "+inf", "0.1", "no"});
    const auto integer = one_of({"0", "1", "-1", "2", "5", "-3"});
    const auto bound = one_of({"-inf", "+inf", "0", "(0", "1.5", "(1.5", "3"});
    const auto bound_two = one_of({"-inf", "+inf", "1", "(3", "1e17"});
    const auto text = one_of({"12", "text", "", "-5", "1.5"});
    const std::vector<Command> choices = {
        {"SET", key, text},
        {"GET", key},
        {"INCR", key},
        {"PERSIST", key},
        {"DEL", key, one_of({"a", "b", "e"})},
        {"EXISTS", key, key, "b"},
        {"TYPE", key},
        {"HSET", key, member, text, "f", "1"},
        {"HSET", key, member, text, "odd"},
        {"HSETNX", key, member, text},
        {"HGET", key, member},
        {"HMGET", key, member, "f", "none"},
        {"HGETALL", key},
        {"HINCRBY", key, member, one_of({"0", "1", "-7"})},
        {"HDEL", key, member, "f"},
        {"SADD", key, member, "m"},
        {"SREM", key, member},
        {"SCARD", key},
        {"SISMEMBER", key, member},
        {"SMEMBERS", key},
        {"RPUSH", key, member, text},
        {"LRANGE", key, integer, one_of({"-1", "1", "100"})},
        {"LTRIM", key, integer, one_of({"-1", "1", "100"})},
        {"ZADD", key, score, member},
        {"ZADD", key, score, member, "2", "w"},
        {"ZADD", key, "NX", score, member},
        {"ZREM", key, member, "w"},
        {"ZCARD", key},
        {"ZSCORE", key, member},
        {"ZCOUNT", key, bound, bound_two},
        {"ZRANGE", key, integer, one_of({"-1", "1", "100"})},
        {"ZRANGE", key, "0", "-1", "WITHSCORES"},
        {"ZREVRANGE", key, integer, one_of({"-1", "1", "100"}), "WITHSCORES"},
        {"ZRANGEBYSCORE", key, bound, bound_two},
        {"ZRANGEBYSCORE", key, bound, bound_two, "WITHSCORES", "LIMIT", "0", "2"},
        {"ZADD", "names", "0", member},  // by name they are sorted at equal scores only
        {"ZRANGEBYLEX", "names", one_of({"-", "[x", "(x"}), one_of({"+", "[zz", "(y"})},
        {"EVAL", "return {redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2]), redis.call('ZCARD', KEYS[1])}", "1", key,
         score, member},
        {"EVAL",
         "local v = redis.pcall('HGET', KEYS[1], 'f') if type(v) == 'table' then return v.err and 'E' end return v",
         "1", key},
        {"EVAL", "return {tonumber('7.9'), false, true, 'x', {1, nil, 3}, redis.call('GET', KEYS[1])}", "1", key},
        {"EVALSHA", "0123456789012345678901234567890123456789", "0"},
        {"KEYS", "*"},
        {"NOSUCHCOMMAND", key},
        {"GET"},
    };
    return choices[random_() % choices.size()];
  }

 private:
  std::string one_of(const std::vector<std::string>& texts) { return texts[random_() % texts.size()]; }
  std::mt19937_64 random_;
};

TEST(RedisModel, AnswersAsARealRedisDoes) {
  testing::RedisServer server(testing::RedisServer::Options{.appendonly = false});
  jobs::RedisConnection real(server.url(), std::chrono::seconds(5), 1 << 20);
  std::set<std::string> kinds;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    real.send({{"FLUSHALL"}});
    real.receive("FLUSHALL");
    RedisModel model([] { return int64_t{1'700'000'000'000'000}; });
    Commands commands(seed);
    std::vector<std::string> history;
    for (int i = 0; i < 300; ++i) {
      const auto command = commands.next();
      history.push_back(fmt::format("{}", fmt::join(command, " ")));
      real.send({command});
      const auto expected = real.receive(command.front());
      const auto found = reply_of(model.run(command));
      const auto& name = command.front();
      const bool sorted = name == "SMEMBERS" || name == "KEYS" || name == "HGETALL";
      ASSERT_EQ(text_of(*found, sorted), text_of(*expected, sorted)) << "seed " << seed << ":\n"
                                                                     << fmt::format("{}", fmt::join(history, "\n"));
      kinds.insert(name + std::to_string(expected->type));
    }
  }
  EXPECT_GT(kinds.size(), 60U) << "the commands do not meet each other";
}

TEST(RedisModel, ACrashLosesWhatWasNotSyncedAndNothingElse) {
  RedisModel model([] { return int64_t{1'700'000'000'000'000}; });
  model.run({"SET", "a", "1"});
  model.fsync();
  model.run({"SET", "a", "2"});
  model.run({"EVAL", "redis.call('SET', 'b', '1') redis.call('SET', 'c', '1')", "0"});
  model.run({"SET", "d", "1"});
  EXPECT_EQ(model.unsynced(), 3U);
  model.crash(2);
  EXPECT_EQ(model.run({"GET", "a"}).text, "2");
  EXPECT_EQ(model.run({"GET", "c"}).text, "1") << "a script is on disk as a whole";
  EXPECT_EQ(model.run({"GET", "d"}).kind, Answer::Kind::nil);
  model.crash(0);
  EXPECT_EQ(model.run({"GET", "a"}).text, "2") << "what survived one crash is on disk";
}

}  // namespace
}  // namespace foretime::simulation
