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

/// Holds the scores of a list of texts, each of which is a record or program.
struct ProgramScores {
  std::vector<float> scores = {};  // [texts] lower is faster; +infinity: the text was not scored
  // [texts] probability that a program does not build or run, NaN: not scored; empty: the model does not predict them
  std::vector<float> failures = {};
  int64_t failed = 0;               // number of texts that were not scored
  std::string first_failure = {};   // "INDEX: REASON" of the first text that was not scored; "": all texts were scored
  int64_t first_failed_index = -1;  // index of the first text that was not scored; -1: none
  std::string first_reason = {};    // reason why that text was not scored; "": all texts were scored
  // [texts] machine of a record, if the model does not know it and guesses its caches and rates
  // (data::Machines::unknown), else ""; empty: no machine was guessed
  std::vector<std::string> unknown_machines = {};
};

/// Scores schedules of one compute DAG by a model of loop programs. Any number of threads may use one WorkloadScorer.
class WorkloadScorer {
 public:
  /// `compute_dag` is one line of JSON (docs/explanations/schedules.md). Throws WrongKind if the model does not score
  /// loop programs, DataError for an invalid compute DAG.
  WorkloadScorer(std::shared_ptr<const Model> model, std::string_view compute_dag);
  ~WorkloadScorer();

  /// Scores records of auto_scheduler; measurements in them ("r") are ignored. A record is not scored if it is not
  /// JSON, belongs to another workload, has a schedule that does not apply, or is for a GPU and the model for CPUs, or
  /// vice versa. Throws WrongKind if all records are for the other kind of device.
  ProgramScores score(std::span<const std::string_view> records) const;

  const data::ComputeDag& dag() const { return *dag_; }
  const Model& model() const { return *model_; }

 private:
  struct Reader;
  struct Pool;

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const data::ComputeDag> dag_;
  data::DagTable keys_;         // holds this DAG alone; recognises keys of its workload
  double operations_ = 0.0;     // arithmetic operations of the DAG
  std::unique_ptr<Pool> pool_;  // readers of records, whose memory is reused
};

/// Scores texts, each the save_json of a PrimFunc or of an IRModule with one, on the hardware of the text's target
/// (Machines::hardware_of_tir), by default that of the training data. Other texts, programs for GPUs, and programs of
/// more than 131,072 nodes are not scored. Throws WrongKind if the model does not score programs.
ProgramScores score_tir(const Model& model, std::span<const std::string_view> programs);

}  // namespace foretime::inference
