#include "jobs/progress/progress_message.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "jobs/error.h"
#include "jobs/queue/job.h"

namespace foretime::jobs {
namespace {

using Json = nlohmann::json;
using Kind = ProgressMessage::Kind;

constexpr std::pair<Kind, const char*> kMessageKinds[] = {{Kind::hello, "hello"},
                                                          {Kind::progress, "progress"},
                                                          {Kind::evaluation, "evaluation"},
                                                          {Kind::checkpoint, "checkpoint"},
                                                          {Kind::result, "result"}};
constexpr int64_t kLargestInteger = int64_t{1} << 53;  // beyond it JSON readers and Lua lose digits
constexpr size_t kNameBytes = 200;
constexpr std::string_view kNotFinite[] = {"NaN", "Infinity", "-Infinity"};  // Python's spelling

[[noreturn]] void refuse_message(const std::string& what) { throw JobsError("progress message: " + what); }

std::string shown(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80); }

int64_t integer(const Json& json, const char* key, bool needed, int64_t fallback) {
  const auto at = json.find(key);
  if (at == json.end()) {
    if (needed) refuse_message(fmt::format("'{}' is missing", key));
    return fallback;
  }
  // As a double, which has all whole numbers of that range: 3.0 is 3.
  const double value = at->is_number() ? at->get<double>() : -1;
  if (!(value >= 0 && value <= kLargestInteger) || value != std::floor(value))
    refuse_message(fmt::format("{}: found {}, expected a whole number from 0 to 2^53", key, shown(*at)));
  return value;
}

double number(const Json& value, const std::string& key) {
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    refuse_message(fmt::format("{}: found {}, expected a finite number", key, shown(value)));
  return value.get<double>();
}

/// Parses an object of numbers; null becomes NaN. Entries that are not numbers are skipped and added to `message`.
std::map<std::string, double> numbers_of(const Json& json, const std::string& key, ProgressMessage& message) {
  const auto at = json.find(key);
  if (at == json.end() || !at->is_object()) refuse_message(fmt::format("'{}' is missing or no object of numbers", key));
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : at->items()) {
    const bool named = !name.empty() && name.size() <= kNameBytes;
    if (named && (value.is_null() || value.is_number())) {
      numbers[name] = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    } else {
      message.invalid_entries[fmt::format("{}.{}", key, name.substr(0, 80))] =
          named ? shown(value) : fmt::format("a name of {} bytes, at most {}", name.size(), kNameBytes);
    }
  }
  return numbers;
}

Json json_of(const std::map<std::string, double>& numbers) {
  if (numbers.size() > kProgressMetrics)
    refuse_message(fmt::format("{} metrics, at most {}", numbers.size(), kProgressMetrics));
  return numbers;
}

Kind kind_of(const Json& json) {
  const auto at = json.find("type");
  if (at != json.end() && at->is_string())
    for (const auto& [kind, name] : kMessageKinds)
      if (at->get_ref<const std::string&>() == name) return kind;
  refuse_message(fmt::format("type: found {}, expected hello, progress, evaluation, checkpoint or result",
                             at == json.end() ? "nothing" : shown(*at)));
}

void read_progress(const Json& json, ProgressMessage& message) {
  message.loss = std::numeric_limits<double>::quiet_NaN();
  if (const auto at = json.find("loss"); at != json.end() && !at->is_null()) message.loss = number(*at, "loss");
  if (const auto at = json.find("eta_seconds"); at != json.end() && !at->is_null()) {
    // A negative one says as little as none.
    if (const double eta = number(*at, "eta_seconds"); eta >= 0) message.eta_seconds = eta;
  }
  message.scored = integer(json, "scored", false, 0);
  if (json.contains("values")) message.values = numbers_of(json, "values", message);
}

