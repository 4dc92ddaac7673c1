#include "jobs/agent/attempt_end.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "base/foreign_file.h"
#include "jobs/agent/agent_command.h"
#include "jobs/agent/run_folder.h"
#include "jobs/progress/progress_message.h"

namespace foretime::jobs {

void AttemptEnd::report_missing(const std::string& what) {
  result.outcome = runs_own_program ? Outcome::failed : Outcome::error;
  result.error = "the command ended well, but its result is missing: " + what;
  notes.push_back(result.error);
  result_missing = true;
}

void AttemptEnd::give_back_by_storage() {
  result.outcome = Outcome::preempted;
  result.unasked = true;
  result.exit_code = kStorage;
}

void AttemptEnd::read_files() {
  try {
    if (result.outcome == Outcome::failed && result.exit_code == kData && !files().is_folder(folder)) {
      notes.push_back(folder.string() + ": the attempt's folder no longer exists: gives the job back");
      give_back_by_storage();
      return;
    }
    if (lease.spec.kind == JobKind::evaluate) read_printed_metrics();
    if (is_success() && !unreadable_checkpoint.empty())
      checkpoint = published_checkpoint(unreadable_checkpoint, folder, roots);
    if (result.outcome == Outcome::succeeded) require_result();
    if (is_success() && lease.spec.kind == JobKind::train && checkpoint.empty())
      result.checkpoint = unpublished_checkpoint();
  } catch (const StorageError& error) {
    if (!is_success()) return;
    report_missing(error.what());
    give_back_by_storage();
  } catch (const ForeignFileError& error) {
    if (!is_success()) return;
    report_missing(error.what());
    result.outcome = Outcome::failed;  // a retry would fail again
  } catch (const std::exception& error) {
    if (is_success()) report_missing(error.what());
  }
}

void AttemptEnd::require_result() {
  const auto kind = lease.spec.kind;
  if (kind == JobKind::train) return require_training_result();
  if (kind == JobKind::evaluate) {
    if (metrics.empty() && !has_result)
      report_missing("found no metrics on the channel or in its output (evaluation.json)");
    return;
  }
  const auto made = folder / (kind == JobKind::export_ ? "export" : kBundleFile);
  if (kind == JobKind::export_) {
    if (const auto damage = checkpoint_damage(made); !damage.empty()) return report_missing(damage);
  } else {
    const auto bundle = open_foreign(folder, kBundleFile, UINT64_MAX);
    if (!bundle || bundle->size() == 0)
      return report_missing(made.string() + (bundle ? ": is empty" : ": no such file"));
  }
  checkpoint = made.lexically_relative(roots.runs).string();
}

std::string AttemptEnd::unpublished_checkpoint() {
  const auto& runs = roots.runs;
  const auto own = folder / "checkpoints";
  if (files().is_folder(own))
    if (const auto newest = newest_whole_checkpoint(own); !newest.empty())
      return newest.lexically_relative(runs).string();
  // The previous attempt may still run behind a broken network, and remove that checkpoint when it writes newer ones.
  if (!resumed_from.empty() && keep_checkpoints(resumed_from, folder))
    return (own / resumed_from.filename()).lexically_relative(runs).string();
  const auto published = runs / lease.checkpoint;
  const auto attempt = published.parent_path().parent_path();  // not here: it lies on another machine
  if (lease.checkpoint.empty() || !files().is_folder(attempt) || checkpoint_damage(published).empty()) return "";
  notes.push_back("no checkpoint is left: " + lease.checkpoint + ", which was published, is gone");
  return kNoCheckpoint;
}

void AttemptEnd::require_training_result() {
  if (!has_result) {
    // The channel was not reached (a launcher that starts rank 0 on another machine, say) or lost on the way.
    if (auto found = read_final_metrics(folder, runs_own_program)) {
      metrics = std::move(found->metrics);
      step = std::max(step, found->step);
    } else if (metrics.empty()) {
      return report_missing(
          fmt::format("no result came over its channel (FORETIME_PROGRESS), and {} has no final metrics{}",
                      (folder / "metrics.jsonl").string(), how_to_report_results()));
    }
    if (checkpoint.empty()) {
      const auto newest = newest_whole_checkpoint(folder / "checkpoints");
      if (newest.empty() && !has_messages && !runs_own_program)
        return report_missing(fmt::format("{}: no whole checkpoint", (folder / "checkpoints").string()));
      if (!newest.empty()) checkpoint = newest.lexically_relative(roots.runs).string();
    }
  }
  if (const auto& wanted = lease.spec.metric; !wanted.empty() && !metrics.contains(wanted)) {
    std::string known;
    for (const auto& [name, value] : metrics) known += " " + name;
    result.outcome = Outcome::failed;
    result.error =
        fmt::format("{}: {} is not among its metrics:{}{}", runs_own_program ? "metric.name" : "trainer.metric", wanted,
                    known.empty() ? " none" : known, first_useless_message.empty() ? "" : "; " + first_useless_message);
    notes.push_back(result.error);
  }
}

std::string AttemptEnd::how_to_report_results() const {
  if (!runs_own_program) return "";
  if (!first_useless_message.empty()) return "; " + first_useless_message;
  const auto metric = lease.spec.metric.empty() ? "loss" : lease.spec.metric;
  return fmt::format(
      "; a program must report its metric: in Python `trial = foretime.Trial()` at the start "
      "and `trial.finish(step, {{\"{0}\": value}})` at the end, or wandb.log; else metric_from in the sweep file, "
      "or a line {{\"kind\": \"final\", \"step\": 1, \"{0}\": 0.5}} in metrics.jsonl in the directory that "
      "the file FORETIME_TRIAL names (docs/reference/sweep-files.md, A program of your own); then foretime retry {1}",
      metric, lease.spec.sweep.empty() ? lease.job : lease.spec.sweep);
}

/// The metrics in the JSON that `foretime evaluate --json` prints, unless they came as a message.
void AttemptEnd::read_printed_metrics() {
  files().remove(folder / "evaluation.json");  // not through a link or FIFO
  write_whole(folder / "evaluation.json", evaluation_stdout);
  if (has_result) return;
  const auto begin = evaluation_stdout.find('{'), end = evaluation_stdout.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return;
  const auto json = nlohmann::json::parse(evaluation_stdout.substr(begin, end - begin + 1), nullptr, false);
  if (!json.is_object()) return;
  const auto listed = json.find("metrics");
  if (listed == json.end() || !listed->is_object()) return;
  for (const auto& [name, value] : listed->items())
    if (value.is_number() && metrics.size() < kProgressMetrics) metrics[name] = value.get<double>();
}

}  // namespace foretime::jobs
