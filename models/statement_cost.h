#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "configs/settings.h"
#include "data/frontends/loops/loop_columns.h"
#include "models/layers/dense.h"
#include "models/model.h"

namespace foretime::models {

/// Which nodes of a batch of loop graphs belong to which statement, and which statements to which program.
struct StatementPlan {
  torch::Tensor statements, loops;  // nodes
  CsrTensor loops_of;               // [statements, loops], from the innermost outwards
  CsrTensor innermost, second;  // [statements, loops]: the innermost loop, and the one around it, where there are any
  std::array<CsrTensor, data::LoopColumns::kSlots>
      accesses;             // [statements, nodes]: the first accesses, the store first
  CsrTensor statements_of;  // [candidates, statements]
};

/// Throws ModelError where the plan's graphs are no loop graphs (data/program/loop_graph.h).
StatementPlan make_statement_plan(const PlanTensors& plan);

/// The run time of a program as the sum of its statements' costs: a statement costs the iterations of its busiest core
/// times a learned cost of one of them, which depends on its loops, accesses and operations alone; so what is learned
/// of one program's statements holds for those of programs that were never seen. The score is the logarithm of the run
/// time in seconds,
///
///   log Σ over statements of (critical iterations × exp(f(statement)) + launches × exp(c)) − log 10⁹,
///
/// f in log nanoseconds, c the learned cost of starting threads. It fits loss.target log_runtime, and any ranking loss.
/// f is a dense stack of model.head_layers over
///   loops      mean and maximum over the statement's loops of a dense stack's outputs (two layers of
///              model.loop_hidden), and those of the innermost loop and of the one around it
///   accesses   the columns of the store and of the first three loads
///   statement  the statement's own columns
///   block      of these, the ones that describe the code of its innermost block (data::block_columns)
/// of which model.statement_inputs chooses; with model.context, what its hidden states sum up to over the program comes
/// in before the last two layers. With model.members, several of these are trained apart, and the score is their mean.
/// Columns are scaled to mean 0 and deviation 1 over the nodes of their kind, and cut at model.clip deviations:
/// programs beyond what was seen look like the most extreme that were.
class StatementCost : public CostModel {
 public:
  /// Throws ModelError for graphs of another form than data.representation loops, and for unknown statement_inputs.
  StatementCost(const configs::ModelSettings& settings, const InputSchema& schema);

  plans::PlanRequest plan_request() const override { return {}; }
  torch::Tensor score(const PlanTensors& plan) override;
  std::vector<torch::Tensor> member_scores(const PlanTensors& plan) override;
  void fit_transform(const InputStatistics& statistics) override;
  std::string describe_embed(FormWriter& writer) const override;
  bool form_needs_statements() const override { return true; }

 private:
  class Member;
  torch::Tensor scaled(const torch::Tensor& features, int64_t first, int64_t count) const;

  bool use_loops_ = false, use_accesses_ = false;
  std::vector<data::ColumnRange> statement_columns_;
  double clip_;
  torch::Tensor offset_, scale_;
  std::vector<std::shared_ptr<Member>> members_;
};

}  // namespace foretime::models
