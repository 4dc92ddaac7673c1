#include "jobs/agent/agent.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include "base/files.h"
#include "base/no_copy.h"
#include "base/process.h"
#include "jobs/agent/agent_heartbeat.h"
#include "jobs/agent/agent_job.h"
#include "jobs/agent/artifact_uploader.h"
#include "jobs/agent/claim_schedule.h"
#include "jobs/agent/failure_classifier.h"
#include "jobs/agent/program_folder.h"
#include "jobs/agent/queue_link.h"
#include "jobs/agent/queue_watch.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr double kShortestWait = 0.001;    // seconds
constexpr double kCleanInterval = 3600.0;  // seconds
constexpr double kLastClean = 2.0;         // seconds that the end of an agent waits for one
constexpr double kDeniedDrain = 5.0;       // seconds for results, after SIGTERM, where Redis refuses this agent

AgentInfo info_of(const AgentOptions& options) {
  return {.name = options.name,
          .host = host_name(),
          .version = options.version,
          .pid = getpid(),
          .cpus = options.cpus,
          .gpus = std::ssize(options.gpus),
          .runs_programs = !options.roots.programs.empty()};
}

std::unique_ptr<ArtifactUploader> make_uploader(const AgentOptions& options, std::shared_ptr<JobQueue> queue,
                                                Waiter& waiter, World& world) {
  if (!options.artifacts) return nullptr;
  return std::make_unique<ArtifactUploader>(
      std::move(queue), options.artifacts(), options.store, [&waiter] { waiter.wake(); }, world);
}

/// Removes old attempts now and then beside an agent's loop.
class Cleaning : NoCopy {
 public:
  Cleaning(const std::function<void(const std::function<bool()>& stop)>& clean, World& world) {
    if (!clean) return;
    background_ = world.run_beside([clean, ended = ended_, wait = world.spread(kCleanInterval)] {
      clean([&] { return ended->load(); });
      return wait;
    });
  }
  ~Cleaning() {
    ended_->store(true);
    if (background_) background_->wait_at_most(kLastClean);
  }

 private:
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<Background> background_;
};

/// The agent's loop: claims jobs, watches them, forwards their reports, and obeys the queue. See jobs/agent/agent.h.
class AgentLoop {
 public:
  AgentLoop(const AgentOptions& options, const QueueFactory& make_queue, const Proposer& proposer, Slots slots,
            const std::atomic<int>& stops, Waiter& waiter, World& world, spdlog::logger& log)
      : options_(options),
        proposer_(proposer),
        slots_(std::move(slots)),
        stops_(stops),
        waiter_(waiter),
        world_(world),
        log_(log),
        link_(make_queue(), world, log),
        schedule_(options, make_queue(), world, log),
        heartbeat_(
            make_queue(), options.lease_term, info_of(options), [&waiter] { waiter.wake(); }, world, log),
        uploader_(make_uploader(options, make_queue(), waiter, world)),
        classifier_(options, waiter, world, log),
        reaper_(options.name, link_, world, log),
        programs_(options.roots.programs),
        store_(options.name, options.queue, link_, world, log),
        backlog_(options, programs_, log),
        cleaning_(options.clean, world) {}

