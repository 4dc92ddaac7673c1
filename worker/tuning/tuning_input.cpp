#include "worker/tuning/tuning_input.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/glob.h"
#include "configs/load.h"
#include "data/files/packed.h"
#include "data/frontends/loops/record_pack.h"
#include "data/frontends/tir/tir_file.h"
#include "inference/scoring/model.h"

namespace foretime::worker {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> paths_of(const std::string& input) {
  // A name that exists is taken as it stands, even if it has braces or stars in it.
  if (fs::exists(input)) return {input};
  auto found = glob(input, ".");
  if (found.empty()) throw DataError(fmt::format("{}: nothing of this name, expected files to learn from", input));
  return found;
}

bool holds_graphs(const fs::path& path) {
  return fs::is_directory(path) || path.extension() == ".npz" || path.extension() == ".pb" || data::is_packed(path);
}

const char* candidates_of(const inference::ScoringSpec& spec) {
  if (spec.kind == data::CandidateKind::layout) return "layouts";
  if (spec.kind == data::CandidateKind::tile) return "tiles";
  return spec.representation == configs::Representation::ast ? "syntax trees" : "loop programs";
}

void check_records(const fs::path& first, const TuningSources& sources, const inference::ScoringSpec& spec) {
  const auto file = first.string();
  if (spec.kind != data::CandidateKind::program || spec.representation == configs::Representation::ast) {
    throw DataError(fmt::format(
        "{}: taken for tuning records, which become loop programs, but {} scores {}: expected .npz files or packed "
        "collections of these",
        file, sources.model, candidates_of(spec)));
  }
  if (first.extension() == ".foretime")
    throw DataError(fmt::format("{}: is no packed collection, expected new measurements", file));
  if (sources.dags.empty())
    throw configs::SettingsError(fmt::format(
        "--dags: is missing, expected the compute DAGs of the workloads in {} (docs/explanations/schedules.md)", file));
}

void check_runtimes(const data::Group& group, const std::string& file) {
  const auto wrong = std::find_if(group.runtimes.begin(), group.runtimes.end(), [](double t) { return !(t > 0.0); });
  if (wrong != group.runtimes.end())
    throw DataError(
        fmt::format("{}: workload {}: programs without a run time, expected \"runtime\", seconds, of "
                    "each",
                    file, group.name));
}

/// Packs save_json text.
void add_programs(const std::vector<fs::path>& files, const TuningSources& sources, const inference::ScoringSpec& spec,
                  const fs::path& packed, TuningInput& input) {
  if (spec.kind != data::CandidateKind::program)
    throw DataError(fmt::format("{}: programs as save_json text, but {} scores {}", files.front().string(),
                                sources.model, candidates_of(spec)));
  const auto form = inference::featurizer_of(spec);
  data::PackedWriter writer(packed);
  int64_t groups = 0, alone = 0;
  for (const auto& group : data::read_tir_groups(files, sources.member, {}, form.get())) {
    check_runtimes(group, files.front().string());
    if (group.candidates < 2) {
      ++alone;
      continue;
    }
    writer.add(group);
    ++groups;
  }
  if (groups == 0)
    throw DataError(fmt::format("{}: nothing to learn from: no workload has two programs", files.front().string()));
  writer.finish();
  input.files.push_back(packed.string());
  if (alone > 0) input.notes.push_back(fmt::format("{} programs of workloads with a single one left out", alone));
}

std::vector<std::string> left_out(const data::RecordIndex& index, const data::RecordPackCounts& counts,
                                  const std::string& dags) {
  std::vector<std::string> notes;
  const auto note = [&](int64_t count, const std::string& what) {
    if (count > 0) notes.push_back(fmt::format("{} {}", count, what));
  };
  note(index.failed, "failed measurements left out");
  note(index.malformed, "lines that are no records left out");
  note(index.left_out + counts.left_out, "records of workloads with a single one left out");
  if (index.without_dag > 0)
    note(index.without_dag, fmt::format("records of workloads without a compute DAG in {} left out, among them of {}",
                                        dags, index.missing_keys.front()));
  note(counts.refused, fmt::format("records that cannot be replayed left out, the first: {}", counts.first_refusal));
  return notes;
}

[[noreturn]] void fail_without_workloads(const data::RecordIndex& index, const std::string& dags) {
  throw DataError(fmt::format(
      "{}: nothing to learn from: no workload with a compute DAG in {} has two measurements ({} failed, {} lines are "
      "no records, {} records of workloads without a DAG{}, {} of workloads with a single record)",
      index.files.front().string(), dags, index.failed, index.malformed, index.without_dag,
      index.missing_keys.empty() ? "" : fmt::format(", such as {}", index.missing_keys.front()), index.left_out));
}

/// Packs tuning records.
void add_records(const std::vector<fs::path>& files, const TuningSources& sources, const inference::ScoringSpec& spec,
                 const fs::path& packed, TuningInput& input) {
  const auto index = data::index_records(files, data::DagTable(sources.dags), {});
  if (index.groups.empty()) fail_without_workloads(index, sources.dags);
  std::vector<int64_t> all(index.groups.size());
  std::iota(all.begin(), all.end(), 0);
  const auto counts = data::pack_records(packed, index, all, {.representation = *spec.representation, .least = 2});
  input.files.push_back(packed.string());
  const auto notes = left_out(index, counts, sources.dags);
  input.notes.insert(input.notes.end(), notes.begin(), notes.end());
}

}  // namespace

TuningInput prepare_tuning_input(const TuningSources& sources, const inference::ScoringSpec& spec,
                                 const fs::path& packed, const data::FileCheck& admit) {
  TuningInput input;
  std::vector<fs::path> records, texts;
  for (const auto& text : sources.inputs) {
    for (const auto& path : paths_of(text)) {
      if (admit) admit(path);
      if (holds_graphs(path))
        input.files.push_back(path.string());
      else
        (data::is_tir_text(path) ? texts : records).push_back(path);
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

}  // namespace foretime::worker
