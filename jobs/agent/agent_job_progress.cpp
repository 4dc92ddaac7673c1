// Messages and output of a running job become its progress.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "jobs/agent/agent_job.h"
#include "jobs/agent/run_folder.h"

namespace foretime::jobs {
namespace {

constexpr size_t kPrintedBytes = 16 << 20;  // stdout of an evaluation
constexpr size_t kEvaluations = 256;        // evaluations kept while Redis is away
constexpr int64_t kBadMessagesNamed = 20;
// Multiples of --stall-seconds after a program's last report in which output counts as progress.
constexpr double kOutputTerms = 100;

}  // namespace

void AgentJob::receive(double now) {
  command_->receive([&](const ProgressMessage& message) { handle_message(message, now); },
                    [&](const std::string& what) { count_bad_message(what); });
}

void AgentJob::read_output(double now, bool all) {
  const auto lines = log_->lines();
  command_->read_output(
      all, [&](std::string_view text) { log_->feed(text); },
      [&](std::string_view text) {
        evaluation_stdout_.append(text.substr(0, kPrintedBytes - std::min(kPrintedBytes, evaluation_stdout_.size())));
      });
  if (log_->lines() == lines) return;
  // A program may report once an epoch, and print meanwhile.
  if (!has_messages_ || (runs_own_program_ && now - last_message_at_ < kOutputTerms * options_.stall_seconds))
    last_progress_at_ = now;
}

void AgentJob::count_bad_message(const std::string& what) {
  if (++bad_messages_ <= kBadMessagesNamed) log_useless(what);
}

void AgentJob::log_useless(const std::string& what) {
  if (first_useless_message_.empty()) first_useless_message_ = what;
  log_->note(what);
}

std::map<std::string, double> AgentJob::limited_values(const std::map<std::string, double>& numbers,
                                                       const ProgressMessage& message) {
  std::string invalid_entries;
  for (const auto& [name, found] : message.invalid_entries)
    if (logged_entries_.size() < kProgressMetrics && logged_entries_.insert(name).second)
      invalid_entries += fmt::format("{}{}: found {}", invalid_entries.empty() ? "" : "; ", name, found);
  if (!invalid_entries.empty()) log_useless(invalid_entries + ": left out, expected numbers");
  if (numbers.size() <= kProgressMetrics) return numbers;
  std::map<std::string, double> some;
  if (const auto found = numbers.find(lease_.spec.metric); found != numbers.end()) some.insert(*found);
  for (auto at = numbers.begin(); some.size() < kProgressMetrics; ++at) some.insert(*at);
  if (logged_entries_.insert("too many").second)
    log_useless(fmt::format("a message of {} numbers: {} of them are kept, the sweep's metric first", numbers.size(),
                            kProgressMetrics));
  return some;
}

void AgentJob::handle_message(const ProgressMessage& message, double now) {
  using Kind = ProgressMessage::Kind;
  if (message.kind == Kind::hello) return;
  if (message.kind != Kind::progress || message.step != progress_.step || message.scored > scored_candidates_ ||
      !has_messages_)
    last_progress_at_ = last_message_at_ = now;
  scored_candidates_ = std::max(scored_candidates_, message.scored);
  has_messages_ = changed_ = true;
  progress_.step = std::max(message.step, message.kind == Kind::result ? progress_.step : int64_t{0});
  if (message.total_steps > 0) progress_.total_steps = message.total_steps;
  switch (message.kind) {
    case Kind::progress:
      if (std::isfinite(message.loss)) progress_.loss = message.loss;
      progress_.eta_seconds = message.eta_seconds;
      if (!message.values.empty()) {
        if (!std::exchange(has_values_, true) && first_loss_) history_.remove_points("loss", *first_loss_);
        add_values(message.step, limited_values(message.values, message));
      } else if (!has_values_ && lease_.spec.kind == JobKind::train) {
        if (!first_loss_) first_loss_ = message.step;
        add_values(message.step, {{"loss", message.loss}});
      }
      break;
    case Kind::evaluation: {
      metrics_ = limited_values(message.metrics, message);
      add_values(message.step, metrics_);
      auto report = progress_;
      report.iteration = message.iteration;
      report.metrics = metrics_;
      if (const auto found = metrics_.find(lease_.spec.metric); found != metrics_.end())
        report.objective = found->second;
      evaluations_.push_back(std::move(report));
      if (evaluations_.size() > kEvaluations) evaluations_.pop_front();
      break;
    }
    case Kind::checkpoint:
      unreadable_checkpoint_.clear();
      publishing_.emplace_back(message.path, work_.run([path = message.path, folder = folder_, roots = options_.roots] {
        return published_checkpoint(path, folder, roots);
      }));
      break;
    case Kind::result:
      metrics_ = limited_values(message.metrics, message);
      has_result_ = true;
      break;
    case Kind::hello: break;
  }
}

void AgentJob::add_values(int64_t step, const std::map<std::string, double>& values) {
  if (values.empty()) return;
  history_.add(step, values);
  history_changed_ = true;
}

std::string AgentJob::packed_history() const {
  return history::pack(history_, {.bytes = Limits::kHistory, .first = {lease_.spec.metric, "loss"}});
}

void AgentJob::publish(const std::string& checkpoint) {
  unreadable_checkpoint_.clear();
  progress_.checkpoint = checkpoint_ = checkpoint;
  if (const auto stored = checkpoint_to_upload(); !stored.empty()) uploader_->announce(lease_, folder_, stored);
}

}  // namespace foretime::jobs
