// Commands of sorted sets.
#include <iterator>
#include <optional>

#include "tests/simulation/redis/redis_arguments.h"
#include "tests/simulation/redis/redis_model.h"

namespace foretime::simulation {

Answer RedisModel::zadd(const Command& c) {
  const bool only_new = same_word(c[2], "NX");
  size_t at = only_new ? 3 : 2;
  if ((c.size() - at) % 2 != 0 || at == c.size()) throw Refusal{"ERR syntax error"};
  for (size_t i = at; i < c.size(); i += 2) number_from(c[i]);
  auto& sorted = make<SortedSet>(c[1]);
  int64_t added = 0;
  for (; at < c.size(); at += 2) {
    if (only_new && sorted.score(c[at + 1])) continue;
    added += sorted.set(c[at + 1], number_from(c[at])) ? 1 : 0;
  }
  record(c);
  return Answer::of(added);
}

Answer RedisModel::zrem(const Command& c) {
  auto* sorted = find<SortedSet>(c[1]);
  if (sorted == nullptr) return Answer::of(0);
  int64_t removed = 0;
  for (size_t i = 2; i < c.size(); ++i) removed += sorted->erase(c[i]) ? 1 : 0;
  drop_if_empty(c[1]);
  if (removed > 0) record(c);
  return Answer::of(removed);
}

Answer RedisModel::zcard(const Command& c) {
  const auto* sorted = find<SortedSet>(c[1]);
  return Answer::of(static_cast<int64_t>(sorted != nullptr ? sorted->size() : 0));
}

Answer RedisModel::zscore(const Command& c) {
  const auto* sorted = find<SortedSet>(c[1]);
  const auto score = sorted != nullptr ? sorted->score(c[2]) : std::nullopt;
  return score ? Answer::of(score_text(*score)) : Answer{};
}

Answer RedisModel::zcount(const Command& c) {
  const Bound least(c[2]), most(c[3]);
  int64_t count = 0;
  if (const auto* sorted = find<SortedSet>(c[1])) {
    for (auto at = sorted->order().lower_bound({least.value, ""}); at != sorted->order().end(); ++at) {
      if (!most.above(at->first)) break;
      count += least.below(at->first) ? 1 : 0;
    }
  }
  return Answer::of(count);
}

Answer RedisModel::zrange(const Command& c) { return ranked(c, false); }
Answer RedisModel::zrevrange(const Command& c) { return ranked(c, true); }

Answer RedisModel::ranked(const Command& c, bool descending) {
  const bool scores = c.size() > 4;
  if (c.size() > 5 || (scores && !same_word(c[4], "WITHSCORES"))) throw Refusal{"ERR syntax error"};
  auto found = Answer::array();
  const auto* sorted = find<SortedSet>(c[1]);
  const auto size = sorted == nullptr ? 0 : static_cast<int64_t>(sorted->size());
  const auto [begin, end] = range_of(c[2], c[3], size);
  if (begin > end) return found;
  auto at = std::next(sorted->order().begin(), descending ? size - 1 - begin : begin);
  for (int64_t i = begin; i <= end; ++i) {
    found.elements.push_back(Answer::of(at->second));
    if (scores) found.elements.push_back(Answer::of(score_text(at->first)));
    if (i < end) descending ? --at : ++at;
  }
  return found;
}

Answer RedisModel::zrangebyscore(const Command& c) {
  const Bound least(c[2]), most(c[3]);
  bool scores = false;
  int64_t offset = 0, limit = -1;
  for (size_t i = 4; i < c.size(); ++i) {
    if (same_word(c[i], "WITHSCORES")) {
      scores = true;
    } else if (same_word(c[i], "LIMIT") && i + 2 < c.size()) {
      offset = integer_from(c[i + 1]);
      limit = integer_from(c[i + 2]);
      i += 2;
    } else {
      throw Refusal{"ERR syntax error"};
    }
  }
  auto found = Answer::array();
  if (const auto* sorted = find<SortedSet>(c[1])) {
    for (auto at = sorted->order().lower_bound({least.value, ""}); at != sorted->order().end() && limit != 0; ++at) {
      if (!most.above(at->first)) break;
      if (!least.below(at->first) || offset-- > 0) continue;
      found.elements.push_back(Answer::of(at->second));
      if (scores) found.elements.push_back(Answer::of(score_text(at->first)));
      --limit;
    }
  }
  return found;
}

Answer RedisModel::zrangebylex(const Command& c) {
  const auto is_within = [&](const std::string& member) {
    const auto least = c[2].substr(1), most = c[3].substr(1);
    const bool above = c[2] == "-" || (c[2][0] == '[' ? member >= least : member > least);
    return above && (c[3] == "+" || (c[3][0] == '[' ? member <= most : member < most));
  };
  auto limit = c.size() > 6 ? integer_from(c[6]) : -1;
  auto found = Answer::array();
  if (const auto* sorted = find<SortedSet>(c[1])) {
    for (const auto& [score, member] : sorted->order()) {
      if (limit == 0) break;
      if (!is_within(member)) continue;
      found.elements.push_back(Answer::of(member));
      --limit;
    }
  }
  return found;
}

}  // namespace foretime::simulation
