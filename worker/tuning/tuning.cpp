#include "worker/tuning/tuning.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/glob.h"
#include "base/table.h"
#include "base/text.h"
#include "configs/load.h"
#include "data/dataset/records/record_pack.h"
#include "data/files/file_form.h"
#include "data/files/packed.h"
#include "data/frontends/hlo/hlo_groups.h"
#include "data/frontends/tir/tir_file.h"
#include "inference/scoring/model.h"

namespace foretime::worker {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> paths_of(const std::string& input) {
  auto found = paths_named(input, ".");
  if (found.empty()) throw DataError("{}: no file of this name or pattern, expected files to learn from", input);
  return found;
}

bool holds_graphs(const fs::path& path) {
  return files().is_folder(path) || path.extension() == ".npz" || data::is_hlo_file(path) || data::is_packed(path);
}

const char* candidates_of(const inference::ScoringSpec& spec) {
  if (spec.kind == data::CandidateKind::layout) return "layouts";
  if (spec.kind == data::CandidateKind::tile) return "tiles";
  return spec.representation == configs::Representation::ast ? "syntax trees" : "loop programs";
}

void check_records(const fs::path& first, const TuningSources& sources, const inference::ScoringSpec& spec) {
  const auto file = first.string();
  if (spec.kind != data::CandidateKind::program || spec.representation == configs::Representation::ast)
    throw DataError(
        "{}: taken for tuning records, which become loop programs, but {} scores {}: "
        "expected .npz files or packed collections of these",
        file, sources.model, candidates_of(spec));
  if (first.extension() == ".foretime") throw DataError("{}: is no packed collection, expected new measurements", file);
  if (sources.dags.empty())
    throw configs::SettingsError(
        "--dags: is missing, expected the compute DAGs of the workloads in {} (docs/explanations/schedules.md)", file);
}

void check_runtimes(const data::Group& group, const std::string& file) {
  const auto wrong = std::find_if(group.runtimes.begin(), group.runtimes.end(), [](double t) { return !(t > 0.0); });
  if (wrong != group.runtimes.end())
    throw DataError("{}: workload {}: programs without a run time, expected \"runtime\" in seconds for each", file,
                    group.name);
}

/// Packs save_json text.
void add_programs(const std::vector<fs::path>& files, const TuningSources& sources, const inference::ScoringSpec& spec,
                  const fs::path& packed, TuningInput& input) {
  if (spec.kind != data::CandidateKind::program)
    throw DataError("{}: holds programs as save_json text, but {} scores {}", files.front().string(), sources.model,
                    candidates_of(spec));
  const auto form = inference::featurizer_of(spec);
  data::PackedWriter writer(packed);
  int64_t groups = 0, alone = 0;
  for (const auto& group : data::read_tir_groups(files, sources.member, {}, form.get())) {
    check_runtimes(group, files.front().string());
    const auto ran = std::ranges::count_if(group.runtimes.span(), [](double t) { return std::isfinite(t); });
    if (ran < 2) {
      alone += group.candidates;
      continue;
    }
    writer.add(group);
    ++groups;
  }
  if (groups == 0) throw DataError("{}: nothing to learn from: no workload has two programs", files.front().string());
  writer.finish();
  input.files.push_back(packed.string());
  if (alone > 0)
    input.notes.push_back(fmt::format("{} programs of workloads of which fewer than two ran left out", alone));
}

std::vector<std::string> left_out(const data::RecordIndex& index, const data::RecordPackCounts& counts,
                                  const std::string& dags) {
  std::vector<std::string> notes;
  const auto note = [&](int64_t count, const std::string& what) {
    if (count > 0) notes.push_back(fmt::format("{} {}", count, what));
  };
  note(counts.failed, "programs failed: they rank behind all that ran");
  note(index.malformed, fmt::format("lines that are no records left out, the first: {}", index.first_malformed));
  note(index.skipped + counts.skipped, "records of workloads with a single one left out");
  if (index.without_dag > 0)
    note(index.without_dag, fmt::format("records of workloads without a compute DAG in {} left out, among them of {}",
                                        dags, index.missing_keys.front()));
  if (!index.unknown_machines.empty())
    notes.push_back(
        fmt::format("records are of machines that the bundle does not know ({}): their caches and rates are guessed; "
                    "describe them with --targets (foretime target measure; GPUs by hand)",
                    fmt::join(index.unknown_machines, ", ")));
  note(counts.refused, fmt::format("records that cannot be replayed left out, the first: {}", counts.first_refusal));
  return notes;
}

[[noreturn]] void fail_without_workloads(const data::RecordIndex& index, const std::string& dags) {
  throw DataError(
      "{}: nothing to learn from: no workload with a compute DAG in {} has two measurements ({} failed, "
      "{} lines are no records, {} records of workloads without a DAG{}, {} of workloads with a single record)",
      index.files.front().string(), dags, index.failed, index.malformed, index.without_dag,
      index.missing_keys.empty() ? "" : fmt::format(", such as {}", index.missing_keys.front()), index.skipped);
}

/// Packs tuning records.
void add_records(const std::vector<fs::path>& files, const TuningSources& sources, const inference::ScoringSpec& spec,
                 const fs::path& packed, TuningInput& input) {
  const auto index = data::index_records(files, data::DagTable(sources.dags), {}, {.known = spec.machines});
  if (index.groups.empty()) fail_without_workloads(index, sources.dags);
  std::vector<int64_t> all(index.groups.size());
  std::iota(all.begin(), all.end(), 0);
  const auto counts = data::pack_records(
      packed, index, all, {.representation = *spec.representation, .columns = spec.feature_count, .least = 2});
  input.files.push_back(packed.string());
  const auto notes = left_out(index, counts, sources.dags);
  input.notes.insert(input.notes.end(), notes.begin(), notes.end());
}

constexpr const char* kJudge = "holdout/kendall_tau";

double sign(double x) { return (x > 0) - (x < 0); }

/// Holds the change of τ in one group, and the variance of that change.
struct GroupChange {
  double mean = 0, variance = 0;
};

GroupChange change_of(const worker::GroupEvaluation& before, const worker::GroupEvaluation& after) {
  const size_t n = before.runtimes.size();
  std::vector<double> of_candidate(n);  // sums over the pairs that it is in
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      const auto order =
          static_cast<double>((before.runtimes[i] > before.runtimes[j]) - (before.runtimes[i] < before.runtimes[j]));
      const auto changed = order * (sign(after.scores.scores[i] - after.scores.scores[j]) -
                                    sign(before.scores.scores[i] - before.scores.scores[j]));
      of_candidate[i] += changed;
      of_candidate[j] += changed;
      sum += changed;
    }
  }
  const double count = n;
  GroupChange change{sum / (count * (count - 1) / 2)};
  if (n == 2) return {change.mean, change.mean * change.mean};
  for (const double own : of_candidate) {
    const double without = (sum - own) / ((count - 1) * (count - 2) / 2) - change.mean;
    change.variance += (count - 1) / count * without * without;
  }
  return change;
}

}  // namespace

