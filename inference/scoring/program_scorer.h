#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "inference/scoring/model.h"

namespace foretime::inference {

/// Holds the scores of texts, in their order; +infinity for a text that was not scored.
struct ProgramScores {
  std::vector<float> scores = {};
  // chances that a program does not build or run, NaN if not scored; empty: the model does not predict them
  std::vector<float> failures = {};
  int64_t failed = 0;               // number of texts that were not scored
  std::string first_failure = {};   // "index: reason" of the first failure; "" if there is none
  int64_t first_failed_index = -1;  // index of the first failure; -1: none
  std::string first_reason = {};
  /// [texts] machine of a record that the model does not know, so that caches and rates are guessed
  /// (data::Machines::unknown); "" for other records; empty if all machines are known.
  std::vector<std::string> unknown_machines = {};
};

/// Scores schedules of one compute DAG by a model of loop programs. Any number of threads may use one.
class WorkloadScorer {
 public:
  /// `compute_dag` is one line of JSON (docs/explanations/schedules.md). Throws WrongKind for other models,
  /// data::DataError for an invalid compute DAG.
  WorkloadScorer(std::shared_ptr<const Model> model, std::string_view compute_dag);
  ~WorkloadScorer();

  /// Scores records of auto_scheduler; measurements in them ("r") are ignored. A record is not scored if it is not
  /// JSON, belongs to another workload, has a schedule that does not apply, or is for a GPU and the model for CPUs, or
  /// vice versa; if this last holds for all records, WrongKind is thrown.
  ProgramScores score(std::span<const std::string_view> records) const;

  const data::ComputeDag& dag() const { return *dag_; }
  const Model& model() const { return *model_; }

 private:
  struct Reader;
  struct Pool;

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const data::ComputeDag> dag_;
  data::DagTable keys_;  // holds this DAG alone; finds keys of its workload
  double operations_ = 0.0;
  std::unique_ptr<Pool> pool_;  // readers of records, with memory for reuse
};

/// Scores save_json text of a PrimFunc, or of an IRModule with one. Other texts, and texts that are too large, are not
/// scored. Throws WrongKind for models that do not score programs.
ProgramScores score_tir(const Model& model, std::span<const std::string_view> programs);

}  // namespace foretime::inference
