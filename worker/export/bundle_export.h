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

}  // namespace foretime::worker
