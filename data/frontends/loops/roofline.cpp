#include <algorithm>
#include <array>

#include "base/index_range.h"
#include "data/frontends/loops/statement_shape.h"

namespace foretime::data {
namespace {

constexpr double kFlopOfLane = 2.0, kPorts = 2.0;  // a multiply-add is two; units for them, and for loads, of a core
constexpr double kBytesOfLine2 = 32.0, kBytesOfLine3 = 16.0;  // bytes per cycle from the second and third level
constexpr double kLeast = 1e-4;                               // nanoseconds

/// Instructions that one operation takes, as throughputs of Agner Fog's tables have them: a division waits for its
/// unit, a call (exp, tanh, erf) is a polynomial.
constexpr std::array<double, kArithmetic> kInstructions = {1.0, 1.0, 8.0, 1.0, 1.0, 20.0, 1.0};

double arithmetic(const StatementShape& shape) {
  const auto& counts = shape.statement.arithmetic;
  double instructions = 0.0;
  for (size_t i = 0; i < counts.size(); ++i) instructions += kInstructions[i] * counts[i];
  const auto of = [&](Arithmetic kind) { return static_cast<double>(counts[index_of(kind)]); };
  instructions -= std::min(of(Arithmetic::add), of(Arithmetic::multiply));  // fused
  return instructions * shape.vector_instructions / shape.vector;
}

double accesses(const StatementShape& shape) {
  const UnrolledBlock& block = shape.widened;
  const double iterations = block.copies * shape.vector;
  double instructions = 0.0;
  for (size_t a = 0; a < shape.all_steps.size(); ++a) {
    const double each = shape.instructions(a, block) / iterations / shape.invariant(a, block.first);
    instructions += a == 0 && shape.statement.update ? 2.0 * each : each;
  }
  return instructions;
}

}  // namespace

double roofline(const StatementShape& shape, const Hardware& machine) {
  const double cycles = machine.multiply_add_gflop_s / (kFlopOfLane * kPorts * shape.lanes);  // a nanosecond
  const auto bytes = [&](size_t cache) {
    double sum = 0.0;
    if (shape.fitting[cache] == 0) return sum;  // data are in the cache since the run before
    for (size_t a = 0; a < shape.all_steps.size(); ++a) sum += shape.traffic(a, shape.fitting[cache]);
    return sum / shape.iterations;
  };
  const double busy = std::max(1.0, std::min<double>(shape.parallel, machine.cores));
  const double copied = std::min(machine.copy_gb_s, machine.all_copy_gb_s / busy);
  return std::max({kLeast, arithmetic(shape) / kPorts / cycles, accesses(shape) / kPorts / cycles,
                   bytes(1) / kBytesOfLine2 / cycles, bytes(2) / kBytesOfLine3 / cycles, bytes(3) / copied});
}

}  // namespace foretime::data
