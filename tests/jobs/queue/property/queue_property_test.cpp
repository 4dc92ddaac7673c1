#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "jobs/error.h"
#include "tests/jobs/queue/queue_backends.h"

/// Random interleavings of everything that agents and users do, done to Redis and to the reference in memory, which
/// must answer alike and hold the same after each step. rapidcheck reads RC_PARAMS: "max_success=5000 max_size=400" for
/// an hour of it, "seed=…" to repeat one.
namespace foretime::jobs {
namespace {

/// What is drawn: which call, and three numbers that choose among jobs, leases, agents and values.
using Command = std::array<int, 4>;

/// A queue with one agent's memory of the leases it ever got.
class Driver {
 public:
  explicit Driver(Backend& backend) : backend_(backend) {}

  /// Does one command and says what came of it.
  std::string run(const Command& command) {
    try {
      return act(command);
    } catch (const JobRefused& error) {
      return std::string("refused: ") + error.what();
    }
  }

 private:
  static std::string job(int x) { return fmt::format("j{}", x % 9); }
  static std::string sweep(int x) { return fmt::format("s{}", x % 2); }

  std::string act(const Command& command) {
    auto& queue = backend_.queue();
    const auto [what, x, y, z] = command;
    switch (what) {
      case 0: return create(x, y);
      case 1:
      case 2:
      case 3: return fmt::format("submit {}", queue.submit(spec(x, y, z)));
      case 4:
      case 5:
      case 6:
      case 7: return claim(x, y, z);
      case 8: return directive(leases_.empty() ? Directive::lost : queue.renew(lease(x), Milliseconds(1000 + y * 97)));
      case 9:
      case 10: return directive(leases_.empty() ? Directive::lost : queue.report(lease(x), report(y, z)));
      case 11:
      case 12:
      case 13:
      case 14: return finish(x, y, z);
      case 15: return fmt::format("cancel {}", static_cast<int>(queue.cancel(job(x))));
      case 16: return fmt::format("cancel sweep {}", y % 15 == 0 ? queue.cancel_sweep(sweep(x)) : -1);
      case 17: queue.retry(job(x)); return "retried";
      case 18: queue.set_priority(job(x), y % 7 - 3); return "priority";
      case 19: queue.pause(y % 20 == 0 ? "" : sweep(x)); return "paused";
      case 20:
      case 21: queue.resume(y % 3 == 0 ? "" : sweep(x)); return "resumed";
      case 22:
        backend_.advance(9000 + y * 100);  // past most leases
        [[fallthrough]];
      case 23: return reap();
      case 24: return propose(x, z);
      case 25:
        queue.heartbeat_agent({fmt::format("agent{}", x % 3), "host", "1", x, y, z, 1, y % 5 == 0, "", z % 2 == 0});
        return "";
      case 26:
      case 27: return finish_and_claim(x, y, z);
      case 30:
      case 31: return keep(x, y, z);
      case 32:
        if (!leases_.empty())
          queue.note_trouble_of_artifacts(lease(x), y % 2 == 0 ? "the store is away" : "it is full");
        return "trouble";
      default: backend_.advance(step(x, y)); return "time";
    }
  }

  /// Mostly moments, now and then past a lease, a retry, and rarely a month.
  static int64_t step(int x, int y) {
    if (x % 10 < 5) return y;
    if (x % 10 < 8) return 1000 + y * 50;
    if (x % 10 < 9) return 12'000 + y * 100;
    return y % 3 == 0 ? -1000 * y : 90'000'000;  // a clock that is set back, or far ahead
  }

  std::string create(int x, int y) {
    SweepSpec spec{.id = sweep(x),
                   .name = "sweep",
                   .method = y % 5 == 0 ? "bayes" : "random",
                   .metric = "opa",
                   .maximize = x % 2 == 0,
                   .trials = 4};
    if (y % 3 != 0) spec.halving = {{1, 3, 9}, y % 2 == 0 ? 3.0 : 2.0};
    return fmt::format("created {}", backend_.queue().create_sweep(spec));
  }

