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

/// Files that a model is to learn from, as they were named.
struct TuningSources {
  const std::vector<std::string>& inputs;  // files, folders and patterns
  std::string dags;                        // compute DAGs of tuning records; "" where there are none
  std::string member;                      // of save_json text, as in data::read_tir_groups
  std::string model;                       // what messages call the bundle
};

/// Those files, as the model reads them.
struct TuningInput {
  std::vector<std::string> files;  // graph files and folders, for data.train
  std::vector<std::string> notes;  // what was left out, for people
};

/// Sorts files: .npz, .pb, packed collections and folders are taken as they are; save_json text and tuning records, all
/// the rest, are packed as graphs of the model's representation into files whose names begin with `packed`. Records are
/// read with these compute DAGs and for the machine that each names, text for the bundle's machine, as libforetime
/// does. Failed measurements and workloads of one program are left out. `admit` as in data::list_groups. Throws
/// data::DataError, and configs::SettingsError for records without compute DAGs.
TuningInput prepare_tuning_input(const TuningSources& sources, const inference::ScoringSpec& spec,
                                 const std::filesystem::path& packed, const data::FileCheck& admit);

/// By how much the order of held-out candidates changed: Kendall's τ after minus before, a mean over groups, and the
/// standard error of that by a jackknife over candidates. Few candidates tell little: a group of two nothing but by
/// agreeing with others.
struct OrderChange {
  double mean = 0, error = 0;
  int64_t groups = 0;  // with two candidates at the least; 0: nothing was measured
};
OrderChange order_change(const worker::Evaluation& before, const worker::Evaluation& after);

/// How a model ranked candidates that it did not learn from, by "set/metric", before and after it was tuned.
struct TuningOutcome {
  using Metrics = std::map<std::string, double>;

  Metrics before, after;                // of the new data
  Metrics replay_before, replay_after;  // of the old data, those that training held out
  OrderChange change;                   // of the new data
  bool kept_parent = false;             // the new bundle has the weights of its parent
  double seconds = 0;

  /// Whether the new candidates that were held out can be ranked at all (two of a group at the least).
  bool measurable() const;
  /// For the agent of a job: metrics of the bundle that was written (holdout/…), of its parent (parent/…), of old data
  /// (replay/…), and kept_parent, 0 or 1.
  Metrics of_job() const;
  void add_to(nlohmann::json& note) const;
  /// One row a metric, before and after; empty where nothing was measured.
  std::string table() const;
};

/// Finite metrics only, since JSON cannot say others.
TuningOutcome::Metrics finite_metrics(const worker::Evaluation& evaluation);

}  // namespace foretime::worker
