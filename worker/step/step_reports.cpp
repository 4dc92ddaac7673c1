#include "worker/step/step_reports.h"

namespace foretime::worker {
namespace {

double seconds_between(StepReports::Clock::time_point from, StepReports::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

StepEvent StepReports::event(int64_t step, const StepTotals& totals, TrainingStep& training) {
  candidates_ += totals.candidates;
  const int64_t total = run_.total_steps();
  StepEvent event{
      .step = step, .total_steps = total, .loss = totals.loss, .seconds_per_step = timer_.after(step), .report = {}};
  if (step % run_.settings.trainer.log_every != 0 && step != total) return event;
  const ProfileSpan span(run_.profiler, "report");
  auto& report = event.report.emplace();
  report.ranks = training.monitor().report(run_.comm);
  const auto now = Clock::now();
  report.learning_rate = learning_rate_at(run_.settings.optimizer, step - 1, total);
  report.gradient_norm = training.gradient_norm();
  report.candidates_per_second = candidates_ / seconds_between(reported_, now);
  report.seconds = seconds_between(started_, now);
  report.metric = metric_;
  candidates_ = 0;
  reported_ = now;
  return event;
}

}  // namespace foretime::worker
