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
  std::vector<TirField> fields;
  TirClass kind = TirClass::tree;
  uint8_t node_type = 0;  // index into tir_type_names(), Unknown's where the type is not in the tree
};

/// The entry of a type key; one of class unknown where there is none.
const TirType& tir_type(std::string_view key);

/// Position of a field among `type.fields`; the field must be there.
size_t tir_field(const TirType& type, std::string_view name);

/// A parsed `tvm.ir.save_json` text: the DAG as it stands there, fields by the table of types. Nothing is
/// followed yet: references may point anywhere. One object parses many texts, one after the other, and keeps its
/// memory.
class TirDocument {
 public:
  static constexpr int64_t kMissing = std::numeric_limits<int64_t>::min();  // a field that the node does not have

  TirDocument();
  ~TirDocument();
  TirDocument(TirDocument&&) noexcept;
  TirDocument& operator=(TirDocument&&) noexcept;

  /// Throws DataError, starting with `origin`, where the text is no JSON or not of this form. What it says of nodes is
  /// checked as far as their own form goes: names and types of members, numbers.
  void parse(std::string_view text, const std::string& origin);

  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  int64_t root() const { return root_; }
  const std::string& version() const { return version_; }  // attrs.tvm_version, "" where it is missing
  const TirType& type(int64_t node) const { return *nodes_[static_cast<size_t>(node)].type; }
  /// Field number `field` of the node's type: a reference or a number. A real is held as its bits.
  int64_t field(int64_t node, size_t field) const { return values_[nodes_[static_cast<size_t>(node)].first + field]; }
  double real(int64_t node, size_t field) const;
  /// `data` of an Array or Map.
  std::span<const int64_t> data(int64_t node) const;
  /// Map: `data` holds values only, because the keys are strings.
  bool has_string_keys(int64_t node) const { return nodes_[static_cast<size_t>(node)].string_keys; }
  /// Type key of a node of class unknown, the name of a node of class op. Valid until the next parse.
  std::string_view text(int64_t node) const { return texts_[nodes_[static_cast<size_t>(node)].first]; }

 private:
  struct Node {
    const TirType* type;
    uint32_t first = 0, count = 0;  // its fields or data in values_, or its text in texts_
    bool string_keys = false;
  };
  struct Parser;
  void add_node(const Parser& parser);

  std::unique_ptr<Parser> parser_;
  int64_t root_ = 0;
  std::string version_;
  std::vector<Node> nodes_;
  std::vector<int64_t> values_;
  std::deque<std::string> decoded_;  // names that stood there in base64
  std::vector<std::string_view> texts_;
};

/// What `repr_b64` holds: base64 of a length (uint64, little endian) and that many bytes. Throws DataError.
std::string decode_tir_repr(std::string_view base64, const std::string& origin);

}  // namespace foretime::data