  int64_t run() {
    log_.info("agent {}: {} CPUs, {} GPUs, runs in {}", options_.name, options_.cpus, options_.gpus.size(),
              options_.roots.runs.string());
    for (double now = world_.steady_seconds();; now = world_.steady_seconds()) {
      update_silent_hosts();
      heartbeat_.tick(running(), trouble());
      obey_stop_requests(now);
      obey_directives(now);
      start_jobs();
      for (auto& held : jobs_) {
        held.job->tick(now);
        classifier_.end_if_abandoned(*held.job, held.evidence, now);
        forward(held);
        if (held.job) drop_lease_if_unkillable(held, now);
      }
      std::erase_if(jobs_, [](const RunningJob& held) { return held.job == nullptr; });
      schedule_.listen(now, link_.open(now));
      claim_jobs();
      check_store(now);  // called after the first claim: if Redis refuses the claim, the agent ends
      reap(now);
      if (done(now)) break;
      wait();
    }
    // An emptied queue is no queue whose work is done.
    if (drained_) store_.check(world_.steady_seconds());
    if (drained_ && !store_.trouble().empty()) throw RedisDataLost("agent {}: {}", options_.name, store_.trouble());
    std::string outcomes;
    for (const auto& [outcome, count] : outcomes_)
      outcomes += fmt::format("{}{} {}", outcomes.empty() ? ": " : ", ", count, to_string(outcome));
    log_.info("agent {}: finished {} jobs{}; exits", options_.name, finished_, outcomes);
    return finished_;
  }

 private:
  struct RunningJob {
    std::unique_ptr<AgentJob> job;
    FailureEvidence evidence{};
    bool has_slots = true;
    bool lease_dropped = false;  // lease is no longer renewed
    bool storing = false;        // result waits for the artifact store
  };

  /// Returns why nothing is claimed; empty if nothing is wrong.
  std::string trouble() const { return store_.trouble().empty() ? classifier_.trouble() : store_.trouble(); }

  void check_store(double now) {
    if (now < store_.next() || !link_.open(now) || obeyed_stops_ > 0) return;
    if (classifier_.health().in_first_check()) return;  // the first call is a claim, as for the reaper
    store_.check(now);
  }

  void update_silent_hosts() {
    auto silent = classifier_.changed_silent_hosts();
    if (!silent) return;
    slots_.set_silent(*std::move(silent));
    schedule_.make_due();
  }

  void obey_stop_requests(double now) {
    const int count = stops_.load();
    if (count == obeyed_stops_) return;
    if (obeyed_stops_ == 0) {
      stopped_at_ = now;
      log_.info("agent {}: received a request to end: claims no more jobs and asks {} running jobs to stop",
                options_.name, running());
    }
    obeyed_stops_ = count;
    for (auto& held : jobs_) {
      held.job->request_stop(StopReason::drain, now);
      if (count > 1) held.job->kill();
    }
  }

  void obey_directives(double now) {
    for (const auto& [token, directive] : heartbeat_.take_directives())
      for (auto& held : jobs_)
        if (held.job->lease().token == token) obey(*held.job, directive, now);
  }

  void obey(AgentJob& job, Directive directive, double now) {
    if (directive == Directive::stop) job.request_stop(StopReason::early_stopping, now);
    if (directive == Directive::cancel) job.request_stop(StopReason::cancel, now);
    if (directive != Directive::lost) return;
    job.give_up();
    store_.make_due();  // the queue may have lost the agent's record
  }

  void start_jobs() {
    for (auto& held : jobs_) {
      auto& job = *held.job;
      if (!job.is_starting()) continue;
      const double now = world_.steady_seconds();
      const auto seen = classifier_.check_machine(held.evidence, now);
      if (seen == NodeHealth::Answer::trouble) job.give_back(classifier_.health().trouble());
      if (seen == NodeHealth::Answer::well) link_.reach_for(job, [&] { job.start(link_.queue(), proposer_); });
      if (!job.is_starting() && job.could_not_start())
        classifier_.health().could_not_start(job.lease().job, job.result().error, world_.steady_seconds());
      if (const auto& program = job.missing_program();
          !program.empty() && programs_.note_missing(job.lease().spec.program, program))
        log_.warn("{}: no such file in the folder of programs: gives back jobs that run it until the file exists",
                  program.string());
    }
  }

