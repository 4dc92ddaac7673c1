#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/output_target.h"
#include "base/process.h"
#include "base/stop_signals.h"
#include "base/threads.h"
#include "cli/command_line/model_commands.h"
#include "cli/job_channel.h"
#include "comm/backends/factory.h"
#include "configs/load.h"
#include "coordinator/checkpoint_store.h"
#include "inference/bundle/pretrained.h"
#include "jobs/queue/job.h"
#include "jobs/sweep/finetune_job.h"
#include "sharding/dataset_index.h"
#include "worker/export/bundles.h"
#include "worker/run/launch.h"
#include "worker/step/fine_tuning.h"
#include "worker/step/trainer.h"
#include "worker/tuning/tuning.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// docs/how-to/finetuning.md has the measurements.
constexpr double kShare = 0.5;          // step towards the tuned weights if nothing is replayed
constexpr int64_t kReplayedGroups = 4;  // largest number in a batch

/// Returns a new folder next to the new bundle.
ScratchFolder scratch_folder(const fs::path& bundle) {
  try {
    return ScratchFolder(fs::absolute(bundle).replace_filename(fmt::format(".{}.tuning-", bundle.filename().string())));
  } catch (const StorageError&) {
    throw;
  } catch (const FileError& error) {
    throw configs::SettingsError("{}, expected a folder to write the new bundle to", error.what());
  }
}

/// Holds the bundle that continues to learn.
struct Parent {
  /// `targets`: files of machines that it is to know.
  Parent(const fs::path& file, const std::vector<std::string>& targets)
      : bytes(files().read(file)),
        bundle(inference::parse_bundle(bytes, file.string())),
        trained(worker::trained_model(bundle, file.string())) {
    inference::add_machines(bundle, data::read_machines(targets, ""));
  }

  std::string bytes;
  inference::Bundle bundle;
  worker::TrainedModel trained;
};

/// Ends the command where a signal asks for it, so that the scratch folder goes. Passes events to another listener.
class EndAtSignal final : public worker::TrainingListener {
 public:
  explicit EndAtSignal(worker::TrainingListener& next) : next_(next) {}
  void on_step(const worker::StepEvent& event) override {
    check();
    next_.on_step(event);
  }
  static void check() {
    if (StopSignals::received() != 0)
      throw Error(kPreempted, "stopped by a signal: no bundle was written; run the same command again");
  }

 private:
  worker::TrainingListener& next_;
  StopSignals signals_;
};

/// Holds the training data, and the number of skipped records.
struct TrainingData {
  std::unique_ptr<worker::TuningData> fresh, replay;  // replay: null where there is none
  std::vector<std::string> notes;
};

void check_measurable(const FinetuneArguments& options, const worker::TuningData& fresh,
                      const worker::TuningOutcome& outcome) {
  if (options.holdout == 0 || options.take_worse || outcome.measurable()) return;
  throw DataError(
      "{} of {} new candidates in {} groups were held out, too few to rank: "
      "measure more, hold out more, or learn from all of them unchecked (--holdout 0)",
      fresh.heldout_candidates(), fresh.heldout_candidates() + fresh.training_candidates(),
      fresh.dataset().entries.size());
}

worker::TuningOutcome tune(const FinetuneArguments& options, const worker::TrainedModel& trained,
                           const TrainingData& training_data, const worker::FineTuning& how) {
  const auto& [fresh, replay, notes] = training_data;
  const double started = steady_seconds();
  worker::TuningOutcome outcome;
  const auto before = fresh->evaluate(trained);
  outcome.before = worker::finite_metrics(before);
  check_measurable(options, *fresh, outcome);
  if (replay) outcome.replay_before = worker::finite_metrics(replay->evaluate(trained));
  const int all_threads = torch::get_num_threads();
  torch::set_num_threads(worker::threads_of_a_step(fresh->plan(), 0, all_threads));
  worker::fine_tune(trained, *fresh, replay.get(), how);
  torch::set_num_threads(all_threads);
  const auto after = fresh->evaluate(trained);
  outcome.after = worker::finite_metrics(after);
  if (replay) outcome.replay_after = worker::finite_metrics(replay->evaluate(trained));
  outcome.change = worker::order_change(before, after);
  outcome.kept_parent = !options.take_worse && outcome.change.mean < -options.tolerance * outcome.change.error;
  outcome.seconds = steady_seconds() - started;
  return outcome;
}

/// Returns the note in a bundle about its fine-tuning.
Json note_of(const FinetuneArguments& options, const Parent& parent, const TrainingData& training_data,
             const worker::FineTuning& how, const worker::TuningOutcome& outcome) {
  const auto& fresh = *training_data.fresh;
  Json note = {{"parent", jobs::content_id(parent.bytes)},
               {"data_fingerprint", fmt::format("{:016x}", fresh.dataset().fingerprint())},
               {"groups", fresh.dataset().entries.size()},
               {"trained_on", fresh.training_candidates()},
               {"held_out", fresh.heldout_candidates()},
               {"replayed", training_data.replay ? training_data.replay->training_candidates() : 0},
               {"steps", how.steps},
               {"learning_rate", how.learning_rate},
               {"share", how.interpolation_weight},
               {"seed", fresh.settings().trainer.seed},
               {"holdout", options.holdout}};
  outcome.add_to(note);
  return note;
}

inference::Bundle make_tuned(const FinetuneArguments& options, const Parent& parent,
                             const worker::TuningOutcome& outcome, Json note) {
  inference::Bundle bundle = parent.bundle;
  if (!outcome.kept_parent) {
    const auto tuned = worker::make_bundle(parent.trained, {});
    bundle.weights = tuned.weights;
    for (const char* key : {"graph", "foretime_version", "libraries"}) bundle.manifest[key] = tuned.manifest.at(key);
    bundle.manifest["metrics"] = outcome.after;
  }
  if (options.licence) bundle.manifest["licence"] = *options.licence;
  auto& tunings = bundle.manifest["tunings"];
  if (!tunings.is_array()) tunings = Json::array();
  tunings.push_back(std::move(note));
  return bundle;
}

