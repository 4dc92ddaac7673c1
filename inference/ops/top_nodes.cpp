#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "inference/kernels/dense_kernels.h"
#include "inference/ops/operation.h"

namespace foretime::inference {
namespace {

constexpr double kWhole = 1e-9;  // ratio * n may lie this much above a whole number, relative, and still be it

constexpr const char* kTopNodes = R"(
def top_nodes(self, m: Dict[str, Tensor], adjacency: str, nodes: str, result: str, x: Tensor, v: Tensor, ratio: float, tie: float) -> Tensor:
    score = torch.mv(x, v) / v.norm().clamp_min(1e-12)
    ptr = m[nodes + ".row_ptr"]
    kept: List[Tensor] = []
    kept_ptr = [0]
    for g in range(ptr.size(0) - 1):
        first = int(ptr[g])
        own = score[first:int(ptr[g + 1])].double()
        count = own.size(0)
        wanted = float(count) * ratio * (1 - 1e-9)
        keep = int(wanted)
        if float(keep) < wanted:
            keep += 1
        keep = min(count, max(1, keep))
        order = torch.sort(-own, stable=True, dim=0, descending=False)[1]
        if keep < count:
            ranked = own.index_select(0, order)
            near = tie * max(abs(float(ranked[0])), abs(float(ranked[count - 1])))
            begin = keep
            end = keep
            while begin > 0 and not float(ranked[begin - 1]) - float(ranked[begin]) > near:
                begin -= 1
            if begin < keep:
                while end < count and not float(ranked[end - 1]) - float(ranked[end]) > near:
                    end += 1
                order = torch.cat([order[:begin], torch.sort(order[begin:end])[0], order[end:]])
        kept.append(torch.sort(order[:keep])[0] + first)
        kept_ptr.append(kept_ptr[len(kept_ptr) - 1] + keep)
    chosen = torch.cat(kept)
    place = torch.full([x.size(0)], -1, device=x.device).long().index_copy(0, chosen, torch.arange(chosen.size(0), device=x.device))
    rows = place.index_select(0, self.rows_of(m, adjacency))
    columns = place.index_select(0, m[adjacency + ".columns"])
    stay = ((rows >= 0) & (columns >= 0)).nonzero().view(-1)
    rows = rows.index_select(0, stay)
    columns = columns.index_select(0, stay)
    values = m[adjacency + ".values"].index_select(0, stay)
    counts = torch.zeros([chosen.size(0) + 1], device=x.device).long().index_add(0, rows + 1, torch.ones_like(rows))
    row_ptr = counts.cumsum(0)
    degree = torch.zeros([chosen.size(0)], dtype=x.dtype, device=x.device).index_add(0, rows, values)
    root = torch.rsqrt(degree)
    m[result + ".adjacency.row_ptr"] = row_ptr
    m[result + ".adjacency.columns"] = columns
    m[result + ".adjacency.values"] = values
    m[result + ".normalized_adjacency.row_ptr"] = row_ptr
    m[result + ".normalized_adjacency.columns"] = columns
    m[result + ".normalized_adjacency.values"] = values * root.index_select(0, rows) * root.index_select(0, columns)
    m[result + ".kept_nodes.row_ptr"] = torch.tensor(kept_ptr, device=x.device)
    m[result + ".kept_nodes.columns"] = torch.arange(chosen.size(0), device=x.device)
    m[result + ".kept_nodes.values"] = torch.ones([chosen.size(0)], dtype=x.dtype, device=x.device)
    return x.index_select(0, chosen) * torch.tanh(score.index_select(0, chosen)).unsqueeze(1)
)";

}  // namespace

int64_t kept_nodes(int64_t nodes, double ratio) {
  const auto wanted = nodes * ratio;
  return std::clamp<int64_t>(std::ceil(wanted * (1 - kWhole)), std::min<int64_t>(1, nodes), nodes);
}

void choose_nodes(std::span<const double> scores, int64_t count, double tie_part, int64_t first, int64_t* kept) {
  const auto nodes = std::ssize(scores);
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int64_t place) { return scores[order[place]]; };
  if (count < nodes) {
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double x = scores[a], y = scores[b];
      return x != y ? x > y : a < b;
    });
    const double tie = tie_part * std::max(std::abs(score(0)), std::abs(score(nodes - 1)));
    const auto tied = [&](int64_t place) { return !(score(place - 1) - score(place) > tie); };
    int64_t begin = count, end = count;
    while (begin > 0 && tied(begin)) --begin;
    if (begin < count) {
      while (end < nodes && tied(end)) ++end;
      std::sort(order.begin() + begin, order.begin() + end);
    }
    std::sort(order.begin(), order.begin() + count);
  }
  for (int64_t i = 0; i < count; ++i) kept[i] = first + order[i];
}

