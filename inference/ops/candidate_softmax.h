#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Attention of a group's n candidates to each other, column by column: [x, n x softmax(x exp(-log_temperature))]. Of
/// `score` only.
struct CandidateSoftmax {
  static constexpr const char* kName = "candidate_softmax";
  Value x = {};
  WeightRef log_temperature = {};  // [1]

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("log_temperature", o.log_temperature);
  }
  bool operator==(const CandidateSoftmax&) const = default;
};

}  // namespace foretime::inference
