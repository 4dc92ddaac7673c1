#include "tests/simulation/redis/redis_model.h"

#include <algorithm>
#include <cctype>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace foretime::simulation {

const std::unordered_map<std::string, RedisModel::Handler>& RedisModel::handlers() {
  using M = RedisModel;
  constexpr bool kWrites = true, kGrows = true;
  static const std::unordered_map<std::string, Handler> table = {
      {"PING", {1, false, false, &M::ping}},
      {"INFO", {1, false, false, &M::info}},
      {"CONFIG", {3, false, false, &M::config}},
      {"CLIENT", {2, false, false, &M::client}},
      {"AUTH", {2, false, false, &M::client}},
      {"SELECT", {2, false, false, &M::select}},
      {"TIME", {1, false, false, &M::time}},
      {"GET", {2, false, false, &M::get}},
      {"SET", {3, kWrites, kGrows, &M::set}},
      {"INCR", {2, kWrites, kGrows, &M::incr}},
      {"DEL", {2, kWrites, false, &M::del}},
      {"PERSIST", {2, kWrites, false, &M::persist}},
      {"EXISTS", {2, false, false, &M::exists}},
      {"TYPE", {2, false, false, &M::type}},
      {"KEYS", {2, false, false, &M::names}},
      {"HSET", {4, kWrites, kGrows, &M::hset}},
      {"HSETNX", {4, kWrites, kGrows, &M::hsetnx}},
      {"HGET", {3, false, false, &M::hget}},
      {"HMGET", {3, false, false, &M::hmget}},
      {"HGETALL", {2, false, false, &M::hgetall}},
      {"HSTRLEN", {3, false, false, &M::hstrlen}},
      {"MEMORY", {3, false, false, &M::memory}},
      {"HINCRBY", {4, kWrites, kGrows, &M::hincrby}},
      {"HDEL", {3, kWrites, false, &M::hdel}},
      {"SADD", {3, kWrites, kGrows, &M::sadd}},
      {"SREM", {3, kWrites, false, &M::srem}},
      {"SCARD", {2, false, false, &M::scard}},
      {"SISMEMBER", {3, false, false, &M::sismember}},
      {"SMEMBERS", {2, false, false, &M::smembers}},
      {"SRANDMEMBER", {3, false, false, &M::srandmember}},
      {"RPUSH", {3, kWrites, kGrows, &M::rpush}},
      {"LRANGE", {4, false, false, &M::lrange}},
      {"LTRIM", {4, kWrites, false, &M::ltrim}},
      {"ZADD", {4, kWrites, kGrows, &M::zadd}},
      {"ZREM", {3, kWrites, false, &M::zrem}},
      {"ZCARD", {2, false, false, &M::zcard}},
      {"ZSCORE", {3, false, false, &M::zscore}},
      {"ZCOUNT", {4, false, false, &M::zcount}},
      {"ZRANGE", {4, false, false, &M::zrange}},
      {"ZREVRANGE", {4, false, false, &M::zrevrange}},
      {"ZRANGEBYSCORE", {4, false, false, &M::zrangebyscore}},
      {"ZRANGEBYLEX", {4, false, false, &M::zrangebylex}},
      {"PUBLISH", {3, false, false, &M::publish_text}},
      {"XADD", {5, kWrites, kGrows, &M::xadd}},
      {"XREVRANGE", {4, false, false, &M::xrevrange}},
      {"XRANGE", {4, false, false, &M::xrange}},
      {"EVALSHA", {3, false, false, &M::evaluate}},
      {"EVAL", {3, false, false, &M::load}},
  };
  return table;
}

Answer RedisModel::run(const Command& command) {
  ++commands_;
  wrote_ = false;
  if (!trouble.authentication.empty()) return Answer::error(trouble.authentication);
  if (trouble.loading) return Answer::error("LOADING Redis is loading the dataset in memory");
  unit_.clear();
  auto answer = perform(command);
  commit();
  return answer;
}

Answer RedisModel::perform(const Command& command) {
  static const auto& known = handlers();
  std::string name = command.empty() ? "" : command.front();
  auto found = known.find(name);
  if (found == known.end()) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    found = known.find(name);
  }
  if (found == known.end()) return Answer::error(fmt::format("ERR unknown command '{}'", name));
  const auto& handler = found->second;
  if (command.size() < handler.least)
    return Answer::error(fmt::format("ERR wrong number of arguments for '{}' command", name));
  if (handler.writes && !replaying_) {
    if (trouble.replica) return Answer::error("READONLY You can't write against a read only replica.");
    if (trouble.disk_error)
      return Answer::error("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist");
    if (handler.grows && trouble.full && !script_wrote_ && !allow_oom_)
      return Answer::error("OOM command not allowed when used memory > 'maxmemory'.");
  }
  try {
    auto answer = (this->*handler.run)(command);
    if (handler.writes && in_script_ && answer.kind != Answer::Kind::error) script_wrote_ = true;
    return answer;
  } catch (const Refusal& refusal) {
    return Answer::error(refusal.text);
  }
}

void RedisModel::commit() {
  wrote_ = !unit_.empty();
  if (!unit_.empty()) log_.push_back(std::move(unit_));
  unit_ = {};
}

void RedisModel::fsync() {
  if (log_.empty()) return;
  // The disk has the same commands in the same order, so that it is the same to copy what changed by replaying them.
  std::swap(data_, on_disk_);
  replaying_ = true;
  for (const auto& unit : log_) {
    for (const auto& command : unit) perform(command);
  }
  replaying_ = false;
  unit_.clear();
  log_.clear();
  std::swap(data_, on_disk_);
}

void RedisModel::crash(size_t kept) {
  kept = std::min(kept, log_.size());
  std::swap(data_, on_disk_);
  replaying_ = true;
  for (size_t i = 0; i < kept; ++i) {
    for (const auto& command : log_[i]) perform(command);
  }
  replaying_ = false;
  unit_.clear();
  log_.clear();
  on_disk_ = data_;
  scripts_.clear();
}

size_t RedisModel::bytes() const {
  size_t sum = 0;
  for (const auto& [key, value] : data_.keys) {
    sum += key.size() + 64;
    if (const auto* text = std::get_if<Text>(&value)) sum += text->size();
    if (const auto* hash = std::get_if<Hash>(&value))
      for (const auto& [field, content] : *hash) sum += field.size() + content.size() + 16;
    if (const auto* set = std::get_if<Set>(&value))
      for (const auto& member : *set) sum += member.size() + 16;
    if (const auto* list = std::get_if<List>(&value))
      for (const auto& element : *list) sum += element.size() + 8;
    if (const auto* sorted = std::get_if<SortedSet>(&value))
      for (const auto& entry : sorted->order()) sum += entry.second.size() + 32;
    if (const auto* stream = std::get_if<Stream>(&value))
      for (const auto& entry : stream->entries)
        for (const auto& field : entry.fields) sum += field.size() + 2;
  }
  return sum;
}

bool RedisModel::expired(const std::string& key) {
  const auto at = data_.expires_ms.find(key);
  return at != data_.expires_ms.end() && at->second <= now_ms();
}

void RedisModel::drop_if_empty(const std::string& key) {
  const auto at = data_.keys.find(key);
  if (at == data_.keys.end()) return;
  const bool empty = std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Stream>) return false;
        else return value.size() == 0 && !std::is_same_v<std::decay_t<decltype(value)>, Text>;
      },
      at->second);
  if (!empty) return;
  data_.keys.erase(at);
  data_.expires_ms.erase(key);
}

}  // namespace foretime::simulation