  /// Reports, then the result: the log and the checkpoint are there before the job has ended.
  void forward(RunningJob& held) {
    auto& job = *held.job;
    while (!job.stopped_reporting()) {
      const auto* report = job.next_report(world_.steady_seconds());
      if (report == nullptr) break;
      auto directive = Directive::proceed;
      if (!link_.reach_for(job, [&] { directive = link_.queue().report(job.lease(), *report); })) break;
      job.mark_reported(world_.steady_seconds());
      obey(job, directive, world_.steady_seconds());
    }
    if (!job.ended()) return;
    if (std::exchange(held.has_slots, false)) {
      held.evidence.check_since = world_.steady_seconds();
      slots_.give_back(job.slots());
      schedule_.slot_freed(job.result().outcome == Outcome::preempted);
    }
    held.storing = !job.stopped_reporting() && obeyed_stops_ < 2 && !job.stored();
    if (!job.stopped_reporting() && classifier_.classify(job, held.evidence) && !job.has_unsent_reports() &&
        !held.storing)
      finish(job);
    if (!job.stopped_reporting()) return;
    if (uploader_) uploader_->forget(job.lease());
    heartbeat_.release(job.lease());
    held.job.reset();
  }

  /// A process that waits for storage which hangs outlives SIGKILL. Its job must not wait with it.
  void drop_lease_if_unkillable(RunningJob& held, double now) {
    const auto& job = *held.job;
    if (held.lease_dropped || now - job.killed_at() < std::chrono::duration<double>(options_.lease_term).count())
      return;
    held.lease_dropped = true;
    heartbeat_.release(job.lease());
    log_.error("job {}: did not exit after SIGKILL; its lease will expire, and its CPUs and GPUs stay reserved",
               job.lease().job);
  }

  /// Writes the result; where the free slot may take a job at once, claims it in the same call.
  void finish(AgentJob& job) {
    const auto& result = job.result();
    const double now = world_.steady_seconds();
    const bool claims = schedule_.due_with_result(now) && wants_jobs(now) && may_claim(now);
    link_.reach_for(job, [&] {
      FinishedAndNext done;
      bool claimed = claims;
      const auto end = [&] { return link_.queue().finish(job.lease(), result, world_.random_fraction()); };
      if (!claims) {
        done.finished = end();
      } else {
        const auto request = next_claim();
        try {
          done = link_.queue().finish_and_claim(job.lease(), result, world_.random_fraction(), request);
          claim_token_.clear();
        } catch (const RedisRefused&) {
          done.finished = end();  // a refused claim must not cost the result
          claimed = false;
          schedule_.separate_claims(now);
        }
      }
      if (!done.finished) {
        log_.warn("job {}: Redis refused its result, because its lease was lost", job.lease().job);
      } else {
        job.log_end();
        ++outcomes_[result.outcome];
        if (result.outcome != Outcome::preempted && result.outcome != Outcome::error) ++finished_;
      }
      job.mark_recorded();
      if (done.next) accept(*done.next);
      else if (claimed && !options_.until_empty) schedule_.wait_after_claim(true);
    });
  }

  void claim_jobs() {
    if (!accepted_.empty()) begin_accepted();
    if (obeyed_stops_ > 0) {
      // A claim whose answer was lost may have given us a job, which would wait for the end of its lease.
      if (!claim_token_.empty() && link_.open()) claim_one();
      return;
    }
    drained_ = false;
    while (wants_jobs(world_.steady_seconds()) && link_.open() && stops_.load() == 0) {
      // A claim without an answer may have given us a job, which is given back.
      const bool may_claim = !claim_token_.empty() || this->may_claim(world_.steady_seconds());
      if (!may_claim && classifier_.health().trouble().empty() && store_.trouble().empty())
        break;  // the first check is still running and will wake this loop
      if (may_claim && claim_one()) continue;
      if (!may_claim) update_blamed_jobs();
      if (!may_claim) check_whether_drained();
      schedule_.wait_after_claim(may_claim);
    }
  }

  bool may_claim(double now) { return store_.trouble().empty() && classifier_.health().may_claim(now); }

