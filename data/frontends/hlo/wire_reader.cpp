#include "data/frontends/hlo/wire_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace foretime::data {
namespace {

constexpr int kVarintBytes = 10;  // of 64 bits, seven at a time

bool take_varint(std::string_view& from, uint64_t& value) {
  value = 0;
  const auto limit = std::min<size_t>(from.size(), kVarintBytes);
  for (size_t i = 0; i < limit; ++i) {
    const auto byte = static_cast<uint8_t>(from[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      from.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool is_known(uint64_t type) { return type == 0 || type == 1 || type == 2 || type == 5; }

}  // namespace

void HloSource::fail(const std::string& what) const { throw DataError(fmt::format("{}: {}", name, what)); }

/// Null, or what is wrong.
const char* WireReader::take(WireField& field, bool may_be_cut) {
  std::string_view rest = left_;
  uint64_t tag = 0;
  if (!take_varint(rest, tag)) return "no tag of a field";
  const uint64_t number = tag >> 3;
  if (number == 0 || number >= uint64_t{1} << 29) return "a field number out of range";
  if (!is_known(tag & 7)) return "a group or an unknown wire type";
  field.number = static_cast<uint32_t>(number);
  field.type = static_cast<WireField::Type>(tag & 7);
  field.value = 0;
  field.bytes = {};
  switch (field.type) {
    case WireField::Type::varint:
      if (!take_varint(rest, field.value)) return "a number that does not end";
      break;
    case WireField::Type::bytes: {
      uint64_t length = 0;
      if (!take_varint(rest, length)) return "a length that does not end";
      if (length > rest.size() && !may_be_cut) return "a length past the end of its message";
      field.bytes = rest.substr(0, std::min<uint64_t>(length, rest.size()));
      rest.remove_prefix(field.bytes.size());
      break;
    }
    case WireField::Type::fixed64:
    case WireField::Type::fixed32: {
      const size_t size = field.type == WireField::Type::fixed64 ? 8 : 4;
      if (rest.size() < size) return "a number past the end of its message";
      rest.remove_prefix(size);
      break;
    }
  }
  field.whole = left_.substr(0, left_.size() - rest.size());
  left_ = rest;
  return nullptr;
}

bool WireReader::next(WireField& field) {
  if (left_.empty()) return false;
  if (const char* wrong = take(field, false))
    source_.fail(fmt::format("byte {}: {}, expected a protobuf field; the file is cut off or damaged",
                             source_.offset(left_), wrong));
  return true;
}

bool WireReader::next_if_any(WireField& field) { return !left_.empty() && take(field, true) == nullptr; }

}  // namespace foretime::data
