#include "inference/executor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "inference/csr_kernels.h"
#include "inference/dense_kernels.h"
#include "inference/edge_kernels.h"
#include "inference/error.h"
#include "inference/plan_matrices.h"
#include "inference/top_nodes.h"

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

WeightShapes shapes_of(const Weights& weights) {
  WeightShapes shapes;
  for (const auto& [name, weight] : weights) shapes[name] = weight.shape;
  return shapes;
}

/// One pass through a list.
class Executor::Run {
 public:
  Run(const List& list, PlanMatrices* matrices, std::span<const int64_t> group_ptr, Workspace& workspace)
      : list_(list), matrices_(matrices), group_ptr_(group_ptr), workspace_(workspace), values_(list.slots.size()) {}

  void provide(const std::string& name, Matrix value) {
    const auto found = list_.slots.find(name);
    if (found != list_.slots.end()) values_[found->second] = std::move(value);
  }

  Matrix run() {
    for (const Step& step : list_.steps) {
      step_ = &step;
      values_[step.result] = evaluate(*step.operation);
      for (const size_t slot : step.released) workspace_.give(std::move(values_[slot].values));
    }
    return std::move(values_[list_.result]);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw BundleError(fmt::format("form: operation {} ({}): {}", step_->operation->result, step_->operation->op, what));
  }
  void expect_rows(int64_t found, int64_t expected) const {
    if (found != expected) fail(fmt::format("{} rows, expected {}", found, expected));
  }
  const Matrix& input(size_t i) const { return values_[step_->inputs[i]]; }
  const float* weight(size_t i) const {
    return i < step_->weights.size() && step_->weights[i] ? step_->weights[i]->values.data() : nullptr;
  }
  float number(const char* name, double otherwise) const {
    return static_cast<float>(step_->operation->number(name, otherwise));
  }
  float slope() const { return number("slope", 1.0); }
  Matrix made(int64_t rows, int64_t columns) const {
    return {rows, columns, workspace_.take(static_cast<size_t>(rows * columns))};
  }
  const SparseMatrix& matrix(size_t i, int64_t columns) const {
    const auto& found = matrices_->matrix(step_->operation->matrices[i]);
    if (found.columns != columns) fail(fmt::format("{} rows of an input, expected {}", columns, found.columns));
    return found;
  }

  Matrix evaluate(const Operation& o) const {
    if (o.op == "dense") return dense();
    if (o.op == "csr_sum") return csr_sum(o);
    if (o.op == "csr_max") return csr_max(matrix(0, input(0).rows), input(0));
    if (o.op == "pool") return pool(o);
    if (o.op == "add") return add(o);
    if (o.op == "multiply") return multiply();
    if (o.op == "activate") return activate(o);
    if (o.op == "join") return join(o);
    if (o.op == "select") return select(o);
    if (o.op == "transform") return transform();
    if (o.op == "normalize") return normalize(o);
    if (o.op == "lookup") return lookup();
    if (o.op == "codes") return codes();
    if (o.op == "attention") return attention(o);
    if (o.op == "group") return group(o);
    if (o.op == "top_nodes") return top_nodes(o);
    fail("no such operation");
  }

  Matrix dense() const {
    const Matrix& x = input(0);
    const Weight& w = *step_->weights[0];
    auto y = made(x.rows, w.shape[0]);
    dense_product(x, w.values.data() + static_cast<int64_t>(number("start", 0.0)), w.shape[1], weight(1), slope(), y);
    return y;
  }

