#include "worker/step/fine_tuning.h"

#include <cmath>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "base/counter_random.h"
#include "models/layers/layers.h"
#include "worker/batches/batch_loader.h"
#include "worker/batches/sampler.h"
#include "worker/state/optimizer.h"

namespace foretime::worker {
namespace {

constexpr uint64_t kTuningDropout = 32;  // what a random number is for

/// Batches of one TuningData, and the model's loss on them.
class BatchSource {
 public:
  BatchSource(const TrainedModel& trained, const TuningData& data)
      : model_(*trained.model),
        data_(data),
        sampler_(data.plan(), data.settings().sampler, data.settings().trainer.seed),
        forward_(model_.plan_request(), torch::kCPU),
        loader_(sampler_, data.store(), trained.state.targets, forward_, /*rank=*/0) {}

  torch::Tensor loss(int64_t step, bool more) {
    const auto batch = loader_.get(step, more);
    return mean_loss(data_.settings().loss, forward_.scores(model_, batch, data_.store()), batch);
  }

 private:
  models::CostModel& model_;
  const TuningData& data_;
  Sampler sampler_;
  WholeGraphs forward_;
  BatchLoader loader_;
};

/// Dropout as in training; batch normalisation by its running statistics, which few candidates would spoil.
void set_to_training(models::CostModel& model) {
  model.train();
  model.freeze_statistics(true);
}

}  // namespace

void fine_tune(const TrainedModel& trained, const TuningData& fresh, const TuningData* replay, const FineTuning& how) {
  auto settings = fresh.settings().optimizer;
  settings.learning_rate = how.learning_rate;
  settings.schedule = configs::Schedule::cosine;
  settings.final_ratio = 0.0;
  settings.warmup_steps = how.steps / 10;
  NamedTensors parameters;
  for (const auto& item : trained.model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  std::vector<torch::Tensor> before;
  for (const auto& [name, parameter] : parameters) before.push_back(parameter.detach().clone());
  Adam optimizer(parameters, settings);
  BatchSource fresh_batches(trained, fresh);
  std::unique_ptr<BatchSource> replay_batches;
  if (replay != nullptr) replay_batches = std::make_unique<BatchSource>(trained, *replay);
  StepTimer timer;

  set_to_training(*trained.model);
  for (int64_t step = 0; step < how.steps; ++step) {
    const bool more = step + 1 < how.steps;
    torch::manual_seed(random_bits({fresh.settings().trainer.seed, kTuningDropout, static_cast<uint64_t>(step)}));
    optimizer.zero_grad();
    auto loss = fresh_batches.loss(step, more);
    const double fresh_loss = loss.item<double>();
    if (replay_batches) loss = loss + how.replay_weight * replay_batches->loss(step, more);
    loss.backward();
    const double norm = clip_gradients(parameters, settings);
    if (!std::isfinite(fresh_loss) || !std::isfinite(norm)) {
      throw coordinator::RunError(
          fmt::format("step {}: loss {} and gradient norm {}: fine-tuning has diverged; try a lower learning rate",
                      step + 1, fresh_loss, norm));
    }
    optimizer.step(learning_rate_at(settings, step, how.steps));
    if (how.listener != nullptr) how.listener->on_step({step + 1, how.steps, fresh_loss, timer.after(step + 1), {}});
  }
  optimizer.zero_grad();
  trained.model->eval();
  if (how.interpolation_weight == 1.0) return;
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto& parameter = parameters[i].second;
    parameter.copy_(torch::lerp(before[i], parameter, how.interpolation_weight));
  }
}

}  // namespace foretime::worker
