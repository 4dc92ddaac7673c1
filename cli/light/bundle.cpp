#include <algorithm>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/output_target.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "configs/load.h"
#include "configs/settings_error.h"
#include "inference/bundle/pretrained.h"
#include "inference/scoring/model.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

struct BundleArguments {
  std::string bundle, output;
  std::vector<std::string> machines;
  bool graph = false, force = false;
};

void show_bundle(const BundleArguments& options) {
  const auto bundle = inference::read_bundle(inference::bundle_file(options.bundle));
  auto manifest = bundle.manifest;
  if (!options.graph) {
    const auto operations = manifest["graph"]["embed"].size() + manifest["graph"]["score"].size();
    manifest["graph"] = fmt::format("{} operations; --graph shows them", operations);
  }
  fmt::print("{}\n", manifest.dump(2));
}

/// The bundle with machines that it is to know besides; its weights and all else stay as they are.
void add_machines(const BundleArguments& options) {
  const auto from = inference::bundle_file(options.bundle);
  std::vector<fs::path> inputs(options.machines.begin(), options.machines.end());
  inputs.push_back(from);
  expect_replaceable("-o", options.output, FileKind::bundle, options.force, inputs);
  auto bundle = inference::read_bundle(from);
  const auto spec = inference::read_scoring_spec(bundle);
  if (!spec.representation || spec.representation == configs::Representation::ast)
    throw configs::SettingsError("{}: found no model of loop programs, the only kind that uses machines",
                                 from.string());
  const auto machines = data::read_machines(options.machines, "");
  const bool of_gpus = data::are_gpu_columns(spec.feature_count);
  for (const auto& machine : machines.all())
    if (machine.hardware.is_gpu() != of_gpus)
      throw configs::SettingsError("machine {}: found a {}, but {} scores programs for {}", machine.name,
                                   of_gpus ? "CPU (no multiprocessors)" : "GPU", from.string(),
                                   of_gpus ? "GPUs" : "CPUs");
  inference::add_machines(bundle, machines);
  inference::write_bundle(options.output, bundle);
  for (const auto& machine : machines.all()) {
    const auto same = [&](const data::Machine& other) { return other.name == machine.name; };
    const bool known = std::ranges::any_of(spec.machines.all(), same);
    fmt::print("{}: {} {}\n", options.output, known ? "updated" : "knows", machine.name);
  }
}

}  // namespace

void add_bundle_command(CLI::App& app) {
  auto options = std::make_shared<BundleArguments>();
  auto* command = app.add_subcommand("bundle", "Look into a bundle, and tell it of machines");
  command->require_subcommand(1);
  auto* manifest = command->add_subcommand("show", "Print its manifest: architecture, schema, training data, metrics");
  manifest->add_option("bundle", options->bundle, "model.foretime")->required();
  manifest->add_flag("--graph", options->graph, "with the list of operations");
  manifest->callback([options] { show_bundle(*options); });
  auto* machines = command->add_subcommand(
      "add-machine", "Write a bundle that knows machines besides its own, as the model that it is");
  machines->add_option("bundle", options->bundle, "model.foretime, or the name of one that comes with Foretime")
      ->required();
  typed_option(*machines, "machine", options->machines, "files of `foretime target measure`", "MACHINE")->required();
  machines->add_option("--output,-o", options->output, "the bundle to write")->required();
  add_force_flag(*machines, options->force);
  machines->footer(
      "What scores with the new bundle (rank, serve, Python, TVM) takes the caches and rates of these machines\n"
      "for records that name them by -model=; of a machine that no bundle knows they are guessed.\n"
      "Example:\n"
      "  foretime bundle add-machine x86-cpu machine.yaml -o mine.foretime");
  machines->callback([options] { add_machines(*options); });
}

}  // namespace foretime::cli