  /// Adds up terms; those without entries are left out.
  Matrix sum(const std::vector<std::pair<const SparseMatrix*, const float*>>& terms, int64_t rows, int64_t width,
             const float* bias, float slope) const {
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

  Matrix csr_sum(const Operation& o) const {
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

  Matrix csr_max(const SparseMatrix& m, const Matrix& x) const {
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

  Matrix pool(const Operation& o) const {
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

  Matrix add(const Operation& o) const {
    const Matrix& first = input(0);
    auto y = made(first.rows, first.columns);
    const float* bias = weight(0);
    for (int64_t r = 0; r < y.rows; ++r) {
      for (int64_t k = 0; k < y.columns; ++k) y.row(r)[k] = bias ? bias[k] : 0.0F;
    }
    for (size_t i = 0; i < o.inputs.size(); ++i) {
      const Matrix& x = input(i);
      expect_rows(x.rows, y.rows);
      const float factor = number(fmt::format("factor{}", i).c_str(), 1.0);
      for (int64_t at = 0; at < y.size(); ++at)
        y.values[static_cast<size_t>(at)] += factor * x.values[static_cast<size_t>(at)];
    }
    return y;
  }

  Matrix multiply() const {
    const Matrix &x = input(0), &z = input(1);
    expect_rows(z.rows, x.rows);
    auto y = made(x.rows, x.columns);
    for (int64_t at = 0; at < y.size(); ++at)
      y.values[static_cast<size_t>(at)] = x.values[static_cast<size_t>(at)] * z.values[static_cast<size_t>(at)];
    return y;
  }

  Matrix activate(const Operation& o) const {
    const Matrix& x = input(0);
    auto y = made(x.rows, x.columns);
    const auto each = [&](auto&& function) {
      for (int64_t at = 0; at < y.size(); ++at)
        y.values[static_cast<size_t>(at)] = function(x.values[static_cast<size_t>(at)]);
    };
    const float slope = this->slope();
    if (o.mode == "leaky") each([slope](float v) { return v < 0.0F ? v * slope : v; });
    if (o.mode == "tanh") each([](float v) { return std::tanh(v); });
    if (o.mode == "exp") each([](float v) { return std::exp(v); });
    if (o.mode == "log") each([](float v) { return std::log(v); });
    return y;
  }

  Matrix join(const Operation& o) const {
    int64_t width = 0;
    for (size_t i = 0; i < o.inputs.size(); ++i) width += input(i).columns;
    auto y = made(input(0).rows, width);
    int64_t start = 0;
    for (size_t i = 0; i < o.inputs.size(); ++i) {
      const Matrix& x = input(i);
      expect_rows(x.rows, y.rows);
      for (int64_t r = 0; r < y.rows; ++r) std::copy(x.row(r), x.row(r) + x.columns, y.row(r) + start);
      start += x.columns;
    }
    return y;
  }

  Matrix select(const Operation& o) const {
    const Matrix& x = input(0);
    auto y = made(x.rows, static_cast<int64_t>(o.columns.size()));
    for (int64_t r = 0; r < y.rows; ++r) {
      for (size_t k = 0; k < o.columns.size(); ++k) y.row(r)[k] = x.row(r)[o.columns[k]];
    }
    return y;
  }

  Matrix transform() const {
    const Matrix& x = input(0);
    auto y = made(x.rows, x.columns);
    const bool log = number("log", 0.0) != 0.0F;
    const float clip = number("clip", 0.0);
    const float *offset = weight(0), *scale = weight(1);
    for (int64_t r = 0; r < y.rows; ++r) {
      for (int64_t k = 0; k < y.columns; ++k) {
        float v = x.row(r)[k];
        if (log) v = std::copysign(std::log1p(std::abs(v)), v);
        v = (v - offset[k]) * scale[k];
        y.row(r)[k] = clip > 0.0F ? std::clamp(v, -clip, clip) : v;
      }
    }
    return y;
  }

  Matrix normalize(const Operation& o) const {
    const Matrix& x = input(0);
    auto y = made(x.rows, x.columns);
    if (o.mode == "layer") layer_normalize(x, weight(0), weight(1), number("epsilon", 1e-5), y);
    if (o.mode == "l2") l2_normalize(x, number("epsilon", 1e-12), y);
    if (o.mode == "affine") {
      for (int64_t r = 0; r < y.rows; ++r) {
        for (int64_t k = 0; k < y.columns; ++k) y.row(r)[k] = x.row(r)[k] * weight(0)[k] + weight(1)[k];
      }
    }
    return y;
  }

  Matrix lookup() const {
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

  Matrix codes() const {
    const Matrix& x = input(0);
    const Weight& table = *step_->weights[0];
    const int64_t width = table.shape[1];
    const float values = number("values", 1.0), least = number("least", 0.0);
    auto y = made(x.rows, x.columns * width);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t k = 0; k < x.columns; ++k) {
        const float above = x.row(r)[k] - least;  // NaN counts as the least
        const float code = above > 0.0F ? std::min(above, values - 1.0F) : 0.0F;
        const auto at = k * static_cast<int64_t>(values) + static_cast<int64_t>(code);
        const float* row = table.values.data() + at * width;
        for (int64_t j = 0; j < width; ++j) y.row(r)[k * width + j] = r == 0 ? 0.0F : row[j];
      }
    }
    return y;
  }

  Matrix attention(const Operation& o) const {
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

  Matrix group(const Operation& o) const {
    const Matrix& x = input(0);
    const bool softmax = o.mode == "softmax";
    auto y = made(x.rows, softmax ? 2 * x.columns : x.columns);
    std::vector<double> sums(static_cast<size_t>(x.columns)), squares(sums.size());
    std::vector<float> most(sums.size());
    for (size_t g = 0; g + 1 < group_ptr_.size(); ++g) {
      const int64_t first = group_ptr_[g], last = group_ptr_[g + 1];
      if (first == last) continue;
      const auto count = static_cast<double>(last - first);
      std::fill(sums.begin(), sums.end(), 0.0);
      if (!softmax) {
        const auto epsilon = static_cast<double>(number("epsilon", 1e-5));
        for (int64_t r = first; r < last; ++r) {
          for (size_t k = 0; k < sums.size(); ++k) sums[k] += static_cast<double>(x.row(r)[k]);
        }
        for (double& sum : sums) sum /= count;
        std::fill(squares.begin(), squares.end(), 0.0);
        for (int64_t r = first; r < last; ++r) {
          for (size_t k = 0; k < sums.size(); ++k) {
            const double centered = static_cast<double>(x.row(r)[k]) - sums[k];
            squares[k] += centered * centered;
          }
        }
        for (double& square : squares) square = 1.0 / std::sqrt(square / count + epsilon);
        for (int64_t r = first; r < last; ++r) {
          for (size_t k = 0; k < sums.size(); ++k)
            y.row(r)[k] = static_cast<float>((static_cast<double>(x.row(r)[k]) - sums[k]) * squares[k]);
        }
        continue;
      }
      const float scale = weight(0)[0];
      std::fill(most.begin(), most.end(), -std::numeric_limits<float>::infinity());
      for (int64_t r = first; r < last; ++r) {
        for (size_t k = 0; k < most.size(); ++k) most[k] = std::max(most[k], x.row(r)[k] * scale);
      }
      for (int64_t r = first; r < last; ++r) {
        for (size_t k = 0; k < most.size(); ++k) {
          const float exponential = std::exp(x.row(r)[k] * scale - most[k]);
          y.row(r)[most.size() + k] = exponential;
          sums[k] += static_cast<double>(exponential);
        }
      }
      for (int64_t r = first; r < last; ++r) {
        for (size_t k = 0; k < most.size(); ++k) {
          const float v = x.row(r)[k];
          y.row(r)[k] = v;
          y.row(r)[most.size() + k] *= v * static_cast<float>(count / sums[k]);
        }
      }
    }
    return y;
  }

  Matrix top_nodes(const Operation& o) const;

  const List& list_;
  PlanMatrices* matrices_;
  std::span<const int64_t> group_ptr_;
  Workspace& workspace_;
  std::vector<Matrix> values_;
  const Step* step_ = nullptr;
};

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

Executor::Executor(Form form, std::shared_ptr<const Weights> weights, int64_t feature_count)
    : form_(std::move(form)), weights_(std::move(weights)), feature_count_(feature_count) {
  check_form(form_, shapes_of(*weights_), feature_count_);
  embed_ = compile(form_.embed, {kNodeFeatures, kLayoutRows, kCandidateFeatures}, form_.embedded);
  score_ = compile(form_.score, {kEmbedded}, form_.scores);
}

Executor::List Executor::compile(const std::vector<Operation>& operations, const std::vector<std::string>& inputs,
                                 const std::string& result) const {
  List list;
  for (const auto& input : inputs) list.slots.emplace(input, list.slots.size());
  for (const auto& operation : operations) {
    Step step{.operation = &operation, .inputs = {}, .result = 0, .weights = {}, .released = {}};
    for (const auto& input : operation.inputs) step.inputs.push_back(list.slots.at(input));
    step.result = list.slots.emplace(operation.result, list.slots.size()).first->second;
    for (const auto& weight : operation.weights)
      step.weights.push_back(weight.empty() ? nullptr : &weights_->at(weight));
    list.steps.push_back(std::move(step));
  }
  list.result = list.slots.at(result);
  std::vector<bool> needed(list.slots.size(), false);
  needed[list.result] = true;
  for (size_t i = list.steps.size(); i-- > 0;) {
    Step& step = list.steps[i];
    for (const size_t slot : step.inputs) {
      if (!needed[slot]) step.released.push_back(slot);
      needed[slot] = true;
    }
    if (!needed[step.result]) step.released.push_back(step.result);
  }
  return list;
}

Matrix Executor::embed(const data::MessagePlan& plan, Workspace& workspace) const {
  if (plan.feature_count != feature_count_)
    throw BundleError(
        fmt::format("message plan: {} columns of node features, expected {}", plan.feature_count, feature_count_));
  if (static_cast<int64_t>(plan.layers.size()) != form_.request.layers)
    throw BundleError(fmt::format("message plan: {} layers, expected {}", plan.layers.size(), form_.request.layers));
  PlanMatrices matrices(plan, form_.statements);
  Run run(embed_, &matrices, {}, workspace);
  const auto given = [&](const char* name, const auto& values, int64_t columns) {
    if (!embed_.slots.contains(name)) return;
    Matrix matrix{static_cast<int64_t>(values.size()) / std::max<int64_t>(1, columns), columns,
                  workspace.take(values.size())};
    std::copy(values.begin(), values.end(), matrix.values.begin());
    run.provide(name, std::move(matrix));
  };
  given(kNodeFeatures, plan.node_features, plan.feature_count);
  static const std::vector<int8_t> no_layout(data::kLayoutFeatures, 0);
  given(kLayoutRows, plan.layout_rows.empty() ? no_layout : plan.layout_rows, data::kLayoutFeatures);
  given(kCandidateFeatures, plan.candidate_features, data::kTileFeatures);
  auto result = run.run();
  if (result.rows != plan.candidates())
    throw BundleError(fmt::format("form: {} rows of {}, expected one a candidate, {}", result.rows, form_.embedded,
                                  plan.candidates()));
  return result;
}

std::vector<float> Executor::score(Matrix embedded, std::span<const int64_t> group_ptr, Workspace& workspace) const {
  const int64_t rows = embedded.rows;
  if (embedded.columns != form_.embedded_columns || group_ptr.empty() || group_ptr.back() != rows)
    throw BundleError(
        fmt::format("form: {} columns of embedded candidates, expected {}", embedded.columns, form_.embedded_columns));
  Run run(score_, nullptr, group_ptr, workspace);
  run.provide(kEmbedded, std::move(embedded));
  auto result = run.run();
  if (result.rows != rows) throw BundleError(fmt::format("form: {} scores, expected {}", result.rows, rows));
  result.values.resize(static_cast<size_t>(rows));
  return std::move(result.values);
}

}  // namespace foretime::inference
