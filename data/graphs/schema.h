#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/graphs/group.h"

/// Defines the columns of features and the node types.
namespace foretime::data {

/// Number of node types of HLO graphs: XLA's opcode numbers (TpuGraphs' `node_opcode`) are below it.
constexpr int64_t kHloOpcodes = 128;

/// Number of node types of TIR syntax trees: 54 types of statements and expressions, PrimFunc and Unknown.
constexpr int64_t kTirTypes = 56;
/// Returns the names of the node types, [kTirTypes], by the ids in `GraphBlock::node_types`.
std::span<const std::string_view> tir_type_names();
/// Returns the id of a type's name; the id of Unknown for any other name.
uint8_t tir_type_id(std::string_view name);

/// Number of intrinsics of Call nodes, each a column of the program features; the last one, "other", is for all others.
constexpr int64_t kCallOps = 10;
std::span<const std::string_view> call_op_names();  // [kCallOps]
/// Returns an intrinsic's index in call_op_names(), with or without the prefix "tir."; that of "other" if unknown.
int64_t call_op_index(std::string_view name);

/// Defines the columns of the node features of programs. All describe the node itself, except the last five, which
/// describe its place in the syntax tree.
struct ProgramColumns {
  static constexpr int64_t extent = 0;     // For, Allocate: log2(1 + extent), else 0
  static constexpr int64_t loop_kind = 1;  // For: one-hot: serial, parallel, vectorized, unrolled, thread
  static constexpr int64_t is_immediate = loop_kind + 5;      // the node is a number
  static constexpr int64_t value = is_immediate + 1;          // sign(v) log2(1 + |v|), at most 1024 in size
  static constexpr int64_t buffer_elements = value + 1;       // log2(1 + elements) of the accessed buffer
  static constexpr int64_t has_buffer = buffer_elements + 1;  // 1 for loads and stores
  static constexpr int64_t has_variable = has_buffer + 1;     // 1 for nodes with a variable: For, Allocate, Var, …
  static constexpr int64_t call_op = has_variable + 1;        // Call: one-hot over call_op_names()
  static constexpr int64_t children = call_op + kCallOps;     // log2(1 + number of children)
  static constexpr int64_t position = children + 1;           // log2(1 + place among its siblings, from 0)
  static constexpr int64_t depth = position + 1;              // edges to the root, times 0.1
  static constexpr int64_t variable_extent =
      depth + 1;  // Var: log2(1 + extent) of the enclosing For that binds it, else 0
  static constexpr int64_t variable_distance =
      variable_extent + 1;  // Var: log2(1 + number of For nodes from the Var up to that For), else 0
  static constexpr int64_t count = variable_distance + 1;
};

/// Returns the names of the columns of node features: TpuGraphs' 140 for layout and tile graphs, ProgramColumns for
/// programs.
const std::vector<std::string>& feature_names(CandidateKind kind);

/// Returns the names of the columns that describe a candidate: the 18 layout features of a configurable node (layout),
/// the 24 tile features (tile), none for programs.
const std::vector<std::string>& candidate_feature_names(CandidateKind kind);

}  // namespace foretime::data
