#include "worker/profile/step_monitor.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foretime::worker {

nlohmann::json to_json(const StepReport& report) {
  return {{"comm_exposed_ms", report.comm_exposed_ms},       {"comm_wait_ms", report.comm_wait_ms},
          {"comm_exposed_share", report.comm_exposed_share}, {"straggler_rank", report.straggler_rank},
          {"straggler_group", report.straggler_group},       {"straggler_ratio", report.straggler_ratio}};
}

bool is_straggling(const StepReport& report) { return report.straggler_ratio > 1.2; }

std::string describe_straggler(const StepReport& report) {
  return fmt::format("rank {} worked {:.2f} times as long as the mean of all ranks; its longest step was on {}",
                     report.straggler_rank, report.straggler_ratio,
                     report.straggler_group.empty() ? "no group" : report.straggler_group);
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

StepReport StepMonitor::report(comm::Communicator& comm) {
  using Json = nlohmann::json;
  StepReport result;
  const auto waits = std::exchange(waits_, {});
  result.steps = static_cast<int64_t>(waits.size());
  double own_wait = 0;
  // Longest waits, then shortest ones with the sign turned round, so that one reduction finds both.
  auto extremes = torch::empty({2, result.steps}, torch::kDouble);
  for (int64_t i = 0; i < result.steps; ++i) {
    extremes[0][i] = waits[static_cast<size_t>(i)];
    extremes[1][i] = -waits[static_cast<size_t>(i)];
    own_wait += waits[static_cast<size_t>(i)];
  }
  extremes = extremes.to(comm.device());
  comm.all_reduce(extremes, comm::ReduceOp::max)->wait();
  // CBOR: group names may be any bytes.
  const auto own = Json::to_cbor({std::exchange(busy_, 0.0), own_wait, std::exchange(longest_group_, {})});
  longest_ = 0;
  const auto all = comm.all_gather_bytes({own.begin(), own.end()});
  double total = 0, most = -1, slowest_wait = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto theirs = Json::from_cbor(all[rank]);
    const double busy = theirs[0];
    total += busy;
    if (busy <= most) continue;
    most = busy;
    slowest_wait = theirs[1];
    result.straggler_rank = static_cast<int>(rank);
    result.straggler_group = theirs[2];
  }
  if (total > 0) result.straggler_ratio = most * static_cast<double>(all.size()) / total;
  if (result.steps == 0) return result;
  const auto means = extremes.to(torch::kCPU).mean(1);
  result.comm_wait_ms = 1e3 * means[0].item<double>();
  result.comm_exposed_ms = -1e3 * means[1].item<double>();
  const double step_ms = 1e3 * (most + slowest_wait) / static_cast<double>(result.steps);
  if (step_ms > 0) result.comm_exposed_share = result.comm_exposed_ms / step_ms;
  return result;
}

}  // namespace foretime::worker
