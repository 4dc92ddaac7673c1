#include "worker/profile/step_monitor.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/gpu_usage.h"

namespace foretime::worker {

namespace {

constexpr double kNotable = 0.2;  // fraction of a step's time

}  // namespace

nlohmann::json to_json(const StepReport& report) {
  nlohmann::json json = {{"comm_exposed_ms", report.comm_exposed_ms},
                         {"comm_wait_ms", report.comm_wait_ms},
                         {"comm_exposed_share", report.comm_exposed_share},
                         {"straggler_rank", report.straggler_rank},
                         {"straggler_group", report.straggler_group},
                         {"straggler_ratio", report.straggler_ratio},
                         {"waited_for", report.waited_for},
                         {"waited_for_share", report.waited_for_share},
                         {"waited_for_ms", report.waited_for_ms},
                         {"memory_mib", report.memory_mib},
                         {"cpu_cores", report.cpu_cores}};
  if (report.gpu_percent >= 0) {
    json["gpu_percent"] = report.gpu_percent;
    json["gpu_memory_mib"] = report.gpu_memory_mib;
  }
  if (report.link) {
    json["slow_link"] = has_slow_link(report) ? report.link->host : "";
    json["slow_link_ratio"] = report.link->ratio();
  }
  return json;
}

bool is_straggling(const StepReport& report) { return report.straggler_ratio > 1.2; }

std::string describe_straggler(const StepReport& report) {
  return fmt::format("rank {} worked {:.2f} times as long as the mean of all ranks; its longest step was on {}",
                     report.straggler_rank, report.straggler_ratio,
                     report.straggler_group.empty() ? "no group" : report.straggler_group);
}

bool is_waited_for(const StepReport& report) {
  return report.steps > 0 && report.waited_for_ms > kNotable * report.step_ms;
}

std::string describe_waited_for(const StepReport& report) {
  return fmt::format(
      "{} is slow: it came last in {:.0f} % of the steps, and all others waited {:.1f} ms of {:.1f} ms a step for it",
      report.waited_for, 100 * report.waited_for_share, report.waited_for_ms, report.step_ms);
}

bool has_slow_link(const StepReport& report) { return report.link && report.link->ratio() > 2; }

std::string describe_slow_link(const StepReport& report) {
  return fmt::format(
      "the network of {} is slow: {} KiB to or from it take {:.1f} ms, and {:.1f} ms between the others; "
      "communication takes {:.0f} % of the steps",
      report.link->host, LinkReport::kBytes >> 10, report.link->ms, report.link->others,
      100 * report.comm_exposed_share);
}

void StepMonitor::begin_step() {
  begin_ = Clock::now();
  wait_ = 0;
  group_.clear();
}

void StepMonitor::enter(const char* name) {
  if (profiler_ == nullptr) return;
  if (std::exchange(in_phase_, true)) profiler_->end();
  profiler_->begin(name);
}

void StepMonitor::end_step() {
  if (std::exchange(in_phase_, false)) profiler_->end();
  const double busy = std::chrono::duration<double>(Clock::now() - begin_).count() - wait_;
  waits_.push_back(wait_);
  busy_ += busy;
  if (busy > longest_ && !group_.empty()) {
    longest_ = busy;
    longest_group_ = group_;
  }
}

namespace {

constexpr double kProbeInterval = 60;  // seconds
constexpr size_t kProbedHosts = 3;     // fewer hosts cannot show which link is slow

/// Holds the values that one rank sends to the others.
struct RankSteps {
  double busy = 0;          // seconds
  std::string group, host;  // group: that of the longest step
  bool probes = false;      // links may be measured again; rank 0's counts
  double memory_mib = 0, cpu_cores = 0, gpu_percent = -1, gpu_memory_mib = 0;
  std::vector<float> waits;  // seconds, of each step
};

std::vector<RankSteps> exchange_steps(comm::Communicator& comm, const RankSteps& own) {
  using Json = nlohmann::json;
  // CBOR: group names may be any bytes.
  const auto bytes = Json::to_cbor({own.busy, own.group, own.host, own.probes, own.waits, own.memory_mib, own.cpu_cores,
                                    own.gpu_percent, own.gpu_memory_mib});
  std::vector<RankSteps> all;
  for (const auto& text : comm.all_gather_bytes({bytes.begin(), bytes.end()})) {
    const auto theirs = Json::from_cbor(text);
    all.push_back({.busy = theirs[0],
                   .group = theirs[1],
                   .host = theirs[2],
                   .probes = theirs[3],
                   .memory_mib = theirs[5],
                   .cpu_cores = theirs[6],
                   .gpu_percent = theirs[7],
                   .gpu_memory_mib = theirs[8],
                   .waits = theirs[4].get<std::vector<float>>()});
  }
  return all;
}

/// Adds the ranks' use of CPU, memory and GPUs to `report`.
void add_usage(const std::vector<RankSteps>& all, StepReport& report) {
  double percent = 0, gpus = 0;
  for (const auto& rank : all) {
    report.memory_mib += rank.memory_mib;
    report.cpu_cores += rank.cpu_cores;
    if (rank.gpu_percent < 0) continue;
    percent += rank.gpu_percent;
    report.gpu_memory_mib += rank.gpu_memory_mib;
    ++gpus;
  }
  if (gpus > 0) report.gpu_percent = percent / gpus;
}

/// Ranks that stand and fall together: those of a host or, on a single host, each by itself. By name, in the order of
/// the ranks.
std::vector<std::pair<std::string, std::vector<size_t>>> units_of(const std::vector<RankSteps>& all) {
  std::vector<std::pair<std::string, std::vector<size_t>>> units;
  const bool several = std::ranges::any_of(all, [&](const auto& rank) { return rank.host != all[0].host; });
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto name = several ? all[rank].host : fmt::format("rank {}", rank);
    const auto found = std::ranges::find_if(units, [&](const auto& unit) { return unit.first == name; });
    if (found == units.end()) units.push_back({name, {rank}});
    else found->second.push_back(rank);
  }
  return units;
}

/// Finds the unit that the others waited for. In each step it is the unit whose ranks waited least; the others waited
/// for it at least as long as the second one did, minus its own wait.
void find_waited_for(const std::vector<RankSteps>& all, StepReport& report) {
  const auto units = units_of(all);
  if (units.size() < 2 || report.steps == 0) return;
  std::vector<double> waited(units.size()), times(units.size());
  for (int64_t step = 0; step < report.steps; ++step) {
    std::vector<std::pair<double, size_t>> waits;
    for (size_t unit = 0; unit < units.size(); ++unit) {
      float least = all[units[unit].second[0]].waits[step];
      for (const auto rank : units[unit].second) least = std::min(least, all[rank].waits[step]);
      waits.emplace_back(least, unit);
    }
    std::ranges::partial_sort(waits, waits.begin() + 2);
    waited[waits[0].second] += waits[1].first - waits[0].first;
    times[waits[0].second] += 1;
  }
  const size_t most = std::ranges::max_element(waited) - waited.begin();
  if (waited[most] <= 0) return;
  report.waited_for = units[most].first;
  report.waited_for_ms = 1e3 * waited[most] / report.steps;
  report.waited_for_share = times[most] / report.steps;
}

/// The lower one of two in the middle: what most others see.
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + (values.size() - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Each host in turn sends to all. The slow one is slow to, or from, most others; a host that only talks to a slow one
/// is fast with the rest.
LinkReport measure_links(comm::Communicator& comm,
                         const std::vector<std::pair<std::string, std::vector<size_t>>>& hosts) {
  using Clock = StepMonitor::Clock;
  auto data = torch::zeros({LinkReport::kBytes}, torch::kUInt8).to(comm.device());
  std::vector<double> own;
  for (const auto& [host, ranks] : hosts) {
    comm.barrier();
    const auto begin = Clock::now();
    comm.broadcast(data, ranks[0]);
    data[0].item<uint8_t>();  // a GPU may still be receiving
    own.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  comm.barrier();
  const auto bytes = nlohmann::json::to_cbor(own);
  const auto all = comm.all_gather_bytes({bytes.begin(), bytes.end()});
  std::vector<std::vector<double>> arrives;  // [host][sender] seconds
  for (const auto& host : hosts) arrives.push_back(nlohmann::json::from_cbor(all[host.second[0]]));
  std::vector<double> scores;
  for (size_t a = 0; a < hosts.size(); ++a) {
    std::vector<double> from, to;
    for (size_t b = 0; b < hosts.size(); ++b) {
      if (a == b) continue;
      from.push_back(arrives[b][a]);
      to.push_back(arrives[a][b]);
    }
    scores.push_back(1e3 * std::max(median_of(from), median_of(to)));
  }
  const auto most = std::ranges::max_element(scores);
  LinkReport report{.host = hosts[most - scores.begin()].first, .ms = *most};
  scores.erase(most);
  report.others = median_of(scores);
  return report;
}

}  // namespace

StepReport StepMonitor::report(comm::Communicator& comm) {
  StepReport result;
  const auto now = Clock::now();
  const bool probes = !probed_ || now - *probed_ >= std::chrono::duration<double>(kProbeInterval);
  const auto usage = process_usage();
  const double seconds = std::chrono::duration<double>(now - std::exchange(reported_, now)).count();
  const double cpu_seconds = usage.cpu_seconds - std::exchange(cpu_seconds_, usage.cpu_seconds);
  const auto device = comm.device();
  const auto gpu = device.is_cuda() ? gpu_usage(device.index()) : std::nullopt;
  const auto all = exchange_steps(comm, {.busy = std::exchange(busy_, 0.0),
                                         .group = std::exchange(longest_group_, {}),
                                         .host = host_,
                                         .probes = probes,
                                         .memory_mib = usage.memory_mib,
                                         .cpu_cores = seconds > 0 ? cpu_seconds / seconds : 0,
                                         .gpu_percent = gpu ? gpu->percent : -1,
                                         .gpu_memory_mib = gpu ? gpu->memory_mib : 0,
                                         .waits = std::vector<float>(waits_.begin(), waits_.end())});
  add_usage(all, result);
  waits_.clear();
  longest_ = 0;
  result.steps = all[0].waits.size();
  double total = 0, most = -1;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    total += all[rank].busy;
    if (all[rank].busy <= most) continue;
    most = all[rank].busy;
    result.straggler_rank = rank;
    result.straggler_group = all[rank].group;
  }
  if (total > 0) result.straggler_ratio = most * all.size() / total;
  if (result.steps == 0) return result;
  const double steps = result.steps;
  for (size_t step = 0; step < all[0].waits.size(); ++step) {
    float least = all[0].waits[step], longest = least;
    for (const auto& rank : all) {
      least = std::min(least, rank.waits[step]);
      longest = std::max(longest, rank.waits[step]);
    }
    result.comm_exposed_ms += 1e3 * least / steps;
    result.comm_wait_ms += 1e3 * longest / steps;
  }
  const auto& slowest = all[result.straggler_rank].waits;
  result.step_ms = 1e3 * (most + std::accumulate(slowest.begin(), slowest.end(), 0.0)) / steps;
  if (result.step_ms > 0) result.comm_exposed_share = result.comm_exposed_ms / result.step_ms;
  find_waited_for(all, result);
  const auto units = units_of(all);
  const bool on_hosts = units.size() >= kProbedHosts && units[0].first == all[0].host;
  if (on_hosts && all[0].probes && result.comm_exposed_share > kNotable) {
    probed_ = now;
    result.link = measure_links(comm, units);
  }
  return result;
}

}  // namespace foretime::worker
