// Transitions of the queue a second, beside what redis-benchmark gives for a Lua call of the same size on the same
// Redis, and what 100,000 waiting jobs cost. Starts a redis-server of its own on a Unix socket, prints Markdown tables.
// Exit code 77 where redis-server or redis-benchmark is missing.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "bench/bench.h"
#include "jobs/queue/redis_queue.h"
#include "jobs/redis/redis_client.h"
#include "tests/support/redis_server.h"

namespace foretime::bench {
namespace {

using jobs::integer_of;
using jobs::RedisClient;
using jobs::RedisQueue;
using jobs::text_of;
using jobs::texts_of;
using testing::RedisServer;
using Clock = std::chrono::steady_clock;

std::atomic<bool> interrupted{false};

constexpr int kRounds = 6;          // of each pair of measurements, one after the other
constexpr double kSeconds = 1;      // of each measurement
constexpr int kJobs = 15'000;       // waiting when a round begins; should they end early, so does the round
constexpr int kManyJobs = 100'000;  // for the second table
constexpr int kPeerKeys = 1000;

/// What a transition of ours does on average, as one script: as many commands, about as many bytes written to the
/// append-only file, taken as arguments and given back. The tables show both sides' counts, as Redis measured them.
constexpr const char* kPeerScript = R"lua(
local key, call = KEYS[1], redis.call
local time = call('TIME')
local now = time[1]
call('SET', '{peer}:alive', now)
local f = call('HMGET', key, 'state', 'fence', 'token', 'agent')
call('HMGET', key, 'sweep', 'goal', 'objective')
call('ZSCORE', '{peer}:leases', key)
call('EXISTS', '{peer}:paused')
call('GET', '{peer}:alive')
call('HSET', key, 'state', 'active', 'token', ARGV[1], 'agent', ARGV[2], 'updated_ms', now)
call('HSET', key, 'metrics', ARGV[3], 'attempt', '1', 'claimed_ms', now, 'term_ms', '60000', 'reason', '', 'error', '')
call('HMGET', key, 'failures', 'stop')
call('HINCRBY', '{peer}:totals', 'claimed', 1)
call('SET', '{peer}:token:' .. ARGV[1], key, 'PX', 60000)
call('ZCOUNT', '{peer}:leases', now, now)
call('ZADD', '{peer}:state', now, key)
call('ZADD', '{peer}:leases', now, key)
call('XADD', '{peer}:events', 'MAXLEN', '~', '10000', '*', 'event', 'claim', 'job', key, 'from', 'waiting', 'to',
     'active')
return {'ok', call('HGET', key, 'settings')}
)lua";

jobs::JobSpec job(const std::string& id) {
  jobs::JobSpec spec;
  spec.id = id;
  spec.name = "bench";
  spec.metric = "opa";
  spec.parameters = {{"optimizer.learning_rate", "0.001"}};
  // About as long as the resolved settings of a training job.
  while (spec.settings.size() < 2000) spec.settings += fmt::format("key_{}: {{value: 0.125}}\n", spec.settings.size());
  return spec;
}

/// What Redis has done so far.
struct Work {
  double commands = 0, aof = 0, network = 0;  // within scripts; bytes; bytes in and out
  double microseconds = 0;                    // that Redis spent in scripts
  Work operator-(const Work& other) const {
    return {commands - other.commands, aof - other.aof, network - other.network, microseconds - other.microseconds};
  }
};

Work work(RedisClient& client) {
  const auto info = text_of(*client.call({"INFO", "everything"}));
  const auto number = [&](const std::string& name) {
    const auto at = info.find("\n" + name + ":");
    return at == std::string::npos ? 0 : std::atof(info.c_str() + at + name.size() + 2);
  };
  Work done;
  done.aof = number("aof_current_size");
  done.network = number("total_net_input_bytes") + number("total_net_output_bytes");
  for (auto at = info.find("cmdstat_"); at != std::string::npos; at = info.find("cmdstat_", at + 1)) {
    const auto name = info.substr(at + 8, info.find(':', at) - at - 8);
    if (name == "evalsha" || name == "eval") {
      done.microseconds += std::atof(info.c_str() + info.find("usec=", at) + 5);
      continue;
    }
    done.commands += std::atof(info.c_str() + info.find("calls=", at) + 6);
  }
  return done;
}

struct Measured {
  double calls = 0, seconds = 0;
  Work work;
  double rate() const { return calls / seconds; }
};

/// `run(thread)` in many threads, all of which begin at once, each with a queue of its own.
template <class Run>
double in_threads(const RedisServer& server, int threads, const Run& run) {
  std::barrier gate(threads + 1);
  std::mutex mutex;
  std::string failure;
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] {
      RedisClient client(server.url(), std::chrono::seconds(60));
      RedisQueue queue(client, {});
      try {
        client.call({"PING"});
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        failure = error.what();
      }
      gate.arrive_and_wait();
      try {
        run(thread, queue);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        failure = error.what();
      }
    });
  }
  gate.arrive_and_wait();
  const auto start = Clock::now();
  for (auto& thread : all) thread.join();
  if (!failure.empty()) throw std::runtime_error(failure);
  if (interrupted) throw std::runtime_error("interrupted");
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Claims, renews and finishes jobs until the time is over.
Measured cycles(const RedisServer& server, RedisClient& client, int clients, int round) {
  std::atomic<int64_t> calls{0};
  const auto before = work(client);
  Measured measured;
  measured.seconds = in_threads(server, clients, [&](int thread, RedisQueue& queue) {
    const auto end = Clock::now() + std::chrono::duration<double>(kSeconds);
    jobs::JobResult result;
    result.metrics = {{"opa", 0.75}, {"tau", 0.5}};
    result.objective = 0.75;
    for (int i = 0; Clock::now() < end && !interrupted; ++i) {
      const auto token = fmt::format("token-{}-{}-{}-{}", clients, round, thread, i);
      const auto lease = queue.claim({fmt::format("agent{}", thread), token, 4, 0, std::chrono::seconds(60)});
      if (!lease) return;
      if (queue.renew(*lease, std::chrono::seconds(60)) != jobs::Directive::proceed || !queue.finish(*lease, result, 0))
        throw std::runtime_error("a lease was lost");
      calls += 3;
    }
  });
  measured.calls = static_cast<double>(calls);
  measured.work = work(client) - before;
  return measured;
}

