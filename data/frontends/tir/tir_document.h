#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretime::data {

/// Gives the meaning of a node's field for the syntax tree. Attributes of save_json are decimal strings that do not
/// distinguish references from numbers; the roles do. A reference is the number of a node. A bound is a child of the
/// node only if the bound is not constant.
enum class TirRole : uint8_t {
  child,           // reference to an expression or statement
  optional_child,  // reference to a child, or 0
  children,        // reference to an Array of children
  condition,       // reference to a child; a constant one means "always" and is skipped
  bound,           // reference to an expression
  extent,          // bound that is the node's extent (ProgramNodes::extent)
  extents,         // reference to an Array of bounds, whose product is the node's extent
  ranges,          // reference to an Array of Range: extents like `extents`; their starts are bounds
  variable,        // reference to the Var that the node binds
  buffer,          // reference to the Buffer or Tensor that the node accesses
  buffer_var,      // reference to the Var of the accessed buffer (Load and Store, up to v0.11)
  call_op,         // reference to the Op that a Call calls
  loop_kind,       // number: ForKind
  number,          // number: value of an IntImm
  real,            // number: value of a FloatImm
  reference,       // reference that the reader follows separately: parts of functions and buffers
};

struct TirField {
  std::string_view name;
  TirRole role;
};

/// Classifies the types of nodes.
enum class TirClass : uint8_t {
  null,       // type key "": the node that 0 refers to
  unknown,    // a type that is not in the table of types
  tree,       // PrimFunc, or a type of expressions or statements except variables
  variable,   // Var or SizeVar
  list,       // Array
  map,        // Map: data holds only values if the Map has string keys, otherwise keys and values in turn
  op,         // Op: the node's repr is the operator's name
  auxiliary,  // Buffer, Tensor, Range, IRModule
};

/// Describes a type of node of save_json text. The fields that are children are in the order of the children. One
/// table holds for TVM v0.8 to v0.14: later versions add fields that are not read (Buffer's axis_separators) and types.
struct TirType {
  std::string_view key;  // such as "tir.For"; "" for class unknown
  std::vector<TirField> fields;
  TirClass kind = TirClass::tree;
  uint8_t node_type = 0;  // index into tir_type_names(); the index of Unknown if that list lacks the type
};

/// Returns the type with this type key; if the table lacks it, a type of class unknown.
const TirType& tir_type(std::string_view key);

/// Returns the index of the field `name` in `type.fields`; the number of fields if the type lacks it.
size_t tir_field(const TirType& type, std::string_view name);

/// Holds a parsed `tvm.ir.save_json` text: a DAG of numbered nodes, whose fields are those of their TirType. References
/// are not checked and may be any number, except the root. Nodes are numbered from 0 to size() - 1.
class TirDocument {
 public:
  static constexpr int64_t kMissing = std::numeric_limits<int64_t>::min();  // the node lacks the field

  TirDocument();
  ~TirDocument();

  /// Overwrites this object with a text. A field that a node lacks becomes kMissing. Throws DataError, starting with
  /// `origin`, if the text is not JSON of this form, has more than 2^28 bytes, a field is not a number, the root is not
  /// a node, or TVM 0.21 or later wrote it.
  void parse(std::string_view text, const std::string& origin);

  int64_t size() const { return nodes_.size(); }
  int64_t root() const { return root_; }                   // number of the root node
  const std::string& version() const { return version_; }  // attrs.tvm_version; "" if it is missing
  const std::string& target() const { return target_; }  // attrs.target, the program's TVM target; "" if it is missing
  const TirType& type(int64_t node) const { return *nodes_[node].type; }
  /// Returns the value of the field at index `field` of the node's TirType::fields: a reference or a whole number.
  /// Returns kMissing if the node lacks the field, and the bits of a double if the field's role is real.
  int64_t field(int64_t node, size_t field) const { return values_[nodes_[node].first + field]; }
  double real(int64_t node, size_t field) const;  // value of a field whose role is real
  /// Returns the entries of an Array or Map, which are references; see TirClass::map.
  std::span<const int64_t> data(int64_t node) const;
  /// Returns whether a Map has string keys, so that data() holds only its values.
  bool has_string_keys(int64_t node) const { return nodes_[node].string_keys; }
  /// Returns the type key of a node of class unknown, or the name of a node of class op; valid until the next parse.
  std::string_view text(int64_t node) const { return texts_[nodes_[node].first]; }

 private:
  struct Node {
    const TirType* type;
    uint32_t first = 0, count = 0;  // range of the node's fields or data in values_; first: place of its text in texts_
    bool string_keys = false;
  };
  struct Parser;
  void add_node(const Parser& parser);  // appends the node whose members the parser has read

  std::unique_ptr<Parser> parser_;
  int64_t root_ = 0;
  std::string version_, target_;
  std::vector<Node> nodes_;
  std::vector<int64_t> values_;
  std::deque<std::string> decoded_;      // names decoded from base64
  std::vector<std::string_view> texts_;  // type keys of unknown nodes, names of Op nodes
};

/// Returns the bytes that a node's `repr_b64` holds: base64 of a length (uint64, little endian) and as many bytes.
/// Throws DataError, starting with `origin`, for other characters and another length.
std::string decode_tir_repr(std::string_view base64, const std::string& origin);

}  // namespace foretime::data
