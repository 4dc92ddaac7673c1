#include <cmath>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "jobs/agent/agent_command.h"
#include "jobs/agent/agent_job.h"
#include "jobs/agent/agent_link.h"

namespace foretime::jobs {
namespace {

enum ExitCode : int { kSuccess = 0, kUsage = 2, kData = 3, kParentKept = 6, kPreempted = 75 };  // README

Outcome outcome_of(Asked asked) {
  switch (asked) {
    case Asked::cancel:
      return Outcome::cancelled;
    case Asked::stop:
      return Outcome::stopped;
    default:
      return Outcome::preempted;
  }
}

}  // namespace

void AgentJob::conclude(const ExitStatus& status) {
  log_->finish();
  if (lease_.spec.kind == JobKind::evaluate) read_printed_metrics();
  if (bad_messages_ > 0) log_->note(fmt::format("{} messages were of no use", bad_messages_));
  set_outcome(status);
  result_.exit_code = status.code;
  result_.seconds = steady_seconds() - started_at_;
  result_.checkpoint = checkpoint_;
  std::error_code failure;
  const auto kind = lease_.spec.kind;
  const std::filesystem::path made = kind == JobKind::export_model ? "export"
                                     : kind == JobKind::finetune   ? kBundleFile
                                                                   : "";
  if (!made.empty() && std::filesystem::exists(folder_ / made, failure))
    result_.checkpoint = (folder_ / made).lexically_relative(options_.roots.runs).string();
  for (const auto& [name, value] : metrics_) {
    if (std::isfinite(value)) result_.metrics[name] = value;
  }
  if (const auto found = result_.metrics.find(lease_.spec.metric); found != result_.metrics.end())
    result_.objective = found->second;
  logger_.info("{}: {} after {:.1f} s (exit code {})", who(), to_string(result_.outcome), result_.seconds, status.code);
  process_.reset();
  socket_.reset();
  ended_ = true;
}

/// Before it was ever started.
void AgentJob::end_as_asked() { end_without_process(outcome_of(asked_), ""); }

void AgentJob::set_outcome(const ExitStatus& status) {
  const auto how = status.signal != 0 ? fmt::format("killed by signal {} ({})", status.signal, strsignal(status.signal))
                                      : fmt::format("exit code {}", status.code);
  const bool tunes = lease_.spec.kind == JobKind::finetune;  // a bundle was written, though with its parent's weights
  if (stalled_) {
    result_.outcome = Outcome::error;
    result_.error = fmt::format("no progress for {:.0f} s: killed", options_.stall_seconds) + log_->tail();
  } else if (status.signal == 0 && (status.code == kSuccess || (status.code == kParentKept && tunes)) &&
             (has_result_ || !terminated_)) {
    // Code 0 after SIGTERM, without a result, is a program's way to say that it obeyed.
    result_.outcome = Outcome::succeeded;
  } else if (status.signal == 0 && (status.code == kUsage || status.code == kData)) {
    result_.outcome = Outcome::failed;
    result_.error = how + log_->tail();
  } else if (killed_ || terminated_ || (status.signal == 0 && status.code == kPreempted)) {
    // By our hand or as it was asked to; without being asked it was preempted by somebody else.
    result_.outcome = outcome_of(asked_);
  } else {
    result_.outcome = Outcome::error;
    result_.error = how + log_->tail();
  }
}

/// The metrics in the JSON that `foretime evaluate --json` prints, unless they came as a message.
void AgentJob::read_printed_metrics() {
  std::ofstream(folder_ / "evaluation.json", std::ios::binary) << printed_;
  if (has_result_) return;
  const auto begin = printed_.find('{'), end = printed_.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return;
  const auto json = nlohmann::json::parse(printed_.substr(begin, end - begin + 1), nullptr, false);
  if (!json.is_object()) return;
  const auto metrics = json.find("metrics");
  if (metrics == json.end() || !metrics->is_object()) return;
  for (const auto& [name, value] : metrics->items()) {
    if (value.is_number() && metrics_.size() < kProgressMetrics) metrics_[name] = value.get<double>();
  }
}

}  // namespace foretime::jobs
