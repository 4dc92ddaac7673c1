#include "tests/simulation/redis/redis_values.h"

#include <cmath>

#include <fmt/format.h>

namespace foretime::simulation {

std::string score_text(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::abs(value) < 1e15 && value == std::trunc(value) && (value != 0 || !std::signbit(value)))
    return std::to_string(static_cast<int64_t>(value));
  return fmt::format("{:.17g}", value);
}

std::string Answer::wire() const {
  switch (kind) {
    case Kind::nil: return "$-1\r\n";
    case Kind::integer: return fmt::format(":{}\r\n", integer);
    case Kind::status: return fmt::format("+{}\r\n", text);
    case Kind::error: return fmt::format("-{}\r\n", text);
    case Kind::text: return fmt::format("${}\r\n", text.size()) + text + "\r\n";
    case Kind::array: break;
  }
  auto bytes = fmt::format("*{}\r\n", elements.size());
  for (const auto& element : elements) bytes += element.wire();
  return bytes;
}

bool SortedSet::set(const std::string& member, double score) {
  const auto [at, is_new] = scores_.try_emplace(member, score);
  if (!is_new) {
    order_.erase({at->second, member});
    at->second = score;
  }
  order_.insert({score, member});
  return is_new;
}

bool SortedSet::erase(const std::string& member) {
  const auto at = scores_.find(member);
  if (at == scores_.end()) return false;
  order_.erase({at->second, member});
  scores_.erase(at);
  return true;
}

std::optional<double> SortedSet::score(const std::string& member) const {
  const auto at = scores_.find(member);
  return at == scores_.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace foretime::simulation
