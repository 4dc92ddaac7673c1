#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "models/gpu/arena.h"
#include "tests/acceptance/checks.h"
#include "tests/acceptance/gpu.h"
#include "tests/acceptance/step_runs.h"
#include "tests/acceptance/workloads.h"
#include "tests/support/op_counter.h"
#include "worker/batches/batch.h"
#include "worker/batches/sampler.h"

namespace foretime::acceptance {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Milliseconds a step: the best of three runs, or the only one of steps that take long, each of about `seconds`.
/// Nothing is read back between steps. `brief`: of two steps.
double step_milliseconds(StepRun& run, const Place& place, double seconds, bool brief) {
  const auto timed = [&](int64_t steps) {
    const auto start = Clock::now();
    run.take(steps - 1, false);
    run.take(1);
    place.finish();
    return seconds_since(start);
  };
  timed(2);
  const double one = timed(2) / 2;
  if (brief) return 1e3 * one;
  const auto steps = std::clamp<int64_t>(static_cast<int64_t>(seconds / one), 2, 200);
  double best = timed(steps);
  for (int i = 0; i < (one > 0.3 ? 0 : 2); ++i) best = std::min(best, timed(steps));
  return 1e3 * best / static_cast<double>(steps);
}

/// What a step asks for, counted on the CPU, where backward runs on the thread that counts: operations and waits are
/// the same on a GPU, and on graphs of any size.
struct Counted {
  double operations = 0, kernels = 0, waits = 0;
};
Counted count_step(const configs::Settings& settings) {
  const auto place = Place::device(false);
  return place.run([&] {
    StepRun run(settings, place);
    run.take(3);
    constexpr int64_t kSteps = 4;
    const int64_t kernels = gpu::launches();
    const testing::OpCounter counter;
    run.take(kSteps, false);
    const auto each = [](int64_t count) { return static_cast<double>(count) / kSteps; };
    return Counted{each(counter.operations()), each(gpu::launches() - kernels), each(counter.waits())};
  });
}

/// Copies to the device and their bytes.
void measure_uploads(StepRun& run, const std::string& name, Rows& rows) {
  constexpr int64_t kSteps = 4;
  const int64_t uploads = gpu::Arena::uploads(), bytes = gpu::Arena::uploaded_bytes();
  run.take(kSteps);
  const auto each = [](int64_t count) { return static_cast<double>(count) / kSteps; };
  rows.figure(name + ": copies to the device", each(gpu::Arena::uploads() - uploads), "a step");
  rows.figure(name + ": bytes to the device", each(gpu::Arena::uploaded_bytes() - bytes) / 1e6, "MB a step");
}

/// Milliseconds in which the loader's thread makes a batch and brings it to the device, with nothing else to do.
double loader_milliseconds(StepRun& run, const Place& place) {
  constexpr int64_t kBatches = 8;
  auto& context = run.context();
  const worker::Sampler sampler(context.plan, context.settings.sampler, context.settings.trainer.seed);
  worker::BatchLoader loader(sampler, *context.store, context.state.targets, *context.forward,
                             worker::LossForm::of(context.settings), 0);
  loader.get(0, false);
  place.finish();
  const auto start = Clock::now();
  for (int64_t number = 1; number <= kBatches; ++number) loader.get(number, false);
  place.finish();
  return 1e3 * seconds_since(start) / kBatches;
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

/// `waits`: whether a step that waits is a failure or a figure.
void measure(const Workload& workload, const Workload& small, const Options& options, Kind waits, Rows& rows) {
  const auto& name = workload.name;
  constexpr double kSeconds = 1.5;
  const auto counted = count_step(small.settings);
  rows.figure(name + ": kernels of a step", counted.operations + counted.kernels, "",
              fmt::format("{} of LibTorch, {} of our own; counted on the CPU", counted.operations, counted.kernels));
  if (waits == Kind::must) rows.at_most(waits, name + ": waits of a step", counted.waits, 0, "", "counted on the CPU");
  else rows.figure(name + ": waits of a step", counted.waits, "", "counted on the CPU");
  const auto device = options.device();
  const auto by_device = device.run([&] {
    if (options.gpu) forget_gpu_peak();
    StepRun run(workload.settings, device);
    const double milliseconds = step_milliseconds(run, device, kSeconds, options.brief);
    measure_uploads(run, name, rows);
    rows.figure(name + ": loader", loader_milliseconds(run, device), "ms a batch", "one thread, beside the steps");
    if (options.gpu && waits == Kind::must) check_waits(run, name, rows);
    return milliseconds;
  });
  rows.figure(name + ": " + device.name, by_device, "ms a step");
  if (options.gpu) rows.figure(name + ": peak of the GPU's memory", static_cast<double>(gpu_peak_bytes()) / 1e6, "MB");
  const auto by_cpu = Place::cpu().run([&] {
    StepRun run(workload.settings, Place::cpu());
    return step_milliseconds(run, Place::cpu(), kSeconds, options.brief);
  });
  rows.figure(name + ": CPU, one thread", by_cpu, "ms a step");
  if (options.gpu) return rows.figure(name + ": GPU beside one core", by_cpu / by_device, "times as fast");
  rows.skipped(Kind::figure, name + ": GPU beside one core", "no GPU");
}

}  // namespace

void measure_steps(const Options& options, Rows& rows) {
  make_layouts(options);
  auto brief = options;
  brief.brief = true;
  const auto workloads = timed_workloads(options), counted = timed_workloads(with_small_layouts(brief));
  for (size_t i = 0; i < workloads.size(); ++i)
    rows.guarded(workloads[i].name, [&] { measure(workloads[i], counted[i], options, Kind::must, rows); });
  // Ways to train that are known to wait, and graphs so large that the loader may be slower than the steps.
  const auto large = with_large_layouts(options), small = with_small_layouts(brief);
  const auto timed = [&](Workload workload, const Workload& counted_workload, Kind waits) {
    workload.name += ", large graphs";
    rows.guarded(workload.name, [&] { measure(workload, counted_workload, options, waits, rows); });
  };
  timed(layout_workload(large), layout_workload(small), Kind::must);
  timed(published_workload(large), published_workload(small), Kind::figure);
}

}  // namespace foretime::acceptance
