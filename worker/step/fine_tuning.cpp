#include "worker/step/fine_tuning.h"

#include <cmath>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "base/counter_random.h"
#include "models/layers/normalization.h"
#include "worker/step/batch_loader.h"
#include "worker/step/optimizer.h"
#include "worker/step/sampler.h"
#include "worker/store/cross_fitting.h"

namespace foretime::worker {
namespace {

/// Draws batches of one TuningData, and computes their losses.
class Lessons {
 public:
  Lessons(const TrainedModel& trained, const TuningData& data)
      : model_(*trained.model),
        loss_(data.settings().loss),
        sampler_(data.plan(), data.settings().sampler, data.settings().trainer.seed),
        loader_(sampler_, data.store(), trained.state.targets, model_.plan_request(), /*rank=*/0, torch::kCPU) {}

  torch::Tensor loss(int64_t step, bool more) {
    const auto batch = loader_.get(step, more);
    const auto scores = model_.member_scores(batch.plan);
    torch::Tensor sum;
    for (size_t member = 0; member < scores.size(); ++member) {
      const auto own = member_loss(loss_, scores[member], static_cast<int64_t>(member), batch);
      sum = sum.defined() ? sum + own : own;
    }
    return sum / static_cast<double>(scores.size());
  }

 private:
  models::CostModel& model_;
  configs::LossSettings loss_;
  Sampler sampler_;
  BatchLoader loader_;
};

/// Dropout as in training; batch normalisation by its running statistics, which few candidates would spoil.
void set_to_training(models::CostModel& model) {
  model.train();
  for (const auto& module : model.modules()) {
    if (auto* norm = module->as<models::Normalization>()) norm->eval();
  }
}

}  // namespace

void fine_tune(const TrainedModel& trained, const TuningData& fresh, const TuningData* replay, const FineTuning& how) {
  auto settings = fresh.settings().optimizer;
  settings.learning_rate = how.learning_rate;
  settings.schedule = "cosine";
  settings.final_ratio = 0.0;
  settings.warmup_steps = how.steps / 10;
  NamedTensors parameters;
  for (const auto& item : trained.model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  std::vector<torch::Tensor> before;
  for (const auto& [name, parameter] : parameters) before.push_back(parameter.detach().clone());
  Adam optimizer(parameters, settings);
  Lessons lessons(trained, fresh);
  std::unique_ptr<Lessons> repetition;
  if (replay != nullptr) repetition = std::make_unique<Lessons>(trained, *replay);

  set_to_training(*trained.model);
  for (int64_t step = 0; step < how.steps; ++step) {
    const bool more = step + 1 < how.steps;
    torch::manual_seed(
        random_bits({fresh.settings().trainer.seed, random_stream::tuning_dropout, static_cast<uint64_t>(step)}));
    optimizer.zero_grad();
    auto loss = lessons.loss(step, more);
    const double fresh_loss = loss.item<double>();
    if (repetition) loss = loss + how.replay_weight * repetition->loss(step, more);
    loss.backward();
    const double norm = clip_gradients(parameters, settings);
    if (!std::isfinite(fresh_loss) || !std::isfinite(norm)) {
      throw coordinator::RunError(
          fmt::format("step {}: loss {} and gradient norm {}: fine-tuning has diverged; try a lower learning rate",
                      step + 1, fresh_loss, norm));
    }
    optimizer.step(learning_rate_at(settings, step, how.steps));
    if (how.on_step) how.on_step(step + 1, fresh_loss);
  }
  optimizer.zero_grad();
  trained.model->eval();
  if (how.share == 1.0) return;
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto& parameter = parameters[i].second;
    parameter.copy_(torch::lerp(before[i], parameter, how.share));
  }
}

}  // namespace foretime::worker
