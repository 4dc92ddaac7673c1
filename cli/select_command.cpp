#include "cli/select_command.h"

#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/parsing/options.h"
#include "inference/bundle/pretrained.h"
#include "inference/selection/choose.h"

namespace foretime::cli {
namespace {

void run(const SelectArguments& arguments, const CheckpointReader& read_checkpoint) {
  std::vector<std::string> models = {arguments.model};
  models.insert(models.end(), arguments.ensemble.begin(), arguments.ensemble.end());
  std::vector<inference::Bundle> bundles;
  for (const auto& name : models) {
    const auto model = inference::bundle_file(name).string();
    const bool bundle = std::filesystem::is_regular_file(model);
    bundles.push_back(bundle ? inference::read_bundle(model) : read_checkpoint(model));
  }
  select_candidates(std::move(bundles), arguments);
}

}  // namespace

void add_select_command(CLI::App& app, const CheckpointReader& read_checkpoint) {
  auto arguments = std::make_shared<SelectArguments>();
  auto* command = app.add_subcommand("select", "Choose which candidates to measure next, for a model to learn most");
  needed_option(*command, "model", arguments->model,
                "a bundle (foretime export), a run directory (its best checkpoint) or one checkpoint folder", "MODEL");
  needed_option(*command, "files", arguments->files,
                "candidates: files of tuning records or of save_json text, whose run times are not looked at; or graph "
                "files, folders, globs or packed collections",
                "FILE");
  checked_option(*command, "--number,-n", arguments->number,
                 "how many to choose in all, as many of each task; tasks that have fewer give all",
                 CLI::Range(1, 1'000'000'000))
      ->required();
  shown_option(*command, "--method", arguments->method,
               "representative (in proportion to where candidates lie dense), diverse (far from each other and from "
               "what is measured), uncertain (members of an ensemble disagree), mixed (representative of the more "
               "uncertain half) or random",
               CLI::IsMember(configs::words_of<inference::SelectionMethod>()));
  command
      ->add_option("--measured", arguments->measured,
                   "candidates that are measured already, in files of the same kind: none is chosen again, and choices "
                   "lie where there are few of them; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command
      ->add_option("--ensemble", arguments->ensemble,
                   "another model, whose disagreement with the first one counts as uncertainty; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--output,-o", arguments->output,
                      "file to write the chosen lines to, unchanged from the files of the candidates");
  command->add_flag("--force", arguments->force, "replace the file of --output if it exists");
  command->add_flag("--json", arguments->json, "print JSON instead of CSV");
  command->add_option("--seed", arguments->seed, "of random; the other methods know no chance")->capture_default_str();
  add_dags_option(*command, arguments->dags,
                  "the compute DAGs of the records' workloads, plain or gzip, see docs/explanations/schedules.md");
  command->add_option("--member", arguments->member,
                      "which text of each record of save_json text, where records have several");
  checked_option(*command, "--threads", arguments->threads, "threads that score; 0: one a core", CLI::Range(0, 256));
  command->footer(
      "Examples:\n"
      "  foretime select model.foretime candidates.json --dags dags.jsonl --number 200 -o measure.json\n"
      "  foretime select model.foretime candidates.json --dags dags.jsonl -n 64 --measured round1.json --method mixed");
  command->callback([arguments, read_checkpoint] { run(*arguments, read_checkpoint); });
}

}  // namespace foretime::cli
