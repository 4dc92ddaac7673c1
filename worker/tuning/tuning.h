#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/dataset/group_files.h"
#include "inference/bundle/bundle.h"
#include "worker/step/fine_tuning.h"

namespace foretime::worker {

/// Names the files that a model learns from.
struct TuningSources {
  const std::vector<std::string>& inputs;  // files, folders and patterns
  std::string dags;                        // compute DAGs of tuning records; "": none
  std::string member;                      // member of save_json text (data::read_tir_groups)
  std::string model;                       // name of the bundle in messages
};

/// Holds the converted files that a model learns from.
struct TuningInput {
  std::vector<std::string> files;  // graph files and folders for data.train
  std::vector<std::string> notes;  // messages about skipped candidates
};

/// Converts files for a model. .npz and .pb files, packed collections and folders are used unchanged; save_json text
/// and tuning records are packed as graphs of the model's representation into files whose names begin with `packed`.
/// Records need the compute DAGs and use the machine that each names; text uses the bundle's machine, as in
/// libforetime. Failed measurements and workloads of one program are skipped. For `admit` see data::list_groups. Throws
/// data::DataError, and configs::SettingsError for records without compute DAGs.
TuningInput prepare_tuning_input(const TuningSources& sources, const inference::ScoringSpec& spec,
                                 const std::filesystem::path& packed, const data::FileCheck& admit);

/// Describes the change of the order of held-out candidates: Kendall's τ after minus before, as a mean over groups, and
/// the standard error of this mean by a jackknife over candidates. The error is large for few candidates.
struct OrderChange {
  double mean = 0, error = 0;
  int64_t groups = 0;  // groups with at least two candidates; 0: no change can be measured
};
/// Returns the change between two evaluations of the same candidates.
OrderChange order_change(const worker::Evaluation& before, const worker::Evaluation& after);

/// Holds metrics by "set/metric" of candidates that a model did not learn from, before and after fine-tuning.
struct TuningOutcome {
  using Metrics = std::map<std::string, double>;

  Metrics before, after;                // metrics of the new data
  Metrics replay_before, replay_after;  // metrics of held-out candidates of the old data
  OrderChange change;                   // change on the new data
  bool kept_parent = false;             // the new bundle has its parent's weights
  double seconds = 0;

  /// Returns whether the held-out new candidates can be ranked: some group has at least two.
  bool measurable() const;
  /// Returns the metrics for the agent of a job: those of the written bundle (holdout/…), its parent (parent/…) and old
  /// data (replay/…), and kept_parent, 0 or 1.
  Metrics job_metrics() const;
  void add_to(nlohmann::json& note) const;
  /// Returns a table with one row a metric, before and after; "" if no metric was measured.
  std::string table() const;
};

/// Returns only finite metrics, since JSON has no others.
TuningOutcome::Metrics finite_metrics(const worker::Evaluation& evaluation);

}  // namespace foretime::worker
