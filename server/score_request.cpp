#include "server/score_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "inference/candidates/ranking.h"

namespace foretime::server {
namespace {

using Element = JsonReader::Element;
using Inside = JsonReader::Inside;

constexpr const char* kJson = "application/json";
constexpr const char* kBinary = "application/octet-stream";
constexpr int64_t kMostTop = std::numeric_limits<int64_t>::max();

void read_query(const HttpRequest& request, ScoreRequest& score) {
  for (const auto& [name, value] : request.query) {
    if (name != "top") throw DataError(fmt::format("query: {}: no such parameter, expected top", name));
    int64_t top = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), top);
    if (error != std::errc() || end != value.data() + value.size() || top < 0)
      throw DataError("query: top: expected a whole number from 0");
    score.top = top;
  }
}

/// The fields of a request in JSON; `read` takes the one named `name`.
template <class Read>
void read_fields(const HttpRequest& request, std::string_view name, ScoreRequest& score, Read read) {
  auto& json = score.reader;
  bool met = false, has_top = score.top.has_value();
  const auto root = json.object(json.parse(request.body), fmt::format("an object with {}", name));
  for (const auto& [key, value] : root) {
    if (key == name) {
      const Inside inside(json, key);
      json.once(met);
    } else if (key == "top") {
      const Inside inside(json, key);
      json.once(has_top);
      score.top = json.integer(value, 0, kMostTop);
    } else {
      const Inside inside(json, key);
      json.fail(fmt::format("no field of the request, expected {} and top", name));
    }
    if (key == name) read(value);
  }
  if (!met) json.fail(fmt::format("without {}", name));
}

void check_count(int64_t count, int64_t most) {
  if (count == 0) throw DataError("request: empty, expected at least one candidate");
  if (count > most) throw DataError(fmt::format("request: more than {} candidates, which is the limit", most));
}

template <class T>
std::vector<T> read_binary(const std::string& body, int64_t row, int64_t most, int64_t& count) {
  const auto bytes = static_cast<int64_t>(body.size()), size = row * static_cast<int64_t>(sizeof(T));
  if (size == 0 || bytes % size != 0)
    throw DataError(
        fmt::format("request: {} bytes, expected {} numbers of {} bytes for each candidate", bytes, row, sizeof(T)));
  count = bytes / size;
  check_count(count, most);
  std::vector<T> values(static_cast<size_t>(count * row));
  std::memcpy(values.data(), body.data(), body.size());
  return values;
}

void append_number(fmt::memory_buffer& text, double value, bool is_float) {
  const auto out = std::back_inserter(text);
  if (!std::isfinite(value))
    fmt::format_to(out, "null");
  else if (is_float)
    fmt::format_to(out, "{}", static_cast<float>(value));
  else
    fmt::format_to(out, "{}", value);
}

}  // namespace

void read_graph_request(const HttpRequest& request, const GraphTarget& target, data::CandidateKind kind,
                        const ServeLimits& limits, ScoreRequest& score) {
  read_query(request, score);
  inference::CandidateTerms terms{
      .kind = kind, .configurable = target.scorer().configurable(), .names = &target.names()};
  const int64_t bytes = terms.row() * (kind == data::CandidateKind::layout ? 1 : int64_t{sizeof(float)});
  const int64_t most =
      std::min(limits.max_candidates, std::max<int64_t>(1, limits.max_body / std::max<int64_t>(1, bytes)));
  terms.most = most;
  auto& work = score.work;
  if (request.content_type == kBinary) {
    if (kind == data::CandidateKind::layout)
      work.layouts = read_binary<int8_t>(request.body, terms.row(), most, work.count);
    else
      work.tiles = read_binary<float>(request.body, terms.row(), most, work.count);
    return;
  }
  read_fields(request, "candidates", score, [&](const Element& list) {
    auto candidates = inference::read_candidates(score.reader, list, terms);
    work.count = candidates.count;
    work.layouts = std::move(candidates.layouts);
    work.tiles = std::move(candidates.tiles);
    score.ids = std::move(candidates.ids);
  });
}

void read_text_request(const HttpRequest& request, std::string_view name, int64_t most, ScoreRequest& score) {
  read_query(request, score);
  auto& texts = score.work.texts;
  const auto add = [&](std::string_view text) {
    texts.push_back(text);
    check_count(static_cast<int64_t>(texts.size()), most);
  };
  if (request.content_type == kJson) {
    read_fields(request, name, score, [&](const Element& list) {
      for (const Element item : score.reader.list(list, "a list of texts")) {
        const Inside inside(score.reader, name, static_cast<int64_t>(texts.size()));
        std::string_view text;
        if (item.get(text) != simdjson::SUCCESS) {
          score.reader.object(item, "a text or an object");
          text = score.kept.emplace_back(simdjson::minify(item));
        }
        add(text);
      }
    });
  } else {
    std::string_view rest = request.body;
    while (!rest.empty()) {
      auto line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) add(line);
    }
  }
  score.work.count = static_cast<int64_t>(texts.size());
  check_count(score.work.count, most);
}

std::string score_answer(const ScoreRequest& request, const Scored& scored, const std::vector<double>& seconds) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  const auto list = [&](const char* name, const auto& values, bool is_float) {
    fmt::format_to(out, "\"{}\": [", name);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) fmt::format_to(out, ", ");
      append_number(text, static_cast<double>(values[i]), is_float);
    }
    fmt::format_to(out, "], ");
  };
  fmt::format_to(out, "{{");
  if (!request.top) {
    list("scores", scored.scores, true);
    if (!seconds.empty()) list("seconds", seconds, false);
  } else {
    inference::Ranking ranking;
    ranking.scores.assign(scored.scores.begin(), scored.scores.end());
    fmt::format_to(out, "\"ranking\": [");
    const char* separator = "";
    for (const size_t i : inference::fastest_first(ranking, *request.top)) {
      fmt::format_to(out, "{}{{\"candidate\": {}", std::exchange(separator, ", "), i);
      if (!request.ids.empty() && !request.ids[i].empty())
        fmt::format_to(out, ", \"id\": {}", nlohmann::json(request.ids[i]).dump());
      fmt::format_to(out, ", \"score\": ");
      append_number(text, ranking.scores[i], true);
      if (!seconds.empty()) {
        fmt::format_to(out, ", \"seconds\": ");
        append_number(text, seconds[i], false);
      }
      fmt::format_to(out, "}}");
    }
    fmt::format_to(out, "], ");
  }
  if (scored.failed > 0) {
    const nlohmann::json why = "program " + scored.first_failure;
    fmt::format_to(out, "\"failed\": {}, \"first_failure\": {}, ", scored.failed,
                   why.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  fmt::format_to(out, "\"requests\": {}}}\n", scored.requests);
  return fmt::to_string(text);
}

}  // namespace foretime::server
