#include "jobs/agent/agent_job.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "configs/load.h"
#include "jobs/agent/agent_command.h"
#include "jobs/agent/agent_link.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr double kReportInterval = 1.0;     // seconds between reports that nobody waits for
constexpr size_t kReadAtOnce = 1 << 20;     // then the other jobs have their turn
constexpr size_t kPrintedBytes = 16 << 20;  // stdout of an evaluation
constexpr size_t kEvaluations = 256;        // kept while Redis is away
constexpr int64_t kBadMessagesNamed = 20;
constexpr int kLastTurns = 16;

const char* reason_of(Asked why) {
  switch (why) {
    case Asked::cancel:
      return "cancelled by request";
    case Asked::stop:
      return "early stopping";
    default:
      return "the agent drains";
  }
}

}  // namespace

AgentJob::AgentJob(Lease lease, std::vector<std::string> gpus, const AgentOptions& options, spdlog::logger& log)
    : lease_(std::move(lease)), gpus_(std::move(gpus)), options_(options), logger_(log) {
  started_at_ = life_at_ = steady_seconds();
}

std::string AgentJob::who() const { return fmt::format("job {} (attempt {})", lease_.job, lease_.attempt); }

void AgentJob::start(JobQueue& queue, const Proposer& proposer) {
  try {
    if (lease_.spec.deferred) {
      lease_.spec.parameters = proposer(queue, lease_);
      lease_.spec.deferred = false;
    }
    if (folder_.empty()) folder_ = make_attempt_folder(options_.roots, lease_);
    if (!log_) log_ = std::make_unique<JobLog>(folder_ / "output.log");
    if (!socket_) socket_ = std::make_unique<ProgressSocket>(folder_);
    auto command = attempt_command(lease_, lease_.spec.parameters, options_, queue, {folder_, gpus_, socket_->path()});
    command.kill_grace_seconds = std::clamp(options_.stop_grace_seconds, 0.1, 30.0);
    process_ = std::make_unique<SupervisedProcess>(command);
    started_at_ = life_at_ = steady_seconds();
    logger_.info("{}: {} starts in {}", who(),
                 lease_.spec.name.empty() ? to_string(lease_.spec.kind) : lease_.spec.name, folder_.string());
  } catch (const RedisUnavailable&) {
    throw;
  } catch (const RedisRefused&) {
    throw;
  } catch (const configs::SettingsError& error) {
    end_without_process(Outcome::failed, error.what());
  } catch (const JobUnusable& error) {
    end_without_process(Outcome::failed, error.what());
  } catch (const SweepError& error) {
    end_without_process(Outcome::failed, error.what());
  } catch (const std::exception& error) {
    end_without_process(Outcome::error, error.what());
  }
}

void AgentJob::end_without_process(Outcome outcome, const std::string& error) {
  result_.outcome = outcome;
  result_.error = error;
  result_.exit_code = -1;
  if (log_ && !error.empty()) log_->note(error);
  if (!error.empty()) logger_.warn("{}: {} before its start: {}", who(), to_string(outcome), error);
  socket_.reset();
  ended_ = true;
}

void AgentJob::add_descriptors(std::vector<pollfd>& descriptors) const {
  if (!process_ || ended_) return;
  descriptors.push_back({process_->status_descriptor(), POLLIN, 0});
  if (output_open_) descriptors.push_back({process_->output(), POLLIN, 0});
  if (printed_open_ && process_->standard_output() >= 0)
    descriptors.push_back({process_->standard_output(), POLLIN, 0});
  socket_->add_descriptors(descriptors);
}

void AgentJob::tick(double now) {
  if (!process_ || ended_) return;
  const auto status = process_->poll_exit();  // before the reads: what it wrote before its end is then there
  read_output(now, status.has_value());
  receive(now);
  // What the dead had still sent is read to its end, in a bounded number of turns.
  for (int turn = 0; status && socket_->connected() && turn < kLastTurns; ++turn) receive(now);
  if (status) {
    conclude(*status);
    return;
  }
  if (asked_ != Asked::nothing && !terminated_ && now - asked_at_ >= options_.stop_grace_seconds) {
    terminated_ = true;
    log_->note(fmt::format("it did not end within {} s of being asked to: SIGTERM", options_.stop_grace_seconds));
    process_->terminate();
  }
  if (asked_ == Asked::drain && !killed_ && now - asked_at_ >= options_.drain_seconds) kill();
  if (asked_ == Asked::nothing) check_stall(now);
}

void AgentJob::receive(double now) {
  socket_->receive([&](const ProgressMessage& message) { take(message, now); },
                   [&](const std::string& what) {
                     if (++bad_messages_ <= kBadMessagesNamed) log_->note(what);
                   });
}

