/// The queue's transitions a second beside what Redis can do for anybody: redis-benchmark with a Lua call that runs as
/// many commands, on the same server, with as many clients, in the same run. See bench/README.md.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "jobs/redis_queue.h"
#include "tests/support/redis_server.h"

namespace {

using namespace foretime::jobs;
using foretime::testing::RedisServer;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Worker {
  Worker(const RedisUrl& url, int number)
      : client(url, std::chrono::seconds(60)),
        queue(client, {}),
        number(number),
        name(fmt::format("bench:{}", number)) {}
  RedisClient client;
  RedisQueue queue;
  int number;
  std::string name;
  int64_t claims = 0;

  std::optional<Lease> claim() {
    ClaimRequest request;
    request.agent = name;
    request.token = fmt::format("bench-{}-{}", number, ++claims);
    return queue.claim(request);
  }
  void finish(const Lease& lease) {
    JobResult result;
    result.metrics = {{"kendall", 0.5}};
    result.objective = 0.5;
    queue.finish(lease, result, 0);
  }
};

JobSpec job(int64_t number) {
  JobSpec spec;
  spec.settings = "model: {hidden: 64, layers: 3}\noptimizer: {learning_rate: 0.001}\n";
  spec.parameters = {{"optimizer.learning_rate", std::to_string(number)}};
  spec.metric = "kendall";
  spec.id = job_id(spec);
  return spec;
}

/// Runs `body(thread)` on `threads` threads; seconds from the start of the first to the end of the last.
template <class Body>
double on_threads(int threads, Body&& body) {
  std::vector<std::thread> running;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto start = Clock::now();
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    });
  }
  for (auto& thread : running) thread.join();
  if (failure) std::rethrow_exception(failure);
  return seconds_since(start);
}

void submit_many(const RedisUrl& url, int64_t first, int64_t count) {
  constexpr int kThreads = 16;
  on_threads(kThreads, [&](int thread) {
    Worker worker(url, thread);
    for (int64_t i = thread; i < count; i += kThreads) worker.queue.submit(job(first + i));
  });
}

/// Calls of commands since the last CONFIG RESETSTAT: those of scripts, and of the scripts themselves.
std::pair<int64_t, int64_t> commands_and_scripts(RedisClient& client) {
  const auto info = text_of(*client.call({"INFO", "commandstats"}));
  int64_t commands = 0, scripts = 0;
  for (size_t at = info.find("cmdstat_"); at != std::string::npos; at = info.find("cmdstat_", at + 1)) {
    const auto name = info.substr(at + 8, info.find(':', at) - at - 8);
    const int64_t calls = std::atoll(info.c_str() + info.find("calls=", at) + 6);
    if (name == "eval" || name == "evalsha")
      scripts += calls;
    else if (name.find('|') == std::string::npos && name != "info")
      commands += calls;
  }
  return {commands, scripts};
}

/// Of each five commands two read, three write: a hash, a sorted set, as the queue's do.
constexpr const char* kPeer = R"(
local job, score = 'bench:' .. ARGV[1], tonumber(ARGV[1])
for i = 1, tonumber(ARGV[2]) do
  local kind = i % 5
  if kind == 0 then redis.call('HSET', job, 'state', 'active', 'updated_ms', '1700000000000')
  elseif kind == 1 then redis.call('HMGET', job, 'state', 'fence', 'token')
  elseif kind == 2 then redis.call('ZADD', 'bench:set', score, job)
  elseif kind == 3 then redis.call('HGET', job, 'fence')
  else redis.call('ZREM', 'bench:set', job) end
end
return {'ok'}
)";

/// Calls a second; 0 where redis-benchmark is missing.
double peer_rate(const RedisServer& server, RedisClient& client, int clients, int64_t commands, int64_t calls) {
  const auto sha1 = text_of(*client.call({"SCRIPT", "LOAD", kPeer}));
  const auto line =
      fmt::format("redis-benchmark -s '{}' -c {} -n {} -r 100000 --csv EVALSHA {} 0 __rand_int__ {} 2>/dev/null",
                  server.socket().string(), clients, calls, sha1, commands);
  FILE* pipe = popen(line.c_str(), "r");
  if (!pipe) return 0;
  std::string output;
  char buffer[4096];
  for (size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, got);
  pclose(pipe);
  // "EVALSHA …","12345.67","…": the second column of the last line.
  const auto start = output.rfind('\n', output.empty() ? 0 : output.size() - 2);
  const auto comma = output.find("\",\"", start == std::string::npos ? 0 : start);
  return comma == std::string::npos ? 0 : std::atof(output.c_str() + comma + 3);
}

