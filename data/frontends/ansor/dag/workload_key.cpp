#include "data/frontends/ansor/dag/workload_key.h"

#include <algorithm>

#include <fmt/format.h>
#include <simdjson.h>

#include "base/error.h"

namespace foretime::data {
namespace {

using simdjson::dom::element;

/// Appends scalars in their order; arrays nest no deeper than simdjson's parser allows.
void flatten(const element& value, std::string& out) {
  simdjson::dom::array items;
  if (value.get(items) == simdjson::SUCCESS) {
    for (const element item : items) flatten(item, out);
    return;
  }
  out += ',';
  out += simdjson::minify(value);
}

}  // namespace

WorkloadKey parse_workload_key(std::string_view text) {
  constexpr size_t kDepth = 32, kHashDigits = 32;
  const auto fail = [&](std::string_view found) {
    return DataError(
        fmt::format("workload key '{}': {}, expected [\"function or md5\", arguments...]", text.substr(0, 80), found));
  };
  simdjson::dom::parser parser;
  if (parser.allocate(std::max<size_t>(text.size(), 64), kDepth) != simdjson::SUCCESS) throw fail("too long");
  element root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root)) throw fail(simdjson::error_message(error));
  simdjson::dom::array list;
  if (root.get(list) != simdjson::SUCCESS || list.size() == 0) throw fail("no list");
  WorkloadKey key;
  std::string_view name;
  if (list.at(0).get(name) != simdjson::SUCCESS) throw fail("no name");
  key.name = name;
  key.is_hash = name.size() == kHashDigits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  key.is_flat = true;
  key.flat = name;
  bool first = true;
  for (const element argument : list) {
    if (first) {
      first = false;
      continue;
    }
    flatten(argument, key.flat);
    simdjson::dom::array items;
    if (argument.get(items) != simdjson::SUCCESS) continue;
    key.is_flat = false;
    std::vector<int64_t> shape;
    bool integers = true;
    for (const element item : items) {
      int64_t extent = 0;
      if (item.get(extent) != simdjson::SUCCESS) integers = false;
      shape.push_back(extent);
    }
    if (integers) key.shapes.push_back(std::move(shape));
  }
  return key;
}

}  // namespace foretime::data
