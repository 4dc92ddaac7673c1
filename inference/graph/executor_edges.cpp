#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "inference/graph/executor_run.h"
#include "inference/kernels/csr_kernels.h"
#include "inference/kernels/dense_kernels.h"
#include "inference/kernels/edge_kernels.h"
#include "inference/kernels/top_nodes.h"

namespace foretime::inference {
namespace {

using Kind = SparseMatrix::Kind;

/// A gather as a matrix with a row_ptr, which some kernels need.
std::vector<int64_t> unit_row_ptr(int64_t rows) {
  std::vector<int64_t> row_ptr(static_cast<size_t>(rows) + 1);
  for (int64_t r = 0; r <= rows; ++r) row_ptr[static_cast<size_t>(r)] = r;
  return row_ptr;
}

}  // namespace

Matrix Executor::Run::sum(const std::vector<std::pair<const SparseMatrix*, const float*>>& terms, int64_t rows,
                          int64_t width, const float* bias, float slope) const {
  auto y = made(rows, width);
  std::vector<CsrTerm<float>> raw;
  std::vector<int32_t> identity;
  for (const auto& [matrix, x] : terms) {
    if (matrix && matrix->kind == Kind::zero) continue;
    if (!matrix || matrix->kind == Kind::identity) {
      identity.resize(static_cast<size_t>(rows));
      for (int64_t r = 0; r < rows; ++r) identity[static_cast<size_t>(r)] = static_cast<int32_t>(r);
    }
  }
  for (const auto& [matrix, x] : terms) {
    if (matrix && matrix->kind == Kind::zero) continue;
    if (!matrix || matrix->kind == Kind::identity) {
      raw.push_back({nullptr, identity.data(), nullptr, x});
    } else {
      raw.push_back({matrix->row_ptr, matrix->column_of, matrix->values, x});
    }
  }
  sum_terms<float>(rows, raw.data(), static_cast<int64_t>(raw.size()), {bias, slope}, width, y.values.data());
  return y;
}

Matrix Executor::Run::csr_sum(const Operation& o) const {
  std::vector<std::pair<const SparseMatrix*, const float*>> terms;
  int64_t rows = -1;
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    const Matrix& x = input(i);
    const SparseMatrix* m = o.matrices[i].empty() ? nullptr : &matrices_->matrix(o.matrices[i]);
    if (m && m->kind != Kind::zero) expect_rows(x.rows, m->columns);
    const int64_t of_term = m ? m->rows : x.rows;
    if (rows >= 0) expect_rows(of_term, rows);
    rows = of_term;
    terms.emplace_back(m, x.values.data());
  }
  return sum(terms, rows, input(0).columns, weight(0), slope());
}

Matrix Executor::Run::csr_max(const SparseMatrix& m, const Matrix& x) const {
  auto y = made(m.rows, x.columns);
  if (m.kind == Kind::zero) {
    std::fill(y.values.begin(), y.values.begin() + y.size(), 0.0F);
    return y;
  }
  if (m.kind != Kind::csr) return sum({{&m, x.values.data()}}, m.rows, x.columns, nullptr, 1.0F);
  std::vector<int32_t> winner(static_cast<size_t>(y.size()));
  max_rows<float>(m.rows, m.row_ptr, m.column_of, x.values.data(), x.columns, y.values.data(), winner.data());
  return y;
}

Matrix Executor::Run::pool(const Operation& o) const {
  const Pool& pool = matrices_->pool(o.matrices[0]);
  const Matrix* x = &input(0);
  Matrix y;
  for (const SparseMatrix* stage : pool.stages) {
    expect_rows(x->rows, stage->columns);
    auto next = o.mode == "max" ? csr_max(*stage, *x)
                                : sum({{stage, x->values.data()}}, stage->rows, x->columns, nullptr, 1.0F);
    workspace_.give(std::move(y.values));
    y = std::move(next);
    x = &y;
  }
  if (o.mode != "mean") return y;
  for (int64_t r = 0; r < y.rows; ++r) {
    const float count = std::max(1.0F, pool.counts[static_cast<size_t>(r)]);
    for (int64_t k = 0; k < y.columns; ++k) y.row(r)[k] /= count;
  }
  return y;
}

Matrix Executor::Run::lookup() const {
  const auto& m = matrices_->matrix(step_->operation->matrices[0]);
  const Weight& table = *step_->weights[0];
  if (m.kind != Kind::gather) fail("a matrix that is no lookup");
  auto y = made(m.rows, table.shape[1]);
  for (int64_t r = 0; r < m.rows; ++r) {
    const int32_t at = m.column_of[r];
    if (at < 0 || at >= table.shape[0]) fail(fmt::format("row {} of a table of {}", at, table.shape[0]));
    const float* row = table.values.data() + at * table.shape[1];
    std::copy(row, row + y.columns, y.row(r));
  }
  return y;
}

