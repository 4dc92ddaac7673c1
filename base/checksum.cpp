#include "base/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace foretime {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87U;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9U;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63U;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5U;

template <class T>
uint64_t read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

uint64_t mix(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

void mix_block(std::array<uint64_t, 4>& lanes, const std::byte* at) {
  lanes[0] = mix(lanes[0], read<uint64_t>(at));  // written out: a loop over the lanes keeps them in memory at -O2
  lanes[1] = mix(lanes[1], read<uint64_t>(at + 8));
  lanes[2] = mix(lanes[2], read<uint64_t>(at + 16));
  lanes[3] = mix(lanes[3], read<uint64_t>(at + 24));
}

uint64_t merged(const std::array<uint64_t, 4>& lanes) {
  uint64_t hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  for (const uint64_t lane : lanes) hash = (hash ^ mix(0, lane)) * kPrime1 + kPrime4;
  return hash;
}

/// Adds the length and what is left of the last block.
uint64_t finished(uint64_t hash, uint64_t length, std::span<const std::byte> rest) {
  const std::byte* at = rest.data();
  const std::byte* const end = at + rest.size();
  hash += length;
  for (; end - at >= 8; at += 8) hash = std::rotl(hash ^ mix(0, read<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (end - at >= 4) {
    hash = std::rotl(hash ^ (read<uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at != end; ++at) hash = std::rotl(hash ^ (static_cast<uint64_t>(*at) * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed) {
  Checksum whole(seed);
  whole.add(bytes);
  return whole.value();
}

Checksum::Checksum(uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void Checksum::add(std::span<const std::byte> bytes) {
  const size_t held = bytes_ % kBlock;
  bytes_ += bytes.size();
  if (held > 0) {
    const size_t taken = std::min(kBlock - held, bytes.size());
    std::copy_n(bytes.begin(), taken, partial_block_.begin() + held);
    bytes = bytes.subspan(taken);
    if (held + taken < kBlock) return;
    mix_block(lanes_, partial_block_.data());
  }
  auto lanes = lanes_;  // copied, so that the compiler keeps them in registers
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) mix_block(lanes, bytes.data());
  lanes_ = lanes;
  std::ranges::copy(bytes, partial_block_.begin());
}

uint64_t Checksum::value() const {
  const uint64_t hash = bytes_ >= kBlock ? merged(lanes_) : seed_ + kPrime5;
  return finished(hash, bytes_, std::span(partial_block_).first(bytes_ % kBlock));
}

}  // namespace foretime
