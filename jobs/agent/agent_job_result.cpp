// How the exit of an attempt becomes its result.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "jobs/agent/agent_job.h"
#include "jobs/agent/run_folder.h"
#include "jobs/error.h"
#include "jobs/queue/job.h"
#include "jobs/sweep/finetune_job.h"

namespace foretime::jobs {

Outcome outcome_of(StopReason reason) {
  if (reason == StopReason::cancel) return Outcome::cancelled;
  return reason == StopReason::early_stopping ? Outcome::stopped : Outcome::preempted;
}

void AgentJob::conclude(const ExitStatus& status) {
  log_->finish();
  if (bad_messages_ > 0)
    log_->note(fmt::format("{} messages were of no use; the first: {}", bad_messages_, first_complaint_));
  set_outcome(status);
  result_.exit_code = status.code;
  const auto well = [this] { return result_.outcome == Outcome::succeeded || result_.outcome == Outcome::stopped; };
  try {
    if (lease_.spec.kind == JobKind::evaluate) read_printed_metrics();
    if (well() && !unseen_checkpoint_.empty()) publish(unseen_checkpoint_);
    if (result_.outcome == Outcome::succeeded) require_result();
    if (well() && lease_.spec.kind == JobKind::train && checkpoint_.empty())
      result_.checkpoint = unpublished_checkpoint();
  } catch (const StorageError& error) {
    if (well()) {
      no_result(error.what());
      given_back_by_storage();
    }
  } catch (const std::exception& error) {
    if (well()) no_result(error.what());
  }
  result_.seconds = world_.steady_seconds() - started_at_;
  if (result_.checkpoint.empty()) result_.checkpoint = checkpoint_;
  for (const auto& [name, value] : metrics_) {
    if (std::isfinite(value)) result_.metrics[name] = value;
  }
  if (const auto found = result_.metrics.find(lease_.spec.metric); found != result_.metrics.end())
    result_.objective = found->second;
  result_.history = history::pack(
      history_, {.bytes = Limits::kEndedHistory, .digits = 3, .first = {lease_.spec.metric, "loss"}, .others = false});
  logger_.info("{}: {} after {:.1f} s (exit code {})", who(), to_string(result_.outcome), result_.seconds, status.code);
  command_.reset();
  if (state_ != State::lost) store_result();
  state_ = state_ == State::lost ? State::released : State::ended;
}

void AgentJob::set_outcome(const ExitStatus& status) {
  const auto how = status.signal != 0 ? fmt::format("killed by signal {} ({})", status.signal, strsignal(status.signal))
                                      : fmt::format("exit code {}", status.code);
  const bool tunes = lease_.spec.kind == JobKind::finetune;  // a bundle was written, though with its parent's weights
  const bool signalled = state_ == State::terminating || state_ == State::killing || state_ == State::lost;
  if (state_ == State::failing) {
    result_.outcome = Outcome::error;
    result_.error = failure_ + log_->tail();
  } else if (status.signal == 0 && (status.code == kSuccess || (status.code == kParentKept && tunes)) &&
             (has_result_ || !signalled)) {
    // A program that exits with 0 after SIGTERM, without a result, has obeyed.
    result_.outcome = Outcome::succeeded;
  } else if (status.signal == 0 && (status.code == kUsage || status.code == kData)) {
    result_.outcome = Outcome::failed;
    result_.error = how + log_->tail();
  } else if (signalled || (status.signal == 0 && status.code == kPreempted) || stop_reason_ == StopReason::drain) {
    // Ended by this agent or as requested; without a request it was preempted by somebody else. Whoever asks an agent
    // to end may signal all processes of its step, as Slurm does: mpirun then ends before its ranks, with a code of its
    // own.
    result_.outcome = outcome_of(stop_reason_);
    result_.unasked = stop_reason_ == StopReason::none;
  } else if (status.signal == 0 && status.code == kStorage) {
    given_back_by_storage();
    result_.error = how + log_->tail();
  } else {
    result_.outcome = Outcome::error;
    result_.error = how + log_->tail();
  }
}

/// Not the job's doing, though it may be: a job that writes too much for any disk ends by the bound of preemptions.
void AgentJob::given_back_by_storage() {
  result_.outcome = Outcome::preempted;
  result_.unasked = true;
  result_.exit_code = kStorage;
}

void AgentJob::no_result(const std::string& what) {
  // A program that ends well without a result would do so again.
  result_.outcome = runs_own_program_ ? Outcome::failed : Outcome::error;
  result_.error = "it ended well, but its result is not there: " + what;
  log_->note(result_.error);
  result_.error += log_->tail();
}

void AgentJob::require_result() {
  const auto kind = lease_.spec.kind;
  if (kind == JobKind::train) return require_training_result();
  if (kind == JobKind::evaluate) {
    if (metrics_.empty() && !has_result_)
      no_result("no metrics came over the channel or stand in its output (evaluation.json)");
    return;
  }
  const auto made = folder_ / (kind == JobKind::export_ ? "export" : kBundleFile);
  const auto damage = kind == JobKind::export_  ? checkpoint_damage(made)
                      : !files().exists(made)   ? made.string() + ": no such file"
                      : files().size(made) == 0 ? made.string() + ": is empty"
                                                : "";
  if (!damage.empty()) return no_result(damage);
  checkpoint_ = made.lexically_relative(options_.roots.runs).string();
}

std::string AgentJob::unpublished_checkpoint() const {
  const auto& runs = options_.roots.runs;
  const auto own = folder_ / "checkpoints";
  if (files().is_folder(own)) {
    if (const auto newest = newest_whole_checkpoint(own); !newest.empty())
      return newest.lexically_relative(runs).string();
  }
  // The attempt before may go on behind a cut network, and remove that checkpoint as it writes newer ones.
  if (!resumed_.empty() && keep_checkpoints(resumed_, folder_))
    return (own / resumed_.filename()).lexically_relative(runs).string();
  const auto published = runs / lease_.checkpoint;
  const auto attempt = published.parent_path().parent_path();  // not here: it lies on another machine
  if (lease_.checkpoint.empty() || !files().is_folder(attempt) || checkpoint_damage(published).empty()) return "";
  log_->note("no checkpoint is left: " + lease_.checkpoint + ", which was published, is gone");
  return kNoCheckpoint;
}

void AgentJob::require_training_result() {
  if (!has_result_) {
    // The channel was not reached (a launcher that starts rank 0 on another machine, say) or lost on the way.
    if (auto found = read_final_metrics(folder_, runs_own_program_)) {
      metrics_ = std::move(found->metrics);
      progress_.step = std::max(progress_.step, found->step);
      changed_ = true;
    } else if (metrics_.empty()) {
      return no_result(fmt::format("no result came over its channel (FORETIME_PROGRESS), and {} has no final metrics{}",
                                   (folder_ / "metrics.jsonl").string(), how_to_report_results()));
    }
    if (checkpoint_.empty()) {
      const auto newest = newest_whole_checkpoint(folder_ / "checkpoints");
      if (newest.empty() && !has_messages_ && !runs_own_program_)
        return no_result(fmt::format("{}: no whole checkpoint", (folder_ / "checkpoints").string()));
      if (!newest.empty()) checkpoint_ = newest.lexically_relative(options_.roots.runs).string();
    }
  }
  if (const auto& wanted = lease_.spec.metric; !wanted.empty() && !metrics_.contains(wanted)) {
    std::string known;
    for (const auto& [name, value] : metrics_) known += " " + name;
    result_.outcome = Outcome::failed;
    result_.error =
        fmt::format("{}: {} is not among its metrics:{}{}", runs_own_program_ ? "metric.name" : "trainer.metric",
                    wanted, known.empty() ? " none" : known, first_complaint_.empty() ? "" : "; " + first_complaint_);
    log_->note(result_.error);
  }
}

std::string AgentJob::how_to_report_results() const {
  if (!runs_own_program_) return "";
  if (!first_complaint_.empty()) return "; " + first_complaint_;
  const auto metric = lease_.spec.metric.empty() ? "loss" : lease_.spec.metric;
  return fmt::format(
      "; a program must report its metric: in Python `trial = foretime.Trial()` at the start and `trial.finish(step, "
      "{{\"{0}\": value}})` at the end, else a line {{\"kind\": \"final\", \"step\": 1, \"{0}\": 0.5}} in "
      "metrics.jsonl in the directory that the file FORETIME_TRIAL names (docs/reference/sweep-files.md, A program of "
      "your own); then foretime retry {1}",
      metric, lease_.spec.sweep.empty() ? lease_.job : lease_.spec.sweep);
}

/// The metrics in the JSON that `foretime evaluate --json` prints, unless they came as a message.
void AgentJob::read_printed_metrics() {
  write_whole(folder_ / "evaluation.json", printed_);
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
