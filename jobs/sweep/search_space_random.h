#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

/// Random numbers as pure functions of what they are for (seed, trial, setting, …): there is no generator whose state
/// agents would have to share. The mixing function is SplitMix64's finaliser (Steele, Lea and Flood 2014), as in
/// coordinator/counter_random.h, which this folder does not include.
namespace foretime::jobs {

constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A name as a word of a key: FNV-1a.
constexpr uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Uniform in [0, 1), 53 bits; the order of the words matters.
constexpr double random_unit(std::initializer_list<uint64_t> key) {
  uint64_t state = 0x6a09e667f3bcc909ULL;
  for (const uint64_t word : key) state = mix(state ^ mix(word));
  return static_cast<double>(state >> 11) * 0x1p-53;
}

}  // namespace foretime::jobs
