#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/types.h>

/// The safetensors format (https://github.com/huggingface/safetensors): an unsigned 64-bit little-endian header length,
/// a JSON header `{"name": {"dtype": …, "shape": […], "data_offsets": [begin, end]}, …, "__metadata__": {string:
/// string}}`, then the tensors' bytes, row-major and little-endian. Types: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
namespace foretime::models {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// Holds the content of a safetensors file. The tensors are on the CPU and own their memory.
struct Safetensors {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Returns the bytes of a safetensors file. The bytes depend on names, values and metadata alone, not on the order of
/// `tensors`: tensors are sorted by the bytes of their names, without gaps, and the header is padded with spaces to a
/// multiple of 8 bytes. Throws ModelError for a name that occurs twice, is reserved (`__metadata__`) or is not UTF-8,
/// for metadata that are not UTF-8, and for a tensor that is undefined, not dense, or of an unsupported type.
std::string serialize_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata = {});

/// Parses a file of any writer of the format. `origin` names the file in messages. Throws ModelError for truncated or
/// surplus bytes, an invalid header, a name that occurs twice, an unknown type, a shape that does not match its range
/// of bytes, ranges that overlap, leave a gap or exceed the file, and booleans other than 0 and 1.
Safetensors parse_safetensors(std::string_view bytes, const std::string& origin);

}  // namespace foretime::models
