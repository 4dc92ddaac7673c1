#include "data/files/npy_stream.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace foretime::data {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they stand in little-endian files");

constexpr int64_t kPieceElements = 1 << 14;

template <class T>
bool is_same_type(const NpyType& type) {
  const auto kind = std::is_floating_point_v<T> ? NpyKind::floating
                    : std::is_signed_v<T>       ? NpyKind::signed_integer
                                                : NpyKind::unsigned_integer;
  return type.kind == kind && type.size == sizeof(T) && (!type.big_endian || sizeof(T) == 1);
}

template <class From>
From load(const unsigned char* bytes, bool big_endian) {
  unsigned char ordered[sizeof(From)];
  std::memcpy(ordered, bytes, sizeof(From));
  if (big_endian) std::reverse(ordered, ordered + sizeof(From));
  return std::bit_cast<From>(ordered);
}

template <class From, class To>
void convert(const unsigned char* bytes, bool big_endian, To* out, int64_t count, const std::string& origin) {
  for (int64_t i = 0; i < count; ++i) {
    const From value = load<From>(bytes + i * static_cast<int64_t>(sizeof(From)), big_endian);
    if constexpr (std::is_integral_v<To>) {
      if (!std::in_range<To>(value))
        throw DataError(fmt::format("{}: value {}, expected {} bits {}", origin, value, sizeof(To) * 8,
                                    std::is_signed_v<To> ? "with a sign" : "without a sign"));
    }
    out[i] = static_cast<To>(value);
  }
}

/// Picks the conversion of one element type; false where there is none.
template <class To>
bool convert_any(const NpyType& type, const unsigned char* bytes, To* out, int64_t count, const std::string& origin) {
  const auto run = [&]<class From>(From) {
    convert<From, To>(bytes, type.big_endian, out, count, origin);
    return true;
  };
  if constexpr (std::is_floating_point_v<To>) {
    if (type.kind != NpyKind::floating) return false;
    return type.size == 4 ? run(float{}) : run(double{});
  } else {
    if (type.kind == NpyKind::boolean) return run(uint8_t{});
    const bool sign = type.kind == NpyKind::signed_integer;
    if (!sign && type.kind != NpyKind::unsigned_integer) return false;
    switch (type.size) {
      case 1:
        return sign ? run(int8_t{}) : run(uint8_t{});
      case 2:
        return sign ? run(int16_t{}) : run(uint16_t{});
      case 4:
        return sign ? run(int32_t{}) : run(uint32_t{});
      default:
        return sign ? run(int64_t{}) : run(uint64_t{});
    }
  }
}

NpyHeader read_header(ZipReader& reader, const std::string& origin) {
  if (reader.entry().size < static_cast<uint64_t>(kNpyPrefixBytes))
    throw DataError(fmt::format("{}: {} bytes, expected an NPY array", origin, reader.entry().size));
  std::string text(static_cast<size_t>(kNpyPrefixBytes), '\0');
  reader.read(text.data(), text.size());
  const auto bytes = static_cast<uint64_t>(npy_header_bytes(text, origin));
  if (bytes > reader.entry().size)
    throw DataError(
        fmt::format("{}: NPY header of {} bytes, but the entry has {}", origin, bytes, reader.entry().size));
  text.resize(bytes);
  reader.read(text.data() + kNpyPrefixBytes, bytes - static_cast<uint64_t>(kNpyPrefixBytes));
  NpyHeader header = parse_npy_header(text, origin);
  const uint64_t held = reader.entry().size - bytes;
  if (static_cast<uint64_t>(header.payload_bytes()) != held)
    throw DataError(fmt::format("{}: the header's shape {} of {} needs {} bytes, but the entry holds {}", origin,
                                shape_text(header.shape), header.type.str(), header.payload_bytes(), held));
  return header;
}

/// From the first index varying fastest to the last one.
template <class T>
std::vector<T> to_c_order(const std::vector<T>& values, const std::vector<int64_t>& shape) {
  std::vector<int64_t> stride(shape.size()), index(shape.size(), 0);
  int64_t step = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    stride[d] = step;
    step *= shape[d];
  }
  std::vector<T> out(values.size());
  int64_t from = 0;
  for (auto& value : out) {
    value = values[static_cast<size_t>(from)];
    for (size_t d = shape.size(); d-- > 0;) {
      from += stride[d];
      if (++index[d] < shape[d]) break;
      from -= stride[d] * shape[d];
      index[d] = 0;
    }
  }
  return out;
}

