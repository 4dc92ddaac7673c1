#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace foretime::data {

/// Decompresses one raw deflate stream (RFC 1951), piece by piece. There are two implementations, of which CMake takes
/// one: ISA-L, several times faster, where it is installed (Debian: libisal-dev), else zlib.
class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(Inflater&&) noexcept;

  struct Step {
    size_t consumed = 0, produced = 0;  // bytes
    bool ended = false;                 // the stream is complete
    bool damaged = false;               // it is no deflate stream
    size_t unread = 0;  // of the bytes consumed so far: not part of the stream that has ended, at most 8
  };
  /// Consumes input and produces output until one of them is used up or the stream ends.
  Step inflate(std::span<const std::byte> in, std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// CRC-32 as zip archives have it, of what follows bytes whose CRC-32 is `crc`; 0 to begin with.
uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t crc);

}  // namespace foretime::data
