#include "jobs/queue/queue.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr size_t kId = 64;
constexpr int64_t kMostRanks = 65536, kMostOfRank = 65536, kMostAttempts = 1000, kMostTrials = 100'000'000;

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

template <class Error>
void need(bool holds, const std::string& who, const std::string& field, const std::string& found,
          const std::string& expected) {
  if (!holds) throw Error(fmt::format("{}: {}: {}, expected {}", who, field, found, expected));
}

template <class Error>
void need_between(const std::string& who, const std::string& field, int64_t value, int64_t low, int64_t high) {
  need<Error>(value >= low && value <= high, who, field, std::to_string(value), fmt::format("{} to {}", low, high));
}

template <class Error>
void need_name(const std::string& who, const std::string& field, const std::string& text, bool may_be_empty) {
  need<Error>(text.size() <= Limits::kName && (may_be_empty || !text.empty()), who, field,
              fmt::format("{} bytes", text.size()), fmt::format("at most {} bytes", Limits::kName));
  need<Error>(is_printable(text), who, field, "a control character", "printable text");
}

void need_size(const std::string& who, const std::string& field, size_t size, size_t limit) {
  need<SweepError>(size <= limit, who, field, fmt::format("{} bytes", size), fmt::format("at most {} bytes", limit));
}

void bound_metrics(std::map<std::string, double>& metrics) {
  std::erase_if(metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
  size_t size = 0;
  for (const auto& [name, value] : metrics) size += name.size() + 32;
  need<JobsError>(size <= Limits::kResult, "metrics", "size", fmt::format("{} bytes", size),
                  fmt::format("at most {} bytes", Limits::kResult));
}

void bound_path(const std::string& path) {
  need<JobsError>(path.size() <= Limits::kPath && is_printable(path), "checkpoint", "path",
                  fmt::format("{} bytes", path.size()),
                  fmt::format("a printable path of at most {} bytes", Limits::kPath));
}

}  // namespace

bool is_id(const std::string& text) {
  return !text.empty() && text.size() <= kId && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
}

void check(const JobSpec& job) {
  const std::string who = "job " + job.id.substr(0, kId);
  need<SweepError>(is_id(job.id), who, "id", fmt::format("{} bytes", job.id.size()),
                   "1 to 64 letters, digits, - and _");
  need<SweepError>(job.sweep.empty() || is_id(job.sweep), who, "sweep", fmt::format("{} bytes", job.sweep.size()),
                   "1 to 64 letters, digits, - and _");
  need_name<SweepError>(who, "name", job.name, true);
  need_name<SweepError>(who, "metric", job.metric, true);
  need_size(who, "settings", job.settings.size(), Limits::kSettings);
  need_size(who, "parameters", nlohmann::json(job.parameters).dump().size(), Limits::kParameters);
  need<SweepError>(job.after.size() <= Limits::kDependencies, who, "after", fmt::format("{} jobs", job.after.size()),
                   fmt::format("at most {}", Limits::kDependencies));
  for (const auto& id : job.after)
    need<SweepError>(is_id(id) && id != job.id, who, "after", fmt::format("'{}'", id.substr(0, kId)),
                     "the id of another job");
  need<SweepError>(std::set<std::string>(job.after.begin(), job.after.end()).size() == job.after.size(), who, "after",
                   "a job twice", "each job once");
  need<SweepError>(!job.deferred || !job.sweep.empty(), who, "deferred", "true without a sweep",
                   "a sweep whose definition says what to decide");
  need_between<SweepError>(who, "trial", job.trial, -1, kMostTrials);
  need_between<SweepError>(who, "resources.ranks", job.resources.ranks, 1, kMostRanks);
  need_between<SweepError>(who, "resources.cpus", job.resources.cpus, 1, kMostOfRank);
  need_between<SweepError>(who, "resources.gpus", job.resources.gpus, 0, kMostOfRank);
  need_between<SweepError>(who, "priority", job.priority, -Limits::kPriority, Limits::kPriority);
  need_between<SweepError>(who, "max_attempts", job.max_attempts, 1, kMostAttempts);
}

void check(const SweepSpec& sweep) {
  const std::string who = "sweep " + sweep.id.substr(0, kId);
  need<SweepError>(is_id(sweep.id), who, "id", fmt::format("{} bytes", sweep.id.size()),
                   "1 to 64 letters, digits, - and _");
  need_name<SweepError>(who, "name", sweep.name, true);
  need_name<SweepError>(who, "method", sweep.method, true);
  need_name<SweepError>(who, "metric", sweep.metric, true);
  need_size(who, "definition", sweep.definition.size(), Limits::kSettings);
  need_between<SweepError>(who, "trials", sweep.trials, 0, kMostTrials);
  need<SweepError>(sweep.halving.eta > 1 && std::isfinite(sweep.halving.eta), who, "early_terminate.eta",
                   number_text(sweep.halving.eta), "a number above 1");
  const auto& rungs = sweep.halving.rungs;
  need<SweepError>(rungs.size() <= 64, who, "early_terminate", fmt::format("{} rungs", rungs.size()), "at most 64");
  for (size_t i = 0; i < rungs.size(); ++i)
    need<SweepError>(rungs[i] >= 1 && (i == 0 || rungs[i] > rungs[i - 1]), who, "early_terminate",
                     fmt::format("rung {}", rungs[i]), "rungs that rise from 1 or more");
}

void check(const ClaimRequest& request) {
  const std::string who = "claim";
  need_name<JobsError>(who, "agent", request.agent, false);
  need<JobsError>(is_id(request.token), who, "token", fmt::format("{} bytes", request.token.size()),
                  "1 to 64 letters, digits, - and _");
  need<JobsError>(request.term.count() > 0, who, "term", fmt::format("{} ms", request.term.count()), "more than 0");
}

void check(const AgentInfo& agent) {
  need_name<JobsError>("agent", "name", agent.name, false);
  need_name<JobsError>("agent " + agent.name, "host", agent.host, true);
  need_name<JobsError>("agent " + agent.name, "version", agent.version, true);
}

JobReport bounded(JobReport report) {
  bound_metrics(report.metrics);
  bound_path(report.checkpoint);
  if (!std::isfinite(report.eta_seconds)) report.eta_seconds = -1;
  for (auto& line : report.log_lines)
    if (line.size() > Limits::kLogLine) line.resize(Limits::kLogLine);
  return report;
}

JobResult bounded(JobResult result) {
  bound_metrics(result.metrics);
  bound_path(result.checkpoint);
  if (result.objective && !std::isfinite(*result.objective)) result.objective.reset();
  if (!std::isfinite(result.seconds)) result.seconds = 0;
  if (result.error.size() > Limits::kError) result.error.resize(Limits::kError);
  return result;
}

std::string number_text(double value) { return fmt::format("{}", value); }

int64_t backoff_ms(const QueueSettings& settings, int64_t failures, double jitter) {
  const double longest = std::min(static_cast<double>(settings.backoff_cap.count()),
                                  static_cast<double>(settings.backoff_base.count()) *
                                      std::pow(2.0, static_cast<double>(std::min<int64_t>(failures, 1000) - 1)));
  return static_cast<int64_t>(std::floor(longest * (0.5 + jitter / 2)));
}

}  // namespace foretime::jobs
