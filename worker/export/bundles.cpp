#include "worker/export/bundles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <torch/script.h>

#include "base/atomic_file.h"
#include "base/foreign_file.h"
#include "base/numbers.h"
#include "configs/load.h"
#include "configs/metrics.h"
#include "data/frontends/loops/loop_graph.h"
#include "inference/graph/graph.h"
#include "models/graph/error.h"
#include "worker/evaluation/scoring.h"

namespace foretime::worker {
namespace {

using Json = nlohmann::json;

const char* unit_of(data::CandidateKind kind) {
  if (kind == data::CandidateKind::layout) return "nanoseconds";
  return kind == data::CandidateKind::tile ? "normalized" : "seconds";
}

/// Model settings as they were trained with: the part `model` of the resolved YAML, in its own words.
std::string model_settings(const std::string& yaml) {
  const auto start = yaml.find("model:\n");
  if (start == std::string::npos) return {};
  auto end = start + 7;
  while (end < yaml.size() && (yaml[end] == ' ' || yaml[end] == '#')) {
    const auto line = yaml.find('\n', end);
    end = line == std::string::npos ? yaml.size() : line + 1;
  }
  return yaml.substr(start, end - start);
}

void copy_weights(const inference::Weights& weights, const models::CostModel& model, const std::string& origin) {
  const torch::NoGradGuard no_grad;
  for (auto [name, tensor] : worker::model_tensors(model)) {
    const auto found = weights.find(name);
    if (found == weights.end())
      throw inference::BundleError("{}: tensor {}: missing, expected by the settings of the bundle", origin, name);
    const auto& [shape, values] = found->second;
    if (tensor.sizes().vec() != shape)
      throw inference::BundleError("{}: tensor {}: shape [{}], expected [{}] by the settings of the bundle", origin,
                                   name, fmt::join(shape, ", "), fmt::join(tensor.sizes().vec(), ", "));
    // Copied at once: the tensor on the right only borrows.
    tensor.copy_(torch::from_blob(const_cast<float*>(values.data()), shape, torch::kFloat));
  }
}

}  // namespace

inference::Bundle make_bundle(const worker::TrainedModel& trained, const BundleNotes& notes) {
  const auto& state = trained.state;
  auto settings = state.settings;
  settings.run = {};
  settings.comm = {};
  settings.data.allowed_roots = {};
  if (worker::SegmentScorer(trained.model, {.settings = settings, .targets = state.targets}).scores_segments())
    throw models::ModelError(
        "sampler.max_segment_nodes: {}, segments.stale: {}: this model scores graphs in segments, "
        "which a bundle cannot; train with segments.stale full_forward, or on whole graphs",
        settings.sampler.max_segment_nodes, word_of(settings.segments.stale));
  const auto graph = trained.model->inference_graph();
  const auto& schema = state.schema;
  const bool programs = schema.kind == data::CandidateKind::program;
  const auto yaml = configs::to_yaml(settings);
  const auto& loss = settings.loss;
  const bool regression = configs::predicts_runtimes(loss);
  const bool compares = graph.request.tied || inference::compares_candidates(graph);
  inference::Bundle bundle;
  bundle.weights = trained.model->inference_weights();
  bundle.manifest = {{"format_version", inference::kBundleVersion},
                     {"foretime_version", FORETIME_VERSION},
                     {"architecture", {{"type", word_of(settings.model.type)}, {"settings", model_settings(yaml)}}},
                     {"settings", yaml},
                     {"schema", inference::schema_of(
                                    schema.kind, programs ? std::optional(settings.data.representation) : std::nullopt,
                                    schema.feature_count, schema.node_type_count)},
                     {"prune_hops", settings.data.prune_hops},
                     {"hardware", nullptr},
                     {"graph", to_json(graph)},
                     {"targets",
                      {{"kind", word_of(state.targets.kind)},
                       {"scale", state.targets.scale},
                       {"mean", state.targets.mean},
                       {"deviation", state.targets.deviation}}},
                     {"predicts_runtimes", regression},
                     {"predicts_failures", settings.model.failure_output},
                     {"runtime_unit", unit_of(schema.kind)},
                     {"compares_candidates", compares},
                     {"training",
                      {{"data_fingerprint", fmt::format("{:016x}", state.data_fingerprint)},
                       {"step", state.step},
                       {"mean_runtime", state.train_mean_runtime}}},
                     {"metrics", notes.metrics},
                     {"licence", notes.licence},
                     {"libraries", {{"libtorch", FORETIME_TORCH_VERSION}}}};
  if (!state.columns.empty()) bundle.manifest["columns"] = Json::parse(state.columns);
  if (programs && settings.data.representation != configs::Representation::ast) {
    bundle.manifest["hardware"] = inference::to_json(data::hardware_of(settings.data.hardware));
    bundle.manifest["machines"] = Json::array();
    inference::add_machines(bundle, data::read_machines(settings.data.targets, settings.data.root));
  }
  return bundle;
}

std::map<std::string, double> metrics_at(const std::filesystem::path& run, int64_t step) {
  std::map<std::string, double> metrics;
  read_foreign_lines(run, "metrics.jsonl", UINT64_MAX, [&](std::string_view line) {
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object()) return;
    // A run's last line is of the checkpoint that it gives out, whatever step it ended at.
    const auto kind = json.value("kind", Json()), at = json.value("step", Json());
    const bool of_best = kind == "final" && (at == step || json.value("best_step", Json()) == step);
    if (!of_best && (kind != "eval" || !at.is_number() || at > step)) return;
    metrics.clear();
    for (const auto& [key, value] : json.items())
      if (key.find('/') != std::string::npos && value.is_number()) metrics[key] = value;
  });
  return metrics;
}