Matrix Executor::Run::attention(const Operation& o) const {
  const Matrix &a = input(0), &b = input(1), &z = input(2);
  const auto& m = matrix(0, b.rows);
  expect_rows(z.rows, m.columns);
  expect_rows(a.rows, m.rows);
  const auto heads = static_cast<int64_t>(number("heads", 1.0));
  std::vector<int64_t> unit;
  std::vector<int32_t> own;
  EntryRows rows{m.rows, m.row_ptr, m.column_of, nullptr};
  if (m.kind == Kind::gather) {
    unit = unit_row_ptr(m.rows);
    rows.row_ptr = unit.data();
  } else if (m.kind != Kind::csr) {
    fail("attention over a matrix without entries of its own");
  }
  const int64_t entries = m.entries();
  auto logits = workspace_.take(static_cast<size_t>(entries * heads));
  if (o.mode == "dot") {
    entry_dots<float>(rows, a.values.data(), b.values.data(), heads, a.columns / heads, logits.data());
    const float scale = number("scale", 1.0);
    for (int64_t i = 0; i < entries * heads; ++i) logits[static_cast<size_t>(i)] *= scale;
  } else {
    const float slope = number("logit_slope", 1.0);
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t e = rows.row_ptr[r]; e < rows.row_ptr[r + 1]; ++e) {
        for (int64_t h = 0; h < heads; ++h) {
          const float v = a.row(r)[h] + b.row(m.column_of[e])[h];
          logits[static_cast<size_t>(e * heads + h)] = v < 0.0F ? v * slope : v;
        }
      }
    }
  }
  auto weights = workspace_.take(static_cast<size_t>(entries * heads));
  softmax_rows<float>(rows, m.values, logits.data(), heads, weights.data());
  auto y = made(m.rows, z.columns);
  weighted_rows<float>(rows, weights.data(), z.values.data(), heads, z.columns / heads, y.values.data());
  workspace_.give(std::move(logits));
  workspace_.give(std::move(weights));
  return y;
}

Matrix Executor::Run::top_nodes(const Operation& o) const {
  const Matrix& x = input(0);
  const auto& adjacency = matrix(0, x.rows);
  const auto& graphs = *matrices_->pool(o.matrices[1]).stages.front();
  expect_rows(adjacency.rows, x.rows);
  expect_rows(graphs.columns, x.rows);
  if (adjacency.kind != Kind::csr || graphs.kind != Kind::csr || graphs.entries() != x.rows)
    fail("nodes that are not each of one graph");
  const Weight& v = *step_->weights[0];
  double square = 0.0;
  for (const float value : v.values) square += static_cast<double>(value) * static_cast<double>(value);
  const auto norm = static_cast<float>(std::max(std::sqrt(square), 1e-12));
  Matrix s{x.rows, 1, workspace_.take(static_cast<size_t>(x.rows))};
  dense_product(x, v.values.data(), x.columns, nullptr, 1.0F, s);
  std::vector<double> scores(static_cast<size_t>(x.rows));
  for (size_t i = 0; i < scores.size(); ++i) {
    s.values[i] /= norm;
    const auto score = static_cast<double>(s.values[i]);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    scores[i] = std::isnan(score) ? -kInfinity : score;
  }
  struct Left {
    std::vector<int64_t> graph_ptr = {0}, row_ptr = {0};
    std::vector<int32_t> nodes, columns;
    std::vector<float> values, normalized;
  };
  auto left = std::make_shared<Left>();
  std::vector<int32_t> place(static_cast<size_t>(x.rows), -1);
  std::vector<int64_t> kept;
  for (int64_t g = 0; g < graphs.rows; ++g) {
    const int64_t first = graphs.row_ptr[g], nodes = graphs.row_ptr[g + 1] - first;
    for (int64_t i = first; i < first + nodes; ++i) {
      if (graphs.column_of[i] != i) fail("nodes that are not each of one graph");
    }
    const int64_t count = kept_nodes(nodes, o.number("ratio", 1.0)), before = left->graph_ptr.back();
    kept.resize(static_cast<size_t>(before + count));
    choose_nodes({scores.data() + first, static_cast<size_t>(nodes)}, count, o.number("tie", 0.0), first,
                 kept.data() + before);
    left->graph_ptr.push_back(before + count);
  }
  auto y = made(static_cast<int64_t>(kept.size()), x.columns);
  for (size_t i = 0; i < kept.size(); ++i) {
    place[static_cast<size_t>(kept[i])] = static_cast<int32_t>(i);
    left->nodes.push_back(static_cast<int32_t>(i));
    const float gate = std::tanh(s.values[static_cast<size_t>(kept[i])]);
    const float* row = x.row(kept[i]);
    for (int64_t k = 0; k < x.columns; ++k) y.row(static_cast<int64_t>(i))[k] = row[k] * gate;
  }
  workspace_.give(std::move(s.values));
  std::vector<float> root;
  for (const int64_t node : kept) {
    float degree = 0.0F;
    for (int64_t e = adjacency.row_ptr[node]; e < adjacency.row_ptr[node + 1]; ++e) {
      const int32_t column = place[static_cast<size_t>(adjacency.column_of[e])];
      if (column < 0) continue;
      left->columns.push_back(column);
      left->values.push_back(adjacency.values ? adjacency.values[e] : 1.0F);
      degree += left->values.back();
    }
    left->row_ptr.push_back(static_cast<int64_t>(left->columns.size()));
    root.push_back(1.0F / std::sqrt(degree));
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    for (auto e = static_cast<size_t>(left->row_ptr[i]); e < static_cast<size_t>(left->row_ptr[i + 1]); ++e)
      left->normalized.push_back(left->values[e] * root[i] * root[static_cast<size_t>(left->columns[e])]);
  }
  SparseMatrix next{.rows = y.rows,
                    .columns = y.rows,
                    .row_ptr = left->row_ptr.data(),
                    .column_of = left->columns.data(),
                    .values = left->values.data(),
                    .owner = left};
  matrices_->add(o.result + ".adjacency", next);
  next.values = left->normalized.data();
  matrices_->add(o.result + ".relation", next);
  matrices_->add(o.result + ".nodes", {.rows = graphs.rows,
                                       .columns = y.rows,
                                       .row_ptr = left->graph_ptr.data(),
                                       .column_of = left->nodes.data(),
                                       .owner = left});
  return y;
}

}  // namespace foretime::inference
