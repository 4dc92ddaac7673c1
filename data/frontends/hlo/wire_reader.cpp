#include "data/frontends/hlo/wire_reader.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include "base/error.h"

namespace foretime::data {
namespace {

bool is_known(uint64_t type) { return type == 0 || type == 1 || type == 2 || type == 5; }

}  // namespace

void HloSource::fail(const std::string& what) const { throw DataError(fmt::format("{}: {}", name, what)); }

/// Null, or what is wrong.
const char* WireReader::take(WireField& field, bool may_be_cut) {
  constexpr size_t kMost = std::numeric_limits<int>::max();  // protobuf's messages are not larger
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(left_.data()),
                                            static_cast<int>(std::min(left_.size(), kMost)));
  uint64_t tag = 0, length = 0;
  if (!in.ReadVarint64(&tag)) return "no tag of a field";
  const uint64_t number = tag >> 3;
  if (number == 0 || number >= uint64_t{1} << 29) return "a field number out of range";
  if (!is_known(tag & 7)) return "a group or an unknown wire type";
  field = {static_cast<uint32_t>(number), static_cast<WireField::Type>(tag & 7), 0, {}, {}};
  if (field.type == WireField::Type::varint) {
    if (!in.ReadVarint64(&field.value)) return "a number that does not end";
  } else if (field.type == WireField::Type::bytes) {
    if (!in.ReadVarint64(&length)) return "a length that does not end";
  } else {
    length = field.type == WireField::Type::fixed64 ? 8 : 4;
  }
  const auto rest = left_.substr(static_cast<size_t>(in.CurrentPosition()));
  if (field.type != WireField::Type::bytes) may_be_cut = false;
  if (length > rest.size() && !may_be_cut) {
    return field.type == WireField::Type::bytes ? "a length past the end of its message"
                                                : "a number past the end of its message";
  }
  const auto contents = rest.substr(0, std::min<uint64_t>(length, rest.size()));
  if (field.type == WireField::Type::bytes) field.bytes = contents;
  field.whole = left_.substr(0, left_.size() - rest.size() + contents.size());
  left_.remove_prefix(field.whole.size());
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
