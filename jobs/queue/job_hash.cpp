#include "jobs/queue/job_hash.h"

#include <nlohmann/json.hpp>

#include "jobs/queue/hash_reader.h"
#include "jobs/queue/limits.h"
#include "jobs/redis/redis_client.h"

namespace foretime::jobs {
namespace {

std::string goal_text(bool maximize) { return maximize ? "maximize" : "minimize"; }
std::string flag_text(bool flag) { return flag ? "1" : ""; }

}  // namespace

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
