// Commands of streams, and PUBLISH.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "tests/simulation/redis/redis_arguments.h"
#include "tests/simulation/redis/redis_model.h"

namespace foretime::simulation {

Answer RedisModel::publish_text(const Command& c) { return Answer::of(publish ? publish(c[1], c[2]) : 0); }

Answer RedisModel::xadd(const Command& c) {
  size_t at = 2;
  std::optional<size_t> most;
  if (same_word(c[at], "MAXLEN")) {
    const bool about = c[at + 1] == "~";
    most = static_cast<size_t>(integer_from(c[at + (about ? 2 : 1)]));
    // Redis trims whole nodes of 100 entries.
    if (about) *most += 100;
    at += about ? 3 : 2;
  }
  auto& stream = make<Stream>(c[1]);
  StreamEntry entry;
  if (c[at] == "*") {
    entry.milliseconds = std::max(now_ms(), stream.last_milliseconds);
    entry.sequence = entry.milliseconds == stream.last_milliseconds ? stream.last_sequence + 1 : 0;
  } else {
    const auto dash = c[at].find('-');
    entry.milliseconds = integer_from(c[at].substr(0, dash));
    entry.sequence = integer_from(c[at].substr(dash + 1));
  }
  entry.fields.assign(c.begin() + static_cast<std::ptrdiff_t>(at) + 1, c.end());
  stream.last_milliseconds = entry.milliseconds;
  stream.last_sequence = entry.sequence;
  const auto id = fmt::format("{}-{}", entry.milliseconds, entry.sequence);
  stream.entries.push_back(std::move(entry));
  while (most && stream.entries.size() > *most) stream.entries.pop_front();
  auto recorded = c;
  recorded[at] = id;
  record(std::move(recorded));
  return Answer::of(id);
}

Answer RedisModel::xrange(const Command& c) {
  auto found = xrevrange({"XREVRANGE", c[1], c[3], c[2]});
  std::reverse(found.elements.begin(), found.elements.end());
  return found;
}

Answer RedisModel::xrevrange(const Command& c) {
  const auto bound = [](const std::string& text, bool upper) -> std::tuple<bool, int64_t, int64_t> {
    const bool open = text[0] == '(';
    const auto body = text.substr(open ? 1 : 0);
    if (body == "+") return {false, INT64_MAX, INT64_MAX};
    if (body == "-") return {false, 0, 0};
    const auto dash = body.find('-');
    return {open, integer_from(body.substr(0, dash)),
            dash == std::string::npos ? (upper ? INT64_MAX : 0) : integer_from(body.substr(dash + 1))};
  };
  const auto [open_end, end_ms, end_sequence] = bound(c[2], true);
  const auto [open_begin, begin_ms, begin_sequence] = bound(c[3], false);
  auto limit = c.size() > 5 ? integer_from(c[5]) : -1;
  auto found = Answer::array();
  if (const auto* stream = find<Stream>(c[1])) {
    for (auto at = stream->entries.rbegin(); at != stream->entries.rend() && limit != 0; ++at) {
      const std::pair id{at->milliseconds, at->sequence}, last{end_ms, end_sequence}, first{begin_ms, begin_sequence};
      if (id > last || (open_end && id == last)) continue;
      if (id < first || (open_begin && id == first)) break;
      auto fields = Answer::array();
      for (const auto& field : at->fields) fields.elements.push_back(Answer::of(field));
      found.elements.push_back(
          Answer::array({Answer::of(fmt::format("{}-{}", at->milliseconds, at->sequence)), std::move(fields)}));
      --limit;
    }
  }
  return found;
}

}  // namespace foretime::simulation
