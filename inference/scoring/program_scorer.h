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

/// Scores of texts, in their order; +infinity where a text was not scored.
struct ProgramScores {
  std::vector<float> scores = {};
  std::vector<float> failures = {};  // chances not to build or run, NaN where a text was not scored; empty: not told
  int64_t failed = 0;                // texts that were not scored
  std::string first_failure = {};    // "place: why" of the first one; "" where there is none
  int64_t first_failed = -1;         // that place
  std::string why = {};
  /// [texts] the machine that a record is of, where the model does not know it and guesses its caches and rates
  /// (data::Machines::unknown), "" for the others; empty: there is none such.
  std::vector<std::string> unknown_machines = {};
};

/// A compute DAG whose schedules a model of loop programs scores. Scoring changes nothing that can be seen: any number
/// of threads may use one.
class WorkloadScorer {
 public:
  /// `compute_dag`: one line of JSON (docs/explanations/schedules.md). Throws WrongKind for other models,
  /// data::DataError for what is no compute DAG.
  WorkloadScorer(std::shared_ptr<const Model> model, std::string_view compute_dag);
  ~WorkloadScorer();

  /// Records as auto_scheduler writes them; "r" and the measurement in it are not looked at. A record that is no JSON,
  /// of another workload, or whose schedule does not apply is not scored; nor is one of a GPU by a model of programs
  /// for CPUs, or the other way round: where all are such, WrongKind is thrown. `embedded`, where not null: what the
  /// model's graph embeds, [records, embedded columns], zeros for what is not scored.
  ProgramScores score(std::span<const std::string_view> records, Matrix* embedded = nullptr) const;

  const data::ComputeDag& dag() const { return *dag_; }
  const Model& model() const { return *model_; }

 private:
  struct Reader;
  struct Pool;

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const data::ComputeDag> dag_;
  data::DagTable keys_;  // of this DAG alone: which keys are of its workload
  double operations_ = 0.0;
  std::unique_ptr<Pool> pool_;  // what reads records, with the memory that it keeps
};

/// Scores save_json text of a PrimFunc, or of an IRModule with one; a text that is neither, or that is too large, is
/// not scored. `embedded`: as in WorkloadScorer::score. Throws WrongKind for models that do not score programs.
ProgramScores score_tir(const Model& model, std::span<const std::string_view> programs, Matrix* embedded = nullptr);

}  // namespace foretime::inference
