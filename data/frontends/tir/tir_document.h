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
/// distinguish references from numbers; this table does. A bound is a child only if it is not constant, because a
/// constant one is a property of its node (`ProgramNodes::extent`).
enum class TirRole : uint8_t {
  child,           // reference to an expression or statement
  optional_child,  // reference to a child, or 0
  children,        // reference to an Array of children
  condition,       // reference to a child; a constant one means "always" and is skipped
  bound,           // reference to an expression
  extent,          // bound that is the node's extent
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
  null,       // type key "": node 0
  unknown,    // a type key that is not in the table
  tree,       // one of the 54 types of nodes, or PrimFunc
  variable,   // a tree node that is a variable
  list,       // Array
  map,        // Map: only values if it has string keys, otherwise keys and values in turn
  op,         // Op: its name is its repr
  auxiliary,  // Buffer, Tensor, Range, IRModule
};

/// Describes a type of node of save_json text, with the fields of the tree in the order of children. Equal in v0.8 to
/// v0.14: later versions add irrelevant fields (Buffer's axis_separators) and types.
struct TirType {
  std::string_view key;  // "tir.For"
  std::vector<TirField> fields;
  TirClass kind = TirClass::tree;
  uint8_t node_type = 0;  // index into tir_type_names(); Unknown's if the type is not in the tree
};

/// Returns the entry of a type key; one of class unknown if there is none.
const TirType& tir_type(std::string_view key);

/// Returns the index of a field in `type.fields`, which must have it.
size_t tir_field(const TirType& type, std::string_view name);

/// Holds a parsed `tvm.ir.save_json` text: its DAG, with fields by the table of types. References are not checked and
/// may point anywhere. One object parses many texts in sequence and reuses its memory.
class TirDocument {
 public:
  static constexpr int64_t kMissing = std::numeric_limits<int64_t>::min();  // the node lacks the field

  TirDocument();
  ~TirDocument();
  TirDocument(TirDocument&&) noexcept;
  TirDocument& operator=(TirDocument&&) noexcept;

  /// Parses a text. Checks names, types and numbers of each node by itself. Throws DataError, starting with `origin`,
  /// if the text is not JSON of this form.
  void parse(std::string_view text, const std::string& origin);

  int64_t size() const { return nodes_.size(); }
  int64_t root() const { return root_; }
  const std::string& version() const { return version_; }  // attrs.tvm_version, "" where it is missing
  const TirType& type(int64_t node) const { return *nodes_[node].type; }
  /// Returns field number `field` of the node's type: a reference or a number. A real is stored as its bits.
  int64_t field(int64_t node, size_t field) const { return values_[nodes_[node].first + field]; }
  double real(int64_t node, size_t field) const;
  /// Returns `data` of an Array or Map.
  std::span<const int64_t> data(int64_t node) const;
  /// Returns whether a Map has string keys, so that its `data` holds only values.
  bool has_string_keys(int64_t node) const { return nodes_[node].string_keys; }
  /// Returns the type key of a node of class unknown, or the name of a node of class op; valid until the next parse.
  std::string_view text(int64_t node) const { return texts_[nodes_[node].first]; }

 private:
  struct Node {
    const TirType* type;
    uint32_t first = 0, count = 0;  // range of its fields or data in values_, or of its text in texts_
    bool string_keys = false;
  };
  struct Parser;
  void add_node(const Parser& parser);

  std::unique_ptr<Parser> parser_;
  int64_t root_ = 0;
  std::string version_;
  std::vector<Node> nodes_;
  std::vector<int64_t> values_;
  std::deque<std::string> decoded_;  // names decoded from base64
  std::vector<std::string_view> texts_;
};

/// Decodes the content of `repr_b64`: base64 of a length (uint64, little endian) and as many bytes. Throws DataError.
std::string decode_tir_repr(std::string_view base64, const std::string& origin);

}  // namespace foretime::data
