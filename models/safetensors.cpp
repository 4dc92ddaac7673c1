#include "models/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "models/error.h"

namespace foretime::models {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are copied as they lie in memory");

constexpr char kMetadataKey[] = "__metadata__";
constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the reference implementation's bound
constexpr size_t kMostDimensions = 64;            // LibTorch's own

struct TypeCode {
  const char* code;
  torch::ScalarType type;
};
constexpr TypeCode kTypeCodes[] = {{"F64", torch::kFloat64},   {"F32", torch::kFloat32}, {"F16", torch::kFloat16},
                                   {"BF16", torch::kBFloat16}, {"I64", torch::kInt64},   {"I32", torch::kInt32},
                                   {"I16", torch::kInt16},     {"I8", torch::kInt8},     {"U8", torch::kUInt8},
                                   {"BOOL", torch::kBool}};

const char* code_of(const torch::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) throw ModelError(fmt::format("safetensors: tensor {}: undefined", name));
  if (tensor.layout() != torch::kStrided)
    throw ModelError(fmt::format("safetensors: tensor {}: not a dense tensor", name));
  for (const auto& [code, type] : kTypeCodes) {
    if (type == tensor.scalar_type()) return code;
  }
  throw ModelError(fmt::format("safetensors: tensor {}: type {} has no code in the format", name,
                               c10::toString(tensor.scalar_type())));
}

std::optional<torch::ScalarType> type_of(const std::string& code) {
  for (const auto& known : kTypeCodes) {
    if (code == known.code) return known.type;
  }
  return std::nullopt;
}

/// Reads one file's bytes; each failure is named by the file and the tensor.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  Safetensors read() {
    const auto header = parse_header();
    Safetensors result;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey) {
        result.metadata = read_metadata(value);
      } else {
        entries.push_back(read_entry(name, value));
      }
    }
    check_ranges(entries);
    for (const auto& entry : entries) result.tensors.emplace(entry.name, copy_tensor(entry));
    return result;
  }

 private:
  struct Entry {
    std::string name;
    torch::ScalarType type;
    std::vector<int64_t> shape;
    uint64_t begin, end;  // in data_
  };

  [[noreturn]] void fail(const std::string& message) const {
    throw ModelError(fmt::format("{}: {}", origin_, message));
  }
  [[noreturn]] void fail(const std::string& name, const std::string& message) const {
    fail(fmt::format("tensor {}: {}", name, message));
  }

  json parse_header() {
    if (bytes_.size() < kLengthBytes) {
      fail(fmt::format("{} bytes, expected a header length of {} bytes", bytes_.size(), kLengthBytes));
    }
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    const auto rest = bytes_.substr(kLengthBytes);
    if (length > rest.size() || length > kLargestHeader) {
      fail(fmt::format("header length {}, expected at most {} (bytes that follow) and {}", length, rest.size(),
                       kLargestHeader));
    }
    data_ = rest.substr(length);
    const auto text = rest.substr(0, length);
    if (text.empty() || text.front() != '{') fail("header: does not begin with '{'");
    return parse_unique_keys(text);
  }

  /// JSON readers keep one of two equal keys without a word; here that would hide a tensor.
  json parse_unique_keys(std::string_view text) const {
    std::vector<std::set<std::string>> open;
    const auto watch = [&](int, json::parse_event_t event, json& value) {
      if (event == json::parse_event_t::object_start) open.emplace_back();
      if (event == json::parse_event_t::object_end) open.pop_back();
      if (event == json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second) {
        fail(fmt::format("header: the name {} occurs twice", value.get<std::string>()));
      }
      return true;
    };
    try {
      return json::parse(text.begin(), text.end(), watch);
    } catch (const json::exception& error) {
      fail(fmt::format("header: not JSON: {}", error.what()));
    }
  }

  std::map<std::string, std::string> read_metadata(const json& value) const {
    if (!value.is_object()) fail(fmt::format("header: {}: {}, expected an object", kMetadataKey, value.type_name()));
    std::map<std::string, std::string> metadata;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string())
        fail(fmt::format("header: {}: {}: {}, expected a string", kMetadataKey, key, text.type_name()));
      metadata.emplace(key, text.get<std::string>());
    }
    return metadata;
  }

  const json& member(const std::string& name, const json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) fail(name, fmt::format("no {}", key));
    return *found;
  }

  std::vector<uint64_t> read_numbers(const std::string& name, const json& value, const char* key, size_t most) const {
    const auto& array = member(name, value, key);
    if (!array.is_array()) fail(name, fmt::format("{}: {}, expected an array", key, array.type_name()));
    if (array.size() > most) fail(name, fmt::format("{}: {} numbers, expected at most {}", key, array.size(), most));
    std::vector<uint64_t> numbers;
    for (const auto& number : array) {
      if (!number.is_number_unsigned()) {
        fail(name, fmt::format("{}: a value that is no whole number from 0 to 2^64 - 1", key));
      }
      numbers.push_back(number.get<uint64_t>());
    }
    return numbers;
  }

  Entry read_entry(const std::string& name, const json& value) const {
    if (!value.is_object()) fail(name, fmt::format("{}, expected an object", value.type_name()));
    const auto& code = member(name, value, "dtype");
    if (!code.is_string()) fail(name, fmt::format("dtype: {}, expected a string", code.type_name()));
    const auto type = type_of(code.get<std::string>());
    if (!type) {
      fail(name, fmt::format("dtype: {}, expected F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL",
                             code.get<std::string>()));
    }
    const auto shape = read_numbers(name, value, "shape", kMostDimensions);
    const auto offsets = read_numbers(name, value, "data_offsets", 2);
    if (offsets.size() != 2) fail(name, fmt::format("data_offsets: {} numbers, expected 2", offsets.size()));

    // The strides are bounded as well as the size: an empty tensor may have dimensions that no other tensor could.
    const auto largest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    uint64_t bytes = c10::elementSize(*type), span = bytes;
    for (const auto extent : shape) {
      if (extent != 0 && span > largest / extent)
        fail(name, fmt::format("shape [{}]: too large", fmt::join(shape, ", ")));
      span *= std::max<uint64_t>(extent, 1);
      bytes *= extent;
    }
    const auto [begin, end] = std::pair(offsets[0], offsets[1]);
    if (begin > end || end > data_.size()) {
      fail(name, fmt::format("data_offsets [{}, {}], expected an ascending range of the {} bytes of data", begin, end,
                             data_.size()));
    }
    if (end - begin != bytes) {
      fail(name, fmt::format("{} bytes, expected {} for {} of shape [{}]", end - begin, bytes, code.get<std::string>(),
                             fmt::join(shape, ", ")));
    }
    return {name, *type, std::vector<int64_t>(shape.begin(), shape.end()), begin, end};
  }

  /// Every byte of data belongs to exactly one tensor.
  void check_ranges(const std::vector<Entry>& entries) const {
    std::vector<const Entry*> sorted;
    for (const auto& entry : entries) sorted.push_back(&entry);
    std::sort(sorted.begin(), sorted.end(),
              [](const Entry* a, const Entry* b) { return std::tie(a->begin, a->end) < std::tie(b->begin, b->end); });
    uint64_t covered = 0;
    for (const auto* entry : sorted) {
      if (entry->begin != covered) {
        fail(entry->name, fmt::format("data start at byte {}, expected {}: tensors must neither overlap nor leave gaps",
                                      entry->begin, covered));
      }
      covered = entry->end;
    }
    if (covered != data_.size())
      fail(fmt::format("{} bytes of data, expected {} by the header", data_.size(), covered));
  }

  torch::Tensor copy_tensor(const Entry& entry) const {
    const auto source = data_.substr(entry.begin, entry.end - entry.begin);
    if (entry.type == torch::kBool) {
      const auto bad = std::find_if(source.begin(), source.end(), [](char c) { return c != 0 && c != 1; });
      if (bad != source.end())
        fail(entry.name, fmt::format("a boolean of value {}, expected 0 or 1", static_cast<uint8_t>(*bad)));
    }
    auto tensor = torch::empty(entry.shape, entry.type);
    if (!source.empty()) std::memcpy(tensor.data_ptr(), source.data(), source.size());
    return tensor;
  }

  std::string_view bytes_;
  const std::string& origin_;
  std::string_view data_;  // what follows the header
};

}  // namespace

