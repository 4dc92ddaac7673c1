#include "jobs/agent/agent.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/files.h"
#include "base/process.h"
#include "jobs/agent/agent_heartbeat.h"
#include "jobs/agent/agent_job.h"
#include "jobs/agent/artifact_courier.h"
#include "jobs/agent/node_health.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr double kClaimInterval = 1.0, kClaimSoon = 0.2, kReapInterval = 3.0;  // seconds
constexpr double kLongestReapInterval = 60.0;                                  // of one agent of many
constexpr double kWarningInterval = 300.0;                                     // seconds
constexpr double kClaimIntervalTold = 15.0;  // seconds, where the queue tells when jobs come to wait
constexpr double kClaimSpread = 0.05;        // seconds over which agents spread that were told at the same time
constexpr double kListenInterval = 5.0;      // seconds between two attempts to be told
constexpr double kRefusedInterval = 60.0;    // seconds before what Redis refused is tried again
constexpr double kDesertedGrace = 2.0;       // seconds, for the last words of ranks that have gone
constexpr double kShortestWait = 0.001;      // seconds
constexpr int kReapBatches = 20;

AgentInfo info_of(const AgentOptions& options) {
  return {.name = options.name,
          .host = host_name(),
          .version = options.version,
          .pid = getpid(),
          .cpus = options.cpus,
          .gpus = static_cast<int64_t>(options.gpus.size())};
}

std::unique_ptr<ArtifactCourier> make_courier(const AgentOptions& options, std::shared_ptr<JobQueue> queue,
                                              Waiter& waiter, World& world) {
  if (!options.artifacts) return nullptr;
  return std::make_unique<ArtifactCourier>(
      std::move(queue), options.artifacts(), options.store, [&waiter] { waiter.wake(); }, world);
}

std::unique_ptr<HostWatch> make_host_watch(const AgentOptions& options, Waiter& waiter, World& world,
                                           spdlog::logger& log) {
  if (options.hosts.empty()) return nullptr;
  return std::make_unique<HostWatch>(
      options.hosts, options.host_probe, [&waiter] { waiter.wake(); }, world, log);
}

