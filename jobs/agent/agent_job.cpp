#include "jobs/agent/agent_job.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/error.h"
#include "base/foreign_file.h"
#include "base/process.h"
#include "configs/load.h"
#include "jobs/agent/run_folder.h"
#include "jobs/error.h"
#include "jobs/queue/job.h"
#include "jobs/sweep/finetune_job.h"
#include "jobs/sweep/program_trial.h"

namespace foretime::jobs {
namespace {

constexpr double kReportInterval = 1.0;  // seconds between reports that nobody waits for
constexpr int kLastTurns = 16;
constexpr double kKillInterval = 1;  // seconds between SIGKILLs to a job that does not end
// Points of a series that are kept here, and seconds between reports of the history, which are larger than others.
constexpr size_t kHistoryPoints = 2048;
constexpr double kHistoryInterval = 5;

/// Returns the reason that a job receives with a request to end.
const char* phrase_of(StopReason reason) {
  if (reason == StopReason::cancel) return "cancelled by request";
  return reason == StopReason::early_stopping ? "early stopping" : "the agent drains";
}

}  // namespace

AgentJob::AgentJob(Lease lease, JobSlots slots, const AgentOptions& options, ArtifactUploader* uploader,
                   std::function<void()> wake, World& world, spdlog::logger& log)
    : lease_(std::move(lease)),
      slots_(std::move(slots)),
      options_(options),
      uploader_(uploader),
      world_(world),
      runs_own_program_(lease_.spec.kind == JobKind::train && runs_program(lease_.spec.settings)),
      logger_(log),
      work_(std::move(wake), world),
      history_(kHistoryPoints) {
  started_at_ = last_progress_at_ = last_message_at_ = last_tick_at_ = world.steady_seconds();
  try {
    history_ = history::unpack(lease_.history, kHistoryPoints);
  } catch (const history::HistoryError& error) {
    logger_.warn("{}: {}: starts an empty history", log_name(), error.what());
  }
}

std::string AgentJob::log_name() const { return fmt::format("job {} (attempt {})", lease_.job, lease_.attempt); }

void AgentJob::start(JobQueue& queue, const Proposer& proposer) {
  start_waits_ = false;
  try {
    if (lease_.spec.deferred) {
      lease_.spec.parameters = proposer(queue, lease_);
      lease_.spec.deferred = false;
    }
    start_waits_ = !prepare(queue) || !fetch() || !launch();
    if (start_waits_) return;
    state_ = State::running;
    started_at_ = last_progress_at_ = last_message_at_ = last_tick_at_ = world_.steady_seconds();
    logger_.info("{}: {} starts in {}{}", log_name(),
                 lease_.spec.name.empty() ? to_string(lease_.spec.kind) : lease_.spec.name, folder_.string(),
                 lease_.spec.resources.elastic()
                     ? fmt::format(", on {} of {} to {} ranks", lease_.ranks, lease_.spec.resources.ranks,
                                   lease_.spec.resources.most_ranks)
                     : "");
  } catch (const RedisUnavailable&) {
    throw;
  } catch (const RedisRefused&) {
    throw;
  } catch (const configs::SettingsError& error) {
    end_without_process(Outcome::failed, error.what());
  } catch (const JobUnusable& error) {
    end_without_process(Outcome::failed, error.what());
  } catch (const MissingProgram& error) {
    missing_program_ = error.program;
    end_without_process(Outcome::preempted, error.what());
  } catch (const SweepError& error) {
    end_without_process(Outcome::failed, error.what());
  } catch (const StorageError& error) {
    could_not_start_ = true;
    end_without_process(Outcome::preempted, error.what());
  } catch (const NodeError& error) {
    could_not_start_ = true;
    end_without_process(Outcome::preempted, error.what());
  } catch (const std::exception& error) {
    end_without_process(Outcome::error, error.what());
  }
}

template <class Value>
bool AgentJob::is_file_work_done(const std::future<Value>& piece) const {
  if (is_ready(piece)) return true;
  if (world_.steady_seconds() < work_.hangs_at()) return false;
  throw NodeError("{}: no answer for {:.0f} s", options_.roots.runs.string(), FileWork::kPatience);
}

bool AgentJob::prepare(JobQueue& queue) {
  if (log_) return true;
  const auto& spec = lease_.spec;
  if (!needed_)
    needed_ = spec.after.empty() || spec.kind == JobKind::train ? std::nullopt : queue.find(spec.after.front());
  if (!preparing_.valid()) {
    const bool fetches = uploader_ != nullptr, newer = fetches && uploader_->stores();
    preparing_ = work_.run([lease = lease_, options = options_, needed = *needed_, fetches, newer] {
      Prepared prepared;
      prepared.folder = make_attempt_folder(options, lease);
      prepared.output = files().open(prepared.folder / "output.log", Files::Open::append);
      if (fetches) prepared.missing = missing_artifacts(lease, options, needed, newer);
      return prepared;
    });
  }
  if (!is_file_work_done(preparing_)) return false;
  auto prepared = preparing_.get();
  folder_ = std::move(prepared.folder);
  missing_ = std::move(prepared.missing);
  log_ = std::make_unique<JobLog>(std::move(prepared.output), work_);
  return true;
}

bool AgentJob::fetch() {
  if (!missing_ || fetched_) return true;
  auto outcome = uploader_->fetch(lease_, missing_->job, missing_->want, folder_ / "stored");
  if (!outcome) return false;
  // Without the stored artifacts the job would start from the beginning, or fail. Another agent or time is better.
  if (!outcome->unavailable.empty()) throw NodeError("the artifact store was not reached: {}", outcome->unavailable);
  for (const auto& text : outcome->fetched.notes) log_->note("stored: " + text);
  fetched_ = std::move(outcome->fetched);
  return true;
}

bool AgentJob::launch() {
  if (!starting_.valid()) {
    starting_ = work_.run([lease = lease_, options = options_, needed = *needed_, folder = folder_, slots = slots_,
                           fetched = fetched_.value_or(FetchedArtifact{}), grace = kill_grace(), &world = world_] {
      Started started;
      const auto note = [&](const std::string& text) { started.notes.push_back(text); };
      AttemptPlace place{folder, slots, note, fetched};
      if (lease.spec.kind == JobKind::train)
        place.resume = started.resumed_from = resume_checkpoint(lease, options, place);
      auto command = attempt_command(lease, lease.spec.parameters, options, needed, place);
      command.kill_grace_seconds = grace;
      started.command = world.start(std::move(command), folder);
      return started;
    });
  }
  if (!is_file_work_done(starting_)) return false;
  auto started = starting_.get();
  for (const auto& text : started.notes) log_->note(text);
  command_ = std::move(started.command);
  resumed_from_ = std::move(started.resumed_from);
  return true;
}

bool AgentJob::stored() const {
  const bool log_written = !log_ || log_->is_written() || world_.steady_seconds() >= work_.hangs_at();
  return log_written && (uploader_ == nullptr || uploader_->settled(lease_));
}

/// The newest checkpoint, or what it has made, relative to its folder; empty where that is not to be stored.
std::string AgentJob::checkpoint_to_upload() const {
  if (uploader_ == nullptr || !uploader_->stores() || checkpoint_.empty()) return "";
  return (options_.roots.runs / checkpoint_).lexically_relative(folder_).string();
}

void AgentJob::upload_result() {
  const auto path = checkpoint_to_upload();
  if (path.empty()) return;
  const bool of_training = lease_.spec.kind == JobKind::train;
  const bool succeeded = result_.outcome == Outcome::succeeded || result_.outcome == Outcome::stopped;
  if (of_training) uploader_->announce(lease_, folder_, path);
  uploader_->ended(lease_, folder_, of_training || !succeeded ? "" : path, succeeded);
}

void AgentJob::end_without_process(Outcome outcome, const std::string& error) {
  starting_ = {};  // a command that is started meanwhile ends with it
  result_.outcome = outcome;
  result_.error = error;
  result_.exit_code = -1;
  if (log_ && !error.empty()) log_->note(error);  // only in memory if the disk is full
  if (!error.empty()) logger_.warn("{}: {} before its start: {}", log_name(), to_string(outcome), error);
  state_ = State::ended;
}

void AgentJob::give_back(const std::string& why, const std::string& before) {
  if (log_) log_->note("given back: " + why);
  logger_.warn("{}: given back: {}", log_name(), why);
  result_.outcome = Outcome::preempted;
  result_.error = before.empty() ? why : why + ": " + before;
  // What looks like the machine's failure may be the job's doing, which fills a disk, say: that has an end as well.
  if (ended()) result_.unasked = true;
  if (!ended()) result_.exit_code = -1;
  state_ = State::ended;
}

void AgentJob::add_descriptors(std::vector<pollfd>& descriptors) const {
  if (command_) command_->add_descriptors(descriptors);
}

void AgentJob::take_file_work(double now) {
  if (log_) log_->write_more();
  while (!publishing_.empty() && is_ready(publishing_.front().second)) {
    auto [path, checkpoint] = std::move(publishing_.front());
    publishing_.pop_front();
    try {
      publish(checkpoint.get());
    } catch (const StorageError& error) {
      unreadable_checkpoint_ = path;
      log_->note(error.what());
    } catch (const std::exception& error) {
      count_bad_message(error.what());
    }
  }
  if (!exited_ || ended()) return;
  const bool hangs = now >= work_.hangs_at();
  if (!reading_.valid() && (publishing_.empty() || hangs)) read_files();
  if (reading_.valid() && (is_ready(reading_) || hangs)) finish_end();
}

void AgentJob::tick(double now) {
  take_file_work(now);
  if (!command_ || exited_) {
    if (exited_ && stop_reason_ == StopReason::drain && now - stop_requested_at_ >= options_.drain_seconds) kill();
    return;
  }
  // A machine that stood still, job and all, is no job that hangs.
  const double stood = std::max(0.0, now - std::exchange(last_tick_at_, now) - longest_between_ticks());
  last_progress_at_ += stood;
  last_message_at_ += stood;
  const auto status = command_->poll_exit();  // polled first, so that the reads below see all output
  if (uploader_ != nullptr)
    for (const auto& note : uploader_->take_notes(lease_)) log_->note(note);
  read_output(now, status.has_value());
  receive(now);
  has_connected_ = has_connected_ || command_->connected();
  // What the dead had still sent is read to its end, in a bounded number of turns.
  for (int turn = 0; status && command_->connected() && turn < kLastTurns; ++turn) receive(now);
  if (status) end_command(*status);
  take_file_work(now);
  if (status) return;
  if (state_ == State::stopping && now - stop_requested_at_ >= options_.stop_grace_seconds) {
    log_->note(
        fmt::format("did not end within {} s after the request to stop: sends SIGTERM", options_.stop_grace_seconds));
    send_sigterm();
  }
  if (stop_reason_ == StopReason::drain && now - stop_requested_at_ >= options_.drain_seconds) kill();
  // Its supervisor may have been stopped by the job, and has to be ended then.
  if (killed_at_ < kNever && now >= killed_at_ && now - last_kill_ >= kKillInterval) kill_now();
  if (state_ == State::running) check_stall(now);
}

double AgentJob::next_timer() const {
  double next = kNever;
  if (start_waits_ || !publishing_.empty() || exited_ || measuring_.valid() || (log_ && !log_->is_written()))
    next = work_.hangs_at();
  if (exited_ && ended()) return next;
  const bool may_be_killed = state_ == State::running || state_ == State::stopping || state_ == State::terminating;
  if (stop_reason_ == StopReason::drain && may_be_killed)
    next = std::min(next, stop_requested_at_ + options_.drain_seconds);
  if (exited_) return next;
  if (command_ && killed_at_ < kNever) next = std::min(next, std::max(killed_at_, last_kill_ + kKillInterval));
  if (state_ == State::stopping) next = std::min(next, stop_requested_at_ + options_.stop_grace_seconds);
  if (state_ == State::running)
    next = std::min({next, measuring_.valid() ? kNever : last_progress_at_ + options_.stall_seconds,
                     last_tick_at_ + longest_between_ticks()});
  return next;
}

double AgentJob::longest_between_ticks() const { return options_.stall_seconds / 10; }

double AgentJob::next_call() const {
  if (stopped_reporting() || (is_starting() && start_waits_)) return kNever;
  if (is_starting() || ended() || in_flight_ || urgent()) return 0;
  return has_unsent_reports() ? last_report_ + kReportInterval : kNever;
}

void AgentJob::check_stall(double now) {
  if (now - last_progress_at_ < options_.stall_seconds) return;
  const auto growing = has_messages_ ? false : metrics_file_grows();
  if (!growing) return;
  if (*growing) {
    last_progress_at_ = now;
    return;
  }
  fail(fmt::format("no progress for {:.0f} s, the agent's --stall-seconds: killed", now - last_progress_at_));
}

void AgentJob::fail(const std::string& why) {
  if (state_ != State::running) return;
  state_ = State::failing;
  failure_reason_ = why;
  log_->note(why);
  logger_.warn("{}: {}", log_name(), why);
  kill_now();
}

std::optional<bool> AgentJob::metrics_file_grows() {
  if (lease_.spec.kind != JobKind::train) return false;
  if (!measuring_.valid())
    measuring_ = work_.run([folder = folder_] {
      const auto file = open_foreign(folder, "metrics.jsonl", UINT64_MAX);
      return file ? file->size() : 0;
    });
  if (!is_ready(measuring_)) return world_.steady_seconds() < work_.hangs_at() ? std::nullopt : std::optional(false);
  try {
    const auto bytes = measuring_.get();
    return std::exchange(metrics_bytes_, bytes) != bytes;
  } catch (const FileError&) {
    return false;
  }
}

void AgentJob::request_stop(StopReason reason, double now) {
  if (ended() || reason <= stop_reason_) return;
  const bool first = stop_reason_ == StopReason::none;
  stop_reason_ = reason;
  if (!command_) {
    end_without_process(outcome_of(reason), "");
    return;
  }
  if (first) stop_requested_at_ = now;
  if (exited_) return;
  log_->note(fmt::format("asked to end: {}", phrase_of(reason)));
  logger_.info("{}: asked to end: {}", log_name(), phrase_of(reason));
  if (!first || state_ != State::running) return;
  // A job that does not listen has no progress to save, or listens to SIGTERM alone.
  if (lease_.spec.kind == JobKind::train && command_->connected()) {
    state_ = State::stopping;
    command_->request_stop(phrase_of(reason));
  } else {
    send_sigterm();
  }
}

void AgentJob::send_sigterm() {
  state_ = State::terminating;
  killed_at_ = world_.steady_seconds() + kill_grace();
  command_->terminate();
}

void AgentJob::kill_now() {
  last_kill_ = world_.steady_seconds();
  killed_at_ = std::min(killed_at_, last_kill_);
  command_->kill();
}

double AgentJob::kill_grace() const { return std::clamp(options_.stop_grace_seconds, 0.1, 30.0); }

void AgentJob::kill() {
  if (exited_) {  // its files take too long
    if (!ended()) finish_end();
    return;
  }
  if (state_ != State::running && state_ != State::stopping && state_ != State::terminating) return;
  state_ = State::killing;
  kill_now();
}

void AgentJob::give_up() {
  if (stopped_reporting()) return;
  if (!ended()) logger_.warn("{}: given up, and killed", log_name());
  state_ = command_ && !exited_ ? State::lost : State::released;
  if (command_ && !exited_) kill_now();
}

const JobReport* AgentJob::next_report(double now) {
  if (in_flight_) return &*in_flight_;
  if (!log_ || stopped_reporting() || !has_unsent_reports()) return nullptr;
  if (!urgent() && !ended() && now - last_report_ < kReportInterval) return nullptr;
  in_flight_ = progress_;
  const bool evaluated = !evaluations_.empty();
  if (evaluated) {
    in_flight_ = std::move(evaluations_.front());
    evaluations_.pop_front();
    in_flight_->checkpoint = progress_.checkpoint;
  }
  in_flight_->log_lines = log_->take_lines();
  progress_.checkpoint.clear();
  // With the last of several evaluations, and now and then in between.
  if (history_changed_ && !urgent() && (ended() || evaluated || now - history_reported_at_ >= kHistoryInterval)) {
    in_flight_->history = packed_history();
    history_changed_ = false;
    history_reported_at_ = now;
  }
  changed_ = false;
  return &*in_flight_;
}

void AgentJob::mark_reported(double now) {
  in_flight_.reset();
  last_report_ = now;
}

bool AgentJob::has_unsent_reports() const {
  return in_flight_ || changed_ || urgent() || (log_ && log_->has_lines()) || (ended() && history_changed_);
}

}  // namespace foretime::jobs
