#include "jobs/queue/hash_reader.h"

#include <charconv>
#include <cstdlib>

namespace foretime::jobs {
namespace {

template <class Number>
bool parse_whole(const std::string& text, Number& number) {
  const auto end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end;
}

}  // namespace

std::string HashReader::text(const std::string& field, size_t limit) const {
  const auto found = fields_.find(field);
  if (found == fields_.end()) return "";
  if (found->second.size() > limit)
    damaged(field, fmt::format("{} bytes", found->second.size()), fmt::format("at most {}", limit));
  return found->second;
}

int64_t HashReader::integer(const std::string& field, int64_t missing) const {
  const auto value = text(field, kNumber);
  if (value.empty()) return missing;
  int64_t number = 0;
  if (!parse_whole(value, number)) damaged(field, quoted(value), "an integer");
  return number;
}

uint64_t HashReader::natural(const std::string& field, uint64_t missing) const {
  const auto value = text(field, kNumber);
  if (value.empty()) return missing;
  uint64_t number = 0;
  if (!parse_whole(value, number)) damaged(field, quoted(value), "an integer of 0 or more");
  return number;
}

std::optional<double> HashReader::number(const std::string& field) const {
  const auto value = text(field, kNumber);
  if (value.empty()) return std::nullopt;
  char* stopped = nullptr;
  const double parsed = std::strtod(value.c_str(), &stopped);
  if (stopped != value.c_str() + value.size()) damaged(field, quoted(value), "a number");
  return parsed;
}

void HashReader::damaged(const std::string& field, const std::string& found, const std::string& expected) const {
  throw JobsError(
      fmt::format("{}: field {}: {}, expected {}; was it written by another program?", who_, field, found, expected));
}

std::string HashReader::quoted(const std::string& value) {
  return fmt::format("'{}'", printable_utf8(value.substr(0, 40)));
}

}  // namespace foretime::jobs