int64_t TopNodes::columns(const Widths& widths) const {
  if (widths.groups()) widths.fail("of graphs, which only operations of embed see");
  widths.matrix(adjacency);
  widths.matrix(nodes);
  const int64_t width = widths.of(x);
  widths.vector(weight, width);
  widths.expect(ratio > 0.0 && ratio <= 1.0, "ratio", ratio, "above 0, at most 1");
  widths.expect(tie >= 0.0 && tie < 1.0, "tie", tie, "0 or more, below 1");
  return width;
}

Matrix TopNodes::run(const Run& run) const {
  using Kind = SparseMatrix::Kind;
  const Matrix& from = run.in(x);
  const auto& edges = run.matrix(adjacency, from.rows);
  const auto& graphs = run.matrix(nodes, from.rows);
  run.expect_rows(edges.rows, from.rows);
  if (edges.kind != Kind::csr || graphs.kind != Kind::csr || graphs.entries() != from.rows)
    run.fail("nodes that are not each of one graph");
  const Weight& v = run.table(weight);
  double square = 0.0;
  for (const float value : v.values) square += static_cast<double>(value) * value;
  const float norm = std::max(std::sqrt(square), 1e-12);
  auto s = run.made(from.rows, 1);
  dense_product(from, v.values.data(), from.columns, nullptr, 1.0F, s);
  std::vector<double> scores(from.rows);
  for (size_t i = 0; i < scores.size(); ++i) {
    s.values[i] /= norm;
    const double score = s.values[i];
    scores[i] = std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
  }
  struct Left {
    std::vector<int64_t> graph_ptr = {0}, row_ptr = {0};
    std::vector<int32_t> nodes, columns;
    std::vector<float> values;
  };
  auto left = std::make_shared<Left>();
  std::vector<int64_t> kept;
  for (int64_t g = 0; g < graphs.rows; ++g) {
    const int64_t first = graphs.row_ptr[g], count = graphs.row_ptr[g + 1] - first;
    for (int64_t i = first; i < first + count; ++i)
      if (graphs.column_of[i] != i) run.fail("nodes that are not each of one graph");
    const int64_t keep = kept_nodes(count, ratio), before = left->graph_ptr.back();
    kept.resize(before + keep);
    choose_nodes(std::span(scores.data() + first, count), keep, tie, first, kept.data() + before);
    left->graph_ptr.push_back(before + keep);
  }
  auto y = run.made(kept.size(), from.columns);
  std::vector<int32_t> place(from.rows, -1);
  for (size_t i = 0; i < kept.size(); ++i) {
    place[kept[i]] = i;
    left->nodes.push_back(i);
    const float gate = std::tanh(s.values[kept[i]]);
    const float* row = from.row(kept[i]);
    for (int64_t k = 0; k < from.columns; ++k) y.row(i)[k] = row[k] * gate;
  }
  run.give(std::move(s.values));
  for (const int64_t node : kept) {
    for (int64_t e = edges.row_ptr[node]; e < edges.row_ptr[node + 1]; ++e) {
      const int32_t column = place[edges.column_of[e]];
      if (column < 0) continue;
      left->columns.push_back(column);
      left->values.push_back(edges.values ? edges.values[e] : 1.0F);
    }
    left->row_ptr.push_back(left->columns.size());
  }
  run.add({.kind = MatrixRef::Kind::adjacency, .at = run.result().id}, {.rows = y.rows,
                                                                        .columns = y.rows,
                                                                        .row_ptr = left->row_ptr.data(),
                                                                        .column_of = left->columns.data(),
                                                                        .values = left->values.data(),
                                                                        .owner = left});
  run.add({.kind = MatrixRef::Kind::kept_nodes, .at = run.result().id}, {.rows = graphs.rows,
                                                                         .columns = y.rows,
                                                                         .row_ptr = left->graph_ptr.data(),
                                                                         .column_of = left->nodes.data(),
                                                                         .owner = left});
  return y;
}

std::string TopNodes::script(ScriptWriter& writer) const {
  writer.sparse_helpers();
  writer.helper(kTopNodes);
  return fmt::format("self.top_nodes(m, {}, {}, \"{}\", {}, {}, {}, {})", writer.matrix(adjacency),
                     writer.matrix(nodes), to_string(writer.result), writer.value(x), writer.weight(weight),
                     writer.number(ratio), writer.number(tie));
}

}  // namespace foretime::inference
