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

/// Names the files that fine-tuning learns from.
struct TuningSources {
  const std::vector<std::string>& inputs;  // files, folders and patterns
  std::string dags;                        // file of compute DAGs for tuning records; "": none
  std::string member;                      // member of each line with the save_json text (data::read_tir_groups)
  std::string model;                       // name of the bundle in messages
};

/// Holds the files that fine-tuning learns from, after conversion.
struct TuningInput {
  std::vector<std::string> files;  // graph files and folders, for data.train
  std::vector<std::string> notes;  // messages about failed and omitted candidates
};

/// Converts files for the model of `spec`. .npz and .pb files, packed collections and folders are used unchanged;
/// tuning records and save_json text are packed as graphs of the model's representation into PACKED-records.foretime
/// and PACKED-programs.foretime. Records need sources.dags and have the machine that each names; text has the bundle's
/// machine. Workloads of one record, or with fewer than two programs that ran, are omitted. `admit`, unless empty,
/// checks each file (data::list_groups). Throws data::DataError if there is no such file, the model does not score
/// the candidates of records or text, a program in text has no run time, or no workload of either is left;
/// configs::SettingsError for records without sources.dags.
TuningInput prepare_tuning_input(const TuningSources& sources, const inference::ScoringSpec& spec,
                                 const std::filesystem::path& packed, const data::FileCheck& admit);

/// Describes the change of Kendall's τ on held-out candidates by fine-tuning.
struct OrderChange {
  double mean = 0;     // Kendall's τ after minus before, mean over groups
  double error = 0;    // standard error of the mean, by a jackknife over candidates; large for few candidates
  int64_t groups = 0;  // number of groups with at least two candidates; 0: no change can be measured
};
/// Returns the change from `before` to `after`, evaluations of the same groups and candidates in the same order.
OrderChange order_change(const worker::Evaluation& before, const worker::Evaluation& after);

/// Holds metrics of candidates that a model did not learn from, by "set/metric", before and after fine-tuning.
struct TuningOutcome {
  using Metrics = std::map<std::string, double>;

  Metrics before, after;                // metrics of held-out candidates of the new data
  Metrics replay_before, replay_after;  // metrics of held-out candidates of the old data; may be empty
  OrderChange change;                   // change on the new data
  bool kept_parent = false;             // the new bundle has the weights of the parent, the bundle before fine-tuning
  double seconds = 0;                   // duration

  /// Returns whether Kendall's τ of the held-out new candidates is known.
  bool measurable() const;
  /// Returns the metrics for the agent of a job: of the written bundle (holdout/…) and the parent (parent/…) on new
  /// data, of the written bundle on old data (replay/…), and kept_parent, 0 or 1.
  Metrics job_metrics() const;
  /// Adds before, after, change and weights (parent or tuned) to `note`, and replay_before and replay_after if known.
  void add_to(nlohmann::json& note) const;
  /// Returns a table with a row for each of some metrics, before and after, the header first; "" if none was measured.
  std::string table() const;
};

/// Returns the metrics of an evaluation that are finite, since JSON has no other numbers.
TuningOutcome::Metrics finite_metrics(const worker::Evaluation& evaluation);

}  // namespace foretime::worker