std::string serialize_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  std::map<std::string, torch::Tensor> sorted;
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadataKey) throw ModelError(fmt::format("safetensors: tensor {}: the name is reserved", name));
    if (!sorted.emplace(name, tensor).second)
      throw ModelError(fmt::format("safetensors: tensor {}: occurs twice", name));
  }
  auto header = json::object();
  uint64_t offset = 0;
  for (const auto& [name, tensor] : sorted) {
    const auto* code = code_of(tensor, name);
    const uint64_t end = offset + tensor.nbytes();
    header[name] = {{"dtype", code}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  if (!metadata.empty()) header[kMetadataKey] = metadata;

  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    throw ModelError(fmt::format("safetensors: a name or metadata text is not UTF-8: {}", error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');

  std::string bytes;
  bytes.reserve(kLengthBytes + text.size() + offset);
  const uint64_t length = text.size();
  bytes.append(reinterpret_cast<const char*>(&length), kLengthBytes).append(text);
  for (const auto& [name, tensor] : sorted) {
    const auto plain = tensor.detach().to(torch::kCPU).contiguous();
    if (plain.nbytes() > 0) bytes.append(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
  }
  return bytes;
}

Safetensors parse_safetensors(std::string_view bytes, const std::string& origin) {
  return Reader(bytes, origin).read();
}

void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto bytes = serialize_safetensors(tensors, metadata);
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw ModelError(fmt::format("{}: cannot be written", file.string()));
}

Safetensors read_safetensors(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in || std::filesystem::is_directory(file)) throw ModelError(fmt::format("{}: cannot be opened", file.string()));
  std::string bytes(static_cast<size_t>(std::max<std::streamoff>(in.tellg(), 0)), '\0');
  in.seekg(0);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw ModelError(fmt::format("{}: cannot be read", file.string()));
  return parse_safetensors(bytes, file.string());
}

}  // namespace foretime::models
