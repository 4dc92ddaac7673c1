#include "worker/state/training_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "base/text.h"
#include "configs/load.h"
#include "worker/state/weight_average.h"

namespace foretime::worker {
namespace {

using Json = nlohmann::json;
using coordinator::RunError;
using coordinator::StoredCheckpoint;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr int64_t kFormat = 1;  // version of state.json

const std::string& file_of(const StoredCheckpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.files.find(name);
  if (found == checkpoint.files.end()) throw RunError("{}: has no file {}", checkpoint.folder.string(), name);
  return found->second;
}

models::Safetensors tensors_of(const StoredCheckpoint& checkpoint, const char* name) {
  return parse_tensors(file_of(checkpoint, name), (checkpoint.folder / name).string());
}

Json state_json(const StoredCheckpoint& checkpoint) {
  const auto state = Json::parse(file_of(checkpoint, kStateFile), nullptr, false);
  const auto file = checkpoint.folder / kStateFile;
  if (!state.is_object())
    throw RunError("{}: found no JSON object, expected a training state: resume from another checkpoint",
                   file.string());
  coordinator::require_format(state.value("format", Json()), kFormat, file);
  return state;
}

std::string shape_text(const torch::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

}  // namespace

NamedTensors model_tensors(const models::CostModel& model) {
  NamedTensors all;
  for (const auto& item : model.named_parameters()) all.emplace_back(item.key(), item.value().detach());
  for (const auto& item : model.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

std::map<std::string, std::string> checkpoint_files(const TrainingState& state, const models::CostModel& model,
                                                    const Adam& optimizer, const coordinator::EarlyStop& early_stop) {
  // Where a run writes its files, what it may read and how it is launched are not part of what it has learned: the same
  // training gives the same bytes.
  auto settings = state.settings;
  settings.run = {};
  settings.comm = {};
  settings.data.allowed_roots = {};
  Json json = {{"format", kFormat},
               {"step", state.step},
               {"schema",
                {{"kind", static_cast<int>(state.schema.kind)},
                 {"feature_count", state.schema.feature_count},
                 {"node_type_count", state.schema.node_type_count}}},
               {"targets",
                {{"kind", static_cast<int>(state.targets.kind)},
                 {"scale", state.targets.scale},
                 {"mean", state.targets.mean},
                 {"deviation", state.targets.deviation}}},
               {"settings", configs::to_yaml(settings)},
               {"data_fingerprint", fmt::format("{:016x}", state.data_fingerprint)},
               {"train_mean_runtime", state.train_mean_runtime},
               {"optimizer_steps", optimizer.steps()},
               {"best", early_stop.best() ? Json(*early_stop.best()) : Json(nullptr)},
               {"best_step", early_stop.best_step()},
               {"waited", early_stop.waited()}};
  if (!state.columns.empty()) json["columns"] = state.columns;
  for (const auto& [graph, thresholds] : state.tie_thresholds)
    json["levels"][fmt::format("{:016x}", graph)] = thresholds;
  return {
      {kModelFile, models::serialize_safetensors(
                       model_tensors(model), {{"format", "foretime"}, {"model", word_of(state.settings.model.type)}})},
      {kOptimizerFile, models::serialize_safetensors(optimizer.moments())},
      {kStateFile, json.dump(2) + "\n"}};
}

TrainingState read_state(const StoredCheckpoint& checkpoint) {
  const auto json = state_json(checkpoint);
  TrainingState state;
  try {
    state.step = json.at("step");
    state.schema.kind = static_cast<data::CandidateKind>(json.at("schema").at("kind").get<int>());
    state.schema.feature_count = json.at("schema").at("feature_count");
    state.schema.node_type_count = json.at("schema").at("node_type_count");
    state.columns = json.value("columns", "");
    const auto& targets = json.at("targets");
    state.targets = {static_cast<models::TargetTransform::Kind>(targets.at("kind").get<int>()), targets.at("scale"),
                     targets.at("mean"), targets.at("deviation")};
    state.settings = configs::parse_settings(json.at("settings"), (checkpoint.folder / kStateFile).string());
    const auto hexadecimal = [&](const std::string& text) {
      const auto number = parse_number<uint64_t>(text, 16);
      if (!number)
        throw RunError("{}: found '{}', expected a hexadecimal number", (checkpoint.folder / kStateFile).string(),
                       printable(text));
      return *number;
    };
    state.data_fingerprint = hexadecimal(json.at("data_fingerprint").get<std::string>());
    state.train_mean_runtime = json.at("train_mean_runtime");
    const auto levels = json.value("levels", Json::object());  // items() does not keep what it is called on
    for (const auto& [graph, thresholds] : levels.items())
      state.tie_thresholds[hexadecimal(graph)] = thresholds.get<std::vector<double>>();
  } catch (const Json::exception& error) {
    throw RunError("{}: {}", (checkpoint.folder / kStateFile).string(), error.what());
  }
  return state;
}

models::Safetensors parse_tensors(const std::string& file, const std::string& origin) {
  try {
    return models::parse_safetensors(file, origin);
  } catch (const models::ModelError& error) {
    throw RunError(error.what());
  }
}

void copy_tensors(const models::Safetensors& stored, const NamedTensors& own, const std::string& origin) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) {
    const auto found = stored.tensors.find(name);
    if (found == stored.tensors.end()) throw RunError("{}: no tensor {}: a checkpoint of another model", origin, name);
    if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type())
      throw RunError("{}: tensor {}: {} {}, expected {} {}: a checkpoint of another model", origin, name,
                     c10::toString(found->second.scalar_type()), shape_text(found->second),
                     c10::toString(tensor.scalar_type()), shape_text(tensor));
  }
  if (stored.tensors.size() != own.size())
    throw RunError("{}: {} tensors, expected {}: a checkpoint of another model", origin, stored.tensors.size(),
                   own.size());
  for (auto [name, tensor] : own) tensor.copy_(stored.tensors.at(name));
}

void restore_model(const StoredCheckpoint& checkpoint, models::CostModel& model) {
  copy_tensors(tensors_of(checkpoint, kModelFile), model_tensors(model), (checkpoint.folder / kModelFile).string());
}

void restore_final_model(const StoredCheckpoint& checkpoint, models::CostModel& model) {
  const char* name = checkpoint.files.contains(kAverageFile) ? kAverageFile : kModelFile;
  copy_tensors(tensors_of(checkpoint, name), model_tensors(model), (checkpoint.folder / name).string());
}

void restore_progress(const StoredCheckpoint& checkpoint, Adam& optimizer, coordinator::EarlyStop& early_stop) {
  const auto json = state_json(checkpoint);
  const auto moments = tensors_of(checkpoint, kOptimizerFile);
  try {
    optimizer.restore(moments.tensors, json.at("optimizer_steps"));
    const auto& best = json.at("best");
    early_stop.restore(best.is_null() ? std::nullopt : std::optional<double>(best.get<double>()), json.at("best_step"),
                       json.at("waited"));
  } catch (const Json::exception& error) {
    throw RunError("{}: {}", (checkpoint.folder / kStateFile).string(), error.what());
  } catch (const std::out_of_range&) {
    throw RunError("{}: moments of a parameter are missing", (checkpoint.folder / kOptimizerFile).string());
  }
}

TrainedModel load_trained_model(const StoredCheckpoint& checkpoint) {
  TrainedModel trained;
  trained.state = read_state(checkpoint);
  trained.model = models::make_model(trained.state.settings.model, trained.state.schema);
  restore_final_model(checkpoint, *trained.model);
  trained.model->eval();
  return trained;
}

std::string serialize(const StoredCheckpoint& checkpoint) {
  Json json = {checkpoint.step, checkpoint.folder.string(), Json::object()};
  for (const auto& [name, bytes] : checkpoint.files) json[2][name] = Json::binary({bytes.begin(), bytes.end()});
  const auto cbor = Json::to_cbor(json);
  return {cbor.begin(), cbor.end()};
}

StoredCheckpoint parse_stored_checkpoint(const std::string& bytes) {
  const auto json = Json::from_cbor(bytes);
  StoredCheckpoint checkpoint{.step = json[0], .folder = json[1].get<std::string>()};
  for (const auto& [name, value] : json[2].items()) {
    const auto& binary = value.get_binary();
    checkpoint.files.emplace(name, std::string(binary.begin(), binary.end()));
  }
  return checkpoint;
}

}  // namespace foretime::worker
