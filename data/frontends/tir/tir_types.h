#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace foretime::data {

/// What a field of a node says of the syntax tree. Attributes of save_json are decimal strings, and nothing in the text
/// tells a reference from a number: this table does. A bound is a child only where it is no constant, because a
/// constant one is a property of its node (`ProgramNodes::extent`).
enum class TirRole : uint8_t {
  child,           // reference to an expression or statement
  optional_child,  // likewise, or 0
  children,        // reference to an Array of them
  condition,       // reference to a child, which is left out where it is a constant: that is "always"
  bound,           // reference to an expression
  extent,          // a bound that is the node's extent
  extents,         // reference to an Array of bounds, whose product is the node's extent
  ranges,          // reference to an Array of Range: the extents' product likewise, their starts are bounds
  variable,        // reference to the Var that the node binds
  buffer,          // reference to the Buffer or Tensor that the node touches
  buffer_var,      // reference to the Var of the buffer that the node touches (Load and Store, up to v0.11)
  call_op,         // reference to the Op that a Call calls
  loop_kind,       // number: ForKind
  number,          // number: value of an IntImm
  real,            // number: value of a FloatImm
  reference,       // reference that the reader follows by itself: parts of functions and buffers
};

struct TirField {
  std::string_view name;
  TirRole role;
};

enum class TirClass : uint8_t {
  null,       // type key "": node 0
  unknown,    // a type key that is not in the table
  tree,       // one of the 54 types of nodes, or PrimFunc
  variable,   // likewise, and the node is a variable
  list,       // Array
  map,        // Map: values only where it has string keys, else keys and values in turn
  op,         // Op: its name is its repr
  auxiliary,  // Buffer, Tensor, Range, IRModule
};

/// A type of node of save_json text, with the fields that matter to the tree, children in the order of the tree. The
/// same in v0.8 to v0.14: later versions add fields that do not matter (Buffer's axis_separators) and types.
struct TirType {
  std::string_view key;  // "tir.For"
  TirClass kind = TirClass::unknown;
  uint8_t node_type = 0;  // index into tir_type_names(), Unknown's where the type is not in the tree
  std::span<const TirField> fields;
};

/// The entry of a type key; one of class unknown where there is none.
const TirType& tir_type(std::string_view key);

/// Position of a field among `type.fields`; the field must be there.
size_t tir_field(const TirType& type, std::string_view name);

}  // namespace foretime::data
