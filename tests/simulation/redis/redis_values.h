#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace foretime::simulation {

/// What Redis answers.
struct Answer {
  enum class Kind { nil, integer, status, error, text, array };
  Kind kind = Kind::nil;
  int64_t integer = 0;
  std::string text;  // of status, error and text
  std::vector<Answer> elements;

  static Answer of(int64_t integer) { return {Kind::integer, integer, "", {}}; }
  static Answer of(std::string text) { return {Kind::text, 0, std::move(text), {}}; }
  static Answer ok() { return {Kind::status, 0, "OK", {}}; }
  static Answer error(std::string text) { return {Kind::error, 0, std::move(text), {}}; }
  static Answer array(std::vector<Answer> elements = {}) { return {Kind::array, 0, "", std::move(elements)}; }
  /// The bytes of the protocol, RESP2.
  std::string wire() const;
};

/// A sorted set as Redis has it: by score, then by member.
class SortedSet {
 public:
  /// True: the member is new.
  bool set(const std::string& member, double score);
  bool erase(const std::string& member);
  std::optional<double> score(const std::string& member) const;
  const std::set<std::pair<double, std::string>>& order() const { return order_; }
  size_t size() const { return order_.size(); }

 private:
  std::map<std::string, double> scores_;
  std::set<std::pair<double, std::string>> order_;
};

struct StreamEntry {
  int64_t milliseconds = 0, sequence = 0;
  std::vector<std::string> fields;
};

/// One key's value.
using Text = std::string;
using Hash = std::map<std::string, std::string>;
using Set = std::set<std::string>;
using List = std::deque<std::string>;
struct Stream {
  std::deque<StreamEntry> entries;
  int64_t last_milliseconds = 0, last_sequence = -1;
};
using Value = std::variant<Text, Hash, Set, List, SortedSet, Stream>;

/// As Redis 7.0 writes a double: 17 digits.
std::string score_text(double value);

}  // namespace foretime::simulation
