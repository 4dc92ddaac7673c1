#include "worker/step/run_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/files.h"
#include "comm/communicator.h"
#include "configs/load.h"
#include "worker/evaluation/scoring.h"
#include "worker/state/replicas.h"

namespace foretime::worker {

void ModelEvaluation::fit_thresholds() {
  const auto& settings = run_.settings;
  if (settings.trainer.tie_threshold_candidates == 0 || std::exchange(thresholds_fitted_, true)) return;
  const AveragedWeights averaged(*run_.model, run_.average.get());
  auto options = scoring_options(run_.state, run_.device);
  options.tie_thresholds.clear();  // the thresholds of earlier weights are invalid
  options.on_scored = [this](int64_t) { run_.comm.keep_alive(); };
  std::vector<Scorer> scorers;
  for (const auto& model : settings.trainer.cross_fitting ? run_.model->members() : std::vector{run_.model})
    scorers.push_back(scorer_for(model, options));
  run_.state.tie_thresholds = fit_tie_thresholds(scorers, settings.trainer.tie_threshold_candidates, run_.data());
}

Evaluation ModelEvaluation::evaluate(const std::vector<std::string>& sets) {
  const ProfileSpan span(run_.profiler, "evaluation");
  fit_thresholds();
  const AveragedWeights averaged(*run_.model, run_.average.get());
  auto options = scoring_options(run_.state, run_.device);
  options.on_scored = [this](int64_t candidates) {
    run_.comm.keep_alive();
    if (run_.root()) events_.on_scored(candidates);
  };
  return evaluate_model(run_.model, options, sets, run_.data());
}

Evaluation ModelEvaluation::evaluate_constant() const {
  return worker::evaluate(constant_scorer(run_.state.train_mean_runtime), {"holdout", "valid", "test"}, run_.data());
}

void RunCheckpoints::save(int64_t step) {
  if (saved_step_ == step) return;
  const ProfileSpan span(run_.profiler, "checkpoint");
  if (run_.settings.checkpoint.compare_replicas) compare_replicas(*run_.model, step, run_.comm);
  saved_step_ = step;
  run_.state.step = step;
  evaluation_.fit_thresholds();
  const auto history = run_.forward->history_file(run_.comm);
  comm::run_together(run_.comm, [&] {
    if (!run_.root()) return;
    auto files = checkpoint_files(run_.state, *run_.model, *run_.optimizer, run_.early_stop);
    if (!history.empty()) files[kHistoryFile] = history;
    if (run_.average && run_.average->count() > 0) files[kAverageFile] = run_.average->checkpoint_file();
    auto& store = run_.directory->checkpoints();
    run_.directory->sync_metrics();
    store.commit(step, files);
    events_.on_checkpoint({step, store.folder(step)});
    store.prune(run_.settings.checkpoint.keep_last, run_.settings.checkpoint.keep_best);
  });
  saved_at_ = steady_seconds();
}

bool RunCheckpoints::restore_best(int64_t step) {
  std::string best;
  bool intact = true;
  comm::run_together(run_.comm, [&] {
    if (!run_.root() || !run_.settings.checkpoint.keep_best) return;
    try {
      const auto best_step = run_.directory->checkpoints().noted_best();
      if (best_step && *best_step != step) best = serialize(run_.directory->checkpoints().read(*best_step));
    } catch (const StorageError&) {
      throw;
    } catch (const Error& error) {
      run_.log.warn(
          "{}; the best model, of step {} ({} {:.6g}), is lost: the final evaluation is of the last one, of step {}, "
          "which counts as the best from now on",
          error.what(), run_.early_stop.best_step(), run_.settings.trainer.metric, run_.early_stop.best().value_or(NAN),
          step);
      intact = false;
    }
  });
  best = run_.comm.broadcast_bytes(best, 0);
  if (best.empty()) return intact;
  const auto checkpoint = parse_stored_checkpoint(best);
  restore_final_model(checkpoint, *run_.model);
  run_.average.reset();  // the average of the last step is not the best one
  evaluation_.weights_changed();
  run_.log.info("final evaluation of the best model, of step {}", checkpoint.step);
  return true;
}

void RunCheckpoints::resume() {
  std::string found;
  comm::run_together(run_.comm, [&] {
    if (!run_.root()) return;
    const auto& wanted = run_.settings.checkpoint.resume;
    const auto steps = run_.directory->checkpoints().steps();
    if (wanted == "never" && !steps.empty())
      throw configs::SettingsError(
          "{}: holds checkpoints, and checkpoint.resume is never; "
          "name another run.directory, or set run.overwrite=true",
          run_.directory->path().string());
    const auto warn = [&](const std::string& what) { run_.log.warn("{}; looking for another checkpoint", what); };
    if (wanted == "auto" && !steps.empty()) {
      const auto checkpoint = run_.directory->checkpoints().read_intact(steps.back(), warn);
      run_.directory->checkpoints().set_aside_after(checkpoint.step);
      found = serialize(checkpoint);
    } else if (wanted != "auto" && wanted != "never") {
      found = serialize(coordinator::read_intact_checkpoint(wanted, warn));
    }
    if (found.empty()) run_.directory->rewind_metrics(-1);
  });
  found = run_.comm.broadcast_bytes(found, 0);
  if (found.empty()) return;
  comm::run_together(run_.comm, [&] { restore(parse_stored_checkpoint(found)); });
}

void RunCheckpoints::restore(const coordinator::StoredCheckpoint& checkpoint) {
  const auto stored = read_state(checkpoint);
  const auto folder = checkpoint.folder.string();
  auto& state = run_.state;
  if (!(stored.schema == state.schema))
    throw coordinator::RunError("{}: made for other data: {} node features and {} node types, expected {} and {}",
                                folder, stored.schema.feature_count, stored.schema.node_type_count,
                                state.schema.feature_count, state.schema.node_type_count);
  if (stored.columns != state.columns)
    throw coordinator::RunError("{}: made for other data: a table with other columns than those of data.train", folder);
  restore_model(checkpoint, *run_.model);
  restore_progress(checkpoint, *run_.optimizer, run_.early_stop);
  state.step = stored.step;
  // A run that resumes from the checkpoint of another folder writes its own one, even if no step is left.
  if (run_.settings.checkpoint.resume == "auto") saved_step_ = stored.step;
  state.targets = stored.targets;
  state.train_mean_runtime = stored.train_mean_runtime;
  restore_average(checkpoint);
  restore_history(checkpoint);
  if (run_.root()) {
    run_.directory->rewind_metrics(stored.step);
    if (run_.settings.checkpoint.resume != "auto") carry_over_best(checkpoint.folder);
    // A run that was killed may have noted a best step whose checkpoint it did not write.
    auto& store = run_.directory->checkpoints();
    if (run_.settings.checkpoint.keep_best && run_.early_stop.best())
      store.mark_best(run_.early_stop.best_step(), run_.settings.trainer.metric, *run_.early_stop.best());
    else store.unmark_best();
  }
  run_.log.info("continues at step {} from {}", stored.step, folder);
  if (stored.step >= run_.total_steps())
    run_.log.info("already at step {} of {}: no steps are left; set a larger trainer.steps to continue", stored.step,
                  run_.total_steps());
}

void RunCheckpoints::restore_average(const coordinator::StoredCheckpoint& checkpoint) {
  if (!run_.average) return;
  const auto stored = checkpoint.files.find(kAverageFile);
  if (stored != checkpoint.files.end() &&
      run_.average->restore(stored->second, (checkpoint.folder / kAverageFile).string()))
    return;
  run_.log.info("{}: the checkpoint holds no average of the weights ({}); averaging begins now",
                checkpoint.folder.string(), word_of(run_.settings.averaging.type));
}

void RunCheckpoints::restore_history(const coordinator::StoredCheckpoint& checkpoint) {
  if (!run_.forward->keeps_history()) return;
  const auto stored = checkpoint.files.find(kHistoryFile);
  if (stored != checkpoint.files.end() &&
      run_.forward->restore_history(stored->second, (checkpoint.folder / kHistoryFile).string()))
    return;
  run_.log.info("{}: the checkpoint has no history of these segments; training begins with an empty history",
                checkpoint.folder.string());
}

/// The run may never become better than the best checkpoint of the other run.
void RunCheckpoints::carry_over_best(const std::filesystem::path& checkpoint) {
  const coordinator::CheckpointStore before(checkpoint.parent_path());
  const auto known = before.steps();
  const int64_t best = run_.early_stop.best_step();
  if (!run_.settings.checkpoint.keep_best || !run_.early_stop.best() ||
      std::find(known.begin(), known.end(), best) == known.end()) {
    return;
  }
  const auto own = run_.directory->checkpoints().steps();
  if (std::find(own.begin(), own.end(), best) != own.end()) return;
  std::map<std::string, std::string> files;
  try {
    files = before.read(best).files;
  } catch (const StorageError&) {
    throw;
  } catch (const Error& error) {
    run_.log.warn(
        "{}; the best model so far, of step {}, is lost: a later model is kept as the best only if it is better",
        error.what(), best);
    return;
  }
  run_.directory->checkpoints().commit(best, files);
}

}  // namespace foretime::worker
