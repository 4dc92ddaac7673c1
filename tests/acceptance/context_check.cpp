#include <exception>
#include <thread>

#include "models/sparse/sparse_ops.h"
#include "tests/acceptance/checks.h"
#include "tests/acceptance/compare.h"
#include "tests/models/matrix_tensor.h"

namespace foretime::acceptance {
namespace {

/// Each row has its own column and the next one.
plans::CsrMatrix two_diagonals(int64_t rows) {
  plans::CsrMatrix matrix;
  matrix.rows = matrix.cols = rows;
  matrix.row_ptr = {0};
  for (int64_t row = 0; row < rows; ++row) {
    for (const int64_t column : {row, (row + 1) % rows}) {
      matrix.columns.push_back(static_cast<int32_t>(column));
      matrix.values.push_back(1);
    }
    matrix.row_ptr.push_back(static_cast<int64_t>(matrix.columns.size()));
  }
  return matrix;
}

/// Runs `body` on a thread that has never used the device, and throws what it throws.
template <class Body>
void run_on_new_thread(const Body& body) {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

// A thread has no current context of the driver until a call of CUDA's runtime makes one. Here our own kernel is the
// first use of the device on two threads: one that is new, and LibTorch's thread for gradients.
void check_context(const Options& options, Rows& rows) {
  const auto device = options.device();
  device.run([&] {
    const auto matrix = models::tensor_of(two_diagonals(1000), {.device = device.where, .gradients = true});
    auto x = torch::rand({1000, 32}, torch::dtype(torch::kFloat).device(device.where));
    const auto expected = x + x.roll(-1, 0), expected_gradient = x + x.roll(1, 0);
    // The allocator has room for what the threads ask for, so that it calls nothing there.
    torch::Tensor result = torch::empty_like(x), gradient = torch::empty_like(x);
    result.reset();
    gradient.reset();
    device.finish();
    rows.guarded("the first use of a new thread is our kernel", [&] {
      run_on_new_thread([&] {
        const torch::NoGradGuard no_gradient;
        result = models::csr_matmul(matrix, x);
      });
      device.finish();
      rows.at_most(Kind::must, "the first use of a new thread is our kernel", distance(result, expected), 1e-6,
                   "relative");
    });
    rows.guarded("backward begins with our kernel", [&] {
      auto leaf = x.detach().clone().requires_grad_(true);
      const auto output = models::csr_matmul(matrix, leaf);
      device.finish();
      output.backward(x);
      device.finish();
      rows.at_most(Kind::must, "backward begins with our kernel", distance(leaf.grad(), expected_gradient), 1e-6,
                   "relative");
    });
  });
}

}  // namespace foretime::acceptance