worker::TrainedModel trained_model(const inference::Bundle& bundle, const std::string& origin) {
  const auto spec = inference::read_scoring_spec(bundle);
  worker::TrainedModel trained;
  auto& state = trained.state;
  try {
    const auto& training = bundle.manifest.at("training");
    state.settings = configs::parse_settings(bundle.manifest.at("settings"), origin + ": settings");
    state.step = training.at("step");
    const auto fingerprint = parse_number<uint64_t>(training.at("data_fingerprint").get<std::string>(), 16);
    if (!fingerprint)
      throw inference::BundleError("{}: training.data_fingerprint: expected a hexadecimal number", origin);
    state.data_fingerprint = *fingerprint;
    state.train_mean_runtime = training.at("mean_runtime");
    state.schema = {spec.kind, spec.feature_count, spec.node_type_count};
    state.targets = {spec.targets};
    state.settings.data.targets = {};  // the manifest has what those files said
    trained.model = models::make_model(state.settings.model, state.schema);
  } catch (const nlohmann::json::exception& error) {
    throw inference::BundleError("{}: manifest: {}", origin, error.what());
  } catch (const configs::SettingsError& error) {
    throw inference::BundleError(error.what());
  } catch (const models::ModelError& error) {
    throw inference::BundleError("{}: settings: {}", origin, error.what());
  }
  copy_weights(bundle.weights, *trained.model, origin);
  trained.model->eval();
  return trained;
}

void write_torchscript(const std::filesystem::path& file, const inference::Bundle& bundle) {
  const auto spec = inference::read_scoring_spec(bundle);
  const auto source = inference::torchscript_source(spec.graph);
  torch::jit::Module module("ForetimeModel");
  for (const auto& [attribute, name] : source.attributes) {
    const auto& weight = bundle.weights.at(name);
    const auto borrowed = torch::from_blob(const_cast<float*>(weight.values.data()), weight.shape, torch::kFloat);
    module.register_buffer(attribute, borrowed.clone());
  }
  std::ostringstream bytes;
  try {
    module.define(source.text);
    module.save(bytes, {{"manifest.json", bundle.manifest.dump(2)}});
  } catch (const std::exception& error) {
    throw models::ModelError("{}: TorchScript refused the model: {}", file.string(), error.what());
  }
  write_file_atomically(file, bytes.str(), AtomicFile::Leftovers::remove);
}

}  // namespace foretime::worker
