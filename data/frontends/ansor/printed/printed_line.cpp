#include "data/frontends/ansor/printed/printed_line.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hex_digest.h"
#include "data/frontends/ansor/dag/compute_dag.h"

namespace foretime::data {
namespace {

/// Whether a body is one call of a function of TVM: its name, else nothing.
std::string_view whole_call(std::string_view body) {
  const size_t open = body.find('(');
  if (open == std::string_view::npos || !body.starts_with("tir.") || !body.ends_with(')')) return {};
  int depth = 0;
  for (size_t i = open; i < body.size(); ++i) {
    if (body[i] == '(') ++depth;
    if (body[i] == ')' && --depth == 0 && i + 1 < body.size()) return {};
  }
  return body.substr(0, open);
}

}  // namespace

PrintedLine parts_of(std::string_view line) {
  PrintedLine parts;
  const size_t open = line.find('('), close = line.find(')', std::min(open, line.size()));
  if (close == std::string_view::npos) return parts;
  parts.name = line.substr(0, open);
  parts.axes = line.substr(open + 1, close - open - 1);
  auto rest = line.substr(close + 1);
  if (rest.starts_with(".v")) {
    parts.tensor = rest.substr(0, std::min(rest.size(), rest.find(' ')));
    rest.remove_prefix(parts.tensor.size());
  }
  for (const std::string_view assignment : {" = ", " += ", " max= ", " min= ", " select(", "reduce"}) {
    if (!rest.starts_with(assignment)) continue;
    parts.assignment = assignment;
    parts.body = rest.substr(assignment.size());
  }
  return parts;
}

std::vector<std::string> listed_words(std::string_view list) {
  std::vector<std::string> found;
  while (!list.empty()) {
    const auto word = list.substr(0, list.find(", "));
    found.emplace_back(word);
    list.remove_prefix(std::min(list.size(), word.size() + 2));
  }
  return found;
}

std::vector<int64_t> listed_lengths(std::string_view list) {
  std::vector<int64_t> found;
  for (const auto& word : listed_words(list)) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > kLargestExtent)
      throw DataError("shape: found {}, expected a number from 1 to {}", word, kLargestExtent);
    found.push_back(value);
  }
  return found;
}

std::string printed_hash(std::string_view text) {
  std::string simple;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (const size_t at = line.find(kPrintedInput); at != std::string_view::npos && at == line.find(' ')) {
      simple += line.substr(0, at + kPrintedInput.size());
    } else if (const auto parts = parts_of(line); parts.assignment == " = " && !whole_call(parts.body).empty()) {
      simple += fmt::format("{}Op({})", line.substr(0, line.size() - parts.body.size()), whole_call(parts.body));
    } else {
      simple += line;
    }
    simple += '\n';
  }
  return hex_digest("MD5", simple);
}

}  // namespace foretime::data
