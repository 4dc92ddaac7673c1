#include "inference/scoring/plan_arrays.h"

#include <set>
#include <string>
#include <vector>

#include "data/files/npz_writer.h"
#include "data/graphs/pruning.h"
#include "inference/graph/plan_matrices.h"
#include "plans/plan_source.h"

namespace foretime::inference {
namespace {

using inference::SparseMatrix;

void add_matrix(data::NpzWriter& file, const std::string& name, const SparseMatrix& matrix) {
  std::vector<int64_t> row_ptr = {0}, columns;
  std::vector<float> values;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    switch (matrix.kind) {
      case SparseMatrix::Kind::csr:
        for (int64_t e = matrix.row_ptr[r]; e < matrix.row_ptr[r + 1]; ++e) {
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
      case SparseMatrix::Kind::zero:
        break;
    }
    row_ptr.push_back(static_cast<int64_t>(columns.size()));
  }
  const auto length = [](const auto& array) { return std::vector{static_cast<int64_t>(array.size())}; };
  file.add(name + ".row_ptr", length(row_ptr), row_ptr);
  file.add(name + ".columns", length(columns), columns);
  file.add(name + ".values", length(values), values);
}

}  // namespace

void write_plan_arrays(const Model& model, const data::Group& group, std::span<const int64_t> candidates, bool sharing,
                       const std::filesystem::path& file) {
  const auto& form = model.executor().form();
  const auto scores = model.score_group(group, candidates);  // checks the group
  const auto pruned = data::pruned_group(group, model.terms().prune_hops);
  auto request = form.request;
  if (!sharing) request.sharing = plans::Sharing::none;
  plans::PlanBuilder builder(request);
  builder.add(pruned, candidates);
  const auto plan = std::move(builder).build();
  inference::PlanMatrices matrices(plan, form.statements);

  std::set<std::string> inputs, names, pools, made;
  for (const auto& operation : form.embed) {
    inputs.insert(operation.inputs.begin(), operation.inputs.end());
    if (operation.op == "top_nodes") {
      for (const char* what : {".adjacency", ".relation", ".nodes"}) made.insert(operation.result + what);
      names.insert(operation.matrices[0]);
      pools.insert(operation.matrices[1]);
    } else {
      (operation.op == "pool" ? pools : names).insert(operation.matrices.begin(), operation.matrices.end());
    }
  }
  names.erase("");
  data::NpzWriter out(file);
  const auto rows = [](const auto& values, int64_t columns) {
    return std::vector{columns == 0 ? 0 : static_cast<int64_t>(values.size()) / columns, columns};
  };
  if (inputs.contains(inference::kNodeFeatures))
    out.add(inference::kNodeFeatures, {plan.nodes(), plan.feature_count}, plan.node_features);
  if (inputs.contains(inference::kLayoutRows)) {
    std::vector<float> layouts(plan.layout_rows.begin(), plan.layout_rows.end());
    if (layouts.empty()) layouts.resize(data::kLayoutFeatures);
    out.add(inference::kLayoutRows, rows(layouts, data::kLayoutFeatures), layouts);
  }
  if (inputs.contains(inference::kCandidateFeatures))
    out.add(inference::kCandidateFeatures, rows(plan.candidate_features, data::kTileFeatures), plan.candidate_features);
  for (const auto& name : names) {
    if (!made.contains(name)) add_matrix(out, name, matrices.matrix(name));
  }
  for (const auto& name : pools) {
    if (made.contains(name)) continue;
    const auto& stages = matrices.pool(name).stages;
    const bool of_plan = name == "nodes" || name == "configurable" || name == "tied";
    for (size_t i = 0; i < stages.size(); ++i) {
      if (!names.contains(name)) add_matrix(out, of_plan ? name + "." + std::to_string(i) : name, *stages[i]);
    }
  }
  out.add("group_ptr", {2}, std::vector<int64_t>{0, static_cast<int64_t>(candidates.size())});
  out.add("scores", {static_cast<int64_t>(scores.size())}, scores);
  out.close();
}

}  // namespace foretime::inference
