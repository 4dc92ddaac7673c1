#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/job_channel.h"
#include "cli/launch.h"
#include "cli/table.h"
#include "configs/load.h"
#include "coordinator/checkpoint_store.h"
#include "worker/evaluation_run.h"

namespace foretime::cli {
namespace {

struct Options {
  std::string checkpoint;
  std::vector<std::string> files;
  std::vector<std::string> overrides;
  std::string rankings;
  bool json = false;
};

void apply(configs::Settings& settings, const std::string& item) {
  const auto equals = item.find('=');
  if (equals == std::string::npos) throw configs::SettingsError(fmt::format("--set {}: expected key=value", item));
  configs::apply_override(settings, item.substr(0, equals), item.substr(equals + 1));
}

std::string to_json(const worker::Evaluation& evaluation) {
  nlohmann::json json = {{"metrics", evaluation.metrics}, {"groups", nlohmann::json::array()}};
  for (const auto& group : evaluation.groups) {
    json["groups"].push_back({{"set", group.set},
                              {"group", group.group},
                              {"candidates", group.candidates.size()},
                              {"metrics", group.metrics}});
  }
  return json.dump(2);
}

void run(const Options& options) {
  // Communication settings come from the command line alone: a checkpoint does not know how it is evaluated.
  configs::Settings launch;
  for (const auto& item : options.overrides) {
    if (item.starts_with("comm.") || item.starts_with("trainer.")) apply(launch, item);
  }
  with_communicator(launch.comm, launch.trainer.threads, [&](comm::Communicator& comm) {
    JobChannel channel(comm);
    const auto device = comm.device();
    const auto trained = worker::load_for_all(options.checkpoint, comm, device);
    auto settings = trained.state.settings;
    for (const auto& item : options.overrides) apply(settings, item);
    std::vector<std::string> sets = {"holdout", "valid", "test"};
    if (!options.files.empty()) {
      settings.data.root = ".";
      settings.data.train = settings.data.valid = {};
      settings.data.test = options.files;
      sets = {"test"};
    }
    const auto evaluation = worker::evaluate_trained(trained, settings, sets, comm, device, channel.scored());
    if (comm.rank() != 0) return;
    channel.send_result(trained.state.step, evaluation.metrics);
    if (!options.rankings.empty())
      coordinator::write_file_atomically(options.rankings, worker::rankings_csv(evaluation));
    if (options.json) {
      fmt::print("{}\n", to_json(evaluation));
    } else {
      fmt::print("{} of step {}\n{}\n{}", settings.model.type, trained.state.step,
                 comparison_table({{settings.model.type, evaluation}}), group_table(evaluation));
    }
  });
}

}  // namespace

void add_evaluate_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("evaluate", "Measure a checkpoint on its own evaluation sets, or on named files");
  command
      ->add_option("checkpoint", options->checkpoint, "a run directory (its best checkpoint) or one checkpoint folder")
      ->required();
  command->add_option("files", options->files, "files, folders or globs; without any, the sets of the run's settings");
  command->add_option("--set", options->overrides, "key=value, e.g. data.max_eval_candidates=0")->take_all();
  command->add_option("--rankings", options->rankings, "write all rankings to this CSV file");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
