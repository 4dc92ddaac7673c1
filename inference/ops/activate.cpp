#include <cmath>

#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Activate::columns(const Widths& widths) const { return widths.of(x); }

Matrix Activate::run(const Run& run) const {
  const Matrix& from = run.in(x);
  auto y = run.made(from.rows, from.columns);
  const auto each = [&](auto&& function) {
    for (int64_t at = 0; at < y.size(); ++at) y.values[at] = function(from.values[at]);
  };
  const float n = number;
  switch (mode) {
    case Mode::leaky: each([n](float v) { return v < 0.0F ? v * n : v; }); break;
    case Mode::tanh: each([](float v) { return std::tanh(v); }); break;
    case Mode::exp: each([](float v) { return std::exp(v); }); break;
    case Mode::log: each([](float v) { return std::log(v); }); break;
    case Mode::rsqrt: each([n](float v) { return 1.0F / std::sqrt(v + n); }); break;
  }
  return y;
}

std::string Activate::script(ScriptWriter& writer) const {
  const auto of = writer.value(x);
  if (mode == Mode::leaky) return writer.activated(of, number);
  if (mode == Mode::rsqrt) return fmt::format("torch.rsqrt({} + {})", of, writer.number(number));
  return fmt::format("torch.{}({})", configs::word_of(mode), of);
}

}  // namespace foretime::inference
