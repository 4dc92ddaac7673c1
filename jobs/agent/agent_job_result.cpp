// How the exit of an attempt becomes its result.
#include <cmath>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "jobs/agent/agent_job.h"
#include "jobs/error.h"
#include "jobs/queue/job.h"
#include "jobs/sweep/finetune_job.h"

namespace foretime::jobs {

Outcome outcome_of(StopReason reason) {
  if (reason == StopReason::cancel) return Outcome::cancelled;
  return reason == StopReason::early_stopping ? Outcome::stopped : Outcome::preempted;
}

/// Takes the checkpoints published before the end first; then reads the attempt's files.
void AgentJob::end_command(const ExitStatus& status) {
  exited_ = true;
  log_->finish();
  set_outcome(status);
  end_.result.exit_code = status.code;
  end_.result.seconds = world_.steady_seconds() - started_at_;
}

void AgentJob::read_files() {
  if (bad_messages_ > 0)
    log_->note(fmt::format("{} invalid messages were ignored; the first: {}", bad_messages_, first_useless_message_));
  const auto result = std::move(end_.result);
  end_ = {.lease = lease_,
          .folder = folder_,
          .resumed_from = resumed_from_,
          .roots = options_.roots,
          .evaluation_stdout = std::move(evaluation_stdout_),
          .unreadable_checkpoint = unreadable_checkpoint_,
          .has_result = has_result_,
          .has_messages = has_messages_,
          .runs_own_program = runs_own_program_,
          .first_useless_message = first_useless_message_,
          .result = result,
          .metrics = metrics_,
          .step = progress_.step,
          .checkpoint = checkpoint_};
  reading_ = work_.run([end = end_]() mutable {
    end.read_files();
    return std::move(end);
  });
}

/// The files of an attempt that has ended were read, or never will be.
void AgentJob::finish_end() {
  if (!reading_.valid()) read_files();
  if (is_ready(reading_)) {
    end_ = reading_.get();
  } else {
    const bool well = end_.result.outcome == Outcome::succeeded || end_.result.outcome == Outcome::stopped;
    if (well) end_.report_missing(folder_.string() + ": the storage did not answer");
    if (well) end_.give_back_by_storage();
  }
  reading_ = {};
  for (const auto& note : end_.notes) log_->note(note);
  result_ = std::move(end_.result);
  if (end_.result_missing) result_.error += log_->tail();
  changed_ = changed_ || end_.step != progress_.step;
  progress_.step = end_.step;
  metrics_ = std::move(end_.metrics);
  checkpoint_ = end_.checkpoint;
  if (result_.checkpoint.empty()) result_.checkpoint = checkpoint_;
  for (const auto& [name, value] : metrics_)
    if (std::isfinite(value)) result_.metrics[name] = value;
  if (const auto found = result_.metrics.find(lease_.spec.metric); found != result_.metrics.end())
    result_.objective = found->second;
  result_.history = history::pack(
      history_, {.bytes = Limits::kEndedHistory, .digits = 3, .first = {lease_.spec.metric, "loss"}, .others = false});
  ran_to_end_ = true;
  command_.reset();
  if (state_ != State::lost) upload_result();
  state_ = state_ == State::lost ? State::released : State::ended;
}

void AgentJob::log_end() const {
  if (!ran_to_end_) return;  // other ends have been logged already
  logger_.info("{}: {} after {:.1f} s (exit code {})", log_name(), to_string(result_.outcome), result_.seconds,
               result_.exit_code);
}

namespace {

/// Returns whether SIGKILL ended the command, as when memory is used up. mpirun makes it an exit code.
bool was_killed(const ExitStatus& status) { return status.signal == SIGKILL || status.code == 128 + SIGKILL; }

std::string end_text(const ExitStatus& status) {
  auto text = status.signal != 0 ? fmt::format("killed by signal {} ({})", status.signal, strsignal(status.signal))
                                 : fmt::format("exit code {}", status.code);
  if (status.code == kOutOfMemory) text += " (out of memory)";
  if (!was_killed(status)) return text;
  if (status.peak_memory_mib > 0) text += fmt::format("; its largest process had {} MiB", status.peak_memory_mib);
  if (status.oom_kills > 0)
    text += fmt::format("; the kernel killed {} process{} of this cgroup for want of memory (oom_kill)",
                        status.oom_kills, status.oom_kills == 1 ? "" : "es");
  return text;
}

}  // namespace

void AgentJob::set_outcome(const ExitStatus& status) {
  auto& result = end_.result;
  const auto how = end_text(status);
  const bool tunes = lease_.spec.kind == JobKind::finetune;  // a bundle was written, though with its parent's weights
  const bool signalled = state_ == State::terminating || state_ == State::killing || state_ == State::lost;
  if (state_ == State::failing) {
    result.outcome = Outcome::error;
    result.error = failure_reason_ + log_->tail();
  } else if (status.signal == 0 && (status.code == kSuccess || (status.code == kParentKept && tunes)) &&
             (has_result_ || !signalled)) {
    // A program that exits with 0 after SIGTERM, without a result, has obeyed.
    result.outcome = Outcome::succeeded;
  } else if (status.signal == 0 && (status.code == kUsage || status.code == kData || status.code == kFault)) {
    result.outcome = Outcome::failed;
    result.error = how + log_->tail();
  } else if (signalled || (status.signal == 0 && status.code == kPreempted) || stop_reason_ == StopReason::drain) {
    // Ended by this agent or as requested; without a request it was preempted by somebody else. Slurm signals all
    // processes of an agent's step: mpirun then ends before its ranks, with another code.
    result.outcome = outcome_of(stop_reason_);
    result.unasked = stop_reason_ == StopReason::none;
  } else if (status.signal == 0 && status.code == kStorage) {
    end_.give_back_by_storage();
    result.error = how + log_->tail();
  } else {
    // Memory may have been short for a while, or another machine may have more. It is not tried a third time.
    const bool out_of_memory =
        was_killed(status) ? status.oom_kills > 0 : status.signal == 0 && status.code == kOutOfMemory;
    const bool is_final = out_of_memory && lease_.attempt > 1;
    result.outcome = is_final ? Outcome::failed : Outcome::error;
    result.error = how + log_->tail();
  }
}

}  // namespace foretime::jobs
