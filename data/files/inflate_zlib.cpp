#include <algorithm>
#include <limits>
#include <new>

#include <zlib.h>

#include "data/files/inflate.h"

namespace foretime::data {

struct Inflater::State {
  explicit State(Format format) {
    // Negative: without a header. 16 more: with that of gzip.
    if (inflateInit2(&stream, format == Format::gzip ? MAX_WBITS + 16 : -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~State() { inflateEnd(&stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  z_stream stream{};
};

Inflater::Inflater(Format format) : state_(std::make_unique<State>(format)) {}
Inflater::~Inflater() = default;
Inflater::Inflater(Inflater&&) noexcept = default;

Inflater::Step Inflater::inflate(std::span<const std::byte> in, std::span<std::byte> out) {
  constexpr size_t kMost = std::numeric_limits<uInt>::max() / 2;
  z_stream& stream = state_->stream;
  const auto given = static_cast<uInt>(std::min(in.size(), kMost)),
             room = static_cast<uInt>(std::min(out.size(), kMost));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));  // zlib reads only
  stream.avail_in = given;
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = room;
  const int result = ::inflate(&stream, Z_NO_FLUSH);
  // Z_BUF_ERROR says that there was nothing to do.
  const bool damaged = result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR;
  return {given - stream.avail_in, room - stream.avail_out, result == Z_STREAM_END, damaged};
}

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t crc) {
  return static_cast<uint32_t>(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace foretime::data
