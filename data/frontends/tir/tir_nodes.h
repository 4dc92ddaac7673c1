#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/tir/tir_document.h"
#include "data/graphs/schema.h"

namespace foretime::data {

/// Follows the references of a document. Throws DataError `origin: node 12 (tir.For): found, expected` for a reference
/// to a wrong kind of node.
struct TirNodes {
  static constexpr int64_t kMaxDimensions =
      64;  // dimensions of a buffer; TVM has no limit, but its operators stop at 8
  static constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

  const TirDocument* document = nullptr;
  std::string origin;

  [[noreturn]] void fail(int64_t node, const std::string& what) const {
    throw DataError("{}: node {} ({}): {}", origin, node, document->type(node).key, what);
  }
  /// Returns the node of a reference, of any kind. Throws DataError if there is none.
  int64_t target(int64_t node, const TirField& field, int64_t reference) const {
    if (reference == TirDocument::kMissing)
      fail(node,
           fmt::format("no field {}; TVM '{}' wrote it, expected v0.8 to v0.14", field.name, document->version()));
    if (reference < 0 || reference >= document->size())
      fail(node, fmt::format("{}: {}, expected one of the {} nodes", field.name, reference, document->size()));
    return reference;
  }
  /// Returns the nodes of an Array.
  std::span<const int64_t> list(int64_t node, const TirField& field, int64_t reference) const {
    const int64_t array = target(node, field, reference);
    if (document->type(array).kind != TirClass::list)
      fail(node, fmt::format("{}: node {} ({}), expected an Array", field.name, array, document->type(array).key));
    return document->data(array);
  }
  /// Returns the nodes of an Array with at most kMaxDimensions entries.
  std::span<const int64_t> dimensions(int64_t node, const TirField& field, int64_t reference) const {
    const auto sizes = list(node, field, reference);
    if (std::ssize(sizes) > kMaxDimensions)
      fail(node, fmt::format("{}: {} dimensions, expected at most {}", field.name, sizes.size(), kMaxDimensions));
    return sizes;
  }
  /// Returns whether a node is a constant integer, or a vector of one, such as the predicate of a vectorised Load.
  bool is_constant(int64_t node) const {
    static const uint8_t integer = tir_type_id("IntImm"), broadcast = tir_type_id("Broadcast");
    const auto& type = document->type(node);
    if (type.node_type == integer) return true;
    if (type.node_type != broadcast) return false;
    const int64_t value = document->field(node, 0);
    return value >= 0 && value < document->size() && document->type(value).node_type == integer;
  }
  /// Multiplies `product` by a size; 0, which means "not constant", stays 0.
  void multiply(int64_t node, const TirField& field, int64_t factor, int64_t& product) const {
    static const uint8_t integer = tir_type_id("IntImm");
    const int64_t size = target(node, field, factor);
    if (document->type(size).node_type != integer) {
      product = 0;
      return;
    }
    const int64_t value = document->field(size, 0);
    if (value < 0) fail(node, fmt::format("{}: a size of {}, expected 0 or more", field.name, value));
    if (__builtin_mul_overflow(product, value, &product)) product = kLargest;
  }
};

}  // namespace foretime::data
