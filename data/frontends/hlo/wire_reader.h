#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foretime::data {

/// A file's bytes and its name, which starts messages. Pieces of it are views into `bytes`.
struct HloSource {
  std::string_view bytes;
  std::string name;

  /// Throws DataError `name: what`.
  [[noreturn]] void fail(const std::string& what) const;
  /// Position of a piece in the file.
  uint64_t offset(std::string_view piece) const { return static_cast<uint64_t>(piece.data() - bytes.data()); }
};

/// One field of an encoded protobuf message (protobuf.dev, "Encoding").
struct WireField {
  enum class Type : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::varint;
  uint64_t value = 0;      // type varint
  std::string_view bytes;  // type bytes: the contents
  std::string_view whole;  // tag and value, as they stand in the message

  bool is_bytes(uint32_t field) const { return number == field && type == Type::bytes; }
  bool is_varint(uint32_t field) const { return number == field && type == Type::varint; }
};

/// The fields of a message in their order, one after another, without recursion and without copies: how outer messages
/// are read whose inner ones may be many. Groups, which neither XLA nor TpuGraphs writes, are refused.
class WireReader {
 public:
  /// `message` is a piece of `source`, which must outlive the reader.
  WireReader(const HloSource& source, std::string_view message) : source_(source), left_(message) {}

  /// False at the end. Throws DataError, with the position in the file, where the bytes are no field.
  bool next(WireField& field);
  /// Whether a field follows; lengths that go past the end are cut there, and anything else that is no field ends the
  /// message. For finding out what a file holds before it is read.
  bool next_if_any(WireField& field);

 private:
  const char* take(WireField& field, bool may_be_cut);

  const HloSource& source_;
  std::string_view left_;
};

}  // namespace foretime::data
