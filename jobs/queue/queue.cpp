#include "jobs/queue/queue.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr size_t kId = 64, kProgramKey = 16;
constexpr int64_t kMostRanks = 65536, kMostOfRank = 65536, kMostTrials = 100'000'000;

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

/// Throws Error where something of `who` is not as it must be.
template <class Error>
struct Checker {
  std::string who;
  void need(bool holds, const char* field, const std::string& found, const std::string& expected) const {
    if (!holds) throw Error("{}: {}: {}, expected {}", who, field, found, expected);
  }
  void between(const char* field, int64_t value, int64_t low, int64_t high) const {
    need(value >= low && value <= high, field, std::to_string(value), fmt::format("{} to {}", low, high));
  }
  void size(const char* field, size_t size, size_t limit) const {
    need(size <= limit, field, fmt::format("{} bytes", size), fmt::format("at most {} bytes", limit));
  }
  void name(const char* field, const std::string& text, bool may_be_empty = true) const {
    need(text.size() <= Limits::kName && (may_be_empty || !text.empty()), field, fmt::format("{} bytes", text.size()),
         fmt::format("at most {} bytes", Limits::kName));
    need(is_printable(text), field, "a control character", "printable text");
  }
  void id(const char* field, const std::string& text) const {
    need(is_id(text), field, fmt::format("{} bytes", text.size()), "1 to 64 letters, digits, - and _");
  }
};

void bound_metrics(std::map<std::string, double>& metrics) {
  std::erase_if(metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
  size_t size = 0;
  for (const auto& [name, value] : metrics) size += name.size() + 32;
  Checker<JobsError>{"metrics"}.size("size", size, Limits::kResult);
}

void bound_path(const std::string& path) {
  Checker<JobsError>{"checkpoint"}.need(path.size() <= Limits::kPath && is_printable(path), "path",
                                        fmt::format("{} bytes", path.size()),
                                        fmt::format("a printable path of at most {} bytes", Limits::kPath));
}

}  // namespace

bool ClaimRequest::runs(const std::string& program) const {
  const bool lacking = std::find(lacking_programs.begin(), lacking_programs.end(), program) != lacking_programs.end();
  return program.empty() || (runs_programs && !lacking);
}

