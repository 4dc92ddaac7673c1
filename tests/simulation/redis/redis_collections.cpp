// Commands of hashes, sets and lists.
#include <algorithm>

#include "tests/simulation/redis/redis_arguments.h"
#include "tests/simulation/redis/redis_model.h"

namespace foretime::simulation {

Answer RedisModel::hset(const Command& c) {
  if (c.size() % 2 != 0) throw Refusal{"ERR wrong number of arguments for 'hset' command"};
  auto& hash = make<Hash>(c[1]);
  int64_t added = 0;
  for (size_t i = 2; i < c.size(); i += 2) added += hash.insert_or_assign(c[i], c[i + 1]).second ? 1 : 0;
  record(c);
  return Answer::of(added);
}

Answer RedisModel::hsetnx(const Command& c) {
  auto& hash = make<Hash>(c[1]);
  const bool is_new = hash.emplace(c[2], c[3]).second;
  if (is_new) record(c);
  return Answer::of(is_new ? 1 : 0);
}

Answer RedisModel::hget(const Command& c) {
  const auto* hash = find<Hash>(c[1]);
  const auto at = hash != nullptr ? hash->find(c[2]) : Hash::const_iterator();
  return hash != nullptr && at != hash->end() ? Answer::of(at->second) : Answer{};
}

Answer RedisModel::hmget(const Command& c) {
  const auto* hash = find<Hash>(c[1]);
  auto values = Answer::array();
  for (size_t i = 2; i < c.size(); ++i) {
    const auto at = hash != nullptr ? hash->find(c[i]) : Hash::const_iterator();
    values.elements.push_back(hash != nullptr && at != hash->end() ? Answer::of(at->second) : Answer{});
  }
  return values;
}

Answer RedisModel::hgetall(const Command& c) {
  auto pairs = Answer::array();
  if (const auto* hash = find<Hash>(c[1])) {
    for (const auto& [field, value] : *hash) {
      pairs.elements.push_back(Answer::of(field));
      pairs.elements.push_back(Answer::of(value));
    }
  }
  return pairs;
}

Answer RedisModel::hstrlen(const Command& c) {
  const auto* hash = find<Hash>(c[1]);
  if (hash == nullptr) return Answer::of(int64_t{0});
  const auto found = hash->find(c[2]);
  return Answer::of(found == hash->end() ? int64_t{0} : std::ssize(found->second));
}

Answer RedisModel::memory(const Command& c) {
  const auto* hash = find<Hash>(c[2]);
  if (hash == nullptr) return {};
  int64_t bytes = 0;
  for (const auto& [field, value] : *hash) bytes += std::ssize(field) + std::ssize(value);
  return Answer::of(bytes);
}

Answer RedisModel::hincrby(const Command& c) {
  const auto by = integer_from(c[3]);
  const auto* hash = find<Hash>(c[1]);
  const bool there = hash != nullptr && hash->count(c[2]) != 0;
  int64_t value = 0;
  try {
    value = there ? integer_from(hash->at(c[2])) : 0;
  } catch (const Refusal&) {
    throw Refusal{"ERR hash value is not an integer"};
  }
  make<Hash>(c[1])[c[2]] = std::to_string(value + by);
  record(c);
  return Answer::of(value + by);
}

Answer RedisModel::hdel(const Command& c) {
  auto* hash = find<Hash>(c[1]);
  if (hash == nullptr) return Answer::of(0);
  int64_t deleted = 0;
  for (size_t i = 2; i < c.size(); ++i) deleted += static_cast<int64_t>(hash->erase(c[i]));
  drop_if_empty(c[1]);
  if (deleted > 0) record(c);
  return Answer::of(deleted);
}

Answer RedisModel::sadd(const Command& c) {
  auto& set = make<Set>(c[1]);
  int64_t added = 0;
  for (size_t i = 2; i < c.size(); ++i) added += set.insert(c[i]).second ? 1 : 0;
  if (added > 0) record(c);
  return Answer::of(added);
}

Answer RedisModel::srem(const Command& c) {
  auto* set = find<Set>(c[1]);
  if (set == nullptr) return Answer::of(0);
  int64_t removed = 0;
  for (size_t i = 2; i < c.size(); ++i) removed += static_cast<int64_t>(set->erase(c[i]));
  drop_if_empty(c[1]);
  if (removed > 0) record(c);
  return Answer::of(removed);
}

Answer RedisModel::scard(const Command& c) {
  const auto* set = find<Set>(c[1]);
  return Answer::of(static_cast<int64_t>(set != nullptr ? set->size() : 0));
}

Answer RedisModel::sismember(const Command& c) {
  const auto* set = find<Set>(c[1]);
  return Answer::of(set != nullptr && set->count(c[2]) > 0 ? 1 : 0);
}

Answer RedisModel::smembers(const Command& c) {
  auto members = Answer::array();
  if (const auto* set = find<Set>(c[1])) {
    for (const auto& member : *set) members.elements.push_back(Answer::of(member));
  }
  return members;
}

/// The first ones: whoever asks must be content with any.
Answer RedisModel::srandmember(const Command& c) {
  auto members = smembers(c);
  const auto count = static_cast<size_t>(std::max<int64_t>(0, integer_from(c[2])));
  if (members.elements.size() > count) members.elements.resize(count);
  return members;
}

Answer RedisModel::rpush(const Command& c) {
  auto& list = make<List>(c[1]);
  list.insert(list.end(), c.begin() + 2, c.end());
  record(c);
  return Answer::of(static_cast<int64_t>(list.size()));
}

Answer RedisModel::lrange(const Command& c) {
  auto elements = Answer::array();
  if (const auto* list = find<List>(c[1])) {
    const auto [begin, end] = range_of(c[2], c[3], static_cast<int64_t>(list->size()));
    for (int64_t i = begin; i <= end; ++i) elements.elements.push_back(Answer::of((*list)[static_cast<size_t>(i)]));
  }
  return elements;
}

Answer RedisModel::ltrim(const Command& c) {
  if (auto* list = find<List>(c[1])) {
    const auto [begin, end] = range_of(c[2], c[3], static_cast<int64_t>(list->size()));
    if (begin > end) {
      list->clear();
    } else {
      list->erase(list->begin() + end + 1, list->end());
      list->erase(list->begin(), list->begin() + begin);
    }
    drop_if_empty(c[1]);
    record(c);
  }
  return Answer::ok();
}

}  // namespace foretime::simulation
