/// Sparse operations and their gradients against dense products, finite differences, and ATen's operations.
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include <gtest/gtest.h>
#include <omp.h>

#include "base/check.h"
#include "models/graph/error.h"
#include "models/sparse/sparse_ops.h"
#include "tests/models/matrix_tensor.h"
#include "tests/models/sparse_reference.h"
#include "tests/support/gradcheck.h"

namespace foretime::models {
namespace {

/// A random matrix with empty rows, repeated columns and, where asked, rows past the length at which kernels cut them.
plans::CsrMatrix random_matrix(int64_t rows, int64_t cols, int64_t most_entries) {
  plans::CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row_ptr = {0};
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t count = r % 3 == 1 ? 0 : torch::randint(1, most_entries + 1, {1}).item<int64_t>();
    for (int64_t e = 0; e < count; ++e) {
      matrix.columns.push_back(torch::randint(cols, {1}).item<int32_t>());
      matrix.values.push_back(torch::randn({1}).item<float>());
    }
    matrix.row_ptr.push_back(static_cast<int64_t>(matrix.columns.size()));
  }
  return matrix;
}

torch::Tensor dense_of(const plans::CsrMatrix& matrix) {
  auto dense = torch::zeros({matrix.rows, matrix.cols}, torch::kDouble);
  for (int64_t r = 0; r < matrix.rows; ++r) {
    for (int64_t e = matrix.row_ptr[static_cast<size_t>(r)]; e < matrix.row_ptr[static_cast<size_t>(r) + 1]; ++e) {
      dense[r][matrix.columns[static_cast<size_t>(e)]] += static_cast<double>(matrix.values[static_cast<size_t>(e)]);
    }
  }
  return dense;
}

TEST(CsrMatmul, EqualsDenseProductAtEveryWidth) {
  torch::manual_seed(1);
  const auto matrix = random_matrix(17, 11, 6);
  const auto dense = dense_of(matrix);
  for (const int64_t width : {1, 3, 31, 32, 33, 64, 70}) {
    const auto x = torch::randn({11, width}, torch::kDouble);
    const auto expected = dense.matmul(x);
    EXPECT_TRUE(torch::allclose(csr_matmul(tensor_of(matrix, torch::kDouble), x), expected, 1e-12, 1e-12)) << width;
    const auto in_float = csr_matmul(tensor_of(matrix, torch::kFloat), x.to(torch::kFloat));
    EXPECT_TRUE(torch::allclose(in_float.to(torch::kDouble), expected, 1e-5, 1e-5)) << width;
  }
}

TEST(CsrMatmul, GradientIsProductWithTransposed) {
  torch::manual_seed(2);
  const auto matrix = random_matrix(9, 13, 5);
  const auto sparse = tensor_of(matrix, torch::kDouble);
  auto x = torch::randn({13, 35}, torch::dtype(torch::kDouble).requires_grad(true));
  const auto weight = torch::randn({9, 35}, torch::kDouble);
  (csr_matmul(sparse, x) * weight).sum().backward();
  EXPECT_TRUE(torch::allclose(x.grad(), dense_of(matrix).t().matmul(weight), 1e-12, 1e-12));
  testing::expect_gradients([&] { return (csr_matmul(sparse, x) * weight).sum(); }, {{"x", x}});
}

TEST(CsrMatmul, LongRowsAgreeAndDoNotDependOnThreads) {
  torch::manual_seed(3);
  plans::CsrMatrix matrix;
  matrix.rows = 3;
  matrix.cols = 50;
  const int64_t entries = 20001;
  for (int64_t e = 0; e < entries; ++e) {
    matrix.columns.push_back(static_cast<int32_t>(e * 7 % 50));
    matrix.values.push_back(static_cast<float>(e % 11) - 5.0F);
  }
  matrix.row_ptr = {0, 19000, 19000, entries};
  const auto x = torch::randn({50, 33}, torch::kDouble);
  EXPECT_TRUE(
      torch::allclose(csr_matmul(tensor_of(matrix, torch::kDouble), x), dense_of(matrix).matmul(x), 1e-9, 1e-9));

  const auto sparse = tensor_of(matrix, torch::kFloat);
  const auto in_float = x.to(torch::kFloat);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto by_one = csr_matmul(sparse, in_float);
  omp_set_num_threads(4);
  const auto by_four = csr_matmul(sparse, in_float);
  omp_set_num_threads(threads);
  EXPECT_TRUE(torch::equal(by_one, by_four));
}

TEST(CsrMatmul, RefusesOtherShapesAndTypes) {
  const auto sparse = tensor_of(random_matrix(4, 5, 3), torch::kFloat);
  EXPECT_THROW(csr_matmul(sparse, torch::zeros({6, 2})), BrokenInvariant);
  EXPECT_THROW(csr_matmul(sparse, torch::zeros({5, 2}, torch::kDouble)), BrokenInvariant);
}

TEST(CsrMatmul, AtenCompositionEqualsKernels) {
  torch::manual_seed(4);
  const auto sparse = tensor_of(random_matrix(21, 10, 7), torch::kDouble);
  auto a = torch::randn({10, 8}, torch::dtype(torch::kDouble).requires_grad(true));
  auto b = a.detach().clone().requires_grad_(true);
  const auto weight = torch::randn({21, 8}, torch::kDouble);
  const auto by_kernel = csr_matmul(sparse, a), by_aten = csr_sum_aten({{&sparse, b}}, {});
  EXPECT_TRUE(torch::allclose(by_kernel, by_aten, 1e-12, 1e-12));
  (by_kernel * weight).sum().backward();
  (by_aten * weight).sum().backward();
  EXPECT_TRUE(torch::allclose(a.grad(), b.grad(), 1e-12, 1e-12));
}

TEST(CsrMax, FirstOfEqualsGetsTheGradientAndEmptyRowsAreZero) {
  plans::CsrMatrix matrix;
  matrix.rows = 3;
  matrix.cols = 4;
  matrix.row_ptr = {0, 3, 3, 5};
  matrix.columns = {2, 0, 1, 3, 3};
  matrix.values = {1, 1, 1, 0.5F, 0.5F};
  const auto pattern = tensor_of(matrix, torch::kDouble);
  const auto start = torch::tensor({{-5.0, 1.0}, {-2.0, 7.0}, {-2.0, 7.0}, {-3.0, -4.0}}, torch::kDouble);
  for (const bool aten : {false, true}) {
    auto x = start.clone().requires_grad_(true);
    const auto y = aten ? csr_max_aten(pattern, x) : csr_max(pattern, x);
    EXPECT_TRUE(torch::equal(y, torch::tensor({{-2.0, 7.0}, {0.0, 0.0}, {-3.0, -4.0}}, torch::kDouble)));
    (y * torch::tensor({{1.0, 2.0}, {4.0, 8.0}, {16.0, 32.0}}, torch::kDouble)).sum().backward();
    EXPECT_TRUE(
        torch::equal(x.grad(), torch::tensor({{0.0, 0.0}, {0.0, 0.0}, {1.0, 2.0}, {16.0, 32.0}}, torch::kDouble)));
  }
}

TEST(CsrMax, EqualsAtenAndKeepsNan) {
  torch::manual_seed(5);
  const auto pattern = tensor_of(random_matrix(30, 12, 6), torch::kDouble);
  auto x = torch::randn({12, 5}, torch::kDouble);
  EXPECT_TRUE(torch::equal(csr_max(pattern, x), csr_max_aten(pattern, x)));
  x[3][2] = std::numeric_limits<double>::quiet_NaN();
  const auto y = csr_max(pattern, x);
  EXPECT_TRUE(torch::isnan(y).any().item<bool>());
  EXPECT_TRUE(torch::allclose(y, csr_max_aten(pattern, x), 0, 0, /*equal_nan=*/true));
}

/// Entry e of a gather names row index[e].
CsrTensor gather_of(const std::vector<int32_t>& index, int64_t cols) {
  plans::MessagePlan plan;
  auto level = std::make_shared<plans::PlanLevel>();
  level->node = index;
  plan.feature_count = 1;
  plan.node_features.assign(static_cast<size_t>(cols), 0);
  plan.node_types.assign(static_cast<size_t>(cols), 0);
  plan.levels = {level};
  plans::CsrMatrix none;
  none.cols = static_cast<int64_t>(index.size());
  none.row_ptr = {0};
  plan.readout.nodes.stages = plan.readout.configurable.stages = {none};
  return to_tensors(plan).levels[0]->node;
}

TEST(CsrSum, OfTermsWithEpilogueEqualsAtenAndItsGradients) {
  torch::manual_seed(6);
  const auto a = tensor_of(random_matrix(301, 40, 9), torch::kDouble);
  const auto b = tensor_of(random_matrix(301, 25, 4), torch::kDouble);
  std::vector<int32_t> index;
  for (int i = 0; i < 301; ++i) index.push_back(i * i % 12);
  const auto gather = gather_of(index, 12);
  for (const int64_t width : {1, 5, 32, 67}) {
    for (const double slope : {1.0, 0.2, 0.0}) {
      std::vector<torch::Tensor> by_kernel, by_aten;
      for (auto* list : {&by_kernel, &by_aten}) {
        torch::manual_seed(width);
        for (const int64_t rows : {40, 25, 12})
          list->push_back(torch::randn({rows, width}, torch::kDouble).requires_grad_());
        list->push_back(torch::randn({width}, torch::kDouble).requires_grad_());
      }
      const auto run = [&](const std::vector<torch::Tensor>& x, auto* sum) {
        const auto out = sum({{&a, x[0]}, {&b, x[1]}, {&gather, x[2]}}, {x[3], slope});
        (out * torch::cos(torch::arange(out.numel(), torch::kDouble).view(out.sizes()))).sum().backward();
        return out.detach();
      };
      EXPECT_TRUE(torch::allclose(run(by_kernel, csr_sum), run(by_aten, csr_sum_aten), 1e-12, 1e-12));
      for (size_t i = 0; i < by_kernel.size(); ++i) {
        EXPECT_TRUE(torch::allclose(by_kernel[i].grad(), by_aten[i].grad(), 1e-10, 1e-10)) << i << " width " << width;
      }
    }
  }
}

TEST(CsrSum, OfReducedPrecisionIsTakenInTheMatrixType) {
  torch::manual_seed(6);
  const auto a = tensor_of(random_matrix(30, 20, 9), torch::kFloat);
  const auto x = torch::randn({20, 8}).to(torch::kBFloat16).requires_grad_();
  const auto out = csr_matmul(a, x);
  EXPECT_EQ(out.scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(out, csr_matmul(a, x.to(torch::kFloat))));
  out.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), torch::kBFloat16);
}

