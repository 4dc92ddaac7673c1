#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "inference/bundle/bundle.h"
#include "worker/state/training_state.h"

namespace foretime::worker {

/// Holds notes that a bundle stores with its model.
struct BundleNotes {
  std::string licence;                    // licence of the weights, in their owner's words; "": none is stated
  std::map<std::string, double> metrics;  // key: "set/metric"; values are from the evaluation at the checkpoint's step
};

/// Returns a trained model as a bundle. Throws models::ModelError, with the reason and a remedy, for a model that
/// cannot be exported: one that scores graphs in segments, or has no inference graph (CostModel::inference_graph).
inference::Bundle make_bundle(const worker::TrainedModel& trained, const BundleNotes& notes);

/// Returns the metrics of the last evaluation at or before `step` in metrics.jsonl of the run directory, or those of
/// the final evaluation if it measured the model of `step`; empty if there is none. The key is "set/metric".
std::map<std::string, double> metrics_at(const std::filesystem::path& run, int64_t step);

/// Returns the trained model of a bundle, with its transforms, on the CPU: the inverse of make_bundle. Messages name
/// the file `origin`. Throws inference::BundleError if the manifest is damaged or does not match the weights.
worker::TrainedModel trained_model(const inference::Bundle& bundle, const std::string& origin);

/// Writes a bundle's graph as a TorchScript module (inference/graph/graph.h) for `torch.jit.load`; its extra file
/// manifest.json is the bundle's manifest. The file appears under its name once it is complete. Throws
/// models::ModelError if TorchScript refuses the model, FileError if the file cannot be written.
void write_torchscript(const std::filesystem::path& file, const inference::Bundle& bundle);

}  // namespace foretime::worker
