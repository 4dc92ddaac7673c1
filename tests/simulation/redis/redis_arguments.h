#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace foretime::simulation {

constexpr const char* kWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Raised inside a command, answered as an error.
struct Refusal {
  std::string text;
};

// The arguments of a command. Each throws Refusal with what Redis says.

int64_t integer_from(const std::string& text);
double number_from(const std::string& text);
/// Whether the text is this word, whatever its case. `word` is in upper case.
bool same_word(const std::string& text, const char* word);

/// A bound of ZRANGEBYSCORE and ZCOUNT: "5", "(5", "-inf", "+inf".
struct Bound {
  double value;
  bool open;
  explicit Bound(const std::string& text);
  bool below(double score) const { return open ? value < score : value <= score; }
  bool above(double score) const { return open ? score < value : score <= value; }
};

/// Redis' indices of a range: negative ones count from the end. Empty where first > last.
std::pair<int64_t, int64_t> range_of(const std::string& first, const std::string& last, int64_t size);

}  // namespace foretime::simulation
