#pragma once

#include <string>

#include "inference/bundle/bundle.h"
#include "worker/state/training_state.h"

namespace foretime::worker {

/// The trained model that a bundle holds, with its transforms, on the CPU: the inverse of make_bundle. `origin` stands
/// for the file in messages. Throws inference::BundleError where settings and weights do not fit together.
worker::TrainedModel trained_model(const inference::Bundle& bundle, const std::string& origin);

}  // namespace foretime::worker