/// One round of both sides on one server: transitions a second, commands in each, calls a second of the peer.
struct Round {
  double rate = 0, peer = 0;
  int64_t commands = 0;
};

Round one_round(const std::string& fsync, int clients, double seconds) {
  RedisServer::Options options;
  options.appendfsync = "no";  // while jobs are submitted
  RedisServer server(options);
  RedisClient client(server.url(), std::chrono::seconds(60));
  submit_many(server.url(), 0, static_cast<int64_t>(8000 * seconds));
  client.call({"CONFIG", "SET", "appendfsync", fsync});
  client.call({"CONFIG", "RESETSTAT"});
  std::atomic<int64_t> cycles = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const double took = on_threads(clients, [&](int thread) {
    Worker worker(server.url(), thread);
    while (Clock::now() < end) {
      const auto lease = worker.claim();
      if (!lease) throw std::runtime_error("the queue ran empty: more jobs must be submitted for so fast a machine");
      worker.queue.renew(*lease, std::chrono::seconds(30));
      worker.finish(*lease);
      ++cycles;
    }
  });
  Round round;
  round.rate = 3.0 * static_cast<double>(cycles) / took;
  const auto [commands, scripts] = commands_and_scripts(client);
  round.commands = scripts ? (commands + scripts / 2) / scripts : 0;
  round.peer = peer_rate(server, client, clients, round.commands, static_cast<int64_t>(round.rate * seconds) + 100);
  return round;
}

void throughput(double seconds) {
  constexpr int kRounds = 3;  // alternating, and the best of each side counts: other programs only slow things down
  std::cout << "claim + renew + finish, transitions a second\n"
            << fmt::format("{:>10} {:>8} {:>12} {:>10} {:>16} {:>7}\n", "fsync", "clients", "transitions", "commands",
                           "redis-benchmark", "ratio");
  for (const std::string fsync : {"always", "everysec"}) {
    for (const int clients : {1, 16, 64}) {
      Round best;
      for (int i = 0; i < kRounds; ++i) {
        const auto round = one_round(fsync, clients, seconds);
        best = {std::max(best.rate, round.rate), std::max(best.peer, round.peer), round.commands};
      }
      std::cout << fmt::format("{:>10} {:>8} {:>12.0f} {:>10} {:>16.0f} {:>7}\n", fsync, clients, best.rate,
                               best.commands, best.peer,
                               best.peer > 0 ? fmt::format("{:.2f}", best.rate / best.peer) : "-")
                << std::flush;
    }
  }
}

void depth(int64_t rounds) {
  std::cout << "\none client, appendfsync everysec, calls a second\n"
            << fmt::format("{:>10} {:>10} {:>10}\n", "waiting", "submit", "claim");
  for (const int64_t waiting : {int64_t{100}, int64_t{100000}}) {
    RedisServer::Options options;
    options.appendfsync = "everysec";
    RedisServer server(options);
    submit_many(server.url(), 0, waiting);
    Worker worker(server.url(), 0);
    double submitting = 0, claiming = 0;
    for (int64_t i = 0; i < rounds; ++i) {  // one in, one out: the depth stays
      const auto spec = job(waiting + i);
      auto start = Clock::now();
      worker.queue.submit(spec);
      submitting += seconds_since(start);
      start = Clock::now();
      const auto lease = worker.claim();
      claiming += seconds_since(start);
      worker.finish(*lease);
    }
    const auto count = static_cast<double>(rounds);
    std::cout << fmt::format("{:>10} {:>10.0f} {:>10.0f}\n", waiting, count / submitting, count / claiming)
              << std::flush;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (std::system("redis-server --version > /dev/null 2>&1") != 0) {
    std::cout << "skipped: redis-server is not installed (Debian: redis-server, and redis-tools for redis-benchmark)\n";
    return 0;
  }
  try {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 1.5;
    throughput(seconds > 0 ? seconds : 1.5);
    depth(4000);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
