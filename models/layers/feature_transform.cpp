#include "models/layers/feature_transform.h"

#include <fmt/format.h>

#include "models/error.h"

namespace foretime::models {

FeatureTransform::FeatureTransform(const configs::FeatureSettings& settings, int64_t columns)
    : settings_(settings),
      offset_(register_buffer("offset", torch::zeros({columns}))),
      scale_(register_buffer("scale", torch::ones({columns}))) {
  if (settings.transform != "none" && settings.transform != "minmax" && settings.transform != "zscore") {
    throw ModelError(
        fmt::format("model.features.transform: '{}', expected none, minmax or zscore", settings.transform));
  }
}

torch::Tensor FeatureTransform::forward(const torch::Tensor& x) const {
  const auto shaped = settings_.log ? torch::sign(x) * torch::log1p(torch::abs(x)) : x;
  return (shaped - offset_) * scale_;
}

std::string FeatureTransform::describe(FormWriter& writer, const std::string& x) const {
  return writer.emit({.op = "transform",
                      .result = {},
                      .inputs = {x},
                      .weights = {writer.weight(offset_), writer.weight(scale_)},
                      .numbers = {{"log", settings_.log ? 1.0 : 0.0}}});
}

void FeatureTransform::fit(const torch::Tensor& minimum, const torch::Tensor& maximum, const torch::Tensor& mean,
                           const torch::Tensor& deviation) {
  if (settings_.transform == "none") return;
  const int64_t columns = offset_.size(0);
  for (const auto* statistic : {&minimum, &maximum, &mean, &deviation}) {
    if (!statistic->defined() || statistic->numel() != columns) {
      throw ModelError(fmt::format("feature statistics: {} columns, expected {}",
                                   statistic->defined() ? statistic->numel() : 0, columns));
    }
  }
  const bool minmax = settings_.transform == "minmax";
  // A range so small that its reciprocal overflows in the model's type counts as constant too.
  const auto reciprocal = (minmax ? maximum - minimum : deviation).reciprocal().to(scale_.scalar_type());
  const auto varies = (maximum > minimum).logical_and(torch::isfinite(reciprocal));
  torch::NoGradGuard no_gradient;
  offset_.copy_(minmax ? minimum : mean);
  scale_.copy_(torch::where(varies, reciprocal, torch::zeros_like(reciprocal)));
}

}  // namespace foretime::models
