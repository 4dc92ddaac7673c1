#include "data/files/inflate.h"

#include <algorithm>
#include <limits>

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

namespace foretime::data {

struct Inflater::State {
  inflate_state stream;  // large, and initialised by isal_inflate_init
};

Inflater::Inflater(Format format) : state_(std::make_unique_for_overwrite<State>()) {
  isal_inflate_init(&state_->stream);
  state_->stream.crc_flag = format == Format::gzip ? ISAL_GZIP : ISAL_DEFLATE;
}
Inflater::~Inflater() = default;
Inflater::Inflater(Inflater&&) noexcept = default;

Inflater::Step Inflater::inflate(std::span<const std::byte> in, std::span<std::byte> out) {
  constexpr size_t kMost = std::numeric_limits<uint32_t>::max() / 2;
  inflate_state& stream = state_->stream;
  const uint32_t given = std::min(in.size(), kMost), room = std::min(out.size(), kMost);
  // ISA-L reads only, though its pointer says otherwise.
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(in.data()));
  stream.avail_in = given;
  stream.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream.avail_out = room;
  const int result = isal_inflate(&stream);
  const bool ended = stream.block_state == ISAL_BLOCK_FINISH;
  // Where it meets damage it may count more than it was given (2.30: a distance to before the first byte).
  return {stream.avail_in <= given ? given - stream.avail_in : given, room - stream.avail_out, ended, result < 0};
}

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t crc) {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace foretime::data
