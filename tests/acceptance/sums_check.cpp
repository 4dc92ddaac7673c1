#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "models/sparse/sparse_ops.h"
#include "tests/acceptance/checks.h"
#include "tests/acceptance/compare.h"
#include "tests/models/matrix_tensor.h"
#include "tests/models/sparse_reference.h"

namespace foretime::acceptance {
namespace {

constexpr double kShareOfCopy = 0.6;  // the target

/// A square matrix of `rows` rows with `degree` entries each, in columns up to `reach` away.
plans::CsrMatrix banded_matrix(int64_t rows, int64_t degree, int64_t reach) {
  plans::CsrMatrix matrix;
  matrix.rows = matrix.cols = rows;
  matrix.row_ptr = {0};
  uint64_t random = 1;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t e = 0; e < degree; ++e) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      const auto offset = static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(2 * reach + 1)) - reach;
      matrix.columns.push_back(static_cast<int32_t>((r + offset + rows) % rows));
      matrix.values.push_back(static_cast<float>(1 + e % 3) / 2);
    }
    matrix.row_ptr.push_back(static_cast<int64_t>(matrix.columns.size()));
  }
  return matrix;
}

/// Seconds of one call of `body`: the least of five means.
template <class Body>
double seconds_of(const Place& place, double total, const Body& body) {
  using Clock = std::chrono::steady_clock;
  const auto timed = [&](int64_t times) {
    place.finish();
    const auto start = Clock::now();
    for (int64_t i = 0; i < times; ++i) body();
    place.finish();
    return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(times);
  };
  timed(2);
  const auto times = std::clamp<int64_t>(static_cast<int64_t>(total / 5 / timed(2)), 2, 1000);
  double least = timed(times);
  for (int i = 0; i < 4; ++i) least = std::min(least, timed(times));
  return least;
}

}  // namespace

void measure_sums(const Options& options, Rows& rows) {
  const auto device = options.device();
  // So large that a GPU's cache does not hold the states, of 256 MiB at the widest.
  const int64_t numbers = options.brief ? int64_t{1} << 16 : int64_t{1} << 26;
  const double seconds = options.brief ? 0.02 : 0.5;
  device.run([&] {
    const torch::NoGradGuard no_gradient;
    const auto from = torch::rand({numbers}, torch::dtype(torch::kFloat).device(device.where));
    auto to = torch::empty_like(from);
    const double copied = 8.0 * static_cast<double>(numbers);
    const double copy_rate = copied / seconds_of(device, seconds, [&] { to.copy_(from); });
    rows.figure(device.name + ": a copy", copy_rate / 1e9, "GB/s", "bytes read and written");
    for (const int64_t width : {32, 64, 256}) {
      const int64_t states = numbers / width, degree = 4;
      const auto x = from.view({states, width});
      for (const bool near : {true, false}) {
        const auto host = banded_matrix(states, degree, near ? 64 : states / 2 - 1);
        const auto matrix = models::tensor_of(host, {.device = device.where, .gradients = false});
        const double each = seconds_of(device, seconds, [&] { models::csr_matmul(matrix, x); });
        // States that are near are read once from memory, and again from the cache; others each time.
        const double reads = near ? 1 : degree;
        const double bytes =
            static_cast<double>(states) * ((reads + 1) * 4.0 * static_cast<double>(width) + 8.0 * degree + 4);
        const auto what =
            fmt::format("sums of width {}, {} entries a row, {}", width, degree, near ? "near" : "anywhere");
        rows.figure(what, bytes / each / 1e9, "GB/s", near ? "each state counted once" : "each entry's state counted");
        const auto share = what + ": of a copy's rate";
        if (device.is_gpu())
          rows.at_least(near ? Kind::target : Kind::figure, share, bytes / each / copy_rate, kShareOfCopy, "");
        else rows.skipped(Kind::target, share, "no GPU");
        if (width != 32 || !near) continue;
        rows.at_most(Kind::must, what + ": sums, from ATen's",
                     distance(models::csr_matmul(matrix, x), models::csr_sum_aten({{&matrix, x}}, {})), 1e-5,
                     "relative");
      }
    }
  });
}

}  // namespace foretime::acceptance
