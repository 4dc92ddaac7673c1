#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "comm/backends/factory.h"
#include "coordinator/run_directory.h"
#include "models/autograd/autocast.h"
#include "tests/acceptance/checks.h"
#include "tests/acceptance/compare.h"
#include "tests/acceptance/step_runs.h"
#include "tests/acceptance/workloads.h"
#include "worker/run/launch.h"

namespace foretime::acceptance {
namespace {

constexpr double kNearLoss = 1e-4, kNearGradients = 1e-4, kNearUpdate = 1e-3;
constexpr double kDistinct = 0.1;  // of the deviation of scores: pairs nearer than that, bfloat16 may turn

/// What one step gave, on the CPU.
struct OneStep {
  double loss = 0;
  std::vector<std::string> names;
  std::vector<torch::Tensor> before, gradients, after;  // of each parameter
  int64_t kernels = 0;                                  // that were run
};

std::vector<torch::Tensor> copies_of(const worker::NamedTensors& parameters) {
  std::vector<torch::Tensor> copies;
  for (const auto& [name, tensor] : parameters) copies.push_back(tensor.detach().to(torch::kCPU).clone());
  return copies;
}

/// The first step of a run at `place`. Where the optimiser clips on the CPU, it clips the gradients themselves.
OneStep first_step(configs::Settings settings, const Place& place) {
  return place.run([&] {
    StepRun run(std::move(settings), place);
    OneStep step;
    step.before = copies_of(run.parameters());
    const int64_t kernels = gpu::launches();
    step.loss = run.take(1);
    place.finish();
    step.kernels = gpu::launches() - kernels;
    for (const auto& [name, tensor] : run.parameters()) {
      step.names.push_back(name);
      step.gradients.push_back(tensor.grad().defined() ? tensor.grad().to(torch::kCPU).clone()
                                                       : torch::zeros_like(tensor).to(torch::kCPU));
    }
    step.after = copies_of(run.parameters());
    return step;
  });
}

/// The weights that the CPU's optimiser makes of these gradients.
std::vector<torch::Tensor> updated(const OneStep& step, const configs::Settings& settings) {
  worker::NamedTensors parameters;
  for (size_t i = 0; i < step.before.size(); ++i) {
    auto tensor = step.before[i].clone().requires_grad_(true);
    tensor.mutable_grad() = step.gradients[i].clone();
    parameters.emplace_back(std::to_string(i), tensor);
  }
  worker::Adam optimizer(parameters, settings.optimizer);
  optimizer.clip_and_step(worker::learning_rate_at(settings.optimizer, 0, settings.trainer.steps));
  return copies_of(parameters);
}

/// The parameter whose gradients differ most.
std::string worst_gradient(const OneStep& a, const OneStep& b) {
  std::string worst;
  double most = -1;
  for (size_t i = 0; i < a.names.size(); ++i) {
    const double found = distance(a.gradients[i], b.gradients[i]);
    if (found <= most) continue;
    most = found;
    worst = fmt::format("most in {}: {:.2g}", a.names[i], found);
  }
  return worst;
}

/// The change of the weights, which is far smaller than they are.
torch::Tensor change(const std::vector<torch::Tensor>& after, const std::vector<torch::Tensor>& before) {
  return joined(after) - joined(before);
}

struct SomeSteps {
  double loss = 0;
  std::vector<torch::Tensor> weights;
};
SomeSteps some_steps(const configs::Settings& settings, const Place& place, int64_t steps) {
  return place.run([&] {
    StepRun run(settings, place);
    SomeSteps result;
    result.loss = run.take(steps);
    place.finish();
    result.weights = copies_of(run.parameters());
    return result;
  });
}

/// Of three seeds the middle one: where a unit of a leaky ReLU lies within rounding of 0 on one device below it and on
/// the other above, its gradient is another, and rightly so.
void compare_step(const Workload& workload, const Options& options, Rows& rows) {
  const auto device = options.device();
  const auto& name = workload.name;
  std::vector<std::pair<double, std::string>> gradients;
  double loss = 0, update = 0;
  bool on_gpu_kernels = true;
  for (const uint64_t seed : options.brief ? std::vector<uint64_t>{3} : std::vector<uint64_t>{1, 2, 3}) {
    auto settings = workload.settings;
    settings.trainer.seed = seed;
    auto unclipped = settings;
    unclipped.optimizer.clip_norm = 0;
    const auto slow = first_step(unclipped, Place::cpu()), fast = first_step(settings, device);
    on_gpu_kernels = on_gpu_kernels && fast.kernels > 0 && slow.kernels == 0;
    loss = std::max(loss, std::abs(fast.loss - slow.loss) / std::abs(slow.loss));
    gradients.emplace_back(distance(joined(fast.gradients), joined(slow.gradients)), worst_gradient(fast, slow));
    update = std::max(update, distance(change(fast.after, fast.before), change(updated(fast, settings), fast.before)));
  }
  std::sort(gradients.begin(), gradients.end());
  const auto& middle = gradients[gradients.size() / 2];
  rows.is_true(Kind::must, name + ": goes through what GPUs run, and on the CPU does not", on_gpu_kernels);
  if (!workload.drops) {
    rows.at_most(Kind::must, name + ": loss, CPU and " + device.name, loss, kNearLoss, "relative");
    rows.at_most(Kind::must, name + ": gradients, CPU and " + device.name, middle.first, kNearGradients, "relative",
                 middle.second);
    rows.at_most(Kind::must, name + ": gradients, the worst seed", gradients.back().first, 0.05, "relative",
                 gradients.back().second);
  }
  rows.at_most(Kind::must, name + ": the optimiser's step, CPU and " + device.name, update, kNearUpdate, "relative");
}

void repeat_steps(const Workload& workload, const Place& device, Rows& rows) {
  const auto first = some_steps(workload.settings, device, 3), again = some_steps(workload.settings, device, 3);
  rows.is_true(Kind::must, workload.name + ": three steps repeat bit by bit", same_bits(first.weights, again.weights));
  auto mixed = workload.settings;
  mixed.trainer.precision = configs::Precision::bfloat16;
  const auto rounded = some_steps(mixed, device, 3);
  rows.at_most(Kind::must, workload.name + ": loss after three steps in bfloat16", std::abs(rounded.loss - first.loss),
               0.05 * std::abs(first.loss), "loss");
}

/// Scores of a model that has learned a little, in bfloat16 and in float32.
void compare_rounded_scores(const Workload& workload, const Options& options, Rows& rows) {
  const auto place = options.device();
  place.run([&] {
    auto settings = workload.settings;
    settings.optimizer.learning_rate = 3e-3;
    settings.optimizer.warmup_steps = 0;
    StepRun run(settings, place);
    run.take(options.brief ? 12 : 60);
    auto& context = run.context();
    const auto& loaded = context.store->get(0);
    std::vector<int64_t> ids(static_cast<size_t>(std::min<int64_t>(loaded.group.candidates, 64)));
    std::iota(ids.begin(), ids.end(), 0);
    const worker::EvaluationMode evaluation(*context.model);
    plans::PlanBuilder builder(context.model->plan_request());
    builder.add(loaded.group, ids);
    auto form = context.forward->options();
    form.gradients = true;
    const auto plan = models::to_tensors(std::move(builder).build(), form);
    if (plan.upload) plan.upload->wait();
    const auto score = [&](bool mixed) {
      const models::Autocast precision(place.where, mixed);
      return context.model->score(plan).to(torch::kCPU);
    };
    const auto full = score(false), rounded = score(true);
    rows.is_true(Kind::must, workload.name + ": scores are finite in bfloat16",
                 torch::isfinite(rounded).all().item<bool>());
    // Which nodes stay in TPGNN's pools hangs on scores that bfloat16 rounds: another node is another score.
    const bool chooses = settings.model.type == configs::ModelType::tpgnn;
    rows.at_least(Kind::must, workload.name + ": tau of scores in bfloat16 with float32",
                  tau_of_distinct(rounded, full, kDistinct), chooses ? 0.95 : 0.99, "",
                  "after some steps; of pairs that differ by a tenth of the deviation");
  });
}

/// Which edges are dropped differs between devices; how many, and what that does to the loss, does not.
void compare_dropping(const Workload& workload, const Options& options, Rows& rows) {
  const int64_t draws = options.brief ? 24 : 64;
  const auto losses = [&](const Place& place) {
    return place.run([&] {
      auto settings = workload.settings;
      settings.optimizer.learning_rate = 1e-30;  // the same weights in all steps
      std::vector<double> all;
      StepRun run(std::move(settings), place);
      for (int64_t i = 0; i < draws; ++i) all.push_back(run.take(1));
      return all;
    });
  };
  const auto mean_of = [](const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  };
  // Each step has its own samples, the same on both devices, so that differences say what dropping does.
  const auto slow = losses(Place::cpu()), fast = losses(options.device());
  std::vector<double> difference;
  for (size_t i = 0; i < slow.size(); ++i) difference.push_back(fast[i] - slow[i]);
  double square = 0;
  const double mean = mean_of(difference);
  for (const double x : difference) square += (x - mean) * (x - mean);
  const double error = std::sqrt(square / static_cast<double>(draws * (draws - 1)));
  rows.at_most(Kind::must, "dropped edges: mean loss, CPU and " + options.device().name, std::abs(mean),
               4 * error + 1e-9, "loss", "limit: four standard errors");
}

}  // namespace

void check_steps(const Options& given, Rows& rows) {
  worker::make_deterministic();  // operations of LibTorch that cannot repeat themselves throw
  const auto options = with_small_layouts(given);
  const auto device = options.device();
  for (const auto& workload : all_workloads(options)) {
    rows.guarded(workload.name, [&] {
      compare_step(workload, options, rows);
      repeat_steps(workload, device, rows);
      compare_rounded_scores(workload, options, rows);
      if (workload.drops) compare_dropping(workload, options, rows);
    });
  }
}

void take_three_steps(const Options& given, Rows& rows) {
  const auto options = with_small_layouts(given);
  for (const auto& workload : all_workloads(options)) {
    rows.guarded(workload.name, [&] {
      const auto result = some_steps(workload.settings, options.device(), 3);
      rows.is_true(Kind::must, workload.name + ": three steps end", std::isfinite(result.loss));
    });
  }
}

}  // namespace foretime::acceptance