  /// Returns whether a claim is due and another job may run.
  bool wants_jobs(double now) const {
    const auto most = options_.max_jobs > 0 ? options_.max_jobs : INT64_MAX;
    return obeyed_stops_ == 0 && schedule_.due(now) && slots_.free_cpus() > 0 && running() < most;
  }

  ClaimRequest next_claim() {
    if (claim_token_.empty()) claim_token_ = world_.random_hex(32);
    return {.agent = options_.name,
            .token = claim_token_,
            .free_cpus = slots_.free_cpus(),
            .free_gpus = slots_.free_gpus(),
            .term = options_.lease_term,
            .free_of_hosts = slots_.free_of_hosts(),
            .runs_programs = !programs_.path().empty(),
            .lacking_programs = programs_.missing(world_.steady_seconds())};
  }

  bool claim_one() {
    const auto request = next_claim();
    const auto claim = [&] {
      const auto lease = link_.queue().claim(request);
      claim_token_.clear();
      if (lease) accept(*lease);
      else if (jobs_.empty()) drained_ = backlog_.is_drained(link_.queue());
    };
    link_.reach_or_pause(claim);
    const bool got_one = !accepted_.empty();
    if (got_one) begin_accepted();
    return got_one;
  }

  /// Takes slots for a lease; begin_accepted() starts the job. Without room, or while the agent ends, gives it back.
  void accept(const Lease& lease) {
    auto slots = slots_.take(lease.resources());
    if (!slots || obeyed_stops_ > 0) {
      if (slots) slots_.give_back(*slots);
      link_.queue().finish(lease, {.outcome = Outcome::preempted}, world_.random_fraction());
      return;
    }
    heartbeat_.hold(lease);
    const double now = world_.steady_seconds();
    classifier_.health().claimed(lease.job, now);
    accepted_.push_back({.job = std::make_unique<AgentJob>(
                             lease, *slots, options_, uploader_.get(), [this] { waiter_.wake(); }, world_, log_),
                         .evidence = {.check_since = now - NodeHealth::kFresh}});
  }

  void begin_accepted() {
    for (auto& held : accepted_) jobs_.push_back(std::move(held));
    accepted_.clear();
    start_jobs();
  }

  /// Asks the queue whether the jobs that this machine is blamed for have failed elsewhere since.
  void update_blamed_jobs() {
    const auto blamed_jobs = classifier_.health().blamed_jobs();
    if (blamed_jobs.empty()) return;
    link_.reach_or_pause([&] {
      for (const auto& job : blamed_jobs)
        if (const auto record = link_.queue().find(job)) classifier_.health().update_failures(job, record->failures);
    });
  }

  /// While this agent claims nothing.
  void check_whether_drained() {
    if (!jobs_.empty() || !options_.until_empty) return;
    link_.reach_or_pause([&] { drained_ = backlog_.is_drained(link_.queue()); });
  }

  void reap(double now) {
    if (now < reaper_.next() || !link_.open(now) || obeyed_stops_ > 0) return;
    if (classifier_.health().in_first_check())
      return;  // the first call is a claim: where Redis refuses that, the agent ends
    reaper_.reap(now, [this] { heartbeat_.tick(running(), trouble()); });
  }

  bool done(double now) {
    if (drained_) return jobs_.empty();
    if (obeyed_stops_ == 0) return false;
    if (jobs_.empty()) return claim_token_.empty() || link_.down();
    const bool all_ended = running() == 0;
    const bool late = obeyed_stops_ > 1 || now >= drain_ends();
    if (!all_ended || !late || !link_.down()) return false;
    log_.error(
        "agent {}: Redis is unreachable or refuses this agent, so {} results were not written; "
        "these jobs will run again",
        options_.name, jobs_.size());
    return true;
  }

  /// Returns when the agent stops waiting for results after a request to end.
  double drain_ends() const {
    return stopped_at_ + (link_.denied() ? std::min(kDeniedDrain, options_.drain_seconds) : options_.drain_seconds);
  }

