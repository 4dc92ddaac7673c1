#include "models/form_weights.h"

#include "models/model.h"

namespace foretime::models {

inference::Weights form_weights(const CostModel& model, const DescribedModel& described) {
  inference::Weights weights;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    const auto plain = tensor.detach().to(torch::kCPU, torch::kFloat).contiguous();
    const auto* first = plain.data_ptr<float>();
    weights[name] = {plain.sizes().vec(), std::vector<float>(first, first + plain.numel())};
  };
  for (const auto& item : model.named_parameters()) add(item.key(), item.value());
  for (const auto& item : model.named_buffers()) add(item.key(), item.value());
  for (const auto& [name, tensor] : described.constants) add(name, tensor);
  return weights;
}

}  // namespace foretime::models
