#include "jobs/queue/packed_record.h"

#include <algorithm>
#include <array>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 6> kLeased = {"fence", "token", "attempt", "claimed_ms", "term_ms", "agent"};
constexpr std::array<std::string_view, 5> kTexts = {"kind", "name", "metric", "goal", "program"};
constexpr std::array<std::string_view, 8> kValues = {"trial",      "parameters", "after", "ranks",
                                                     "most_ranks", "cpus",       "gpus",  "max_attempts"};

template <size_t size>
bool is_one_of(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void damaged(const std::string& who, const char* field, const std::string& found, const char* expected) {
  throw DamagedRecord("{}: field {}: '{}', expected {}; was it written by another program?", who, field,
                      printable_utf8(found.substr(0, 40)), expected);
}

void unpack_spec(const std::string& text, const std::string& who, Fields& fields) {
  const auto spec = text.size() > Limits::kSettings ? Json() : Json::parse(text, nullptr, false);
  if (!spec.is_object()) damaged(who, "spec", text, "a JSON object as in docs/reference/jobs.md");
  for (const auto& [name, value] : spec.items()) {
    if (packed_in(name) != "spec") continue;
    auto& field = fields[name];
    if (field.empty()) field = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

void unpack_lease(const std::string& text, const std::string& who, Fields& fields) {
  size_t at = 0;
  for (const auto name : kLeased) {
    const auto end = name == kLeased.back() ? text.size() : text.find(' ', at);
    if (at >= text.size() || end == std::string::npos)
      damaged(who, "lease", text, "FENCE TOKEN ATTEMPT CLAIMED_MS TERM_MS AGENT");
    auto& field = fields[std::string(name)];
    if (field.empty()) field = text.substr(at, end - at);
    at = end + 1;
  }
}

}  // namespace

std::vector<std::string> submitted_fields(const JobSpec& spec) {
  const auto all = spec_fields(spec);
  std::vector<std::string> fields;
  std::string packed;
  for (size_t i = 0; i + 1 < all.size(); i += 2) {
    const auto &name = all[i], &value = all[i + 1];
    const bool is_text = is_one_of(kTexts, name) || (name == "settings" && value == kSweepSettings);
    const bool is_value = is_one_of(kValues, name) && !(spec.deferred && name == "parameters");
    if (!is_value && !(is_text && printable_utf8(value) == value)) {
      fields.insert(fields.end(), {name, value});
    } else {
      packed += fmt::format("{}\"{}\":{}", packed.empty() ? "{" : ",", name, is_text ? Json(value).dump() : value);
    }
  }
  fields.insert(fields.end(), {"spec", packed + "}"});
  return fields;
}

std::string waiting_shape(const JobSpec& spec) {
  return fmt::format("c{}g{}{}", spec.resources.total_cpus(), spec.resources.total_gpus(),
                     spec.program.empty() ? "" : "p" + spec.program);
}

std::optional<Demand> parse_waiting_shape(const std::string& shape) {
  static const std::regex kShape("c([0-9]{1,18})g([0-9]{1,18})(?:p([0-9a-f]{1,16}))?");
  std::smatch parts;
  if (!std::regex_match(shape, parts, kShape)) return std::nullopt;
  return Demand{*parse_number<int64_t>(parts.str(1)), *parse_number<int64_t>(parts.str(2)), parts[3]};
}

Fields unpacked(const Fields& fields, const std::string& who) {
  auto all = fields;
  if (const auto spec = fields.find("spec"); spec != fields.end()) unpack_spec(spec->second, who, all);
  if (const auto lease = fields.find("lease"); lease != fields.end()) unpack_lease(lease->second, who, all);
  return all;
}

std::string_view packed_in(std::string_view field) {
  if (is_one_of(kLeased, field)) return "lease";
  return is_one_of(kTexts, field) || is_one_of(kValues, field) || field == "settings" ? "spec" : "";
}

std::vector<Fields> transitions_of(Fields entry) {
  const auto more = entry.extract("more");
  std::vector<Fields> all = {entry};
  if (more) {
    std::istringstream jobs(more.mapped());
    for (std::string job; jobs >> job;) {
      all.push_back(entry);
      all.back()["job"] = job;
    }
  }
  return all;
}

}  // namespace foretime::jobs
