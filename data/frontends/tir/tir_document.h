#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/tir/tir_types.h"

namespace foretime::data {

/// A parsed `tvm.ir.save_json` text: the DAG as it stands there, fields by the table of tir_types.h. Nothing is
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
