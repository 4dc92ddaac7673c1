#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "inference/bundle/bundle.h"
#include "worker/state/training_state.h"

namespace foretime::worker {

/// What a bundle says of its model beside what the model itself knows.
struct BundleNotes {
  std::string licence;                    // of the weights, as their owner words it; "" where nothing is said
  std::map<std::string, double> metrics;  // by "set/metric", of the evaluation at the checkpoint's step
};

/// A trained model as a bundle. Throws models::ModelError where the model cannot be exported, saying why and what to
/// do: models that score graphs in segments, and those without a form.
inference::Bundle make_bundle(const worker::TrainedModel& trained, const BundleNotes& notes);

/// The metrics of the evaluation at `step` of the run directory's metrics.jsonl, the last one at or before it; empty
/// where there is none.
std::map<std::string, double> metrics_at(const std::filesystem::path& run, int64_t step);

/// The trained model that a bundle holds, with its transforms, on the CPU: the inverse of make_bundle. `origin` stands
/// for the file in messages. Throws inference::BundleError where settings and weights do not fit together.
worker::TrainedModel trained_model(const inference::Bundle& bundle, const std::string& origin);

/// Writes a bundle's graph as a TorchScript module (inference/graph/graph.h), which `torch.jit.load` reads; its extra
/// file manifest.json is the bundle's manifest. Written aside and renamed. Throws models::ModelError.
void write_torchscript(const std::filesystem::path& file, const inference::Bundle& bundle);

}  // namespace foretime::worker