bool is_program_key(const std::string& text) {
  return !text.empty() && text.size() <= kProgramKey && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool is_id(const std::string& text) {
  return !text.empty() && text.size() <= kId && has_only_letters_digits_and("-_", text);
}

void check(const JobSpec& job) {
  const Checker<SweepError> check{"job " + job.id.substr(0, kId)};
  check.id("id", job.id);
  if (!job.sweep.empty()) check.id("sweep", job.sweep);
  check.name("name", job.name);
  check.name("metric", job.metric);
  check.size("settings", job.settings.size(), Limits::kSettings);
  check.need(job.settings != kSweepSettings || (!job.sweep.empty() && job.kind == JobKind::train), "settings",
             kSweepSettings, "own settings where it is no trial of a sweep");
  check.size("parameters", nlohmann::json(job.parameters).dump().size(), Limits::kParameters);
  check.need(job.after.size() <= Limits::kDependencies, "after", fmt::format("{} jobs", job.after.size()),
             fmt::format("at most {}", Limits::kDependencies));
  for (const auto& id : job.after)
    check.need(is_id(id) && id != job.id, "after", fmt::format("'{}'", id.substr(0, kId)), "the id of another job");
  check.need(std::set<std::string>(job.after.begin(), job.after.end()).size() == job.after.size(), "after",
             "a job twice", "each job once");
  check.need(!job.deferred || !job.sweep.empty(), "deferred", "true without a sweep",
             "a sweep whose definition says what to decide");
  check.between("trial", job.trial, -1, kMostTrials);
  check.between("resources.ranks", job.resources.ranks, 1, kMostRanks);
  if (job.resources.elastic()) {
    check.between("resources.ranks.max", job.resources.most_ranks, job.resources.ranks + 1, kMostRanks);
    check.need(job.kind == JobKind::train || job.kind == JobKind::evaluate, "resources.ranks", "min and max",
               "a number, since it is one process");
  }
  check.between("resources.cpus", job.resources.cpus, 1, kMostOfRank);
  check.between("resources.gpus", job.resources.gpus, 0, kMostOfRank);
  check.between("priority", job.priority, -Limits::kPriority, Limits::kPriority);
  check.between("max_attempts", job.max_attempts, 1, Limits::kAttempts);
  check.need(job.program.empty() || is_program_key(job.program), "program", fmt::format("{} bytes", job.program.size()),
             "1 to 16 hexadecimal digits");
}

void check(const SweepSpec& sweep) {
  const Checker<SweepError> check{"sweep " + sweep.id.substr(0, kId)};
  check.id("id", sweep.id);
  check.name("name", sweep.name);
  check.name("method", sweep.method);
  check.name("metric", sweep.metric);
  check.size("definition", sweep.definition.size(), Limits::kSettings);
  check.size("settings", sweep.settings.size(), Limits::kSettings);
  check.between("trials", sweep.trials, 0, kMostTrials);
  const auto& [rungs, eta] = sweep.halving;
  check.need(eta > 1 && std::isfinite(eta), "early_terminate.eta", number_text(eta), "a number above 1");
  check.need(rungs.size() <= 64, "early_terminate", fmt::format("{} rungs", rungs.size()), "at most 64");
  for (size_t i = 0; i < rungs.size(); ++i)
    check.need(rungs[i] >= 1 && (i == 0 || rungs[i] > rungs[i - 1]), "early_terminate",
               fmt::format("rung {}", rungs[i]), "rungs that rise from 1 or more");
}

void check(const ClaimRequest& request) {
  const Checker<JobsError> check{"claim"};
  check.name("agent", request.agent, false);
  check.id("token", request.token);
  int64_t sum = 0;
  for (const auto free : request.free_of_hosts) sum += free;
  check.need(request.free_of_hosts.empty() || sum == request.free_cpus, "free_of_hosts", std::to_string(sum),
             fmt::format("the {} free CPUs", request.free_cpus));
  check.need(request.term.count() > 0, "term", fmt::format("{} ms", request.term.count()), "more than 0");
  for (const auto& program : request.lacking_programs)
    check.need(is_program_key(program), "lacking_programs", fmt::format("{} bytes", program.size()),
               "1 to 16 hexadecimal digits");
}

void check(const AgentInfo& agent) {
  Checker<JobsError>{"agent"}.name("name", agent.name, false);
  const Checker<JobsError> check{"agent " + agent.name};
  check.name("host", agent.host);
  check.name("version", agent.version);
  check.need(agent.trouble.size() <= Limits::kTrouble, "trouble", fmt::format("{} bytes", agent.trouble.size()),
             fmt::format("at most {}", Limits::kTrouble));
}

JobReport bounded(JobReport report) {
  bound_metrics(report.metrics);
  bound_path(report.checkpoint);
  if (!std::isfinite(report.eta_seconds)) report.eta_seconds = -1;
  for (auto& line : report.log_lines)
    if (line.size() > Limits::kLogLine) line.resize(Limits::kLogLine);
  if (report.history.size() > Limits::kHistory) report.history.clear();
  return report;
}

JobResult bounded(JobResult result) {
  bound_metrics(result.metrics);
  bound_path(result.checkpoint);
  if (result.objective && !std::isfinite(*result.objective)) result.objective.reset();
  if (!std::isfinite(result.seconds)) result.seconds = 0;
  if (result.error.size() > Limits::kError) result.error.resize(Limits::kError);
  if (result.history.size() > Limits::kHistory) result.history.clear();
  return result;
}

std::string number_text(double value) { return fmt::format("{}", value); }

}  // namespace foretime::jobs
