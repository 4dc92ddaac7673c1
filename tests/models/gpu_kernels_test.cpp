/// The kernels that GPUs run, here run by the CPU, against the CPU's own kernels; and their source against NVRTC.
#include <functional>
#include <limits>

#include "models/autograd/autocast.h"
#include "models/gpu/launch.h"
#include "models/gpu/nvrtc.h"
#include "models/graph/error.h"
#include "models/sparse/plan_converter.h"
#include "models/sparse/sparse_ops.h"
#include "tests/models/matrix_tensor.h"
#include "tests/support/golden.h"
#include "tests/support/gpu_kernels_on_cpu.h"
#include "tests/support/message_of.h"

namespace foretime::models {
namespace {

/// Rows of 0, some, exactly kLongRow, one more, and many entries, in which columns stand several times.
plans::CsrMatrix uneven_matrix() {
  plans::CsrMatrix matrix;
  matrix.cols = 40;
  matrix.row_ptr = {0};
  for (const int64_t entries : {0, 3, 128, 129, 1, 1000, 0, 64, 257, 2}) {
    for (int64_t e = 0; e < entries; ++e) {
      // A quarter of all entries name one column, so that the transposed matrix has long rows too.
      const int64_t e4 = static_cast<int64_t>(matrix.columns.size());
      matrix.columns.push_back(static_cast<int32_t>(e4 % 4 == 0 ? 7 : e4 * 13 % 40));
      matrix.values.push_back(static_cast<float>(e4 % 5 + 1) / 4);
    }
    matrix.row_ptr.push_back(static_cast<int64_t>(matrix.columns.size()));
  }
  matrix.rows = static_cast<int64_t>(matrix.row_ptr.size()) - 1;
  return matrix;
}

/// What an operation of a matrix and its inputs gives, and the inputs' gradients.
using SparseOperation = std::function<torch::Tensor(const CsrTensor&, const std::vector<torch::Tensor>&)>;
std::vector<torch::Tensor> values_and_gradients(const SparseOperation& operation, const plans::CsrMatrix& matrix,
                                                const std::vector<torch::Tensor>& inputs) {
  std::vector<torch::Tensor> leaves;
  for (const auto& x : inputs) leaves.push_back(x.detach().clone().requires_grad_(true));
  auto out = operation(tensor_of(matrix, inputs[0].scalar_type()), leaves);
  const auto weight = torch::arange(out.numel(), out.options()).remainder(7).sub(3).view_as(out);
  (out * weight).sum().backward();
  std::vector<torch::Tensor> all = {out.detach()};
  for (const auto& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

/// The kernels, on this matrix and a small one, against the CPU's kernels, and against themselves.
void expect_equal_to_host(const SparseOperation& operation, const std::vector<torch::Tensor>& inputs) {
  const auto matrix = uneven_matrix();
  const auto by_host = values_and_gradients(operation, matrix, inputs);
  const gpu::GpuKernelsOnCpu on_gpu_kernels;
  const int64_t before = gpu::launches();
  const auto by_kernels = values_and_gradients(operation, matrix, inputs),
             again = values_and_gradients(operation, matrix, inputs);
  EXPECT_GT(gpu::launches(), before);
  ASSERT_EQ(by_kernels.size(), by_host.size());
  const double near = inputs[0].scalar_type() == torch::kDouble ? 1e-11 : 1e-4;
  for (size_t i = 0; i < by_host.size(); ++i) {
    EXPECT_TRUE(torch::allclose(by_kernels[i], by_host[i], near, near)) << "result " << i;
    EXPECT_TRUE(torch::equal(by_kernels[i], again[i])) << "result " << i;
  }
}

TEST(GpuKernels, SumsEqualTheCpusKernels) {
  torch::manual_seed(1);
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    for (const int64_t width : {1, 3, 4, 32, 36}) {
      SCOPED_TRACE(width);
      const auto x = torch::randn({40, width}, type), bias = torch::randn({width}, type);
      expect_equal_to_host([](const auto& m, const auto& in) { return csr_matmul(m, in[0]); }, {x});
      expect_equal_to_host(
          [](const auto& m, const auto& in) {
            return csr_sum({{&m, in[0]}, {&m, in[0] * 0.5}}, {.bias = in[1], .slope = 0.1});
          },
          {x, bias});
    }
  }
}

TEST(GpuKernels, TakeMoreTermsThanOneLaunchHas) {
  torch::manual_seed(2);
  const auto x = torch::randn({40, 8}, torch::kDouble), bias = torch::randn({8}, torch::kDouble);
  expect_equal_to_host(
      [](const auto& m, const auto& in) {
        std::vector<CsrTermTensor> terms;
        for (int t = 0; t < 19; ++t) terms.emplace_back(&m, in[0] * (t + 1) / 8.0);
        return csr_sum(terms, {.bias = in[1], .slope = 0.0});
      },
      {x, bias});
}

TEST(GpuKernels, TakeStatesThatDoNotBeginAtSixteenBytes) {
  torch::manual_seed(3);
  const auto all = torch::randn({40 * 8 + 1}, torch::kFloat);
  expect_equal_to_host(
      [](const auto& m, const auto& in) {
        return csr_matmul(m, in[0].narrow(0, 1, 320).view({40, 8}));
      },
      {all});
}

TEST(GpuKernels, MaximaEqualTheCpusKernels) {
  torch::manual_seed(4);
  for (const int64_t width : {1, 5, 32}) {
    // Few different numbers: the first of equals gets the gradient.
    const auto x = torch::randint(-2, 3, {40, width}, torch::kDouble);
    expect_equal_to_host([](const auto& m, const auto& in) { return csr_max(m, in[0]); }, {x});
  }
  auto x = torch::randn({40, 2}, torch::kDouble);
  x[13][1] = std::numeric_limits<double>::quiet_NaN();
  const auto by_host = csr_max(tensor_of(uneven_matrix(), torch::kDouble), x);
  const gpu::GpuKernelsOnCpu on_gpu_kernels;
  EXPECT_TRUE(torch::allclose(csr_max(tensor_of(uneven_matrix(), torch::kDouble), x), by_host, 0, 0, true));
}

TEST(GpuKernels, AttentionEqualsTheCpusKernels) {
  torch::manual_seed(5);
  const auto entries = static_cast<int64_t>(uneven_matrix().columns.size());
  for (const int64_t head_width : {3, 8}) {
    const auto x = torch::randn({40, 2 * head_width}, torch::kDouble);
    const auto a = torch::randn({10, 2 * head_width}, torch::kDouble);
    const auto logits = torch::randn({entries, 2}, torch::kDouble) * 5;
    expect_equal_to_host([](const auto& m, const auto& in) { return edge_softmax(m, in[0]); }, {logits});
    expect_equal_to_host([](const auto& m, const auto& in) { return weighted_sum(m, in[0], in[1]); }, {logits, x});
    expect_equal_to_host([](const auto& m, const auto& in) { return entry_products(m, in[0], in[1], 2); }, {a, x});
    expect_equal_to_host(
        [](const auto& m, const auto& in) {
          const auto sources = entry_sources(m), targets = entry_targets(m);
          const auto sums =
              csr_sum({{&sources, in[0].slice(1, 0, 2)}, {&targets, in[1].slice(1, 0, 2)}}, {.slope = 0.2});
          return weighted_sum(m, edge_softmax(m, sums), in[0]);
        },
        {x, a});
  }
}

TEST(GpuKernels, MixedPrecisionSumsInFloat) {
  torch::manual_seed(6);
  const auto x = torch::randn({40, 8});
  const gpu::GpuKernelsOnCpu on_gpu_kernels;
  const auto matrix = tensor_of(uneven_matrix(), torch::kFloat);
  auto rounded = x.to(torch::kBFloat16).requires_grad_(true);
  const Autocast mixed(torch::kCPU, true);
  const auto out = csr_matmul(matrix, rounded);
  EXPECT_EQ(out.scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(out, csr_matmul(matrix, x.to(torch::kBFloat16).to(torch::kFloat))));
  out.sum().backward();
  EXPECT_EQ(rounded.grad().scalar_type(), torch::kBFloat16);
}

TEST(GpuKernels, AreTakenForTensorsOfOtherDevicesAlone) {
  if (testing::on_gpu_kernels) GTEST_SKIP() << "FORETIME_TEST_KERNELS is set";
  EXPECT_FALSE(gpu::uses_gpu_kernels(torch::kCPU));
  EXPECT_TRUE(gpu::uses_gpu_kernels(torch::kCUDA));
  EXPECT_EQ(row_ptr_type_on(torch::kCUDA), torch::kInt);
  const int64_t before = gpu::launches();
  csr_matmul(tensor_of(uneven_matrix(), torch::kFloat), torch::randn({40, 4}));
  EXPECT_EQ(gpu::launches(), before);
}

TEST(GpuKernels, RefuseMoreItemsThanThirtyOneBitsCount) {
  EXPECT_THROW(gpu::detail::check_items(int64_t{1} << 31), ModelError);
  EXPECT_NO_THROW(gpu::detail::check_items((int64_t{1} << 31) - 1));
}

TEST(GpuKernels, RefuseMatricesWhoseEntriesThirtyTwoBitsCannotCount) {
  plans::CsrMatrix matrix;
  matrix.rows = matrix.cols = 1;
  matrix.row_ptr = {0, int64_t{1} << 31};  // read before its columns, which are not there
  const gpu::GpuKernelsOnCpu on_gpu_kernels;
  gpu::Arena arena(torch::kCPU, 4096);
  PlanConverter convert({.gradients = false}, arena);
  EXPECT_MESSAGE(foretime::testing::message_of<ModelError>([&] { convert.of_ones(matrix); }));
}

/// Compiled for the H200 and for the oldest GPU that LibTorch 2 knows and CUDA 13 still compiles for.
TEST(GpuKernels, CompileForGpus) {
  if (!gpu::has_nvrtc()) GTEST_SKIP() << "no libnvrtc";
  for (const char* architecture : {"sm_80", "sm_90"}) {
    for (const auto type : {torch::kFloat, torch::kDouble}) {
      const auto compiled = gpu::compile_kernels(gpu::kernel_source(), gpu::kernel_names(type), architecture);
      EXPECT_EQ(compiled.names.size(), gpu::kernel_functors(type).size());
      EXPECT_TRUE(
          compiled.code.starts_with("\x7f"
                                    "ELF"))
          << architecture;
    }
  }
  EXPECT_THROW(gpu::compile_kernels("void broken(", {}, "sm_90"), ModelError);
}

}  // namespace
}  // namespace foretime::models
