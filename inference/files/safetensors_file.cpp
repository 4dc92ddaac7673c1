#include "inference/files/safetensors_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "inference/files/strict_json.h"
#include "inference/runtime/references.h"

namespace foretime::inference {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "arrays are copied as they lie in memory");

constexpr char kMetadataKey[] = "__metadata__";
constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the reference implementation's bound
constexpr size_t kMostDimensions = 64;            // LibTorch's own
constexpr size_t kMostLevels = 16;                // depth of the header's JSON; the format has 3
constexpr size_t kMostTensors = 10'000;           // also the limit of members of other objects

/// Returns the bytes of an element; 0 for an unknown type.
uint64_t element_size(std::string_view type) {
  constexpr std::pair<std::string_view, uint64_t> kSizes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2},
                                                              {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1},
                                                              {"U8", 1},  {"BOOL", 1}};
  for (const auto& [name, size] : kSizes)
    if (name == type) return size;
  return 0;
}

/// Reads one file's bytes; each failure is named by the file and the tensor.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  StoredArrays read() {
    const auto header = parse_header();
    StoredArrays result;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey) result.metadata = read_metadata(value);
      else entries.push_back(read_entry(name, value));
    }
    check_ranges(entries);
    for (auto& entry : entries) {
      check_booleans(entry);
      result.arrays.emplace(entry.name, StoredArray{std::move(entry.type), std::move(entry.shape), data_of(entry)});
    }
    return result;
  }

 private:
  struct Entry {
    std::string name;
    std::string type;
    std::vector<int64_t> shape;
    uint64_t begin, end;  // offsets in data_
  };

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw BundleError("{}: {}", origin_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void fail_at(const std::string& tensor, fmt::format_string<Args...> format, Args&&... args) const {
    fail("tensor {}: {}", tensor, fmt::format(format, std::forward<Args>(args)...));
  }

  json parse_header() {
    if (bytes_.size() < kLengthBytes)
      fail("{} bytes, expected a header length of {} bytes", bytes_.size(), kLengthBytes);
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    const auto rest = bytes_.substr(kLengthBytes);
    if (length > rest.size() || length > kLargestHeader)
      fail(
          "not a safetensors file, as bundles are, or truncated: "
          "header length {}, expected at most {} (the bytes after it) and {}",
          length, rest.size(), kLargestHeader);
    data_ = rest.substr(length);
    const auto text = rest.substr(0, length);
    if (text.empty() || text.front() != '{') fail("header: does not begin with '{{'");
    try {
      return parse_strict_json(text, "header", {.levels = kMostLevels, .object_members = kMostTensors});
    } catch (const BundleError& error) {
      fail("{}", error.what());
    }
  }

  std::map<std::string, std::string> read_metadata(const json& value) const {
    if (!value.is_object()) fail("header: {}: {}, expected an object", kMetadataKey, value.type_name());
    std::map<std::string, std::string> metadata;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail("header: {}: {}: {}, expected a string", kMetadataKey, key, text.type_name());
      metadata.emplace(key, text.get<std::string>());
    }
    return metadata;
  }

  const json& member(const std::string& name, const json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) fail_at(name, "no {}", key);
    return *found;
  }

  std::vector<uint64_t> read_numbers(const std::string& name, const json& value, const char* key, size_t most) const {
    const auto& array = member(name, value, key);
    if (!array.is_array()) fail_at(name, "{}: {}, expected an array", key, array.type_name());
    if (array.size() > most) fail_at(name, "{}: {} numbers, expected at most {}", key, array.size(), most);
    std::vector<uint64_t> numbers;
    for (const auto& number : array) {
      if (!number.is_number_unsigned()) fail_at(name, "{}: a value that is no whole number from 0 to 2^64 - 1", key);
      numbers.push_back(number.get<uint64_t>());
    }
    return numbers;
  }

  Entry read_entry(const std::string& name, const json& value) const {
    if (!value.is_object()) fail_at(name, "{}, expected an object", value.type_name());
    const auto& code = member(name, value, "dtype");
    if (!code.is_string()) fail_at(name, "dtype: {}, expected a string", code.type_name());
    const auto type = code.get<std::string>();
    const uint64_t size = element_size(type);
    if (size == 0) fail_at(name, "dtype: {}, expected F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL", type);
    const auto shape = read_numbers(name, value, "shape", kMostDimensions);
    const auto offsets = read_numbers(name, value, "data_offsets", 2);
    if (offsets.size() != 2) fail_at(name, "data_offsets: {} numbers, expected 2", offsets.size());

    // The strides are bounded as well as the size: an empty tensor may have dimensions that no other tensor could.
    const uint64_t largest = std::numeric_limits<int64_t>::max();
    uint64_t bytes = size, span = bytes;
    for (const auto extent : shape) {
      if (extent != 0 && span > largest / extent) fail_at(name, "shape [{}]: too large", fmt::join(shape, ", "));
      span *= std::max<uint64_t>(extent, 1);
      bytes *= extent;
    }
    const auto [begin, end] = std::pair(offsets[0], offsets[1]);
    if (begin <= end && end > data_.size())
      fail("truncated: {} bytes of data, expected at least {} (tensor {}); was it copied completely?", data_.size(),
           end, name);
    if (begin > end)
      fail_at(name, "data_offsets [{}, {}], expected an ascending range of the {} bytes of data", begin, end,
              data_.size());
    if (end - begin != bytes)
      fail_at(name, "{} bytes, expected {} for {} of shape [{}]", end - begin, bytes, type, fmt::join(shape, ", "));
    return {name, type, std::vector<int64_t>(shape.begin(), shape.end()), begin, end};
  }

  /// Every byte of data belongs to exactly one tensor.
  void check_ranges(const std::vector<Entry>& entries) const {
    std::vector<const Entry*> sorted;
    for (const auto& entry : entries) sorted.push_back(&entry);
    std::sort(sorted.begin(), sorted.end(),
              [](const Entry* a, const Entry* b) { return std::tie(a->begin, a->end) < std::tie(b->begin, b->end); });
    uint64_t covered = 0;
    for (const auto* entry : sorted) {
      if (entry->begin != covered)
        fail_at(entry->name, "data start at byte {}, expected {}: tensors must neither overlap nor leave gaps",
                entry->begin, covered);
      covered = entry->end;
    }
    if (covered != data_.size()) fail("{} bytes of data, expected {} by the header", data_.size(), covered);
  }

  std::string_view data_of(const Entry& entry) const { return data_.substr(entry.begin, entry.end - entry.begin); }

  void check_booleans(const Entry& entry) const {
    if (entry.type != "BOOL") return;
    const auto source = data_of(entry);
    const auto bad = std::find_if(source.begin(), source.end(), [](char c) { return c != 0 && c != 1; });
    if (bad != source.end()) fail_at(entry.name, "a boolean of value {}, expected 0 or 1", static_cast<uint8_t>(*bad));
  }

  std::string_view bytes_;
  const std::string& origin_;
  std::string_view data_;  // bytes after the header
};

}  // namespace

