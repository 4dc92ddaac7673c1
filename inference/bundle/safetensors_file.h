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
  std::string type;  // F32, …
  std::vector<int64_t> shape;
  std::string_view bytes;  // not aligned
};

struct StoredArrays {
  std::map<std::string, StoredArray> arrays;
  std::map<std::string, std::string> metadata;
};

using NamedArrays = std::vector<std::pair<std::string, StoredArray>>;

/// The bytes of a file. They depend on names, values and metadata alone, not on the order of `arrays`: arrays stand in
/// byte order of their names, with no gap, and the header is padded with spaces so that the data start at a multiple of
/// 8. Throws BundleError for a name that occurs twice, is reserved (`__metadata__`) or is not UTF-8.
std::string serialize_arrays(const NamedArrays& arrays, const std::map<std::string, std::string>& metadata);

/// Reads what any writer of the format made; arrays are views into `bytes`. `origin` stands for the file in messages.
/// Throws BundleError for bytes that are truncated or too many, a header that is not such JSON, a name that occurs
/// twice, an unknown type, a shape that does not fit its range of bytes, ranges that overlap, leave a gap or go past
/// the end, and booleans other than 0 and 1.
StoredArrays parse_arrays(std::string_view bytes, const std::string& origin);

}  // namespace foretime::inference