  JobSpec spec(int x, int y, int z) const {
    auto spec = job_named(job(x));
    spec.maximize = y % 2 == 0;
    if (z % 3 != 0) {
      spec.sweep = sweep(y);
      spec.maximize = y % 2 == 0;
      spec.trial = x % 9;
      spec.deferred = z % 4 == 0;
    }
    // Later ids need earlier ones, as a program that submits would have it.
    if (x % 9 > 0 && y % 3 == 0) spec.after.push_back(job(z % (x % 9)));
    if (x % 9 > 1 && y % 6 == 0 && job(x % 9 - 1) != spec.after.front()) spec.after.push_back(job(x % 9 - 1));
    spec.resources = {1 + z % 2, 1 + y % 2, z % 5 == 0 ? 1 : 0};
    if (z % 7 > 3) spec.resources.most_ranks = spec.resources.ranks + 1 + y % 4;
    spec.priority = y % 5 - 2;
    spec.max_attempts = 1 + z % 3;
    if (x % 3 == 0) spec.program = y % 2 == 0 ? "0a" : "0b";
    return spec;
  }

  std::string claim(int x, int y, int z) { return leased(backend_.queue().claim(request(x, y, z))); }

  ClaimRequest request(int x, int y, int z) {
    // Some repeat an earlier token, as after a lost answer.
    const auto token = fmt::format("t{}", z % 6 == 0 && claims_ > 0 ? y % claims_ : claims_);
    ++claims_;
    ClaimRequest request{fmt::format("agent{}", x % 3), token, 1 + y % 5, z % 3, Milliseconds(2000 + (x % 4) * 4000)};
    if (z % 4 == 3) {
      request.free_of_hosts = {y % 4, x % 3, 1};
      request.free_cpus = y % 4 + x % 3 + 1;
    }
    request.runs_programs = y % 4 != 0;
    if (x % 5 == 0) request.lacking_programs = {z % 2 == 0 ? "0a" : "0b"};
    return request;
  }

  std::string leased(const std::optional<Lease>& lease) {
    if (!lease) return "nothing to claim";
    leases_.push_back(*lease);
    return fmt::format("{} {} {} {} {} {} {} {} {} {}", lease->history, lease->ranks, lease->job, lease->fence,
                       lease->token, lease->attempt, lease->deadline_ms, lease->agent, lease->checkpoint,
                       spec_fields_text(lease->spec));
  }

  static std::string spec_fields_text(const JobSpec& spec) {
    std::string text = spec.id;
    for (const auto& [key, value] : spec.parameters) text += key + value;
    for (const auto& id : spec.after) text += id;
    return text + spec.settings + std::to_string(spec.priority) + spec.sweep + std::to_string(spec.trial);
  }

  /// Mostly one of the newest, also those that were lost long ago.
  const Lease& lease(int x) const {
    const auto n = static_cast<int>(leases_.size());
    const auto index = x % 4 == 0 ? x % n : n - 1 - x % std::min(n, 3);
    return leases_[static_cast<size_t>(index)];
  }

  static JobReport report(int y, int z) {
    JobReport report{.step = y, .total_steps = 100, .eta_seconds = z % 3 == 0 ? -1 : 0.25 * z, .loss = {}};
    if (y % 4 != 3) report.loss = 1.0 / (1 + y);
    if (z % 4 != 0) {
      report.iteration = z % 11;
      report.objective = z % 13 == 0 ? std::numeric_limits<double>::quiet_NaN() : (y % 10) / 7.0;
      report.metrics = {{"opa", y / 3.0}, {"loss", std::numeric_limits<double>::infinity()}};
    }
    if (y % 3 == 0) report.checkpoint = fmt::format("runs/a/{}", y);
    if (y % 5 == 0) report.history = fmt::format("loss {} {}\n", y, std::string(static_cast<size_t>(z) * 40, 'A'));
    for (int i = 0; i < z % 3; ++i) report.log_lines.push_back(fmt::format("line {} of {}", i, y));
    if (y % 29 == 28) report.log_lines.resize(230, "many");
    return report;
  }

