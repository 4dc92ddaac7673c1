// Commands of the server, of keys, and of plain strings.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "tests/simulation/redis/redis_arguments.h"
#include "tests/simulation/redis/redis_model.h"

namespace foretime::simulation {

Answer RedisModel::ping(const Command&) { return {Answer::Kind::status, 0, "PONG", {}}; }
Answer RedisModel::client(const Command&) { return Answer::ok(); }
Answer RedisModel::select(const Command&) { return Answer::ok(); }

Answer RedisModel::info(const Command&) {
  return Answer::of(fmt::format("redis_version:7.0.15\r\nrole:{}\r\nused_memory:{}\r\nmaxmemory:0\r\n",
                                trouble.replica ? "slave" : "master", 1000000));
}

Answer RedisModel::config(const Command& command) {
  const std::map<std::string, std::string> settings = {
      {"maxmemory-policy", "noeviction"}, {"appendonly", "yes"}, {"appendfsync", "everysec"}};
  const auto found = settings.find(command[2]);
  if (found == settings.end()) return Answer::array();
  return Answer::array({Answer::of(found->first), Answer::of(found->second)});
}

Answer RedisModel::time(const Command&) {
  const auto now = now_us_();
  return Answer::array({Answer::of(std::to_string(now / 1000000)), Answer::of(std::to_string(now % 1000000))});
}

Answer RedisModel::get(const Command& c) {
  const auto* text = find<Text>(c[1]);
  return text != nullptr ? Answer::of(*text) : Answer{};
}

Answer RedisModel::set(const Command& c) {
  std::optional<int64_t> expires;
  for (size_t i = 3; i < c.size(); i += 2) {
    if (i + 1 >= c.size()) throw Refusal{"ERR syntax error"};
    if (same_word(c[i], "PX")) expires = now_ms() + integer_from(c[i + 1]);
    else if (same_word(c[i], "PXAT")) expires = integer_from(c[i + 1]);
    else throw Refusal{"ERR syntax error"};
  }
  data_.keys[c[1]] = c[2];
  data_.expires_ms.erase(c[1]);
  if (expires) data_.expires_ms[c[1]] = *expires;
  record(expires ? Command{"SET", c[1], c[2], "PXAT", std::to_string(*expires)} : Command{"SET", c[1], c[2]});
  return Answer::ok();
}

Answer RedisModel::persist(const Command& c) {
  if (!replaying_ && expired(c[1])) return Answer::of(0);
  const bool changed = data_.expires_ms.erase(c[1]) > 0;
  if (changed) record(c);
  return Answer::of(changed ? 1 : 0);
}

Answer RedisModel::incr(const Command& c) {
  const auto* before = find<Text>(c[1]);
  const int64_t value = (before == nullptr ? 0 : integer_from(*before)) + 1;
  make<Text>(c[1]) = std::to_string(value);
  record(c);
  return Answer::of(value);
}

Answer RedisModel::del(const Command& c) {
  int64_t deleted = 0;
  for (size_t i = 1; i < c.size(); ++i) {
    const bool visible = replaying_ || !expired(c[i]);
    deleted += data_.keys.erase(c[i]) > 0 && visible ? 1 : 0;
    data_.expires_ms.erase(c[i]);
  }
  if (deleted > 0) record(c);
  return Answer::of(deleted);
}

Answer RedisModel::exists(const Command& c) {
  int64_t there = 0;
  for (size_t i = 1; i < c.size(); ++i) there += data_.keys.count(c[i]) > 0 && !expired(c[i]) ? 1 : 0;
  return Answer::of(there);
}

Answer RedisModel::type(const Command& c) {
  const auto at = data_.keys.find(c[1]);
  if (at == data_.keys.end() || expired(c[1])) return {Answer::Kind::status, 0, "none", {}};
  constexpr std::array kNames = {"string", "hash", "set", "list", "zset", "stream"};
  return {Answer::Kind::status, 0, kNames[at->second.index()], {}};
}

/// The pattern is a prefix with a star.
Answer RedisModel::names(const Command& c) {
  const auto prefix = c[1].substr(0, c[1].find('*'));
  auto found = Answer::array();
  for (const auto& [key, value] : data_.keys) {
    if (key.starts_with(prefix) && !expired(key)) found.elements.push_back(Answer::of(key));
  }
  std::ranges::sort(found.elements, {}, &Answer::text);
  return found;
}

}  // namespace foretime::simulation
