/// Writes the arrays that a model's graph reads of one group as an .npz, so that another runtime can run the graph
/// without making message plans (docs/reference/bundle.md, tools/data/check_bundle.py).
///
///   plan_arrays MODEL.foretime FILE INPUTS.npz [--plain] [CANDIDATE…]
///
///   node_features, layout_rows, candidate_features   float32, those that the graph reads
///   NAME.row_ptr, NAME.columns, NAME.values          each sparse matrix by rows: int64, int64, float32; stage i of a
///                                                    pool is NAME.i
///   group_ptr                                        int64 [2]: all candidates are one group
///   scores                                           float32 [candidates], computed by libforetime
///   failures                                         float32 [candidates], likewise, if the model predicts them
/// The option --plain makes a state for each node and candidate, whatever the graph's request says: more rows, but
/// equal scores. The candidates are numbers of candidates of the group; without any, all are taken.
#include <filesystem>
#include <iostream>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/index_range.h"
#include "base/numbers.h"
#include "data/dataset/group_files.h"
#include "data/graphs/pruning.h"
#include "inference/runtime/plan_matrices.h"
#include "inference/scoring/model.h"
#include "plans/plan_source.h"
#include "tests/support/npz_writer.h"

namespace foretime::inference {
namespace {

void add_matrix(foretime::testing::NpzWriter& file, const std::string& name, const SparseMatrix& matrix) {
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
  foretime::testing::NpzWriter out(file, foretime::testing::NpzCompression::fast);
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

/// Writes the arrays of the file's first group, of all its candidates unless `words` name some.
void run(const std::string& bundle, const std::string& file, const std::string& out,
         std::span<const std::string> words) {
  const auto model = Model::open(bundle);
  const auto headers = list_groups(*model, {file});
  if (headers.empty()) throw DataError("{}: no groups", file);
  const auto group = data::load_group(headers.front());
  std::vector<int64_t> candidates;
  bool sharing = true;
  for (const auto& word : words) {
    const auto candidate = parse_number<int64_t>(word);
    if (!candidate && word != "--plain") throw DataError("{}: expected --plain or a candidate's number", word);
    if (candidate) candidates.push_back(*candidate);
    else sharing = false;
  }
  if (candidates.empty()) {
    candidates.resize(group.candidates);
    std::iota(candidates.begin(), candidates.end(), 0);
  }
  write_plan_arrays(*model, group, candidates, sharing, out);
}

}  // namespace
}  // namespace foretime::inference

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 3) {
    std::cerr << "usage: plan_arrays MODEL.foretime FILE INPUTS.npz [--plain] [CANDIDATE…]\n";
    return 2;
  }
  try {
    foretime::inference::run(words[0], words[1], words[2], std::span(words).subspan(3));
    return 0;
  } catch (const foretime::Error& error) {
    std::cerr << "plan_arrays: " << error.what() << '\n';
    return 1;
  }
}
