#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/message.h"
#include "base/output_target.h"
#include "base/terminal.h"
#include "cli/command_line/model_commands.h"
#include "cli/job_channel.h"
#include "comm/communicator.h"
#include "configs/load.h"
#include "worker/evaluation/evaluation_run.h"
#include "worker/run/display.h"
#include "worker/run/launch.h"
#include "worker/state/device.h"

namespace foretime::cli {
namespace {

void apply(configs::Settings& settings, const std::string& item) {
  const auto equals = item.find('=');
  if (equals == std::string::npos) throw configs::SettingsError("--set {}: expected key=value", item);
  configs::apply_override(settings, item.substr(0, equals), item.substr(equals + 1));
}

/// A model alone, or the members of an ensemble and what they say together.
struct Evaluations {
  std::vector<worker::EnsembleMember> members;
  std::vector<worker::Evaluation> of_members;
  worker::Evaluation joined;  // the member's own where there is one
};

Evaluations evaluate_all(std::vector<worker::EnsembleMember> members, const configs::Settings& settings,
                         const std::vector<std::string>& sets, comm::Communicator& comm, torch::Device device,
                         const std::function<void(int64_t)>& on_scored) {
  Evaluations found{std::move(members), {}, {}};
  for (size_t m = 0; m < found.members.size(); ++m) {
    const auto& trained = found.members[m].trained;
    auto own = settings;
    if (m > 0) own.shard = trained.state.settings.shard;  // rule of the segments on which it was trained
    found.of_members.push_back(worker::evaluate_trained(trained, own, sets, comm, device, on_scored));
  }
  found.joined =
      found.members.size() == 1
          ? found.of_members.front()
          : worker::joined_evaluation(found.of_members, found.members.front().trained.state.schema.kind, comm);
  return found;
}

std::string evaluations_json(const Evaluations& found) {
  const auto& evaluation = found.joined;
  nlohmann::json json = {{"metrics", evaluation.metrics}, {"groups", nlohmann::json::array()}};
  if (found.members.size() == 1) json["step"] = found.members.front().trained.state.step;
  for (size_t m = 0; found.members.size() > 1 && m < found.members.size(); ++m) {
    const auto& state = found.members[m].trained.state;
    json["members"].push_back({{"checkpoint", found.members[m].name},
                               {"model", word_of(state.settings.model.type)},
                               {"step", state.step},
                               {"metrics", found.of_members[m].metrics}});
  }
  for (const auto& group : evaluation.groups) {
    json["groups"].push_back({{"set", group.set},
                              {"group", group.group},
                              {"candidates", group.candidates.size()},
                              {"metrics", group.metrics}});
  }
  return json.dump(2);
}

std::string to_text(const Evaluations& found) {
  std::string head;
  std::vector<worker::NamedEvaluation> rows;
  for (size_t m = 0; m < found.members.size(); ++m) {
    const auto& [name, trained] = found.members[m];
    const auto type = word_of(trained.state.settings.model.type);
    head += fmt::format("{} of step {}{}\n", type, trained.state.step, found.members.size() > 1 ? ": " + name : "");
    rows.emplace_back(found.members.size() > 1 ? fmt::format("{}. {}", m + 1, type) : type, found.of_members[m]);
  }
  if (found.members.size() > 1) rows.emplace_back("ensemble", found.joined);
  return fmt::format("{}{}\n{}", head, worker::comparison_table(rows, output_width()),
                     worker::group_table(found.joined, output_width()));
}

std::vector<worker::EnsembleMember> load_members(const EvaluateArguments& options, comm::Communicator& comm,
                                                 torch::Device device) {
  std::vector<worker::EnsembleMember> members;
  members.push_back({options.checkpoint, worker::load_for_all(options.checkpoint, comm, device)});
  for (const auto& name : options.ensemble) members.push_back({name, worker::load_for_all(name, comm, device)});
  comm::run_together(comm, [&] { worker::check_same_inputs(members); });
  return members;
}

/// Files that are named take the place of these settings, or are nothing that these settings are about.
void check_files(const EvaluateArguments& options) {
  for (const auto& item : options.overrides) {
    const auto key = item.substr(0, item.find('='));
    const bool replaced = key == "data.root" || key == "data.train" || key == "data.valid" || key == "data.test";
    const bool of_training =
        key == "data.holdout" || key == "data.train_fraction" || key == "data.duplicates" || key == "data.overlap";
    if (options.files.empty()) continue;
    if (of_training)
      throw configs::SettingsError(
          "--set {}: found files as well, which are evaluated whole, as a test set, regardless of this setting; "
          "leave it out, or leave out the files to evaluate the sets of the run",
          key);
    if (replaced)
      throw configs::SettingsError(
          "--set {}: found files as well, which replace this setting; leave out one of the two", key);
  }
}

}  // namespace

void evaluate(const EvaluateArguments& options) {
  check_files(options);
  if (!options.rankings.empty())
    expect_replaceable("--rankings", options.rankings, FileKind::ranking, options.force,
                       {options.files.begin(), options.files.end()});
  // Communication settings come from the command line alone: a checkpoint does not know how it is evaluated.
  configs::Settings launch;
  for (const auto& item : options.overrides)
    if (item.starts_with("comm.") || item.starts_with("trainer.")) apply(launch, item);
  worker::with_communicator(
      launch.comm, {launch.trainer.device, launch.trainer.threads}, [&](comm::Communicator& comm) {
        JobChannel channel(comm);
        const auto device = worker::choose_device(launch.trainer.device, comm);
        auto members = load_members(options, comm, device);
        auto settings = members.front().trained.state.settings;
        if (!options.files.empty()) settings.data.eval_indices.clear();  // the indices are for the run's own files
        for (const auto& item : options.overrides) apply(settings, item);
        std::vector<std::string> sets = {"holdout", "valid", "test"};
        if (!options.files.empty()) {
          settings.data.root = ".";
          settings.data.train = settings.data.valid = {};
          settings.data.test = options.files;
          sets = {"test"};
        } else if (members.size() > 1 && !worker::have_equal_holdouts(members, settings)) {
          sets = {"valid", "test"};
          if (comm.rank() == 0)
            print_message(
                "foretime: skips the held-out candidates: "
                "a member was trained on them, with another trainer.seed or a smaller data.holdout\n");
        }
        const auto found = evaluate_all(std::move(members), settings, sets, comm, device, channel.scored());
        if (comm.rank() != 0) return;
        channel.send_result(found.members.front().trained.state.step, found.joined.metrics);
        if (!options.rankings.empty()) write_output(options.rankings, worker::rankings_csv(found.joined));
        fmt::print("{}", options.json ? evaluations_json(found) + "\n" : to_text(found));
      });
}

}  // namespace foretime::cli
