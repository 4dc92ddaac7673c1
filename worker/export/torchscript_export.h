#pragma once

#include <filesystem>

#include "inference/bundle/bundle.h"

namespace foretime::worker {

/// Writes a bundle's graph as a TorchScript module (inference/graph/graph.h), which `torch.jit.load` reads; its extra
/// file manifest.json is the bundle's manifest. Written aside and renamed. Throws models::ModelError.
void write_torchscript(const std::filesystem::path& file, const inference::Bundle& bundle);

}  // namespace foretime::worker