  /// Returns when the loop has work although no descriptor becomes readable.
  double next_turn(double now) const {
    double next = now + std::chrono::duration<double>(options_.lease_term).count() / 4;  // the heartbeat hears from us
    const auto calls_at = [&](double time) { next = std::min(next, std::max(time, link_.next())); };
    next = std::min(next, classifier_.health().next_turn());
    for (const auto& held : jobs_) {
      next = std::min(next, held.job->next_timer());
      next = std::min(next, classifier_.next_turn(*held.job, held.evidence, now));
      if (!held.evidence.awaits_check && !(held.storing && !held.job->has_unsent_reports()))
        calls_at(held.job->next_call());
    }
    if (uploader_) next = std::min(next, uploader_->next_turn());
    if (obeyed_stops_ > 0 && now < drain_ends()) next = std::min(next, drain_ends());
    if (obeyed_stops_ > 0 && !claim_token_.empty()) calls_at(0);
    if (obeyed_stops_ > 0) return next;
    const bool room = options_.max_jobs <= 0 || running() < options_.max_jobs;
    if (room && slots_.free_cpus() > 0 && !classifier_.health().in_first_check()) calls_at(schedule_.next());
    if (!classifier_.health().in_first_check()) calls_at(std::min(reaper_.next(), store_.next()));
    calls_at(schedule_.next_listen());
    return next;
  }

  void wait() {
    std::vector<pollfd> descriptors;
    for (const auto& held : jobs_) held.job->add_descriptors(descriptors);
    schedule_.add_descriptors(descriptors);
    const double now = world_.steady_seconds();
    waiter_.wait(descriptors, std::max(next_turn(now) - now, kShortestWait));
  }

  int64_t running() const {
    const auto runs = [](const RunningJob& held) { return held.job && !held.job->ended(); };
    return std::count_if(jobs_.begin(), jobs_.end(), runs) + std::ssize(accepted_);
  }

  const AgentOptions& options_;
  const Proposer& proposer_;
  Slots slots_;
  const std::atomic<int>& stops_;
  Waiter& waiter_;
  World& world_;
  spdlog::logger& log_;
  QueueLink link_;
  ClaimSchedule schedule_;
  Heartbeat heartbeat_;
  std::unique_ptr<ArtifactUploader> uploader_;  // null: there is no artifact store
  FailureClassifier classifier_;
  Reaper reaper_;
  ProgramFolder programs_;
  StoreWatch store_;
  Backlog backlog_;
  Cleaning cleaning_;
  std::vector<RunningJob> jobs_,
      accepted_;             // accepted_: came with the result of another one, and join jobs_ in this turn
  std::string claim_token_;  // token of an unanswered claim; empty: none
  bool drained_ = false;     // nothing is left for it to do
  int obeyed_stops_ = 0;
  double stopped_at_ = 0;
  int64_t finished_ = 0;                   // jobs that reached an end here
  std::map<Outcome, int64_t> outcomes_{};  // attempts whose result the queue has taken
};

}  // namespace

Agent::Agent(AgentOptions options, QueueFactory make_queue, Proposer proposer, spdlog::logger& log, World& world)
    : options_(completed(std::move(options), world)),
      make_queue_(std::move(make_queue)),
      proposer_(std::move(proposer)),
      log_(log),
      world_(world),
      waiter_(world.make_waiter()) {
  const Slots checked(options_.cpus, options_.gpus, options_.hosts);  // throws where a GPU is named twice
}

int64_t Agent::run() {
  AgentLoop loop(options_, make_queue_, proposer_, Slots(options_.cpus, options_.gpus, options_.hosts), stops_,
                 *waiter_, world_, log_);
  return loop.run();
}

void Agent::request_stop() {
  stops_.fetch_add(1);
  waiter_->wake();
}

}  // namespace foretime::jobs
