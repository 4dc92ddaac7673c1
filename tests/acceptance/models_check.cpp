#include <map>
#include <numeric>

#include "models/autograd/autocast.h"
#include "tests/acceptance/checks.h"
#include "tests/acceptance/compare.h"
#include "tests/acceptance/workloads.h"
#include "tests/models/small_models.h"
#include "worker/run/launch.h"

namespace foretime::acceptance {
namespace {

constexpr double kNear = 1e-4;     // of float32 on two devices
constexpr double kBfloat16 = 0.1;  // of bfloat16 from float32: roundings of 2^-8, where sums cancel

struct Result {
  torch::Tensor scores;
  std::vector<torch::Tensor> gradients;

  std::vector<torch::Tensor> all() const {
    auto tensors = gradients;
    tensors.push_back(scores);
    return tensors;
  }
};

/// Fresh weights from one seed, in float32, and what they give at `place`. In evaluation mode where `training` is
/// false.
Result run_model(const configs::ModelSettings& settings, const std::vector<data::Group>& groups, const Place& place,
                 bool mixed, int64_t candidates) {
  return place.run([&] {
    const auto model = testing::fitted_model(settings, {&groups[0], &groups[1]});
    model->to(torch::kFloat);
    model->to(place.where);
    plans::PlanBuilder builder(model->plan_request());
    std::vector<int64_t> ids(static_cast<size_t>(candidates));
    std::iota(ids.begin(), ids.end(), 0);
    for (const auto& group : groups) builder.add(group, ids);
    const auto plan = models::to_tensors(std::move(builder).build(), model->plan_tensor_options(place.where));
    if (plan.upload) plan.upload->wait();
    Result result;
    {
      const models::Autocast precision(place.where, mixed);
      result.scores = model->score(plan);
    }
    const auto weights = torch::arange(result.scores.size(0), result.scores.options()).remainder(5).sub(1.5);
    (result.scores * weights).sum().backward();
    place.finish();
    for (const auto& parameter : model->parameters()) {
      const auto& gradient = parameter.grad();
      result.gradients.push_back(gradient.defined() ? gradient.to(torch::kCPU) : torch::zeros_like(parameter).cpu());
    }
    result.scores = result.scores.detach().to(torch::kCPU);
    return result;
  });
}

/// The worst of a variant over the kinds of data.
struct Worst {
  double scores = 0, gradients = 0, rounded = 0;
  bool repeats = true, finite = true;
};

void compare(const configs::ModelSettings& settings, const std::vector<data::Group>& groups, const Place& device,
             int64_t candidates, Worst& worst) {
  const auto slow = run_model(settings, groups, Place::cpu(), false, candidates),
             fast = run_model(settings, groups, device, false, candidates),
             again = run_model(settings, groups, device, false, candidates),
             mixed = run_model(settings, groups, device, true, candidates);
  worst.scores = std::max(worst.scores, distance(fast.scores, slow.scores));
  worst.gradients = std::max(worst.gradients, distance(joined(fast.gradients), joined(slow.gradients)));
  worst.repeats = worst.repeats && same_bits(fast.all(), again.all());
  worst.rounded = std::max(worst.rounded, distance(mixed.scores, fast.scores));
  for (const auto& tensor : mixed.all()) worst.finite = worst.finite && torch::isfinite(tensor).all().item<bool>();
}

configs::ModelSettings settings_for(const std::string& variant, data::CandidateKind kind) {
  using P = configs::ReadoutPart;
  const bool layouts = kind == data::CandidateKind::layout;
  auto settings = testing::variant_settings(
      variant, layouts ? std::vector{P::mean, P::normalized_sum, P::configurable_normalized_sum, P::configurable_max}
                       : std::vector{P::mean, P::max, P::normalized_sum});
  settings.hidden = 32;
  settings.node_type_embedding = 8;
  settings.features.transform = configs::FeatureTransform::minmax;
  settings.features.layout_scale = 1;
  return settings;
}

}  // namespace

void check_models(const Options& options, Rows& rows) {
  worker::make_deterministic();  // operations of LibTorch that cannot repeat themselves throw
  const auto device = options.device();
  const int64_t candidates = options.brief ? 5 : 24;
  std::map<data::CandidateKind, std::vector<data::Group>> groups;
  for (const auto kind : {data::CandidateKind::layout, data::CandidateKind::tile, data::CandidateKind::program})
    groups[kind] = groups_of(kind, options);
  std::string unlike, infinite;
  for (const auto& variant : testing::variant_names()) {
    rows.guarded(variant, [&] {
      Worst worst;
      for (const auto& [kind, members] : groups) {
        if (options.brief && kind == data::CandidateKind::tile) continue;
        compare(settings_for(variant, kind), members, device, candidates, worst);
      }
      rows.at_most(Kind::must, variant + ": scores, CPU and " + device.name, worst.scores, kNear, "relative");
      rows.at_most(Kind::must, variant + ": gradients, CPU and " + device.name, worst.gradients, kNear, "relative");
      rows.at_most(Kind::must, variant + ": bfloat16 from float32", worst.rounded, kBfloat16, "relative");
      if (!worst.repeats) unlike += variant + " ";
      if (!worst.finite) infinite += variant + " ";
    });
  }
  rows.is_true(Kind::must, "all variants repeat bit by bit on " + device.name, unlike.empty(), unlike);
  rows.is_true(Kind::must, "all variants are finite in bfloat16", infinite.empty(), infinite);
}

}  // namespace foretime::acceptance
