#include "data/graphs/schema.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "base/text.h"

namespace foretime::data {
namespace {

constexpr auto kTirTypeNames = split_words<kTirTypes>(
    "PrimFunc LetStmt AttrStmt IfThenElse For While Allocate AllocateConst DeclBuffer BufferStore BufferRealize "
    "AssertStmt ProducerStore ProducerRealize Prefetch SeqStmt Evaluate Block BlockRealize Var SizeVar BufferLoad "
    "ProducerLoad Let Call Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or Reduce Cast Not "
    "Select Ramp Broadcast Shuffle IntImm FloatImm StringImm Any Load Store Unknown");
static_assert(kTirTypeNames.back() == "Unknown");

constexpr std::array<std::string_view, kCallOps> kCallOpNames = {"if_then_else", "likely", "exp",   "log", "tanh",
                                                                 "sigmoid",      "sqrt",   "rsqrt", "pow", "other"};

/// Appends prefix + i for each dimension, then the sum and the product where asked for.
void add_list(std::vector<std::string>& names, const std::string& prefix, int dimensions,
              std::initializer_list<const char*> totals = {"sum", "product"}) {
  for (int i = 0; i < dimensions; ++i) names.push_back(fmt::format("{}_{}", prefix, i));
  for (const char* total : totals) names.push_back(fmt::format("{}_{}", prefix, total));
}

/// Returns the names in the order of the README of google-research-datasets/tpu_graphs.
std::vector<std::string> hlo_names() {
  std::vector<std::string> names = {"is_root", "element_size_in_bits"};
  for (const char* type : {"invalid_type", "pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32",
                           "f64", "bf16", "c64", "c128", "tuple", "opaque_type", "token"})
    names.push_back(fmt::format("shape_element_type_is_{}", type));
  add_list(names, "shape_dimensions", 6);
  names.insert(names.end(), {"shape_tuple_shapes_size", "parameter_number"});
  add_list(names, "dimensions", 6, {});
  for (const char* part : {"size", "stride", "padding_low", "padding_high", "window_dilation", "base_dilation"})
    add_list(names, fmt::format("window_{}", part), 6);
  add_list(names, "window_window_reversal", 6, {"true_count", "false_count"});
  const std::string convolution = "convolution_dim_numbers_";
  names.insert(names.end(), {convolution + "input_batch_dim", convolution + "input_feature_dim"});
  add_list(names, convolution + "input_spatial_dims", 4, {});
  names.insert(names.end(), {convolution + "kernel_input_feature_dim", convolution + "kernel_output_feature_dim"});
  add_list(names, convolution + "kernel_spatial_dims", 4, {});
  names.insert(names.end(), {convolution + "output_batch_dim", convolution + "output_feature_dim",
                             "feature_group_count", "batch_group_count"});
  for (const char* part : {"start", "stride", "limit"}) add_list(names, fmt::format("slice_dims_{}", part), 2);
  add_list(names, "dynamic_slice_sizes", 2);
  add_list(names, "padding_config_edge_padding_low", 2);
  add_list(names, "padding_config_edge_padding_high", 2);
  names.push_back("is_stable");
  add_list(names, "layout_minor_to_major", 6, {});
  return names;
}

std::vector<std::string> program_names() {
  std::vector<std::string> names = {"log_extent",          "loop_serial", "loop_parallel", "loop_vectorized",
                                    "loop_unrolled",       "loop_thread", "is_immediate",  "log_value",
                                    "log_buffer_elements", "has_buffer",  "has_variable"};
  for (const auto name : kCallOpNames) names.push_back(fmt::format("call_{}", name));
  names.insert(names.end(), {"log_children", "log_position", "depth", "log_variable_extent", "log_variable_distance"});
  return names;
}

std::vector<std::string> layout_names() {
  std::vector<std::string> names;
  for (const char* part : {"output", "input", "kernel"}) add_list(names, fmt::format("{}_layout", part), 6, {});
  return names;
}

std::vector<std::string> tile_names() {
  std::vector<std::string> names;
  for (const char* part : {"kernel", "output", "input"}) add_list(names, fmt::format("{}_bounds", part), 6);
  return names;
}

}  // namespace

std::span<const std::string_view> tir_type_names() { return kTirTypeNames; }

uint8_t tir_type_id(std::string_view name) {
  const auto found = std::find(kTirTypeNames.begin(), kTirTypeNames.end() - 1, name);
  return found - kTirTypeNames.begin();
}

std::span<const std::string_view> call_op_names() { return kCallOpNames; }

int64_t call_op_index(std::string_view name) {
  constexpr std::string_view kPrefix = "tir.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return std::find(kCallOpNames.begin(), kCallOpNames.end() - 1, name) - kCallOpNames.begin();
}

const std::vector<std::string>& feature_names(CandidateKind kind) {
  static const std::vector<std::string> hlo = hlo_names(), program = program_names();
  return kind == CandidateKind::program ? program : hlo;
}

const std::vector<std::string>& candidate_feature_names(CandidateKind kind) {
  static const std::vector<std::string> layout = layout_names(), tile = tile_names(), none;
  return kind == CandidateKind::layout ? layout : kind == CandidateKind::tile ? tile : none;
}

}  // namespace foretime::data