void AgentJob::read_output(double now, bool all) {
  char buffer[65536];
  const auto read_from = [&](int descriptor, bool& open, const auto& sink) {
    for (size_t total = 0; open && (all || total < kReadAtOnce);) {
      const auto got = read(descriptor, buffer, sizeof(buffer));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got <= 0) {
        open = false;
        return;
      }
      total += static_cast<size_t>(got);
      sink(std::string_view(buffer, static_cast<size_t>(got)));
    }
  };
  const auto lines = log_->lines();
  read_from(process_->output(), output_open_, [&](std::string_view text) { log_->feed(text); });
  if (process_->standard_output() >= 0) {
    read_from(process_->standard_output(), printed_open_, [&](std::string_view text) {
      printed_.append(text.substr(0, kPrintedBytes - std::min(kPrintedBytes, printed_.size())));
    });
  }
  if (!progressed_ && log_->lines() > lines) life_at_ = now;
}

void AgentJob::take(const ProgressMessage& message, double now) {
  using Kind = ProgressMessage::Kind;
  if (message.kind == Kind::hello) return;
  if (message.kind != Kind::progress || message.step != state_.step || message.scored > scored_ || !progressed_)
    life_at_ = now;
  scored_ = std::max(scored_, message.scored);
  progressed_ = dirty_ = true;
  state_.step = std::max(message.step, message.kind == Kind::result ? state_.step : int64_t{0});
  if (message.total_steps > 0) state_.total_steps = message.total_steps;
  switch (message.kind) {
    case Kind::progress:
      if (std::isfinite(message.loss)) state_.loss = message.loss;
      state_.eta_seconds = message.eta_seconds;
      break;
    case Kind::evaluation: {
      metrics_ = message.metrics;
      auto report = state_;
      report.iteration = message.iteration;
      report.metrics = message.metrics;
      if (const auto found = metrics_.find(lease_.spec.metric); found != metrics_.end())
        report.objective = found->second;
      evaluations_.push_back(std::move(report));
      if (evaluations_.size() > kEvaluations) evaluations_.pop_front();
      urgent_ = true;
      break;
    }
    case Kind::checkpoint:
      try {
        state_.checkpoint = checkpoint_ = published_checkpoint(message.path, folder_, options_.roots);
        urgent_ = true;
      } catch (const std::exception& error) {
        if (++bad_messages_ <= kBadMessagesNamed) log_->note(error.what());
      }
      break;
    case Kind::result:
      metrics_ = message.metrics;
      has_result_ = true;
      break;
    case Kind::hello:
      break;
  }
}

void AgentJob::check_stall(double now) {
  if (stalled_ || killed_ || now - life_at_ < options_.stall_seconds) return;
  stalled_ = true;
  log_->note(fmt::format("no progress for {:.0f} s: killed", options_.stall_seconds));
  logger_.warn("{}: no progress for {:.0f} s: killed", who(), options_.stall_seconds);
  process_->kill();
}

void AgentJob::ask(Asked why, double now) {
  if (ended_ || why <= asked_) return;
  const bool first = asked_ == Asked::nothing;
  asked_ = why;
  if (!process_) {
    end_as_asked();
    return;
  }
  log_->note(fmt::format("asked to end: {}", reason_of(why)));
  logger_.info("{}: asked to end: {}", who(), reason_of(why));
  if (!first) return;
  asked_at_ = now;
  // Whoever is not there to listen has no progress to save, or listens to SIGTERM alone.
  if (lease_.spec.kind == JobKind::train && socket_->connected()) {
    socket_->send_stop(reason_of(why));
  } else {
    terminated_ = true;
    process_->terminate();
  }
}

void AgentJob::kill() {
  killed_ = true;
  if (process_ && !ended_) process_->kill();
}

void AgentJob::abandon() {
  if (!abandoned_ && !ended_) logger_.warn("{}: given up, and killed", who());
  abandoned_ = true;
  if (!process_) ended_ = true;
  kill();
}

const JobReport* AgentJob::next_report(double now) {
  if (in_flight_) return &*in_flight_;
  if (!log_ || abandoned_ || !has_news()) return nullptr;
  if (!urgent_ && !ended_ && now - last_report_ < kReportInterval) return nullptr;
  in_flight_ = state_;
  if (!evaluations_.empty()) {
    in_flight_ = std::move(evaluations_.front());
    evaluations_.pop_front();
    in_flight_->checkpoint = state_.checkpoint;
  }
  in_flight_->log_lines = log_->take_lines();
  state_.checkpoint.clear();
  dirty_ = urgent_ = !evaluations_.empty();
  return &*in_flight_;
}

void AgentJob::reported(double now) {
  in_flight_.reset();
  last_report_ = now;
}

bool AgentJob::has_news() const {
  return in_flight_ || dirty_ || !evaluations_.empty() || !state_.checkpoint.empty() || (log_ && log_->has_lines());
}

}  // namespace foretime::jobs
