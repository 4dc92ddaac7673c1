#include "jobs/queue/job_hash.h"

#include <charconv>
#include <cstdlib>

#include "jobs/redis/redis_client.h"

namespace foretime::jobs {
namespace {

template <class Number>
bool parse_whole(const std::string& text, Number& number) {
  const auto end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end;
}

std::string goal_text(bool maximize) { return maximize ? "maximize" : "minimize"; }
std::string flag_text(bool flag) { return flag ? "1" : ""; }

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
  throw JobsError("{}: field {}: {}, expected {}; was it written by another program?", who_, field, found, expected);
}

std::string HashReader::quoted(const std::string& value) {
  return fmt::format("'{}'", printable_utf8(value.substr(0, 40)));
}

std::vector<std::string> spec_fields(const JobSpec& spec) {
  return {"kind",         to_string(spec.kind),
          "name",         spec.name,
          "sweep",        spec.sweep,
          "trial",        std::to_string(spec.trial),
          "settings",     spec.settings,
          "parameters",   nlohmann::json(spec.parameters).dump(),
          "deferred",     flag_text(spec.deferred),
          "metric",       spec.metric,
          "goal",         goal_text(spec.maximize),
          "after",        nlohmann::json(spec.after).dump(),
          "ranks",        std::to_string(spec.resources.ranks),
          "cpus",         std::to_string(spec.resources.cpus),
          "gpus",         std::to_string(spec.resources.gpus),
          "priority",     std::to_string(spec.priority),
          "max_attempts", std::to_string(spec.max_attempts)};
}

std::vector<std::string> sweep_fields(const SweepSpec& sweep) {
  return {"name",       sweep.name,
          "method",     sweep.method,
          "definition", sweep.definition,
          "metric",     sweep.metric,
          "goal",       goal_text(sweep.maximize),
          "trials",     std::to_string(sweep.trials),
          "seed",       std::to_string(sweep.seed),
          "rungs",      nlohmann::json(sweep.halving.rungs).dump(),
          "eta",        number_text(sweep.halving.eta)};
}

Fields fields_of(const redisReply& reply) {
  const auto texts = texts_of(reply);
  Fields fields;
  for (size_t i = 0; i + 1 < texts.size(); i += 2) fields[texts[i]] = texts[i + 1];
  return fields;
}

JobRecord record_of(const std::string& id, const Fields& fields, const std::string& key) {
  const HashReader read(key.empty() ? "job " + id : key, fields);
  JobRecord record;
  auto& spec = record.spec;
  spec.id = id;
  spec.kind = read.word("kind", parse_job_kind);
  spec.name = read.text("name", Limits::kName);
  spec.sweep = read.text("sweep", Limits::kName);
  spec.trial = read.integer("trial", -1);
  spec.settings = read.text("settings", Limits::kSettings);
  spec.parameters = read.json<Parameters>("parameters", Limits::kParameters);
  spec.deferred = read.flag("deferred");
  spec.metric = read.text("metric", Limits::kName);
  spec.maximize = read.text("goal", Limits::kName) != "minimize";
  spec.after = read.json<std::vector<std::string>>("after", Limits::kParameters);
  spec.resources = {read.integer("ranks", 1), read.integer("cpus", 1), read.integer("gpus")};
  spec.priority = read.integer("priority");
  spec.max_attempts = read.integer("max_attempts", 3);
  record.state = read.word("state", parse_job_state);
  record.attempt = read.integer("attempt");
  record.failures = read.integer("failures");
  record.fence = read.integer("fence");
  record.agent = read.text("agent", Limits::kName);
  record.submitted_ms = read.integer("submitted_ms");
  record.claimed_ms = read.integer("claimed_ms");
  record.finished_ms = read.integer("finished_ms");
  record.due_ms = read.integer("due_ms");
  record.updated_ms = read.integer("updated_ms");
  record.step = read.integer("step");
  record.total_steps = read.integer("total_steps");
  record.eta_seconds = read.number("eta_s").value_or(-1);
  record.loss = read.number("loss").value_or(0);
  record.seconds = read.number("seconds").value_or(0);
  record.objective = read.number("objective");
  record.best_objective = read.number("best_objective");
  record.metrics = read.json<std::map<std::string, double>>("metrics", 2 * Limits::kResult);
  record.checkpoint = read.text("checkpoint", Limits::kResult);
  record.error = read.text("error", Limits::kError);
  record.reason = read.text("reason", Limits::kError);
  record.stopped = read.flag("stopped");
  record.cancel_requested = read.flag("cancel");
  record.log_lines = read.integer("log_lines");
  record.results = read.integer("results");
  return record;
}

}  // namespace foretime::jobs