  std::string finish(int x, int y, int z) {
    if (leases_.empty()) return "nothing to finish";
    const auto result = result_of(y, z);
    const bool first = backend_.queue().finish(lease(x), result, z / 100.0);
    const bool again = z % 3 == 0 ? backend_.queue().finish(lease(x), result, z / 100.0) : first;
    return fmt::format("finished {} {}", first, again);
  }

  std::string finish_and_claim(int x, int y, int z) {
    if (leases_.empty()) return "nothing to finish";
    const auto old = lease(x);
    const auto next = request(y, z, x);
    const auto both = [&] {
      const auto done = backend_.queue().finish_and_claim(old, result_of(y, z), z / 100.0, next);
      return fmt::format("finished {}, {}", done.finished, leased(done.next));
    };
    const auto first = both();
    return z % 3 == 0 ? first + "; again: " + both() : first;
  }

  static JobResult result_of(int y, int z) {
    JobResult result;
    static constexpr std::array<Outcome, 8> kOutcomes = {Outcome::succeeded, Outcome::error,     Outcome::stopped,
                                                         Outcome::cancelled, Outcome::preempted, Outcome::failed,
                                                         Outcome::error,     Outcome::succeeded};
    result.outcome = kOutcomes[static_cast<size_t>(y % 8)];
    result.seconds = 0.1 * z;
    result.unasked = result.outcome == Outcome::preempted && z % 4 != 0;
    if (z % 2 == 0) result.objective = z / 9.0;
    if (z % 5 == 0) result.metrics = {{"opa", z / 9.0}};
    if (z % 7 == 0) result.checkpoint = fmt::format("runs/end/{}", z);
    if (z % 4 == 0) result.history = fmt::format("loss {} AAAA\n", z);
    if (result.outcome == Outcome::error || result.outcome == Outcome::failed) result.error = "signal 9";
    result.exit_code = result.error.empty() ? 0 : 137;
    return result;
  }

  std::string propose(int x, int z) {
    if (leases_.empty()) return "nothing to propose";
    const Parameters parameters = {{"optimizer.learning_rate", std::to_string(z % 3)}};
    return fmt::format("proposed {}", backend_.queue().propose(lease(x), parameters));
  }

  /// An artifact in Redis or elsewhere, which may be kept twice, as after a lost answer.
  std::string keep(int x, int y, int z) {
    if (leases_.empty()) return "nothing to keep";
    const auto& held = lease(x);
    const bool here = y % 2 == 0;
    const auto bytes = static_cast<uint64_t>(40 * (1 + z % 4));
    const Artifact artifact{.name = fmt::format("{}-{}/{}{}", held.fence, held.token, here ? "r" : "f", z % 4),
                            .store = here ? kRedisStore : fmt::format("folder:/{}", y % 3),
                            .path = "checkpoint",
                            .step = z,
                            .files = {{"checkpoint/model", {bytes, std::string(64, 'a')}}}};
    static const std::array<std::vector<std::string>, 4> kRoles = {{{"last"}, {"last", "best"}, {"best"}, {"run"}}};
    const auto& roles = kRoles[static_cast<size_t>(y / 2 % 4)];
    const auto room = backend_.queue().may_store(held, artifact, roles);
    auto* redis = dynamic_cast<RedisBackend*>(&backend_);
    const auto part = redis == nullptr
                          ? ""
                          : redis->key(redis_part_keys(held.job + "/" + artifact.name + "/checkpoint/model", bytes)[0]);
    if (redis != nullptr && here && room.answer == KeptArtifact::Answer::kept) redis->client().call({"SET", part, "x"});
    if (room.answer != KeptArtifact::Answer::kept)
      return fmt::format("no room {} {} {}", static_cast<int>(room.answer), room.used, room.quota);
    auto kept = backend_.queue().keep(held, artifact, roles, y % 7 == 0);
    // What has no role in the end would expire.
    if (redis != nullptr && here &&
        text_of(*redis->client().call({"HGET", redis->key("job:" + held.job + ":artifacts"), "of:" + artifact.name}))
            .empty())
      redis->client().call({"DEL", part});
    std::sort(kept.dropped.begin(), kept.dropped.end());
    return fmt::format("kept {} {}", static_cast<int>(kept.answer), fmt::join(kept.dropped, " "));
  }