/// As many connections of redis-benchmark, which calls the peer's script one by one on each.
Measured peer(const RedisServer& server, RedisClient& client, int clients, double expected_rate) {
  const auto sha = text_of(*client.call({"SCRIPT", "LOAD", kPeerScript}));
  const auto before = work(client);
  const int64_t calls = std::max<int64_t>(200, static_cast<int64_t>(expected_rate * kSeconds));
  const auto command = fmt::format(
      "{} -s '{}' -c {} -n {} -r {} --csv evalsha {} 1 '{{peer}}:job:__rand_int__' "
      "token-__rand_int__ agent-1 '{{\"opa\":0.75,\"tau\":0.5}}' {} 2>/dev/null",
      "redis-benchmark", server.socket().string(), clients, calls, kPeerKeys, sha, std::string(60, 'a'));
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("redis-benchmark could not be started");
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe)) output += buffer;
  const int status = pclose(pipe);
  // "name","requests a second",…; the name is the command as it was given, with quotes of its own.
  const auto line = output.find("\n\"evalsha");
  auto at = line == std::string::npos ? line : output.find("\",\"", line);
  if (status != 0 || at == std::string::npos)
    throw std::runtime_error("redis-benchmark failed: " + output.substr(0, 200));
  // Latencies follow: the rate is the first number that stands alone in quotes.
  Measured measured;
  measured.calls = static_cast<double>(calls);
  measured.seconds = measured.calls / std::atof(output.c_str() + at + 3);
  measured.work = work(client) - before;
  return measured;
}

void prepare(const RedisServer& server, RedisClient& client, int count, const std::string& name) {
  const auto appendfsync = texts_of(*client.call({"CONFIG", "GET", "appendfsync"})).at(1);
  client.call({"CONFIG", "SET", "appendfsync", "no"});
  constexpr int kThreads = 16;
  in_threads(server, kThreads, [&](int thread, RedisQueue& queue) {
    for (int i = thread; i < count && !interrupted; i += kThreads) queue.submit(job(fmt::format("{}{}", name, i)));
  });
  client.call({"CONFIG", "SET", "appendfsync", appendfsync});
}

RedisServer::Options options(const std::string& appendfsync) {
  return {true, appendfsync, {"auto-aof-rewrite-percentage 0"}};
}

std::string each(const Measured& ours, const Measured& theirs, double Work::*what) {
  return fmt::format("{:.0f} / {:.0f}", ours.work.*what / ours.calls, theirs.work.*what / theirs.calls);
}

/// Other programs on the machine only slow things down: the fastest round of each side counts.
void keep_best(Measured& best, const Measured& more) {
  if (best.calls == 0 || more.rate() > best.rate()) best = more;
}