TEST(ToTensors, KeepsSharedLayersSharedAndDropsIdentities) {
  auto level = std::make_shared<plans::PlanLevel>();
  level->node = {0, 1};
  auto identity = std::make_shared<plans::PlanLayer>(), swap = std::make_shared<plans::PlanLayer>();
  identity->self = {0, 1};
  swap->self = {1, 0};
  plans::MessagePlan plan;
  plan.feature_count = 1;
  plan.node_features = {1, 2};
  plan.node_types = {0, 1};
  plan.levels = {level, level, level, level};
  plan.layers = {identity, swap, identity};
  plan.readout.nodes.stages = plan.readout.configurable.stages = {random_matrix(1, 2, 2)};
  plan.group_ptr = {0, 1};
  const auto tensors = to_tensors(plan);
  EXPECT_EQ(tensors.levels[0], tensors.levels[3]);
  EXPECT_EQ(tensors.layers[0], tensors.layers[2]);
  EXPECT_FALSE(tensors.layers[0]->self.defined());
  ASSERT_TRUE(tensors.layers[1]->self.defined());
  EXPECT_TRUE(torch::equal(tensors.layers[1]->self.columns, torch::tensor({1, 0}, torch::kInt)));

  swap->self = {1};
  EXPECT_THROW(to_tensors(plan), BrokenInvariant);
}

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
  EXPECT_THROW(edge_softmax(c.matrix, c.logits.slice(0, 1)), BrokenInvariant);
  EXPECT_THROW(weighted_sum(c.matrix, c.logits, c.targets), BrokenInvariant);
  EXPECT_THROW(weighted_sum(c.matrix, c.logits, c.sources.slice(1, 1)), BrokenInvariant);
  EXPECT_THROW(entry_products(c.matrix, c.targets, c.sources, 5), BrokenInvariant);
}

}  // namespace
}  // namespace foretime::models