std::string serialize_arrays(const NamedArrays& arrays, const std::map<std::string, std::string>& metadata) {
  std::map<std::string_view, const StoredArray*> sorted;
  for (const auto& [name, array] : arrays) {
    if (name == kMetadataKey) throw BundleError("safetensors: tensor {}: the name is reserved", name);
    if (!sorted.emplace(name, &array).second) throw BundleError("safetensors: tensor {}: occurs twice", name);
  }
  auto header = json::object();
  uint64_t offset = 0;
  for (const auto& [name, array] : sorted) {
    const uint64_t end = offset + array->bytes.size();
    header[std::string(name)] = {{"dtype", array->type}, {"shape", array->shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  if (!metadata.empty()) header[kMetadataKey] = metadata;

  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    throw BundleError("safetensors: a name or metadata text is not UTF-8: {}", error.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');

  std::string bytes;
  bytes.reserve(kLengthBytes + text.size() + offset);
  const uint64_t length = text.size();
  bytes.append(reinterpret_cast<const char*>(&length), kLengthBytes).append(text);
  for (const auto& [name, array] : sorted) bytes.append(array->bytes);
  return bytes;
}

StoredArrays parse_arrays(std::string_view bytes, const std::string& origin) { return Reader(bytes, origin).read(); }

}  // namespace foretime::inference
