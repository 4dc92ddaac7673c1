#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

/// Random numbers as pure functions of a key (seed, stream, epoch, group, …) instead of generators with a state: any
/// rank can compute any of them, and a resumed run computes the same ones. The mixing function is SplitMix64's
/// finaliser (Steele, Lea and Flood 2014).
namespace foretime {

/// Names the purposes of random numbers; a stream is the word of a key after the seed. Another value changes the
/// results of runs. Keys of streams of equal value differ in the number of further words.
namespace random_stream {
enum Id : uint64_t {
  holdout = 11,         // which candidates of training groups are held out for validation
  train_fraction = 12,  // which other candidates of training groups are used
  evaluation = 13,      // which candidates are evaluated
  cross_fitting = 14,   // which fold a candidate is in
  batch_order = 21,     // the order of batches, and of samples in a batch slot
  candidates = 22,      // the order in which a group's candidates are sampled
  candidate_bias = 23,  // sampling of candidates in proportion to weights
  segments = 24,        // the key that live_segment and kept_segments start from
  dropout = 31,         // LibTorch's generator, at each training step
  tuning_dropout = 32,  // LibTorch's generator, at each fine-tuning step
  live_segment = 41,    // which segment of a graph is trained in a step
  kept_segments = 42,   // which stale segments are left out
  type_walks = 41,      // walks over syntax trees for type embeddings
  random_scores = 41,   // scores of the random baseline; its key has a group's hash and a candidate
  search = 0x747065,    // proposals of the TPE search
  search_order = 51,    // the order in which a random search takes the combinations of a grid
};
}

/// Returns a hash of the word `x`: SplitMix64's finaliser.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Holds one word of a key: any integer, or an enumerator of random_stream.
struct RandomWord {
  template <class Integer>
  requires std::is_integral_v<Integer> || std::is_enum_v<Integer>
  constexpr RandomWord(Integer integer) : value(static_cast<uint64_t>(integer)) {}
  uint64_t value;
};

/// Returns 64 random bits for a key of several words; the order of the words matters.
constexpr uint64_t random_bits(std::initializer_list<RandomWord> key) {
  uint64_t state = 0x6a09e667f3bcc909ULL;
  for (const RandomWord word : key) state = mix(state ^ mix(word.value));
  return state;
}

/// Returns the 64-bit FNV-1a hash of a text, for use as a word of a key.
constexpr uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Returns a uniform number in [0, 1) with 53 random bits.
constexpr double random_unit(std::initializer_list<RandomWord> key) {
  return static_cast<double>(random_bits(key) >> 11) * 0x1p-53;
}

/// Returns a standard Gumbel variate. The largest values of log-weight + Gumbel are a sample without replacement in
/// proportion to the weights.
inline double random_gumbel(std::initializer_list<RandomWord> key) {
  return -std::log(-std::log(random_unit(key) * (1 - 0x1p-52) + 0x1p-54));
}

/// Evaluates a pseudo-random permutation of 0 … n - 1 one element at a time, in O(1) memory: four Feistel rounds on the
/// smallest even number of bits that holds 0 … n - 1, repeated until the result is below n.
class KeyedPermutation {
 public:
  /// `n` is the number of elements, 1 or more; `key` selects the permutation.
  KeyedPermutation(uint64_t n, uint64_t key) : n_(n), key_(key) {
    while ((1ULL << (2 * half_bits_)) < n_) ++half_bits_;
  }

  uint64_t operator()(uint64_t i) const {  // returns element `i`, which is from 0 to n - 1
    do {
      const uint64_t mask = (1ULL << half_bits_) - 1;
      uint64_t left = i >> half_bits_, right = i & mask;
      for (uint64_t round = 0; round < 4; ++round) {
        const uint64_t next = left ^ (random_bits({key_, round, right}) & mask);
        left = right;
        right = next;
      }
      i = (left << half_bits_) | right;
    } while (i >= n_);
    return i;
  }

 private:
  uint64_t n_, key_;
  int half_bits_ = 1;
};

}  // namespace foretime
