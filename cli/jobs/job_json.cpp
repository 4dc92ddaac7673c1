#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/jobs/job_view.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::json;

std::string clean(const std::string& text) {
  std::string lines, line;
  for (const char c : text) {
    if (c != '\n') {
      line += c;
      continue;
    }
    lines += printable_utf8(line) + "\n";
    line.clear();
  }
  return lines + printable_utf8(line);
}

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json counts(const std::map<jobs::JobState, int64_t>& jobs) {
  Json json = Json::object();
  for (const auto& [state, count] : jobs) json[jobs::to_string(state)] = count;
  return json;
}

}  // namespace

Json to_json(const jobs::JobRecord& job) {
  const auto& spec = job.spec;
  return {{"id", spec.id},
          {"kind", jobs::to_string(spec.kind)},
          {"name", clean(spec.name)},
          {"sweep", spec.sweep},
          {"trial", spec.trial},
          {"state", jobs::to_string(job.state)},
          {"stopped", job.stopped},
          {"cancel_requested", job.cancel_requested},
          {"attempt", job.attempt},
          {"failures", job.failures},
          {"max_attempts", spec.max_attempts},
          {"fence", job.fence},
          {"agent", clean(job.agent)},
          {"priority", spec.priority},
          {"ranks", spec.resources.ranks},
          {"cpus", spec.resources.cpus},
          {"gpus", spec.resources.gpus},
          {"after", spec.after},
          {"parameters", spec.parameters},
          {"metric", clean(spec.metric)},
          {"goal", spec.maximize ? "maximize" : "minimize"},
          {"objective", number(job.objective)},
          {"best_objective", number(job.best_objective)},
          {"metrics", job.metrics},
          {"step", job.step},
          {"total_steps", job.total_steps},
          {"loss", job.loss},
          {"eta_seconds", job.eta_seconds < 0 ? Json() : Json(job.eta_seconds)},
          {"seconds", job.seconds},
          {"submitted_ms", job.submitted_ms},
          {"claimed_ms", job.claimed_ms},
          {"finished_ms", job.finished_ms},
          {"due_ms", job.due_ms},
          {"updated_ms", job.updated_ms},
          {"checkpoint", clean(job.checkpoint)},
          {"reason", clean(job.reason)},
          {"error", clean(job.error)},
          {"log_lines", job.log_lines},
          {"results", job.results}};
}

Json to_json(const jobs::SweepRecord& sweep) {
  const auto& spec = sweep.spec;
  return {{"id", spec.id},
          {"name", clean(spec.name)},
          {"state", sweep.state},
          {"method", spec.method},
          {"metric", clean(spec.metric)},
          {"goal", spec.maximize ? "maximize" : "minimize"},
          {"trials", spec.trials},
          {"seed", spec.seed},
          {"rungs", spec.halving.rungs},
          {"eta", spec.halving.eta},
          {"created_ms", sweep.created_ms},
          {"jobs", counts(sweep.jobs)}};
}

Json to_json(const jobs::QueueStatistics& statistics) {
  Json agents = Json::array();
  for (const auto& agent : statistics.agents) {
    agents.push_back({{"name", clean(agent.name)},
                      {"host", clean(agent.host)},
                      {"version", clean(agent.version)},
                      {"pid", agent.pid},
                      {"cpus", agent.cpus},
                      {"gpus", agent.gpus},
                      {"jobs", agent.jobs},
                      {"started_ms", agent.started_ms},
                      {"seen_ms", agent.seen_ms}});
  }
  return {{"now_ms", statistics.now_ms},
          {"jobs", counts(statistics.jobs)},
          {"totals", statistics.totals},
          {"per_minute", statistics.per_minute},
          {"oldest_waiting_ms", statistics.oldest_waiting_ms},
          {"paused", statistics.paused},
          {"agents", std::move(agents)}};
}

}  // namespace foretime::cli
