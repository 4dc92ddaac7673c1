#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace foretime::data {

/// Decompresses one deflate stream (RFC 1951) or one gzip member (RFC 1952, whose checksum and size are checked), piece
/// by piece. Uses ISA-L, which takes a third of zlib's time.
class Inflater {
 public:
  enum class Format : uint8_t { deflate, gzip };
  explicit Inflater(Format format = Format::deflate);
  ~Inflater();
  Inflater(Inflater&&) noexcept;

  struct Step {
    size_t consumed = 0, produced = 0;  // bytes
    bool ended = false;                 // the stream is complete
    bool damaged = false;               // the bytes are not of this format, or the checksum or size is wrong
  };
  /// Decompresses from the start of `in` to the start of `out`, at most 2 GiB each, until either is used up, the stream
  /// ends, or the data are damaged. The next call continues with the rest of the input.
  Step inflate(std::span<const std::byte> in, std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the CRC-32, as in zip archives, of data with CRC-32 `crc` (0 for none) followed by `bytes`.
uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t crc);

}  // namespace foretime::data
