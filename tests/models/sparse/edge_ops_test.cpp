#include "models/sparse/edge_ops.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "models/graph/error.h"
#include "models/sparse/csr_ops.h"
#include "tests/models/random_matrix.h"
#include "tests/support/gradcheck.h"

/// Kernels against ATen's operations, and their gradients against finite differences.
namespace foretime::models {
namespace {

using testing::random_matrix;
using testing::tensor_of;

struct Case {
  CsrTensor matrix;
  torch::Tensor logits, sources, targets;
};

constexpr int64_t kHeads = 3, kWidth = 4;

/// Values are multiplicities, as of a relation whose entries are counted.
Case make_case(int64_t rows, int64_t cols, int64_t most_entries) {
  auto counted = random_matrix(rows, cols, most_entries);
  for (size_t e = 0; e < counted.values.size(); ++e) counted.values[e] = static_cast<double>(1 + e % 3);
  Case result{tensor_of(counted, torch::kDouble), {}, {}, {}};
  const auto options = torch::dtype(torch::kDouble).requires_grad(true);
  result.logits = torch::randn({result.matrix.columns.size(0), kHeads}, options);
  result.sources = torch::randn({cols, kHeads * kWidth}, options);
  result.targets = torch::randn({rows, kHeads * kWidth}, options);
  return result;
}

torch::Tensor mixed(const torch::Tensor& x) {
  return (x * torch::cos(torch::arange(x.numel(), torch::kDouble)).view_as(x)).sum();
}

TEST(EdgeOps, EqualTheirTwins) {
  torch::manual_seed(1);
  for (const auto& [rows, cols, most] : {std::array<int64_t, 3>{9, 7, 5}, {200, 150, 40}}) {
    const auto c = make_case(rows, cols, most);
    EXPECT_TRUE(torch::allclose(edge_softmax(c.matrix, c.logits), edge_softmax_aten(c.matrix, c.logits), 1e-12, 1e-14));
    EXPECT_TRUE(torch::allclose(weighted_sum(c.matrix, c.logits, c.sources),
                                weighted_sum_aten(c.matrix, c.logits, c.sources), 1e-12, 1e-12));
    EXPECT_TRUE(torch::allclose(entry_products(c.matrix, c.targets, c.sources, kHeads),
                                entry_products_aten(c.matrix, c.targets, c.sources, kHeads), 1e-12, 1e-12));
  }
}

TEST(EdgeOps, GradientsEqualFiniteDifferences) {
  torch::manual_seed(2);
  const auto c = make_case(9, 7, 5);
  testing::expect_gradients([&] { return mixed(edge_softmax(c.matrix, c.logits)); }, {{"logits", c.logits}});
  testing::expect_gradients([&] { return mixed(weighted_sum(c.matrix, c.logits, c.sources)); },
                            {{"weights", c.logits}, {"states", c.sources}});
  testing::expect_gradients([&] { return mixed(entry_products(c.matrix, c.targets, c.sources, kHeads)); },
                            {{"targets", c.targets}, {"sources", c.sources}});
}

TEST(EdgeOps, GatherStatesOfSourcesAndTargets) {
  torch::manual_seed(3);
  const auto c = make_case(9, 7, 5);
  const auto gather = [&](const CsrTensor& which, const torch::Tensor& x) { return csr_matmul(which, x); };
  EXPECT_TRUE(torch::equal(gather(entry_sources(c.matrix), c.sources), c.sources.index_select(0, c.matrix.columns)));
  EXPECT_TRUE(
      torch::equal(gather(entry_targets(c.matrix), c.targets), c.targets.index_select(0, entry_rows(c.matrix))));
  testing::expect_gradients([&] { return mixed(gather(entry_sources(c.matrix), c.sources)); }, {{"x", c.sources}});
  testing::expect_gradients([&] { return mixed(gather(entry_targets(c.matrix), c.targets)); }, {{"x", c.targets}});
}

TEST(EdgeSoftmax, SumsToOneCountsRepeatedMessagesAndSurvivesLargeLogits) {
  plans::CsrMatrix merged;
  merged.rows = 3;
  merged.cols = 2;
  merged.row_ptr = {0, 2, 2, 3};
  merged.columns = {0, 1, 1};
  merged.values = {2, 1, 1};
  auto apart = merged;
  apart.row_ptr = {0, 3, 3, 4};
  apart.columns = {0, 0, 1, 1};
  apart.values = {1, 1, 1, 1};
  const auto x = torch::tensor({{1.0}, {5.0}}, torch::kDouble);
  const auto of = [&](const plans::CsrMatrix& matrix, double scale) {
    const auto tensor = tensor_of(matrix, torch::kDouble);
    const auto logits = scale * x.index_select(0, tensor.columns);
    return std::pair{edge_softmax(tensor, logits), weighted_sum(tensor, edge_softmax(tensor, logits), x)};
  };
  for (const double scale : {0.1, 400.0, -400.0}) {
    const auto [weights, sum] = of(merged, scale);
    EXPECT_TRUE(torch::allclose(sum, of(apart, scale).second, 1e-12, 1e-12));
    EXPECT_TRUE(torch::isfinite(weights).all().item<bool>());
    EXPECT_NEAR(weights.slice(0, 0, 2).sum().item<double>(), 1.0, 1e-12);
    EXPECT_EQ(sum[1][0].item<double>(), 0.0) << "a row without entries";
  }
}

TEST(EdgeOps, DoNotDependOnThreads) {
  torch::manual_seed(4);
  const auto c = make_case(400, 300, 60);
  const int before = omp_get_max_threads();
  const auto run = [&](int threads) {
    omp_set_num_threads(threads);
    for (auto leaf : {c.logits, c.sources}) leaf.mutable_grad() = torch::Tensor();
    mixed(weighted_sum(c.matrix, edge_softmax(c.matrix, c.logits), c.sources)).backward();
    return std::pair{c.logits.grad().clone(), c.sources.grad().clone()};
  };
  const auto one = run(1), four = run(4);
  omp_set_num_threads(before);
  EXPECT_TRUE(torch::equal(one.first, four.first));
  EXPECT_TRUE(torch::equal(one.second, four.second));
}

TEST(EdgeOps, RefuseWhatDoesNotFit) {
  const auto c = make_case(9, 7, 5);
  EXPECT_THROW(edge_softmax(c.matrix, c.logits.slice(0, 1)), ModelError);
  EXPECT_THROW(weighted_sum(c.matrix, c.logits, c.targets), ModelError);
  EXPECT_THROW(weighted_sum(c.matrix, c.logits, c.sources.slice(1, 1)), ModelError);
  EXPECT_THROW(entry_products(c.matrix, c.targets, c.sources, 5), ModelError);
}

}  // namespace
}  // namespace foretime::models