void throughput() {
  fmt::print(
      "| appendfsync | clients | transitions/s | redis-benchmark, calls/s | ratio | commands | AOF bytes | network "
      "bytes | µs in Redis |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const auto* appendfsync : {"always", "everysec"}) {
    RedisServer server(options(appendfsync));
    RedisClient client(server.url(), std::chrono::seconds(60));
    for (int i = 0; i < kPeerKeys; ++i)
      client.call({"HSET", fmt::format("{{peer}}:job:{:012}", i), "settings", std::string(900, 's'), "sweep", "s",
                   "goal", "maximize", "objective", "0.5"});
    for (const int clients : {1, 16, 64}) {
      Measured ours, theirs;
      for (int round = 0; round < kRounds; ++round) {
        const auto left = integer_of(*client.call({"ZCARD", "{foretime}:state:waiting"}));
        prepare(server, client, kJobs - static_cast<int>(left), fmt::format("c{}r{}j", clients, round));
        keep_best(ours, cycles(server, client, clients, round));
        keep_best(theirs, peer(server, client, clients, ours.rate()));
      }
      fmt::print("| {} | {} | {:.0f} | {:.0f} | {:.2f} | {} | {} | {} | {} |\n", appendfsync, clients, ours.rate(),
                 theirs.rate(), ours.rate() / theirs.rate(), each(ours, theirs, &Work::commands),
                 each(ours, theirs, &Work::aof), each(ours, theirs, &Work::network),
                 each(ours, theirs, &Work::microseconds));
      std::fflush(stdout);
    }
  }
}

/// Seconds of so many submissions, and then of as many claims, which leave as many jobs waiting as before.
struct Cost {
  double submit = 1e9, claim = 1e9;
};
constexpr int kCalls = 400;

void measure(RedisQueue& queue, int round, Cost& best) {
  const auto seconds = [](const auto& call) {
    return seconds_of(wall_seconds, [&] {
      for (int i = 0; i < kCalls; ++i) call(i);
    });
  };
  std::vector<jobs::Lease> leases;
  best.submit = std::min(best.submit, seconds([&](int i) { queue.submit(job(fmt::format("r{}-{}", round, i))); }));
  best.claim = std::min(best.claim, seconds([&](int i) {
                          const auto token = fmt::format("r{}-{}", round, i);
                          leases.push_back(queue.claim({"agent", token, 4, 0, std::chrono::seconds(600)}).value());
                        }));
  for (const auto& lease : leases) queue.finish(lease, {}, 0);
  if (interrupted) throw std::runtime_error("interrupted");
}

void depth() {
  RedisServer few(options("everysec")), many(options("everysec"));
  RedisClient few_client(few.url(), std::chrono::seconds(60)), many_client(many.url(), std::chrono::seconds(60));
  prepare(few, few_client, 100, "job");
  prepare(many, many_client, kManyJobs, "job");
  RedisQueue few_queue(few_client, {}), many_queue(many_client, {});
  Cost with_few, with_many;
  for (int round = 0; round < 10; ++round) {
    measure(few_queue, round, with_few);
    measure(many_queue, round, with_many);
  }
  fmt::print("\n| appendfsync everysec, 1 client | 100 waiting | 100,000 waiting | ratio |\n|---|---|---|---|\n");
  const auto print = [](const char* name, double few_seconds, double many_seconds) {
    fmt::print("| {}/s | {:.0f} | {:.0f} | {:.2f} |\n", name, kCalls / few_seconds, kCalls / many_seconds,
               few_seconds / many_seconds);
  };
  print("submit", with_few.submit, with_many.submit);
  print("claim", with_few.claim, with_many.claim);
}

/// Says what is missing.
bool programs_are_there() {
  for (const auto* program : {"redis-server", "redis-benchmark"}) {
    if (std::system(fmt::format("command -v {} >/dev/null", program).c_str()) == 0) continue;
    fmt::print(stderr, "queue_bench: {} is not in PATH; Debian has it in redis-{}\n", program,
               std::string(program) == "redis-server" ? "server" : "tools");
    return false;
  }
  return true;
}

}  // namespace
}  // namespace foretime::bench

int main(int argc, char** argv) {
  using namespace foretime::bench;
  if (!programs_are_there()) return 77;
  return run(argc, argv, "", 0, 0, [] {
    std::signal(SIGINT, [](int) { interrupted = true; });
    std::signal(SIGTERM, [](int) { interrupted = true; });
    throughput();
    depth();
  });
}
