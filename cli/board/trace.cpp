#include "cli/board/trace.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <simdjson.h>

#include "base/foreign_file.h"
#include "base/text.h"
#include "history/history.h"

namespace foretime::cli {

using Json = nlohmann::json;
using history::HistoryError;

namespace {

constexpr uintmax_t kMostTrace = 512 << 20;
constexpr double kScale = 2000;  // spans shorter than such a part of the window are not seen
constexpr size_t kMostSpans = 6000;

struct Span {
  int64_t rank, thread;
  std::string name;
  double begin, length;
};

struct Trace {
  std::vector<Span> spans;
  std::map<std::pair<int64_t, int64_t>, std::string> threads;
  double first = std::numeric_limits<double>::infinity(), last = -std::numeric_limits<double>::infinity();
};

Trace read_trace(const std::filesystem::path& root, const std::filesystem::path& name) {
  const auto file = open_foreign(root, name, kMostTrace);
  if (!file) throw HistoryError("{}: no such file", (root / name).string());
  simdjson::padded_string text(file->size());
  file->read({text.data(), text.size()});
  Trace trace;
  try {
    simdjson::ondemand::parser parser;
    auto document = parser.iterate(text);
    simdjson::ondemand::array events = document["traceEvents"].get_array();
    for (auto found : events) {
      simdjson::ondemand::object event = found.get_object();
      const std::string kind(event["ph"].get_string().value());
      if (kind != "X" && kind != "M") continue;
      const int64_t rank = event["pid"].get_int64(), thread = event["tid"].get_int64();
      const std::string name(event["name"].get_string().value());
      if (kind == "M") {
        if (name == "thread_name")
          trace.threads[{rank, thread}] = printable_utf8(event["args"]["name"].get_string().value());
        continue;
      }
      const double begin = event["ts"].get_double(), length = event["dur"].get_double();
      trace.spans.push_back({rank, thread, printable_utf8(name), begin, length});
      trace.first = std::min(trace.first, begin);
      trace.last = std::max(trace.last, begin + length);
    }
  } catch (const simdjson::simdjson_error& error) {
    throw HistoryError("{}: not a trace written by --profile ({})", (root / name).string(), error.what());
  }
  if (trace.spans.empty()) trace.first = trace.last = 0;
  return trace;
}

}  // namespace

Json trace_of(const std::filesystem::path& root, const std::filesystem::path& name, const TraceWindow& window) {
  auto trace = read_trace(root, name);
  const double duration = trace.last - trace.first, from = std::clamp<double>(window.from, 0, duration);
  const double to = std::clamp<double>(window.to ? *window.to : duration, from, duration);
  std::map<std::pair<int64_t, int64_t>, size_t> rows;
  for (const auto& span : trace.spans) rows[{span.rank, span.thread}];
  Json shown_rows = Json::array();
  for (auto& [row, place] : rows) {
    place = shown_rows.size();
    shown_rows.push_back({{"rank", row.first}, {"thread", trace.threads[row]}});
  }
  std::erase_if(trace.spans, [&](Span& span) {
    span.begin -= trace.first;
    return span.begin > to || span.begin + span.length < from;
  });
  const auto inside = trace.spans.size();
  std::erase_if(trace.spans, [&](const Span& span) { return span.length * kScale < to - from; });
  if (trace.spans.size() > kMostSpans) {
    std::ranges::nth_element(trace.spans, trace.spans.begin() + kMostSpans, std::greater(), &Span::length);
    trace.spans.resize(kMostSpans);
  }
  // What stands within another is drawn after it.
  std::ranges::stable_sort(trace.spans, [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.length > b.length;
  });
  std::map<std::string, size_t> names;
  Json spans = Json::array(), shown_names = Json::array();
  for (const auto& span : trace.spans) {
    const auto [name, is_new] = names.try_emplace(span.name, names.size());
    if (is_new) shown_names.push_back(span.name);
    spans.push_back({rows.at({span.rank, span.thread}), name->second, span.begin, span.length});
  }
  return {{"duration", duration},
          {"from", from},
          {"to", to},
          {"rows", std::move(shown_rows)},
          {"names", std::move(shown_names)},
          {"short", inside - trace.spans.size()},
          {"spans", std::move(spans)}};
}

}  // namespace foretime::cli
