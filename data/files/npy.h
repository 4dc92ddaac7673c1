#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// Reads the NPY format, versions 1, 2 and 3 (numpy, NEP 1 and numpy.lib.format): magic, version, header length, a
/// Python dict with descr, fortran_order and shape, then the elements.
namespace foretime::data {

enum class NpyKind : uint8_t { boolean, signed_integer, unsigned_integer, floating, text };

/// Describes an element type: bool of 1 byte, integers of 1, 2, 4, 8, IEEE floats of 2, 4, 8 bytes, UCS-4 text.
struct NpyType {
  NpyKind kind = NpyKind::floating;
  int64_t size = 0;  // bytes an element
  bool big_endian = false;

  std::string str() const;  // numpy's spelling: <f4, |u1, <U16
};

struct NpyHeader {
  NpyType type;
  bool fortran_order = false;
  std::vector<int64_t> shape;  // size of each dimension, 0 or more; empty: a single value
  int64_t header_bytes = 0;    // bytes before the first element, including the magic

  int64_t elements() const;  // product of the shape
  int64_t payload_bytes() const { return elements() * type.size; }
};

constexpr int64_t kNpyPrefixBytes = 12;  // bytes that give the header's length in any version

/// Returns the number of bytes before the first element, with the magic. `prefix` has the first `kNpyPrefixBytes` bytes
/// of the file. Throws DataError for a shorter prefix, a wrong magic, an unknown version, an empty header, or one of
/// more than 1 MiB. `origin` is the prefix of messages.
int64_t npy_header_bytes(std::string_view prefix, const std::string& origin);

/// Parses a header from the magic to the first element. Throws the errors of npy_header_bytes, and DataError for
/// another length than recorded, a malformed dict, an unsupported type, and a negative or too large shape.
NpyHeader parse_npy_header(std::string_view header, const std::string& origin);

/// Returns a shape as Python prints it: "(372, 140)", "(372,)", "()".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace foretime::data
