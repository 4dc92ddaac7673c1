#include "jobs/agent/agent.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "jobs/agent/agent_link.h"
#include "jobs/agent/agent_loop.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;

int64_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

fs::path real_folder(const char* what, const fs::path& path) {
  std::error_code failure;
  auto real = fs::canonical(path, failure);
  if (!failure && !fs::is_directory(real, failure)) failure = std::make_error_code(std::errc::not_a_directory);
  if (failure) throw JobsError(fmt::format("agent: {} {}: {}", what, path.string(), failure.message()));
  return real;
}

AgentOptions completed(AgentOptions options) {
  const auto host = host_name();
  if (options.name.empty()) options.name = fmt::format("{}:{}:{}", host, getpid(), random_hex(6));
  if (options.cpus <= 0) options.cpus = usable_cores();
  std::error_code failure;
  fs::create_directories(options.roots.runs, failure);
  if (failure) throw JobsError(fmt::format("agent: run root {}: {}", options.roots.runs.string(), failure.message()));
  options.roots.runs = real_folder("run root", options.roots.runs);
  for (auto& root : options.roots.data) root = real_folder("data root", root);
  return options;
}

}  // namespace

struct Agent::State {
  AgentOptions options;
  QueueFactory make_queue;
  Proposer proposer;
  spdlog::logger& log;
  Slots slots;
  StopRequests stops;
};

Agent::Agent(AgentOptions options, QueueFactory make_queue, Proposer proposer, spdlog::logger& log) {
  auto complete = completed(std::move(options));
  Slots slots(complete.cpus, complete.gpus);
  state_.reset(new State{std::move(complete), std::move(make_queue), std::move(proposer), log, std::move(slots), {}});
  state_->stops.descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

Agent::~Agent() {
  if (state_->stops.descriptor >= 0) close(state_->stops.descriptor);
}

int64_t Agent::run() {
  AgentLoop loop(state_->options, state_->make_queue, state_->proposer, state_->slots, state_->stops, state_->log);
  return loop.run();
}

void Agent::request_stop() {
  state_->stops.count.fetch_add(1);
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(state_->stops.descriptor, &one, sizeof(one));
}

}  // namespace foretime::jobs
