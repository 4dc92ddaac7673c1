#include "models/layers/readout.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "models/error.h"
#include "models/layers/dense.h"
#include "models/sparse/csr_ops.h"

namespace foretime::models {
namespace {

constexpr std::string_view kPrefixes[] = {"", "configurable_", "tied_"};  // in the order of Readout::Over

}  // namespace

Readout::Readout(const std::vector<std::string>& parts, data::CandidateKind kind) {
  if (parts.empty()) throw ModelError("model.readout: empty, expected at least one part");
  for (size_t i = 0; i < parts.size(); ++i) {
    std::string_view name = parts[i];
    if (std::find(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i), name) !=
        parts.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw ModelError(fmt::format("model.readout: '{}' stands there twice", name));
    }
    Part part{};
    for (const auto over : {configurable, tied}) {
      if (!name.starts_with(kPrefixes[over])) continue;
      part.over = over;
      name.remove_prefix(kPrefixes[over].size());
      break;
    }
    if (name == "mean") {
      part.pooling = Pooling::mean;
    } else if (name == "sum") {
      part.pooling = Pooling::sum;
    } else if (name == "max" && part.over != tied) {
      part.pooling = Pooling::max;
    } else if (name == "normalized_sum") {
      part.pooling = Pooling::normalized_sum;
    } else {
      throw ModelError(fmt::format(
          "model.readout: '{}', expected mean, sum, max or normalized_sum, or one of these after configurable_, or one "
          "of these but max after tied_",
          parts[i]));
    }
    if (part.over != nodes && kind != data::CandidateKind::layout) {
      throw ModelError(
          fmt::format("model.readout: '{}' needs configurable nodes, which only layout data have", parts[i]));
    }
    parts_.push_back(part);
    Pool& pool = pools_[part.over];
    pool.used = true;
    (part.pooling == Pooling::max ? pool.max : pool.sum) = true;
  }
}

int64_t Readout::pool_columns(int64_t width) const {
  int64_t columns = 0;
  for (const Pool& pool : pools_) columns += pool.columns(width);
  return columns;
}

torch::Tensor Readout::pool(const torch::Tensor& states, const PlanTensors& plan) const {
  std::vector<torch::Tensor> columns;
  const auto add = [&](const Pool& pool, const PoolTensors& over) {
    if (!pool.used) return;
    const auto through = [&](torch::Tensor (*product)(const CsrTensor&, const torch::Tensor&)) {
      torch::Tensor x = states;
      for (const CsrTensor& stage : over.stages) x = product(stage, x);
      return x;
    };
    if (pool.sum) columns.push_back(through(csr_matmul));
    columns.push_back(over.counts);
    if (pool.max) columns.push_back(through(csr_max));
  };
  add(pools_[nodes], plan.nodes);
  add(pools_[configurable], plan.configurable);
  add(pools_[tied], plan.tied);
  return torch::cat(columns, 1);
}

std::string Readout::describe(FormWriter& writer, const std::string& states, const std::string& all) const {
  const std::string names[] = {all, "configurable", "tied"};
  std::vector<std::string> columns;
  for (const Part& part : parts_) {
    const char* mode = part.pooling == Pooling::mean ? "mean" : part.pooling == Pooling::max ? "max" : "sum";
    columns.push_back(writer.pool(states, names[part.over], mode));
    if (part.pooling == Pooling::normalized_sum) columns.back() = describe_l2_normalized(writer, columns.back());
  }
  return writer.join(columns);
}

torch::Tensor Readout::combine(const torch::Tensor& pools, const torch::Tensor& weights, int64_t width) const {
  std::vector<torch::Tensor> columns;
  int64_t at = 0;
  const auto add = [&](const Pool& pool) {
    if (!pool.used) return;
    const int64_t sums = pool.sum ? width : 0;
    auto summed = pools.narrow(2, at, sums + 1);
    const auto counts = pools.narrow(2, at + sums, 1);
    auto present = counts > 0;
    if (weights.defined()) {
      summed = summed * weights.unsqueeze(2);
      present = present & (weights.unsqueeze(2) != 0);
    }
    columns.push_back(summed.sum(1));
    if (pool.max) {
      const auto maxima = pools.narrow(2, at + sums + 1, width);
      constexpr double kNone = -std::numeric_limits<double>::infinity();
      const auto best = maxima.masked_fill(~present, kNone).amax(1);
      columns.push_back(best.masked_fill(~present.any(1), 0.0));
    }
    at += pool.columns(width);
  };
  for (const Pool& pool : pools_) add(pool);
  return torch::cat(columns, 1);
}

torch::Tensor Readout::finish(const torch::Tensor& pooled, int64_t width) const {
  std::vector<torch::Tensor> columns;
  for (const Part& part : parts_) {
    const Pool& pool = pools_[part.over];
    int64_t start = 0;
    for (size_t before = 0; before < part.over; ++before) start += pools_[before].columns(width);
    const int64_t sums = pool.sum ? width : 0;
    const auto sum = [&] { return pooled.narrow(1, start, width); };
    switch (part.pooling) {
      case Pooling::mean:
        columns.push_back(sum() / pooled.narrow(1, start + sums, 1).clamp_min(1.0));
        break;
      case Pooling::sum:
        columns.push_back(sum());
        break;
      case Pooling::max:
        columns.push_back(pooled.narrow(1, start + sums + 1, width));
        break;
      case Pooling::normalized_sum:
        columns.push_back(l2_normalized(sum()));
        break;
    }
  }
  return torch::cat(columns, 1);
}

}  // namespace foretime::models