TuningInput prepare_tuning_input(const TuningSources& sources, const inference::ScoringSpec& spec,
                                 const fs::path& packed, const data::FileCheck& admit) {
  TuningInput input;
  std::vector<fs::path> records, texts;
  for (const auto& text : sources.inputs) {
    for (const auto& path : paths_of(text)) {
      if (admit) admit(path);
      if (holds_graphs(path)) input.files.push_back(path.string());
      else (data::form_of(path) == data::FileForm::save_json ? texts : records).push_back(path);
    }
  }
  if (!records.empty()) {
    check_records(records.front(), sources, spec);
    if (admit) admit(sources.dags);
    add_records(records, sources, spec, packed.string() + "-records.foretime", input);
  }
  if (!texts.empty()) add_programs(texts, sources, spec, packed.string() + "-programs.foretime", input);
  return input;
}

OrderChange order_change(const worker::Evaluation& before, const worker::Evaluation& after) {
  OrderChange change;
  double variance = 0;
  for (size_t g = 0; g < before.groups.size(); ++g) {
    if (before.groups[g].runtimes.size() < 2) continue;
    const auto group = change_of(before.groups[g], after.groups[g]);
    change.mean += group.mean;
    variance += group.variance;
    ++change.groups;
  }
  if (change.groups == 0) return change;
  const double groups = change.groups;
  return {change.mean / groups, std::sqrt(variance) / groups, change.groups};
}

bool TuningOutcome::measurable() const { return before.contains(kJudge); }

TuningOutcome::Metrics TuningOutcome::job_metrics() const {
  auto metrics = kept_parent ? before : after;
  const auto add = [&](const char* prefix, const Metrics& more) {
    for (const auto& [name, value] : more) metrics[prefix + name.substr(name.find('/'))] = value;
  };
  add("parent", before);
  add("replay", kept_parent ? replay_before : replay_after);
  metrics["kept_parent"] = kept_parent ? 1.0 : 0.0;
  return metrics;
}

void TuningOutcome::add_to(nlohmann::json& note) const {
  note["before"] = before;
  note["after"] = after;
  note["change"] = {{"kendall_tau", change.mean}, {"standard_error", change.error}};
  note["weights"] = kept_parent ? "parent" : "tuned";
  if (replay_before.empty()) return;
  note["replay_before"] = replay_before;
  note["replay_after"] = replay_after;
}

std::string TuningOutcome::table() const {
  std::vector<std::vector<std::string>> rows = {{"held out", "before", "after"}};
  const auto add = [&](const char* which, const Metrics& first, const Metrics& second) {
    for (const auto& [name, label] :
         {std::pair("kendall_tau", "Kendall τ"), std::pair("pairwise_accuracy", "ordered pairs"),
          std::pair("top1_slowdown", "top-1 slowdown")}) {
      const auto key = fmt::format("holdout/{}", name);
      if (!first.contains(key) || !second.contains(key)) continue;
      rows.push_back({fmt::format("{}: {}", which, label), fmt::format("{:.3f}", first.at(key)),
                      fmt::format("{:.3f}", second.at(key))});
    }
  };
  add("new", before, after);
  add("old", replay_before, replay_after);
  return rows.size() > 1 ? format_table(rows) : std::string();
}

TuningOutcome::Metrics finite_metrics(const worker::Evaluation& evaluation) {
  auto metrics = evaluation.metrics;
  std::erase_if(metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
  return metrics;
}

}  // namespace foretime::worker
