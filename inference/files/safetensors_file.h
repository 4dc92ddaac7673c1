#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The safetensors format (https://github.com/huggingface/safetensors) as plain arrays: an unsigned 64-bit
/// little-endian header length, a JSON header `{"name": {"dtype": …, "shape": […], "data_offsets": [begin, end]}, …,
/// "__metadata__": {string: string}}`, then the arrays' bytes, row-major and little-endian. Types: F64 F32 F16 BF16 I64
/// I32 I16 I8 U8 BOOL.
namespace foretime::inference {

struct StoredArray {
  std::string type;  // safetensors name of the element type, such as F32
  std::vector<int64_t> shape;
  std::string_view bytes;  // row-major elements; the start may be unaligned
};

struct StoredArrays {
  std::map<std::string, StoredArray> arrays;
  std::map<std::string, std::string> metadata;
};

using NamedArrays = std::vector<std::pair<std::string, StoredArray>>;

/// Returns the bytes of a file. They depend on names, values and metadata alone, not on the order of `arrays`: arrays
/// are sorted by the bytes of their names, without gaps, and the header is padded with spaces to a multiple of 8 bytes.
/// Throws BundleError for a name that occurs twice, the reserved name `__metadata__`, and texts that are not UTF-8.
std::string serialize_arrays(const NamedArrays& arrays, const std::map<std::string, std::string>& metadata);

/// Parses a file of any writer of the format; the arrays are views into `bytes`. `origin` names the file in messages.
/// Throws BundleError for truncated or surplus bytes, an invalid header, a name that occurs twice, an unknown type, a
/// shape that does not match its range of bytes, ranges that overlap or leave a gap, booleans other than 0 and 1, and
/// more than 10,000 arrays or 64 dimensions.
StoredArrays parse_arrays(std::string_view bytes, const std::string& origin);

}  // namespace foretime::inference