std::string without_suffix(const std::string& name) {
  return name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
    return;
  }
  const int following = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr unsigned char kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out.push_back(static_cast<char>(kLead[following] | c >> (6 * following)));
  for (int i = following; i-- > 0;) out.push_back(static_cast<char>(0x80 | (c >> (6 * i) & 0x3f)));
}

}  // namespace

NpyStream::NpyStream(const ZipArchive& archive, const ZipEntry& entry)
    : origin_(fmt::format("{}: entry {}", archive.path().string(), without_suffix(entry.name))),
      reader_(archive.open(entry)),
      header_(read_header(reader_, origin_)),
      remaining_(header_.elements()) {}

void NpyStream::claim(int64_t count) {
  if (count < 0 || count > remaining_)
    throw DataError(fmt::format("{}: {} elements are left, expected {}", origin_, remaining_, count));
  remaining_ -= count;
}

template <NpyNumber T>
void NpyStream::read(T* out, int64_t count) {
  claim(count);
  const NpyType& type = header_.type;
  if (is_same_type<T>(type)) {
    reader_.read(out, static_cast<uint64_t>(count) * sizeof(T));
    return;
  }
  std::vector<unsigned char> piece(static_cast<size_t>(std::min(count, kPieceElements) * type.size));
  bool known = convert_any<T>(type, piece.data(), out, 0, origin_);
  while (known && count > 0) {
    const int64_t now = std::min(count, kPieceElements);
    reader_.read(piece.data(), static_cast<uint64_t>(now * type.size));
    convert_any<T>(type, piece.data(), out, now, origin_);
    out += now;
    count -= now;
  }
  if (!known)
    throw DataError(fmt::format("{}: type {}, expected {}", origin_, type.str(),
                                std::is_floating_point_v<T> ? "f4 or f8" : "an integer type"));
}

std::vector<std::string> NpyStream::read_text(int64_t count) {
  claim(count);
  const NpyType& type = header_.type;
  if (type.kind != NpyKind::text) throw DataError(fmt::format("{}: type {}, expected text (U)", origin_, type.str()));
  std::vector<std::string> texts(static_cast<size_t>(count));
  std::vector<unsigned char> bytes(static_cast<size_t>(type.size));
  for (auto& text : texts) {
    reader_.read(bytes.data(), bytes.size());
    std::vector<uint32_t> characters(bytes.size() / 4);
    for (size_t i = 0; i < characters.size(); ++i) characters[i] = load<uint32_t>(&bytes[i * 4], type.big_endian);
    while (!characters.empty() && characters.back() == 0) characters.pop_back();
    for (const uint32_t c : characters) {
      if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        throw DataError(fmt::format("{}: character {:#x}, expected Unicode", origin_, c));
      append_utf8(text, c);
    }
  }
  return texts;
}

template <NpyNumber T>
std::vector<T> NpyStream::read_all() {
  std::vector<T> values(static_cast<size_t>(remaining_));
  read(values.data(), remaining_);
  finish();
  const auto wide = std::count_if(header_.shape.begin(), header_.shape.end(), [](int64_t d) { return d > 1; });
  return header_.fortran_order && wide > 1 ? to_c_order(values, header_.shape) : values;
}

#define FORETIME_INSTANTIATE(T)                  \
  template void NpyStream::read<T>(T*, int64_t); \
  template std::vector<T> NpyStream::read_all<T>();
FORETIME_INSTANTIATE(int8_t)
FORETIME_INSTANTIATE(int16_t)
FORETIME_INSTANTIATE(int32_t)
FORETIME_INSTANTIATE(int64_t)
FORETIME_INSTANTIATE(uint8_t)
FORETIME_INSTANTIATE(uint16_t)
FORETIME_INSTANTIATE(uint32_t)
FORETIME_INSTANTIATE(uint64_t)
FORETIME_INSTANTIATE(float)
FORETIME_INSTANTIATE(double)
#undef FORETIME_INSTANTIATE

}  // namespace foretime::data
