#include "tests/simulation/cluster/users.h"

#include <cmath>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "jobs/error.h"
#include "tests/simulation/cluster/simulated_client.h"

namespace foretime::simulation {

template <class Call>
bool Users::persist(const Call& call) {
  for (;;) {
    try {
      call();
      return true;
    } catch (const jobs::JobRefused&) {
      return false;
    } catch (const jobs::RedisUnavailable&) {
    } catch (const jobs::RedisDenied&) {
    }
    env_.scheduler.sleep_until(env_.scheduler.now() + env_.scheduler.integer(1, 10) * kSecond);
  }
}

template <class Elements>
const auto& Users::one_of(const Elements& elements) {
  return *std::next(elements.begin(), env_.scheduler.integer(0, static_cast<int64_t>(elements.size()) - 1));
}

bool Users::at_work() const { return env_.scheduler.now() < static_cast<Time>(env_.options.hours * kHour); }

jobs::JobSpec Users::training(int64_t number) {
  jobs::JobSpec spec;
  spec.name = fmt::format("job {}", number);
  spec.settings = fmt::format("data: {{root: {}, train: [{}.npz], holdout: 0.1}}\ntrainer: {{metric: {}}}\n", kDataRoot,
                              number, kMetric);
  spec.metric = kMetric;
  spec.priority = env_.scheduler.integer(-2, 2);
  return spec;
}

bool Users::submit(jobs::JobQueue& queue, jobs::JobSpec& spec) {
  spec.id = jobs::job_id(spec);
  ledger_.plans[spec.id] = draw_plan(env_.scheduler, spec.kind, env_.options.minutes_a_job);
  recent_.push_back(spec);
  if (recent_.size() > 12) recent_.pop_front();
  const bool there = persist([&] { queue.submit(spec); }) && note_submission(spec.id);
  ++env_.report.jobs;
  return there;
}

bool Users::note_submission(const std::string& job) {
  auto& redis = env_.redis;
  const bool crashed = !redis.sync_always() && env_.scheduler.now() - redis.crashed_at() < 2 * kSecond;
  if (crashed && redis.model().keys().count("{foretime}:job:" + job) == 0) return false;
  ledger_.submitted[job].at = env_.scheduler.now();
  return true;
}

void Users::submit_jobs() {
  SimulatedClient client(env_.redis);
  auto& scheduler = env_.scheduler;
  std::string previous;
  for (int64_t number = 1; at_work(); ++number) {
    auto spec = training(number);
    if (!previous.empty() && scheduler.chance(0.3)) {
      spec.after = {previous};
      if (scheduler.chance(0.5)) spec.kind = jobs::JobKind::export_;
    }
    if (spec.kind == jobs::JobKind::export_) spec.settings = spec.metric = "";
    if (spec.kind == jobs::JobKind::train && number % 4 == 1) spec.resources.most_ranks = 2;
    const bool there = submit(client.queue, spec);
    if (there && scheduler.chance(0.08)) {
      env_.wait_up_to(3600);
      persist([&] { client.queue.cancel(spec.id); });
      env_.trace("cancelled " + spec.id);
    }
    previous = there && spec.kind == jobs::JobKind::train ? spec.id : "";
    const double pause = -std::log(1 - scheduler.fraction()) * 3600 / env_.options.jobs_an_hour;
    scheduler.sleep_until(scheduler.now() + static_cast<Time>(pause * kSecond));
  }
}

void Users::submit_sweeps() {
  SimulatedClient client(env_.redis);
  auto& scheduler = env_.scheduler;
  for (int64_t number = 1; at_work(); ++number) {
    env_.wait_up_to(3 * 3600 / env_.options.jobs_an_hour * 6);
    jobs::SweepSpec sweep;
    sweep.id = jobs::content_id(fmt::format("sweep {}", number));
    sweep.name = fmt::format("sweep {}", number);
    sweep.method = "grid";
    sweep.metric = kMetric;
    sweep.trials = scheduler.integer(2, 6);
    if (scheduler.chance(0.7)) sweep.halving = {.rungs = {2, 4}, .eta = 2};
    const bool there = persist([&] { client.queue.create_sweep(sweep); });
    for (int64_t trial = 0; there && trial < sweep.trials; ++trial) {
      auto spec = training(1'000'000 + 100 * number + trial);
      spec.sweep = sweep.id;
      spec.trial = trial;
      // A crash of Redis may have taken the sweep back: whoever submits says all of it again.
      if (!submit(client.queue, spec)) persist([&] { client.queue.create_sweep(sweep); });
    }
    if (scheduler.chance(0.3)) {
      env_.wait_up_to(600);
      pause_for(client.queue, sweep.id, 3600);
    }
    if (scheduler.chance(0.15)) {
      env_.wait_up_to(3600);
      persist([&] { client.queue.cancel_sweep(sweep.id); });
      env_.trace("cancelled sweep " + sweep.id);
    }
  }
}

void Users::pause_for(jobs::JobQueue& queue, const std::string& sweep, double most_seconds) {
  const bool paused = persist([&] { queue.pause(sweep); });
  env_.trace("paused " + sweep);
  if (paused) ledger_.paused[sweep] = env_.scheduler.now();
  ledger_.resumed.erase(sweep);
  env_.wait_up_to(most_seconds);
  ledger_.paused.erase(sweep);
  persist([&] { queue.resume(sweep); });
  ledger_.resumed[sweep] = env_.scheduler.now();
  env_.trace("resumed " + sweep);
}

void Users::resume_again() {
  auto& scheduler = env_.scheduler;
  scheduler.sleep_until(scheduler.now() + 5 * kSecond);
  const auto crash = scheduler.now() - 5 * kSecond;
  SimulatedClient client(env_.redis);
  std::vector<std::string> lost;
  for (const auto& [sweep, when] : ledger_.resumed)
    if (when > crash - 2 * kSecond) lost.push_back(sweep);
  for (const auto& sweep : lost) persist([&] { client.queue.resume(sweep); });
}

void Users::look_after_jobs() {
  SimulatedClient client(env_.redis);
  auto& queue = client.queue;
  auto& scheduler = env_.scheduler;
  while (at_work()) {
    env_.wait_up_to(4000);
    if (ledger_.submitted.empty()) continue;
    const auto job = one_of(ledger_.submitted).first;
    const auto what = scheduler.integer(0, 5);
    if (what == 0) persist([&] { queue.set_priority(job, scheduler.integer(-3, 3)); });
    if (what == 1 && scheduler.chance(0.3)) persist([&] { queue.cancel(job); });
    if (what == 2 && scheduler.chance(0.3)) pause_for(queue, "", 1200);
    if (what == 3 && !recent_.empty()) submit_again(queue);
    if (what >= 4) retry_one(queue);
  }
}

void Users::submit_again(jobs::JobQueue& queue) {
  const auto again = one_of(recent_);
  bool is_new = false;
  persist([&] { is_new = queue.submit(again); });
  if (!is_new) return;
  env_.trace("submitted anew: " + again.id);
  note_submission(again.id);
}

void Users::retry_one(jobs::JobQueue& queue) {
  std::vector<std::string> ended;
  for (const auto& [id, known] : ledger_.submitted)
    if (is_final(known.state) && known.state != jobs::JobState::succeeded) ended.push_back(id);
  if (ended.empty()) return;
  const auto& job = one_of(ended);
  persist([&] { queue.retry(job); });
}

}  // namespace foretime::simulation