  std::string reap() {
    const auto counts = backend_.queue().reap();
    return fmt::format("reaped {} {} {} {} {} {}", counts.lost_leases, counts.orphans, counts.promoted, counts.released,
                       counts.expired, counts.more);
  }

  static std::string directive(Directive value) { return fmt::format("directive {}", static_cast<int>(value)); }

  Backend& backend_;
  std::vector<Lease> leases_;
  int claims_ = 0;
};

/// New events since the last look, whatever the order in which one call wrote them.
std::vector<MemoryQueue::Event> fresh(const std::vector<MemoryQueue::Event>& all, size_t seen) {
  std::vector<MemoryQueue::Event> some(all.begin() + static_cast<std::ptrdiff_t>(std::min(seen, all.size())),
                                       all.end());
  std::sort(some.begin(), some.end());
  return some;
}

void same_as_twin(const std::vector<Command>& commands) {
  QueueSettings settings{.backoff_base = Milliseconds(500),
                         .backoff_cap = Milliseconds(3000),
                         .loss_backoff_cap = Milliseconds(3000),
                         .keep_finished = Milliseconds(90'000),
                         .keep_jobs = 5,
                         .most_losses = 3,
                         .most_preemptions = 2,
                         .artifact_bytes = 300};
  RedisBackend redis(shared_server().url(), fresh_settings(settings));
  MemoryBackend memory(settings);
  Driver real(redis), reference(memory);
  size_t seen = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    const auto where = fmt::format("command {}: {}", i, fmt::join(commands[i], " "));
    const auto expected = reference.run(commands[i]);
    const auto found = real.run(commands[i]);
    if (expected != found) RC_FAIL(where + "\nexpected: " + expected + "\nfound:    " + found);
    const auto dump = redis.dump();
    const auto differs = difference(memory.dump(), dump);
    if (!differs.empty()) RC_FAIL(where + " (" + expected + ")\n" + differs);
    const auto events = redis.events();
    if (fresh(events, seen) != fresh(memory.events(), seen)) RC_FAIL(where + ": other events");
    seen = events.size();
    const auto broken = broken_invariants(dump, events);
    if (!broken.empty()) RC_FAIL(where + ": " + broken.front());
    for (int id = 0; id < 9; ++id) {
      const auto name = fmt::format("j{}", id);
      const auto a = memory.queue().find(name), b = redis.queue().find(name);
      RC_ASSERT(a.has_value() == b.has_value());
      if (a) RC_ASSERT(a->state == b->state && a->spec.parameters == b->spec.parameters && a->metrics == b->metrics);
    }
  }
  redis.client().call({"FLUSHALL"});
}

TEST(QueueProperty, RedisDoesWhatTheTwinDoes) {
  const auto number = [](int end) { return rc::gen::resize(100, rc::gen::inRange(0, end)); };
  const auto one = rc::gen::map(rc::gen::tuple(number(33), number(90), number(90), number(90)), [](const auto& t) {
    return Command{std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t)};
  });
  const bool holds = rc::check("Redis does what the reference implementation does", [&] {
    // The start that makes the rest matter: two sweeps and a few jobs.
    std::vector<Command> commands = {{0, 0, 1, 0}, {0, 1, 1, 0}, {1, 0, 1, 1}, {1, 1, 3, 0}, {1, 2, 6, 4}};
    const auto drawn = *rc::gen::scale(2.5, rc::gen::container<std::vector<Command>>(one));
    commands.insert(commands.end(), drawn.begin(), drawn.end());
    same_as_twin(commands);
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace foretime::jobs