/// The agent's loop: claims jobs, watches them, forwards their reports, and obeys the queue. One thread; see
/// jobs/agent/agent.h.
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
        queue_(make_queue()),
        listener_(make_queue()),
        link_("agent", kLongestPause, world, log),
        heartbeat_(
            make_queue(), options.lease_term, info_of(options), [&waiter] { waiter.wake(); }, world, log),
        courier_(make_courier(options, make_queue(), waiter, world)),
        hosts_(make_host_watch(options, waiter, world, log)),
        health_(
            "agent " + options.name, options.roots, options.most_failures, [&waiter] { waiter.wake(); }, world, log) {}

  int64_t run() {
    log_.info("agent {}: {} CPUs, {} GPUs, runs in {}", options_.name, options_.cpus, options_.gpus.size(),
              options_.roots.runs.string());
    for (double now = world_.steady_seconds();; now = world_.steady_seconds()) {
      look_at_hosts();
      heartbeat_.tick(running(), trouble());
      obey_stop_requests(now);
      obey_directives(now);
      start_jobs();
      for (auto& held : jobs_) {
        held.job->tick(now);
        look_after_deserted(held, now);
        forward(held);
        if (held.job) leave_if_unkillable(held, now);
      }
      std::erase_if(jobs_, [](const Held& held) { return held.job == nullptr; });
      listen(now);
      claim_jobs();
      reap(now);
      if (done(now)) break;
      wait();
    }
    log_.info("agent {}: ends after {} jobs", options_.name, finished_);
    return finished_;
  }

 private:
  struct Held {
    std::unique_ptr<AgentJob> job;
    bool has_slots = true;
    double look_since = 0;  // the machine is looked at then or later, before the job starts or its failure is believed
    bool looking = false;   // waits for that
    double deserted_at = kNever;
    bool judged = false;   // its end
    bool left = false;     // its lease is not renewed any more
    bool storing = false;  // its result waits for the artifact store
  };

  void look_at_hosts() {
    if (!hosts_) return;
    auto silent = hosts_->news();
    if (!silent) return;
    all_silent_ = silent->size() == options_.hosts.size();
    slots_.set_silent(*std::move(silent));
    next_claim_ = world_.steady_seconds();
  }

  /// Why nothing is claimed; empty: nothing is wrong.
  std::string trouble() const { return all_silent_ ? "none of its hosts answers" : health_.trouble(); }

  /// Which hosts of a job went silent, in words; empty where none did. None: it is not known yet.
  std::optional<std::string> lost_hosts(const Held& held) {
    if (!hosts_) return "";
    const auto silent = hosts_->silent_since(std::min(held.look_since, held.deserted_at));
    if (!silent) return std::nullopt;
    std::string lost;
    for (const auto& host : held.job->slots().hosts)
      if (silent->contains(host.name)) lost += (lost.empty() ? "" : ", ") + host.name;
    if (lost.empty()) return "";
    return fmt::format("lost {}, which does not answer", lost);
  }

  /// A launcher may wait for a lost host long after the ranks that are left have ended: mpirun for minutes.
  void look_after_deserted(Held& held, double now) {
    if (!hosts_ || !held.job->deserted()) {
      if (held.job->connected()) held.deserted_at = kNever;
      return;
    }
    held.deserted_at = std::min(held.deserted_at, now);
    if (now - held.deserted_at < kDesertedGrace) return;
    if (const auto lost = lost_hosts(held); lost && !lost->empty())
      held.job->fail("its ranks are gone, and its launcher waits for a host that does not answer: killed");
  }

  void obey_stop_requests(double now) {
    const int count = stops_.load();
    if (count == obeyed_stops_) return;
    if (obeyed_stops_ == 0) {
      stopped_at_ = now;
      log_.info("agent {}: asked to end: claims no more, {} jobs are asked to stop", options_.name, running());
    }
    obeyed_stops_ = count;
    for (auto& held : jobs_) {
      held.job->request_stop(StopReason::drain, now);
      if (count > 1) held.job->kill();
    }
  }

  void obey_directives(double now) {
    for (const auto& [token, directive] : heartbeat_.take_directives()) {
      for (auto& held : jobs_) {
        if (held.job->lease().token == token) obey(*held.job, directive, now);
      }
    }
  }

  void obey(AgentJob& job, Directive directive, double now) {
    if (directive == Directive::stop) job.request_stop(StopReason::early_stopping, now);
    if (directive == Directive::cancel) job.request_stop(StopReason::cancel, now);
    if (directive == Directive::lost) job.give_up();
  }

  void start_jobs() {
    for (auto& held : jobs_) {
      auto& job = *held.job;
      if (!job.starting()) continue;
      const double now = world_.steady_seconds();
      const auto seen = look(held, now);
      if (seen == NodeHealth::Answer::trouble) job.give_back(health_.trouble());
      if (seen == NodeHealth::Answer::well) with_queue(job, [&] { job.start(*queue_, proposer_); });
      if (!job.starting() && job.could_not_start())
        health_.could_not_start(job.lease().job, job.result().error, world_.steady_seconds());
    }
  }

  NodeHealth::Answer look(Held& held, double now) {
    const auto seen = health_.seen_since(held.look_since, now);
    held.looking = seen == NodeHealth::Answer::wait;
    return seen;
  }

  /// Whether the job's result may be written. A failure is not the job's where the machine is found in trouble after
  /// it.
  bool judge(Held& held) {
    if (held.judged) return true;
    auto& job = *held.job;
    const auto outcome = job.result().outcome;
    const double now = world_.steady_seconds();
    if (outcome == Outcome::failed || outcome == Outcome::error) {
      const auto seen = look(held, now);
      if (seen == NodeHealth::Answer::wait) return false;
      const auto lost = lost_hosts(held);
      held.looking = !lost;
      if (!lost) return false;
      if (!lost->empty()) job.give_back(*lost, job.result().error);
      if (seen == NodeHealth::Answer::trouble) job.give_back(health_.trouble());
    }
    held.judged = true;
    if (job.result().outcome == outcome && !job.could_not_start()) health_.ended(job.lease(), job.result(), now);
    return true;
  }

  /// Reports, then the result: the log and the checkpoint are there before the job has ended.
  void forward(Held& held) {
    auto& job = *held.job;
    while (!job.silent()) {
      const auto* report = job.next_report(world_.steady_seconds());
      if (report == nullptr) break;
      auto directive = Directive::proceed;
      if (!with_queue(job, [&] { directive = queue_->report(job.lease(), *report); })) break;
      job.reported(world_.steady_seconds());
      obey(job, directive, world_.steady_seconds());
    }
    if (!job.ended()) return;
    if (std::exchange(held.has_slots, false)) {
      held.look_since = world_.steady_seconds();
      slots_.give_back(job.slots());
      // At once, but for a job that came back by itself: claimed again and again it would keep the agent busy.
      const bool came_back = job.result().outcome == Outcome::preempted;
      next_claim_ = world_.steady_seconds() + (came_back ? kClaimInterval : 0);
      claim_pause_ = kClaimSoon;  // its retry may be due in a moment
    }
    held.storing = !job.silent() && obeyed_stops_ < 2 && !job.stored();
    if (!job.silent() && judge(held) && !job.has_news() && !held.storing) finish(job);
    if (!job.silent()) return;
    if (courier_) courier_->forget(job.lease());
    heartbeat_.release(job.lease());
    held.job.reset();
  }

  /// A process that waits for storage which hangs outlives SIGKILL. Its job must not wait with it.
  void leave_if_unkillable(Held& held, double now) {
    const auto& job = *held.job;
    if (held.left || now - job.killed_at() < std::chrono::duration<double>(options_.lease_term).count()) return;
    held.left = true;
    heartbeat_.release(job.lease());
    log_.error("job {}: killed, and yet it does not end: its lease is left to run out, its CPUs and GPUs stay taken",
               job.lease().job);
  }

  /// Writes the result; where the free slot may take a job at once, claims it in the same call.
  void finish(AgentJob& job) {
    const auto& result = job.result();
    const double now = world_.steady_seconds();
    const bool claims = now >= next_claim_with_result_ && wants_jobs(now) && health_.may_claim(now);
    with_queue(job, [&] {
      FinishedAndNext done;
      bool claimed = claims;
      const auto end = [&] { return queue_->finish(job.lease(), result, world_.random_fraction()); };
      if (!claims) {
        done.finished = end();
      } else {
        const auto request = next_claim();
        try {
          done = queue_->finish_and_claim(job.lease(), result, world_.random_fraction(), request);
          claim_token_.clear();
        } catch (const RedisRefused&) {
          done.finished = end();  // if it was the claim, that must not cost the result
          claimed = false;
          next_claim_with_result_ = now + kRefusedInterval * (0.75 + world_.random_fraction() / 2);
        }
      }
      if (!done.finished) {
        log_.warn("job {}: its lease was lost; the result was refused", job.lease().job);
      } else if (result.outcome != Outcome::preempted && result.outcome != Outcome::error) {
        ++finished_;
      }
      job.mark_recorded();
      if (done.next) {
        accept(*done.next);
      } else if (claimed && !options_.until_empty) {
        rest(true);
      }
    });
  }

  /// Keeps the connection over which the queue tells when jobs come to wait. Without it the agent asks more often.
  void listen(double now) {
    try {
      if (wake_ups_ && wake_ups_->take())
        next_claim_ = std::min(next_claim_, now + kClaimSpread * world_.random_fraction());
      if (wake_ups_ || now < next_listen_ || !link_.open(now)) return;
      next_listen_ = now + kListenInterval * (0.75 + world_.random_fraction() / 2);
      wake_ups_ = listener_->wake_ups();
      if (!wake_ups_) next_listen_ = kNever;
      may_listen_ = true;
    } catch (const RedisUnavailable&) {
      wake_ups_.reset();  // claiming says what there is to say
    } catch (const RedisRefused& error) {
      if (std::exchange(may_listen_, false))
        log_.info("agent {}: asks for jobs every {:g} s, since it may not be told: {}", options_.name, kClaimInterval,
                  error.what());
      next_listen_ = now + kRefusedInterval * (0.75 + world_.random_fraction() / 2);
    }
    next_claim_ = now;  // for what came before the queue listened, or after it did no more
  }

  void claim_jobs() {
    if (!accepted_.empty()) begin_accepted();
    if (obeyed_stops_ > 0) {
      // A claim whose answer was lost may have given us a job, which would wait for the end of its lease.
      if (!claim_token_.empty() && link_.open(world_.steady_seconds())) claim_one();
      return;
    }
    drained_ = false;
    while (wants_jobs(world_.steady_seconds()) && link_.open(world_.steady_seconds()) && stops_.load() == 0) {
      // A claim without an answer may have given us a job, which is given back.
      const bool may_claim = !claim_token_.empty() || health_.may_claim(world_.steady_seconds());
      if (!may_claim && health_.trouble().empty()) break;  // the first look goes on, and wakes this loop
      if (may_claim && claim_one()) continue;
      if (!may_claim) look_after_suspects();
      if (!may_claim) see_whether_others_are_done();
      rest(may_claim);
    }
  }

  /// Whether it is time for a claim, and there is room for a job.
  bool wants_jobs(double now) const {
    const auto most = options_.max_jobs > 0 ? options_.max_jobs : INT64_MAX;
    return obeyed_stops_ == 0 && now >= next_claim_ && slots_.free_cpus() > 0 && running() < most;
  }

  /// Sets the time of the next claim, after one that found nothing.
  void rest(bool may_claim) {
    const bool told = may_claim && wake_ups_ && !options_.until_empty;
    const double pause = std::exchange(claim_pause_, told ? kClaimIntervalTold : kClaimInterval);
    next_claim_ = world_.steady_seconds() + pause * (0.75 + world_.random_fraction() / 2);
  }

  ClaimRequest next_claim() {
    if (claim_token_.empty()) claim_token_ = world_.random_hex(32);
    return {options_.name,      claim_token_,        slots_.free_cpus(),
            slots_.free_gpus(), options_.lease_term, slots_.free_of_hosts()};
  }

  bool claim_one() {
    const auto request = next_claim();
    const auto claim = [&] {
      const auto lease = queue_->claim(request);
      claim_token_.clear();
      if (lease)
        accept(*lease);
      else if (jobs_.empty())
        look_for_an_end();
    };
    reach_queue_or_pause(claim);
    const bool got_one = !accepted_.empty();
    if (got_one) begin_accepted();
    return got_one;
  }

  /// Takes slots for a lease; the job starts in begin_accepted. Without room, or while this agent ends, it is given
  /// back.
  void accept(const Lease& lease) {
    auto slots = slots_.take(lease.resources());
    if (!slots || obeyed_stops_ > 0) {
      if (slots) slots_.give_back(*slots);
      queue_->finish(lease, {.outcome = Outcome::preempted}, world_.random_fraction());
      return;
    }
    heartbeat_.hold(lease);
    const double now = world_.steady_seconds();
    health_.claimed(lease.job, now);
    accepted_.push_back({.job = std::make_unique<AgentJob>(lease, *slots, options_, courier_.get(), world_, log_),
                         .look_since = now - NodeHealth::kFresh});
  }

  void begin_accepted() {
    for (auto& held : accepted_) jobs_.push_back(std::move(held));
    accepted_.clear();
    start_jobs();
  }

  /// Whether jobs that failed here, so that it claims nothing, have failed elsewhere since.
  void look_after_suspects() {
    const auto suspects = health_.suspects();
    if (suspects.empty()) return;
    reach_queue_or_pause([&] {
      for (const auto& job : suspects) {
        if (const auto record = queue_->find(job)) health_.heard_of(job, record->failures);
      }
    });
  }

  /// While this agent claims nothing.
  void see_whether_others_are_done() {
    if (!jobs_.empty() || !options_.until_empty) return;
    reach_queue_or_pause([&] { look_for_an_end(); });
  }

  /// Called when there is nothing to claim and nothing to do. Decides whether the agent is done (until_empty), and
  /// warns about jobs that can never fit.
  void look_for_an_end() {
    // Before the look at what waits: a job that comes to wait in between is then seen there.
    const bool quiet = options_.until_empty &&
                       queue_->none_in({JobState::blocked, JobState::delayed, JobState::held, JobState::active});
    const auto demands = queue_->waiting();
    int64_t too_large = 0, all = 0;
    Demand example;
    for (const auto& [demand, jobs] : demands) {
      all += jobs;
      if (demand.cpus <= options_.cpus && demand.gpus <= static_cast<int64_t>(options_.gpus.size())) continue;
      too_large += jobs;
      example = demand;
    }
    if (too_large > 0 && !told_too_large_) {
      log_.warn(
          "agent {}: {} jobs that wait need more than this agent has, {} CPUs and {} GPUs for one of them: see "
          "--cpus and --gpus",
          options_.name, too_large, example.cpus, example.gpus);
    }
    told_too_large_ = too_large > 0;
    drained_ = quiet && too_large == all;
  }

  void reap(double now) {
    if (now < next_reap_ || !link_.open(now) || obeyed_stops_ > 0) return;
    if (health_.looks_first()) return;  // the first call is a claim: where Redis refuses that, the agent ends
    // All agents together reap about every three seconds.
    const double interval =
        std::min(kReapInterval * static_cast<double>(std::max<int64_t>(agents_, 1)), kLongestReapInterval);
    next_reap_ = now + interval * (0.75 + world_.random_fraction() / 2);
    try {
      reach_queue([&] {
        for (int i = 0; i < kReapBatches; ++i) {
          const auto counts = queue_->reap();
          agents_ = counts.agents;
          if (!counts.more) break;
          heartbeat_.tick(running(), trouble());
        }
        if (now >= next_warning_) {
          next_warning_ = now + kWarningInterval;
          if (const auto warning = queue_->warning(); !warning.empty())
            log_.warn("agent {}: {}", options_.name, warning);
        }
      });
      may_reap_ = true;
    } catch (const JobsError& error) {
      if (std::exchange(may_reap_, false))
        log_.error("agent {}: lost leases are left to other agents meanwhile: {}", options_.name, error.what());
      next_reap_ = now + kRefusedInterval * (0.75 + world_.random_fraction() / 2);
    }
  }

  bool done(double now) {
    if (drained_) return jobs_.empty();
    if (obeyed_stops_ == 0) return false;
    if (jobs_.empty()) return claim_token_.empty() || link_.down();
    const bool all_ended = running() == 0;
    const bool late = obeyed_stops_ > 1 || now - stopped_at_ > options_.drain_seconds;
    if (!all_ended || !late || !link_.down()) return false;
    log_.error("agent {}: Redis is away, and {} results could not be written: these jobs will run again", options_.name,
               jobs_.size());
    return true;
  }

  /// When there is something to do although nothing became readable.
  double next_turn(double now) const {
    double next = now + std::chrono::duration<double>(options_.lease_term).count() / 4;  // the heartbeat hears from us
    const auto calls_at = [&](double time) { next = std::min(next, std::max(time, link_.next())); };
    next = std::min(next, health_.next_turn());
    for (const auto& held : jobs_) {
      next = std::min(next, held.job->next_timer());
      if (hosts_ && held.job->deserted() && now - held.deserted_at < kDesertedGrace)
        next = std::min(next, held.deserted_at + kDesertedGrace);
      if (!held.looking && !(held.storing && !held.job->has_news())) calls_at(held.job->next_call());
    }
    if (courier_) next = std::min(next, courier_->next_turn());
    const bool late_soon = obeyed_stops_ > 0 && now - stopped_at_ <= options_.drain_seconds;
    if (late_soon) next = std::min(next, stopped_at_ + options_.drain_seconds);
    if (obeyed_stops_ > 0 && !claim_token_.empty()) calls_at(0);
    if (obeyed_stops_ > 0) return next;
    const bool room = options_.max_jobs <= 0 || running() < options_.max_jobs;
    if (room && slots_.free_cpus() > 0 && !health_.looks_first()) calls_at(next_claim_);
    if (!health_.looks_first()) calls_at(next_reap_);
    if (!wake_ups_) calls_at(next_listen_);
    return next;
  }

  void wait() {
    std::vector<pollfd> descriptors;
    for (const auto& held : jobs_) held.job->add_descriptors(descriptors);
    if (wake_ups_ && wake_ups_->descriptor() >= 0) descriptors.push_back({wake_ups_->descriptor(), POLLIN, 0});
    const double now = world_.steady_seconds();
    waiter_.wait(descriptors, std::max(next_turn(now) - now, kShortestWait));
  }

  int64_t running() const {
    const auto runs = [](const Held& held) { return held.job && !held.job->ended(); };
    return std::count_if(jobs_.begin(), jobs_.end(), runs) + static_cast<int64_t>(accepted_.size());
  }

  /// Calls the queue; false where Redis is away, or refuses for now what it took before: passwords are being changed.
  template <class Call>
  bool reach_queue(const Call& call) {
    try {
      call();
      link_.worked(world_.steady_seconds());
      reached_ = true;
      return true;
    } catch (const RedisUnavailable& error) {
      link_.failed(error.what(), world_.steady_seconds());
    } catch (const RedisDenied& error) {
      if (!reached_) throw;
      link_.failed(error.what(), world_.steady_seconds());
    }
    return false;
  }

  /// Calls the queue for no job in particular. Where the very first call is refused, the agent ends; a later refusal
  /// must not cost the jobs that run.
  template <class Call>
  void reach_queue_or_pause(const Call& call) {
    try {
      reach_queue(call);
    } catch (const JobsError& error) {
      if (!reached_) throw;
      link_.failed(error.what(), world_.steady_seconds());
    }
  }

  /// Calls the queue for a job; false also where its call was refused, which ends its attempt here.
  template <class Call>
  bool with_queue(AgentJob& job, const Call& call) {
    if (!link_.open(world_.steady_seconds())) return false;
    try {
      return reach_queue(call);
    } catch (const std::exception& error) {
      log_.error("job {}: {}", job.lease().job, error.what());
      job.give_up();
    }
    return false;
  }

  const AgentOptions& options_;
  const Proposer& proposer_;
  Slots slots_;
  const std::atomic<int>& stops_;
  Waiter& waiter_;
  World& world_;
  spdlog::logger& log_;
  std::shared_ptr<JobQueue> queue_, listener_;  // each with a connection of its own
  std::unique_ptr<WakeUps> wake_ups_;
  Link link_;
  Heartbeat heartbeat_;
  std::unique_ptr<ArtifactCourier> courier_;  // null: there is no artifact store
  std::unique_ptr<HostWatch> hosts_;          // null: jobs run on this host alone
  bool all_silent_ = false;                   // these hosts
  NodeHealth health_;
  std::vector<Held> jobs_, accepted_;  // accepted_: came with the result of another one, and join jobs_ in this turn
  std::string claim_token_;            // of a claim without an answer; empty: none is open
  bool drained_ = false, told_too_large_ = false, reached_ = false;
  bool may_listen_ = true, may_reap_ = true;  // until Redis refuses it, which is said once
  int obeyed_stops_ = 0;
  double claim_pause_ = 1;             // seconds, after a claim that found nothing
  double next_claim_with_result_ = 0;  // both in one call, after Redis refused that
  double next_claim_ = 0, next_reap_ = 0, next_listen_ = 0, next_warning_ = 0, stopped_at_ = 0;
  int64_t finished_ = 0, agents_ = 1;  // agents: that live, as far as the queue knows
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
