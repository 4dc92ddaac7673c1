#include "worker/export/bundle_import.h"

#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/load.h"
#include "models/graph/error.h"

namespace foretime::worker {
namespace {

void copy_weights(const inference::Weights& weights, const models::CostModel& model, const std::string& origin) {
  const torch::NoGradGuard no_grad;
  for (auto [name, tensor] : worker::model_tensors(model)) {
    const auto found = weights.find(name);
    if (found == weights.end())
      throw inference::BundleError(fmt::format("{}: no tensor {}, which its settings ask for", origin, name));
    const auto& [shape, values] = found->second;
    if (tensor.sizes().vec() != shape) {
      throw inference::BundleError(fmt::format("{}: tensor {}: shape [{}], expected [{}] by its settings", origin, name,
                                               fmt::join(shape, ", "), fmt::join(tensor.sizes().vec(), ", ")));
    }
    // Copied at once: the tensor on the right only borrows.
    tensor.copy_(torch::from_blob(const_cast<float*>(values.data()), shape, torch::kFloat));
  }
}

}  // namespace

worker::TrainedModel trained_model(const inference::Bundle& bundle, const std::string& origin) {
  const auto spec = inference::read_scoring_spec(bundle);
  worker::TrainedModel trained;
  auto& state = trained.state;
  try {
    const auto& training = bundle.manifest.at("training");
    state.settings = configs::parse_settings(bundle.manifest.at("settings"), origin + ": settings");
    state.step = training.at("step");
    state.data_fingerprint = std::stoull(training.at("data_fingerprint").get<std::string>(), nullptr, 16);
    state.train_mean_runtime = training.at("mean_runtime");
    state.schema = {spec.kind, spec.feature_count, spec.node_type_count};
    state.targets = {spec.targets};
    trained.model = models::make_model(state.settings.model, state.schema);
  } catch (const nlohmann::json::exception& error) {
    throw inference::BundleError(fmt::format("{}: manifest: {}", origin, error.what()));
  } catch (const configs::SettingsError& error) {
    throw inference::BundleError(error.what());
  } catch (const models::ModelError& error) {
    throw inference::BundleError(fmt::format("{}: settings: {}", origin, error.what()));
  } catch (const std::logic_error& error) {
    throw inference::BundleError(fmt::format("{}: training.data_fingerprint: {}", origin, error.what()));
  }
  copy_weights(bundle.weights, *trained.model, origin);
  trained.model->eval();
  return trained;
}

}  // namespace foretime::worker
