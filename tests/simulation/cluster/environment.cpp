#include "tests/simulation/cluster/environment.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace foretime::simulation {
namespace {

std::shared_ptr<spdlog::sinks::sink> make_sink(bool trace) {
  if (trace) return std::make_shared<spdlog::sinks::stderr_sink_st>();
  return std::make_shared<spdlog::sinks::null_sink_st>();
}

}  // namespace

Environment::Environment(const ClusterOptions& options)
    : options(options),
      scheduler(options.seed),
      redis(scheduler, scheduler.chance(options.directed ? 0.25 : 0.5)),  // what forgets nothing has fewer dangers
      log("simulation", make_sink(options.trace)) {
  log.set_level(options.trace ? spdlog::level::info : spdlog::level::off);
}

void Environment::trace(const std::string& what) {
  if (options.trace) fmt::print(stderr, "{:12.3f} {}\n", static_cast<double>(scheduler.now()) / kSecond, what);
}

void Environment::fail(const std::string& what) {
  report.broken.push_back(fmt::format("at {:.3f} s: {}", static_cast<double>(scheduler.now()) / kSecond, what));
  trace("BROKEN: " + what);
  throw Broken();
}

void Environment::thaw(int64_t node) {
  while (frozen_until[node] > scheduler.now()) scheduler.sleep_until(frozen_until[node]);
}

void Environment::wait_up_to(double seconds) {
  scheduler.sleep_until(scheduler.now() + static_cast<Time>(scheduler.fraction() * seconds * kSecond));
}

void Environment::disturbed(double seconds) {
  calm_since = std::max(calm_since, scheduler.now() + static_cast<Time>(seconds * kSecond));
}

}  // namespace foretime::simulation
