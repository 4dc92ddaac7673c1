#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/index_range.h"
#include "base/output_target.h"
#include "data/files/npy.h"
#include "data/graphs/pruning.h"
#include "inference/runtime/plan_matrices.h"
#include "inference/scoring/graph_scorer.h"
#include "plans/plan_source.h"

namespace foretime::inference {
namespace {

void add_matrix(data::NpzWriter& file, const std::string& name, const SparseMatrix& matrix) {
  std::vector<int64_t> row_ptr = {0}, columns;
  std::vector<float> values;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    switch (matrix.kind) {
      case SparseMatrix::Kind::csr:
        for (const int64_t e : entries_of(matrix.row_ptr, r)) {
          columns.push_back(matrix.column_of[e]);
          values.push_back(matrix.values ? matrix.values[e] : 1.0F);
        }
        break;
      case SparseMatrix::Kind::gather:
        columns.push_back(matrix.column_of[r]);
        values.push_back(1.0F);
        break;
      case SparseMatrix::Kind::identity:
        columns.push_back(r);
        values.push_back(1.0F);
        break;
      case SparseMatrix::Kind::zero: break;
    }
    row_ptr.push_back(columns.size());
  }
  const auto length = [](const auto& array) { return std::vector{std::ssize(array)}; };
  file.add(name + ".row_ptr", length(row_ptr), row_ptr);
  file.add(name + ".columns", length(columns), columns);
  file.add(name + ".values", length(values), values);
}

}  // namespace

void write_plan_arrays(const Model& model, const data::Group& group, std::span<const int64_t> candidates, bool sharing,
                       const std::filesystem::path& file) {
  const auto& graph = model.executor().graph();
  std::vector<float> failures;
  const auto scores = model.score_group(group, candidates, &failures);  // checks the group
  const auto pruned = data::pruned_group(group, model.spec().prune_hops);
  auto request = graph.request;
  if (!sharing) request.sharing = plans::Sharing::none;
  plans::PlanBuilder builder(request);
  builder.add(pruned, candidates);
  const auto plan = std::move(builder).build();
  PlanMatrices matrices(plan, graph.statements);

  std::set<Value> inputs;
  std::set<MatrixRef> names, pools;
  for (const auto& node : graph.embed) {
    for (const Value input : inputs_of(node.operation)) inputs.insert(input);
    const bool pool =
        std::holds_alternative<PoolStates>(node.operation) || std::holds_alternative<PoolMean>(node.operation);
    for (const auto& matrix : matrices_of(node.operation)) {
      const bool made = matrix.kind >= MatrixRef::Kind::adjacency && matrix.at >= 0;  // made by an operation
      if (!made && matrix.kind != MatrixRef::Kind::identity) (pool ? pools : names).insert(matrix);
    }
  }
  data::NpzWriter out(file, data::NpzCompression::fast, kPlanArraysComment);
  const auto rows = [](const auto& values, int64_t columns) {
    return std::vector{columns == 0 ? 0 : std::ssize(values) / columns, columns};
  };
  if (inputs.contains(kNodeFeatures))
    out.add(to_string(kNodeFeatures), {plan.nodes(), plan.feature_count}, plan.node_features);
  if (inputs.contains(kLayoutRows)) {
    std::vector<float> layouts(plan.layout_rows.begin(), plan.layout_rows.end());
    if (layouts.empty()) layouts.resize(data::kLayoutFeatures);
    out.add(to_string(kLayoutRows), rows(layouts, data::kLayoutFeatures), layouts);
  }
  if (inputs.contains(kCandidateFeatures))
    out.add(to_string(kCandidateFeatures), rows(plan.candidate_features, data::kTileFeatures), plan.candidate_features);
  for (const auto& name : names) add_matrix(out, to_string(name), matrices.matrix(name));
  for (const auto& name : pools) {
    if (names.contains(name)) continue;
    const auto& stages = matrices.pool(name).stages;
    const bool of_plan = name.kind >= MatrixRef::Kind::nodes && name.kind <= MatrixRef::Kind::tied;
    for (size_t i = 0; i < stages.size(); ++i)
      add_matrix(out, of_plan ? fmt::format("{}.{}", to_string(name), i) : to_string(name), *stages[i]);
  }
  out.add("group_ptr", {2}, std::vector<int64_t>{0, std::ssize(candidates)});
  out.add("scores", {std::ssize(scores)}, scores);
  if (!failures.empty()) out.add("failures", {std::ssize(failures)}, failures);
  out.close();
}

}  // namespace foretime::inference
