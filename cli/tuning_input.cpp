#include "cli/tuning_input.h"

#include <numeric>

#include <fmt/format.h>

#include "configs/load.h"
#include "data/glob.h"
#include "data/packed.h"
#include "data/program/record_pack.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> paths_of(const std::string& input) {
  // A name that exists is taken as it stands, even if it has braces or stars in it.
  if (fs::exists(input)) return {input};
  auto found = data::glob(input, ".");
  if (found.empty())
    throw data::DataError(fmt::format("{}: nothing of this name, expected files to learn from", input));
  return found;
}

bool holds_graphs(const fs::path& path) {
  return fs::is_directory(path) || path.extension() == ".npz" || path.extension() == ".pb" || data::is_packed(path);
}

const char* candidates_of(const tuner::Terms& terms) {
  if (terms.kind == data::CandidateKind::layout) return "layouts";
  if (terms.kind == data::CandidateKind::tile) return "tiles";
  return terms.representation == "ast" ? "syntax trees" : "loop programs";
}

void check_records(const std::vector<fs::path>& records, const std::string& stages, const std::string& model,
                   const tuner::Terms& terms) {
  const auto& first = records.front().string();
  if (terms.kind != data::CandidateKind::program || terms.representation == "ast") {
    throw data::DataError(fmt::format(
        "{}: taken for tuning records, which become loop programs, but {} scores {}: expected .npz files or packed "
        "collections of these",
        first, model, candidates_of(terms)));
  }
  if (records.front().extension() == ".foretime")
    throw data::DataError(fmt::format("{}: is no packed collection, expected new measurements", first));
  if (stages.empty())
    throw configs::SettingsError(fmt::format(
        "--stages: is missing, expected the stage tables of the workloads in {} (docs/schedules.md)", first));
}

std::vector<std::string> left_out(const data::RecordIndex& index, const data::RecordPackCounts& counts,
                                  const std::string& stages) {
  std::vector<std::string> notes;
  const auto note = [&](int64_t count, const std::string& what) {
    if (count > 0) notes.push_back(fmt::format("{} {}", count, what));
  };
  note(index.failed, "failed measurements left out");
  note(index.malformed, "lines that are no records left out");
  note(index.left_out, "records of workloads with a single one left out");
  if (index.without_dag > 0)
    note(index.without_dag, fmt::format("records of workloads without a stage table in {} left out, among them of {}",
                                        stages, index.missing_keys.front()));
  note(counts.refused, fmt::format("records that cannot be replayed left out, the first: {}", counts.first_refusal));
  return notes;
}

[[noreturn]] void fail_without_workloads(const data::RecordIndex& index, const std::string& stages) {
  throw data::DataError(fmt::format(
      "{}: nothing to learn from: no workload with a stage table in {} has two measurements ({} failed, {} lines are "
      "no "
      "records, {} records of workloads without a table{}, {} of workloads with a single record)",
      index.files.front().string(), stages, index.failed, index.malformed, index.without_dag,
      index.missing_keys.empty() ? "" : fmt::format(", such as {}", index.missing_keys.front()), index.left_out));
}

}  // namespace

TuningInput prepare_tuning_input(const std::vector<std::string>& inputs, const std::string& stages,
                                 const std::string& model, const tuner::Terms& terms, const fs::path& packed,
                                 const data::FileCheck& admit) {
  TuningInput input;
  std::vector<fs::path> records;
  for (const auto& text : inputs) {
    for (const auto& path : paths_of(text)) {
      if (admit) admit(path);
      if (holds_graphs(path))
        input.files.push_back(path.string());
      else
        records.push_back(path);
    }
  }
  if (records.empty()) return input;
  check_records(records, stages, model, terms);
  if (admit) admit(stages);
  const auto index = data::index_records(records, data::DagTable(stages), {});
  if (index.groups.empty()) fail_without_workloads(index, stages);
  std::vector<int64_t> all(index.groups.size());
  std::iota(all.begin(), all.end(), 0);
  const auto counts = data::pack_records(packed, index, all, {.representation = terms.representation});
  input.files.push_back(packed.string());
  input.notes = left_out(index, counts, stages);
  return input;
}

}  // namespace foretime::cli
