#include "data/frontends/hlo/hlo_opcodes.h"

#include <algorithm>
#include <array>
#include <utility>

namespace foretime::data {
namespace {

/// Names in the order of their numbers, from 1 on.
constexpr std::string_view kOpcodeNames =
    "abs add add-dependency after-all all-reduce all-to-all atan2 batch-norm-grad batch-norm-inference "
    "batch-norm-training bitcast bitcast-convert broadcast call ceil cholesky clamp collective-permute "
    "count-leading-zeros compare complex concatenate conditional constant convert convolution copy copy-done "
    "copy-start cosine custom-call divide domain dot dynamic-slice dynamic-update-slice exponential "
    "exponential-minus-one fft floor fusion gather get-dimension-size set-dimension-size get-tuple-element "
    "imag infeed iota is-finite log log-plus-one and not or xor map maximum minimum multiply negate outfeed "
    "pad parameter partition-id popcnt power real recv recv-done reduce reduce-precision reduce-window "
    "remainder replica-id reshape reverse rng rng-get-and-update-state rng-bit-generator round-nearest-afz "
    "rsqrt scatter select select-and-scatter send send-done shift-left shift-right-arithmetic "
    "shift-right-logical sign sine slice sort sqrt subtract tanh trace transpose triangular-solve tuple "
    "tuple-select while cbrt all-gather collective-permute-start collective-permute-done logistic "
    "dynamic-reshape all-reduce-start all-reduce-done reduce-scatter all-gather-start all-gather-done "
    "opt-barrier async-start async-update async-done round-nearest-even stochastic-convert tan";

constexpr size_t kCount = 121;  // with 0
using Names = std::array<std::string_view, kCount>;

constexpr Names split_names() {
  Names names{};
  std::string_view rest = kOpcodeNames;
  for (size_t number = 1; number < kCount; ++number) {
    const size_t end = std::min(rest.find(' '), rest.size());
    names[number] = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}
constexpr Names kByNumber = split_names();
static_assert(kByNumber[26] == "convolution" && kByNumber[75] == "reshape" && kByNumber[120] == "tan");

using Entry = std::pair<std::string_view, uint8_t>;

std::array<Entry, kCount - 1> sorted_by_name() {
  std::array<Entry, kCount - 1> entries;
  for (size_t number = 1; number < kCount; ++number)
    entries[number - 1] = {kByNumber[number], static_cast<uint8_t>(number)};
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

uint8_t hlo_opcode_number(std::string_view name) {
  static const auto entries = sorted_by_name();
  const auto found = std::lower_bound(entries.begin(), entries.end(), Entry{name, 0});
  return found != entries.end() && found->first == name ? found->second : 0;
}

std::string_view hlo_opcode_name(uint8_t number) { return number < kCount ? kByNumber[number] : std::string_view(); }

bool has_layout_choice(uint8_t number) {
  const std::string_view name = hlo_opcode_name(number);
  return name == "convolution" || name == "dot" || name == "reshape";
}

}  // namespace foretime::data
