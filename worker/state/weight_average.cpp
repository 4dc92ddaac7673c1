#include "worker/state/weight_average.h"

#include <cmath>

#include "base/numbers.h"
#include "worker/state/training_state.h"

namespace foretime::worker {
namespace {

NamedTensors copies_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, tensor.clone());
  return copies;
}

int64_t parse_count(const models::Safetensors& stored, const std::string& origin) {
  const auto found = stored.metadata.find("count");
  const std::string text = found == stored.metadata.end() ? "" : found->second;
  const auto count = parse_number<int64_t>(text).value_or(0);
  if (count < 1) throw coordinator::RunError("{}: metadata count '{}', expected 1 or more steps", origin, text);
  return count;
}

}  // namespace

WeightAverage::WeightAverage(const configs::AveragingSettings& settings, const models::CostModel& model,
                             int64_t total_steps)
    : settings_(settings), model_(model), first_((settings.start * total_steps)) {}

void WeightAverage::update(int64_t step) {
  const bool ema = settings_.type == configs::AveragingType::ema;
  if (step <= first_ || (!ema && (step - first_) % settings_.every_steps != 0)) return;
  const torch::NoGradGuard no_grad;
  // Fetched each time: a model may replace its buffers when its transform is fitted.
  const auto current = model_tensors(model_);
  ++count_;
  if (count_ == 1) {
    average_ = copies_of(current);
    return;
  }
  const double counted = count_;
  const double rate = ema ? (1 - settings_.decay) / (1 - std::pow(settings_.decay, counted)) : 1 / counted;
  for (size_t i = 0; i < average_.size(); ++i) {
    auto& mean = average_[i].second;
    const auto& value = current[i].second;
    if (mean.is_floating_point()) mean.add_(value - mean, rate);
    else mean.copy_(value);
  }
}

std::string WeightAverage::checkpoint_file() const {
  return models::serialize_safetensors(
      average_, {{"format", "foretime"}, {"type", word_of(settings_.type)}, {"count", std::to_string(count_)}});
}

bool WeightAverage::restore(const std::string& file, const std::string& origin) {
  const auto stored = parse_tensors(file, origin);
  const auto type = stored.metadata.find("type");
  if (type == stored.metadata.end() || type->second != word_of(settings_.type)) return false;
  const int64_t count = parse_count(stored, origin);
  auto average = copies_of(model_tensors(model_));
  copy_tensors(stored, average, origin);
  average_ = std::move(average);
  count_ = count;
  return true;
}

std::unique_ptr<WeightAverage> make_weight_average(const configs::AveragingSettings& settings,
                                                   const models::CostModel& model, int64_t total_steps) {
  return settings.type == configs::AveragingType::none ? nullptr
                                                       : std::make_unique<WeightAverage>(settings, model, total_steps);
}

AveragedWeights::AveragedWeights(models::CostModel& model, const WeightAverage* average) {
  if (average == nullptr || average->count() == 0) return;
  const torch::NoGradGuard no_grad;
  model_tensors_ = model_tensors(model);
  saved_values_ = copies_of(model_tensors_);  // all memory is there before the first weight is changed
  for (size_t i = 0; i < model_tensors_.size(); ++i) model_tensors_[i].second.copy_(average->tensors()[i].second);
}

AveragedWeights::~AveragedWeights() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < model_tensors_.size(); ++i) model_tensors_[i].second.copy_(saved_values_[i].second);
}

}  // namespace foretime::worker
