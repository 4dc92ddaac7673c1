#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "models/device/arena.h"
#include "tests/acceptance/checks.h"
#include "tests/acceptance/gpu.h"
#include "tests/acceptance/step_runs.h"
#include "tests/acceptance/workloads.h"
#include "tests/support/op_counter.h"

namespace foretime::acceptance {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Milliseconds a step: the best of three runs of so many steps that each takes about `seconds`. Nothing is read back
/// between steps. `brief`: of two steps.
double step_milliseconds(StepRun& run, const Place& place, double seconds, bool brief) {
  const auto timed = [&](int64_t steps) {
    const auto start = Clock::now();
    run.take(steps - 1, false);
    run.take(1);
    place.finish();
    return seconds_since(start);
  };
  timed(2);
  if (brief) return 1e3 * timed(2) / 2;
  const double one = timed(3) / 3;
  const auto steps = std::clamp<int64_t>(static_cast<int64_t>(seconds / one), 3, 200);
  double best = timed(steps);
  for (int i = 0; i < 2; ++i) best = std::min(best, timed(steps));
  return 1e3 * best / static_cast<double>(steps);
}

/// What a step asks for, counted on the CPU, where backward runs on the thread that counts: the operations, waits and
/// uploads are the same on a GPU.
struct Counted {
  double operations = 0, bodies = 0, waits = 0, uploads = 0, bytes = 0;
};
Counted count_step(const configs::Settings& settings) {
  const auto place = Place::device(false);
  return place.run([&] {
    StepRun run(settings, place);
    run.take(3);
    constexpr int64_t kSteps = 4;
    const int64_t bodies = device::launches(), uploads = device::Arena::uploads(),
                  bytes = device::Arena::uploaded_bytes();
    const testing::OpCounter counter;
    run.take(kSteps, false);
    const auto each = [](int64_t count) { return static_cast<double>(count) / kSteps; };
    return Counted{each(counter.operations()), each(device::launches() - bodies), each(counter.waits()),
                   each(device::Arena::uploads() - uploads), each(device::Arena::uploaded_bytes() - bytes)};
  });
}

/// LibTorch itself looks for waits.
void check_waits(StepRun& run, const std::string& name, Rows& rows) {
  std::string found;
  try {
    const NoWaits forbidden;
    run.take(3, false);
  } catch (const std::exception& error) {
    found = error.what();
  }
  rows.is_true(Kind::must, name + ": no operation of a step waits for the GPU", found.empty(), found);
}

void measure(const Workload& workload, const Options& options, Rows& rows) {
  const auto& name = workload.name;
  constexpr double seconds = 1.5;
  const auto counted = count_step(workload.settings);
  rows.figure(name + ": kernels of a step", counted.operations + counted.bodies, "",
              fmt::format("{} of LibTorch, {} of our own; counted on the CPU", counted.operations, counted.bodies));
  rows.at_most(Kind::must, name + ": waits of a step", counted.waits, 0, "", "counted on the CPU");
  rows.figure(name + ": copies to the device", counted.uploads, "a step");
  rows.figure(name + ": bytes to the device", counted.bytes / 1e6, "MB a step");
  const auto by_cpu = Place::cpu().run([&] {
    StepRun run(workload.settings, Place::cpu());
    return step_milliseconds(run, Place::cpu(), seconds, options.brief);
  });
  rows.figure(name + ": CPU, one thread", by_cpu, "ms a step");
  const auto device = options.device();
  const auto by_device = device.run([&] {
    if (options.gpu) forget_gpu_peak();
    StepRun run(workload.settings, device);
    const double milliseconds = step_milliseconds(run, device, seconds, options.brief);
    if (options.gpu) check_waits(run, name, rows);
    return milliseconds;
  });
  rows.figure(name + ": " + device.name, by_device, "ms a step");
  if (!options.gpu) return rows.skipped(Kind::figure, name + ": GPU beside one core", "no GPU");
  rows.figure(name + ": GPU beside one core", by_cpu / by_device, "times as fast");
  rows.figure(name + ": peak of the GPU's memory", static_cast<double>(gpu_peak_bytes()) / 1e6, "MB");
}

}  // namespace

void measure_steps(const Options& options, Rows& rows) {
  make_layouts(options);
  for (const auto& workload : timed_workloads(options))
    rows.guarded(workload.name, [&] { measure(workload, options, rows); });
}

}  // namespace foretime::acceptance
