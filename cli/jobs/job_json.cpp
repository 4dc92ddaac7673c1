#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/jobs/job_view.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::json;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

/// Returns `value`, or null if it is the mark of an unknown number.
template <class Value>
Json known(bool is_known, const Value& value) {
  return is_known ? Json(value) : Json();
}

Json counts(const std::map<jobs::JobState, int64_t>& jobs) {
  Json json = Json::object();
  for (const auto& [state, count] : jobs) json[jobs::to_string(state)] = count;
  return json;
}

Json clean_list(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const auto& text : texts) list.push_back(printable_lines(text));
  return list;
}

}  // namespace

Json to_json(const jobs::JobRecord& job) {
  const auto& spec = job.spec;
  return {{"id", spec.id},
          {"kind", jobs::to_string(spec.kind)},
          {"name", printable_lines(spec.name)},
          {"sweep", spec.sweep},
          {"trial", known(spec.trial >= 0, spec.trial)},
          {"state", job.unreadable.empty() ? jobs::to_string(job.state) : "unreadable"},
          {"unreadable", job.unreadable.empty() ? Json() : Json(printable_lines(job.unreadable))},
          {"stopped", job.stopped},
          {"cancel_requested", job.cancel_requested},
          {"attempt", job.attempt},
          {"failures", job.failures},
          {"failed_on", printable_lines(job.failed_on)},
          {"lost", job.lost},
          {"preemptions", job.preemptions},
          {"max_attempts", spec.max_attempts},
          {"fence", job.fence},
          {"agent", printable_lines(job.agent)},
          {"priority", spec.priority},
          {"ranks", spec.resources.ranks},
          {"most_ranks", std::max(spec.resources.ranks, spec.resources.most_ranks)},
          {"attempt_ranks", job.fence == 0             ? Json()
                            : spec.resources.elastic() ? Json(job.attempt_ranks)
                                                       : Json(spec.resources.ranks)},
          {"cpus", spec.resources.cpus},
          {"gpus", spec.resources.gpus},
          {"after", spec.after},
          {"parameters", spec.parameters},
          {"metric", printable_lines(spec.metric)},
          {"goal", spec.maximize ? "maximize" : "minimize"},
          {"objective", number(job.objective)},
          {"best_objective", number(job.best_objective)},
          {"metrics", job.metrics},
          {"step", job.step},
          {"total_steps", known(job.total_steps > 0, job.total_steps)},
          {"loss", number(job.loss)},
          {"eta_seconds", known(job.eta_seconds >= 0 && job.overdue_ms == 0, job.eta_seconds)},
          {"overdue_ms", job.overdue_ms},
          {"seconds", known(job.seconds > 0, job.seconds)},
          {"submitted_ms", known(job.submitted_ms > 0, job.submitted_ms)},
          {"claimed_ms", known(job.claimed_ms > 0, job.claimed_ms)},
          {"finished_ms", known(job.finished_ms > 0, job.finished_ms)},
          {"due_ms", known(job.due_ms > 0, job.due_ms)},
          {"updated_ms", known(job.updated_ms > 0, job.updated_ms)},
          {"checkpoint", printable_lines(job.checkpoint)},
          {"reason", printable_lines(job.reason)},
          {"error", printable_lines(job.error)},
          {"log_lines", job.log_lines},
          {"results", job.results}};
}

Json to_json(const jobs::JobArtifacts& artifacts) {
  Json json = {{"trouble", artifacts.trouble.empty() ? Json() : Json(printable_lines(artifacts.trouble))}};
  for (const auto& [role, artifact] : artifacts.by_role)
    json[role] = {{"store", printable_lines(artifact.store)},
                  {"name", artifact.name},
                  {"step", artifact.step},
                  {"path", artifact.path},
                  {"bytes", artifact.bytes()}};
  return json;
}

Json to_json(const jobs::SweepRecord& sweep) {
  const auto& spec = sweep.spec;
  return {{"id", spec.id},
          {"name", printable_lines(spec.name)},
          {"state", sweep.state},
          {"damaged", sweep.damage.empty() ? Json() : Json(damage_text(sweep))},
          {"method", spec.method},
          {"metric", printable_lines(spec.metric)},
          {"goal", spec.maximize ? "maximize" : "minimize"},
          {"trials", spec.trials},
          {"seed", spec.seed},
          {"rungs", spec.halving.rungs},
          {"eta", spec.halving.eta},
          {"created_ms", sweep.created_ms},
          {"jobs", counts(sweep.jobs)},
          {"unreadable", sweep.unreadable}};
}

Json to_json(const jobs::QueueStatistics& statistics) {
  Json agents = Json::array();
  for (const auto& agent : statistics.agents) {
    const bool readable = agent.unreadable.empty();
    agents.push_back({{"name", printable_lines(agent.name)},
                      {"host", printable_lines(agent.host)},
                      {"version", printable_lines(agent.version)},
                      {"pid", known(readable, agent.pid)},
                      {"cpus", known(readable, agent.cpus)},
                      {"gpus", known(readable, agent.gpus)},
                      {"jobs", known(readable, agent.jobs)},
                      {"programs", known(readable, agent.runs_programs)},
                      {"unreadable", readable ? Json() : Json(printable_lines(agent.unreadable))},
                      {"trouble", printable_lines(agent.trouble)},
                      {"started_ms", known(agent.started_ms > 0, agent.started_ms)},
                      {"seen_ms", known(agent.seen_ms > 0, agent.seen_ms)}});
  }
  return {{"now_ms", statistics.now_ms},
          {"jobs", counts(statistics.jobs)},
          {"totals", statistics.totals},
          {"per_minute", statistics.per_minute},
          {"oldest_waiting_ms", known(statistics.oldest_waiting_ms > 0, statistics.oldest_waiting_ms)},
          {"waiting_for_programs", statistics.waiting_for_programs},
          {"paused", statistics.paused},
          {"keep_finished_ms", statistics.keep_finished_ms ? Json(*statistics.keep_finished_ms) : Json()},
          {"keep_jobs", statistics.keep_jobs ? Json(*statistics.keep_jobs) : Json()},
          {"artifact_bytes", statistics.artifact_bytes},
          {"artifact_quota", statistics.artifact_quota ? Json(*statistics.artifact_quota) : Json()},
          {"unreadable", clean_list(statistics.unreadable)},
          {"agents", std::move(agents)}};
}

JsonListPrinter::JsonListPrinter(const std::string& name, bool compact)
    : separator_((compact ? "{\"" : "{\n  \"") + name + (compact ? "\":[" : "\": [")), compact_(compact) {}

JsonListPrinter::~JsonListPrinter() {
  if (any_ && !ended_) std::fputc('\n', stdout);
}

void JsonListPrinter::add(const Json& element) {
  auto text = element.dump(compact_ ? -1 : 2, ' ', false, Json::error_handler_t::replace);
  if (!compact_) replace_all(text, "\n", "\n    ");
  fmt::print("{}{}{}", std::exchange(separator_, ","), compact_ ? "" : "\n    ", text);
  any_ = true;
}

void JsonListPrinter::end(const Json& rest) {
  const auto text = rest.dump(compact_ ? -1 : 2, ' ', false, Json::error_handler_t::replace);
  fmt::print("{}{}],{}\n", any_ ? "" : separator_, any_ && !compact_ ? "\n  " : "", text.substr(1));
  ended_ = true;
}

}  // namespace foretime::cli
