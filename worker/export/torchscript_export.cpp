#include "worker/export/torchscript_export.h"

#include <fmt/format.h>
#include <torch/script.h>

#include "base/atomic_file.h"
#include "inference/graph/graph.h"
#include "models/graph/error.h"

namespace foretime::worker {

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
    throw models::ModelError(fmt::format("{}: TorchScript refused the model: {}", file.string(), error.what()));
  }
  write_file_atomically(file, bytes.str());
}

}  // namespace foretime::worker