void say(const FinetuneArguments& options, const Json& note, const worker::TuningOutcome& outcome,
         const std::vector<std::string>& notes) {
  if (options.json) {
    Json json = note;
    json["bundle"] = options.out;
    json["notes"] = notes;
    json["seconds"] = outcome.seconds;
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  for (const auto& text : notes) fmt::print("{}\n", text);
  fmt::print("{} candidates of {} groups to learn from, {} held out; {} steps, {:.1f} s\n{}",
             note.at("trained_on").get<int64_t>(), note.at("groups").get<int64_t>(), note.at("held_out").get<int64_t>(),
             note.at("steps").get<int64_t>(), outcome.seconds, outcome.table());
  std::string verdict;
  if (outcome.kept_parent)
    verdict =
        ", with the weights of its parent: the tuned ones order held-out candidates worse (--take-worse takes them)";
  else if (outcome.change.mean < 0)
    verdict =
        fmt::format(": held-out candidates are ordered worse, by {:.3f} ± {:.3f} in τ{}", -outcome.change.mean,
                    outcome.change.error, options.take_worse ? "" : "; --tolerance 0 would keep the parent's weights");
  fmt::print("{}: tuned from {} ({}){}\n", options.out, options.model, note.at("parent").get<std::string>(), verdict);
}

class TrainingDataReader {
 public:
  TrainingDataReader(const FinetuneArguments& options, const Parent& parent, const fs::path& scratch,
                     const data::FileCheck& admit)
      : options_(options),
        parent_(parent),
        spec_(inference::read_scoring_spec(parent.bundle)),
        scratch_(scratch),
        settings_(worker::tuning_settings(parent.trained.state.settings)),
        admit_(admit) {
    settings_.data.allowed_roots = options.confine;
    if (!options.confine.empty()) settings_.data.allowed_roots.push_back(scratch.string());
  }

  TrainingData read() {
    TrainingData training_data;
    auto settings = settings_;
    settings.data.holdout = options_.holdout;
    if (options_.seed) settings.trainer.seed = *options_.seed;
    training_data.fresh = open(options_.records, "new", settings, training_data.notes);
    if (options_.replay.empty()) return training_data;
    settings = settings_;  // holds out what the training held out
    settings.sampler.groups_per_batch = std::min(settings.sampler.groups_per_batch, kReplayedGroups);
    training_data.replay = open(options_.replay, "old", settings, training_data.notes);
    return training_data;
  }

 private:
  std::unique_ptr<worker::TuningData> open(const std::vector<std::string>& inputs, const char* packed,
                                           configs::Settings settings, std::vector<std::string>& notes) const {
    const worker::TuningSources sources{
        .inputs = inputs, .dags = options_.dags, .member = options_.member, .model = options_.model};
    auto input = worker::prepare_tuning_input(sources, spec_, scratch_ / packed, admit_);
    settings.data.train = std::move(input.files);
    auto data = std::make_unique<worker::TuningData>(parent_.trained, settings);
    notes.insert(notes.end(), input.notes.begin(), input.notes.end());
    for (const auto& group : data->skipped_groups())
      notes.push_back(group + ": left out, as all of it would be held out");
    return data;
  }

  const FinetuneArguments& options_;
  const Parent& parent_;
  inference::ScoringSpec spec_;
  fs::path scratch_;
  configs::Settings settings_;
  data::FileCheck admit_;
};

}  // namespace

void finetune(const FinetuneArguments& options, int& exit_code) {
  worker::make_deterministic();
  torch::set_num_threads(threads_to_use(options.threads, 1));
  const auto alone = comm::make_single_communicator();
  JobChannel channel(*alone);
  const auto parent_file = inference::bundle_file(options.model);
  std::vector<fs::path> inputs(options.records.begin(), options.records.end());
  inputs.insert(inputs.end(), options.replay.begin(), options.replay.end());
  inputs.insert(inputs.end(), options.targets.begin(), options.targets.end());
  inputs.insert(inputs.end(), {parent_file, options.dags});
  expect_replaceable("-o", options.out, FileKind::bundle, options.force, inputs);
  configs::DataSettings confined;
  confined.allowed_roots = options.confine;
  const auto admit = sharding::allowed_roots_check(confined);
  if (admit) {
    if (parent_file == options.model) admit(parent_file);  // else it is one that comes with Foretime
    for (const auto& file : options.targets) admit(file);
  }
  const Parent parent(parent_file, options.targets);
  const auto job_listener = channel.listener(0, 1);
  EndAtSignal listener(*job_listener);
  const auto scratch = scratch_folder(options.out);
  const auto training_data = TrainingDataReader(options, parent, scratch.path(), admit).read();

  worker::FineTuning how;
  how.steps = options.steps;
  how.learning_rate =
      options.learning_rate.value_or(kFinetuneRate * parent.trained.state.settings.optimizer.learning_rate);
  how.interpolation_weight = training_data.replay ? 1.0 : kShare;
  how.listener = &listener;
  EndAtSignal::check();
  const auto outcome = tune(options, parent.trained, training_data, how);
  const auto note = note_of(options, parent, training_data, how, outcome);
  inference::write_bundle(options.out, make_tuned(options, parent, outcome, note));
  channel.send_result(how.steps, outcome.job_metrics());
  say(options, note, outcome, training_data.notes);
  if (outcome.kept_parent) exit_code = kParentKept;
}

}  // namespace foretime::cli