std::string path_of(const Json& json) {
  const auto at = json.find("path");
  if (at == json.end() || !at->is_string()) refuse_message("'path' is missing or no text");
  auto path = at->get<std::string>();
  if (path.empty() || path.size() > Limits::kPath || path.find('\0') != std::string::npos)
    refuse_message("path: found nothing, more than 4096 bytes or a zero byte, expected a folder");
  return path;
}

std::string finished_line(const Json& json) {
  auto line = json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  if (line.size() > kProgressLine) refuse_message(fmt::format("{} bytes, at most {}", line.size(), kProgressLine));
  return line;
}

}  // namespace

std::string to_line(const ProgressMessage& message) {
  Json json;
  for (const auto& [kind, name] : kMessageKinds)
    if (kind == message.kind) json["type"] = name;
  if (message.kind == Kind::hello) {
    json["pid"] = message.pid;
    return finished_line(json);
  }
  json["step"] = message.step;
  if (message.total_steps > 0) json["total_steps"] = message.total_steps;
  switch (message.kind) {
    case Kind::progress:
      json["loss"] = message.loss;  // written as null unless it is finite
      if (std::isfinite(message.eta_seconds) && message.eta_seconds >= 0) json["eta_seconds"] = message.eta_seconds;
      if (message.scored > 0) json["scored"] = message.scored;
      if (!message.values.empty()) json["values"] = json_of(message.values);
      break;
    case Kind::evaluation: json["iteration"] = message.iteration; [[fallthrough]];
    case Kind::result: json["metrics"] = json_of(message.metrics); break;
    case Kind::checkpoint: json["path"] = message.path; break;
    case Kind::hello: break;
  }
  return finished_line(json);
}

nlohmann::json parse_python_json(const std::string& text) {
  if (auto json = Json::parse(text, nullptr, false); !json.is_discarded()) return json;
  std::string plain;
  bool quoted = false;
  for (size_t at = 0; at < text.size();) {
    const auto rest = std::string_view(text).substr(at);
    const auto word = std::find_if(std::begin(kNotFinite), std::end(kNotFinite),
                                   [&](std::string_view name) { return !quoted && rest.starts_with(name); });
    if (word != std::end(kNotFinite)) {
      plain += "null";
      at += word->size();
      continue;
    }
    if (rest[0] == '"') quoted = !quoted;
    const size_t taken = quoted && rest[0] == '\\' && rest.size() > 1 ? 2 : 1;
    plain += rest.substr(0, taken);
    at += taken;
  }
  return Json::parse(plain);
}

ProgressMessage parse_progress_message(const std::string& line) {
  if (line.size() > kProgressLine) refuse_message(fmt::format("{} bytes, at most {}", line.size(), kProgressLine));
  try {
    const auto json = parse_python_json(line);
    if (!json.is_object()) refuse_message("found " + shown(json) + ", expected an object");
    ProgressMessage message{.kind = kind_of(json)};
    if (message.kind == Kind::hello) {
      message.pid = integer(json, "pid", false, 0);
      return message;
    }
    message.step = integer(json, "step", message.kind != Kind::result, 0);
    message.total_steps = integer(json, "total_steps", false, 0);
    if (message.kind == Kind::progress) read_progress(json, message);
    if (message.kind == Kind::evaluation) message.iteration = integer(json, "iteration", true, 0);
    if (message.kind == Kind::evaluation || message.kind == Kind::result)
      message.metrics = numbers_of(json, "metrics", message);
    if (message.kind == Kind::checkpoint) message.path = path_of(json);
    return message;
  } catch (const Json::exception& error) {
    refuse_message(std::string("not JSON: ") + error.what());
  }
}

std::string stop_line(const std::string& reason) {
  return finished_line({{"stop", true}, {"reason", reason.substr(0, kNameBytes)}});
}

bool is_stop_line(const std::string& line) {
  const auto json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  const auto stop = json.find("stop");
  return stop != json.end() && stop->is_boolean() && stop->get<bool>();
}

}  // namespace foretime::jobs
