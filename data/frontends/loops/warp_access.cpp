#include "data/frontends/loops/warp_access.h"

#include <algorithm>
#include <array>

#include "data/frontends/loops/loop_program.h"

namespace foretime::data {
namespace {

constexpr int64_t kFarthestStride = int64_t{1} << 40;  // strides, elements: farther ones share no sector either

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// Positions of a warp's elements: all of them fit.
struct Positions {
  std::array<int64_t, kMostLanes* static_cast<size_t>(kMostVector)> values;
  size_t count = 0;

  void add(int64_t value) { values[count++] = value; }
  auto begin() { return values.begin(); }
  auto end() { return values.begin() + count; }
  void sort_and_merge() {
    if (!std::is_sorted(begin(), end())) std::sort(begin(), end());
    count = std::unique(begin(), end()) - begin();
  }
};

/// Pieces of `unit` bytes that elements at sorted positions touch.
double pieces(std::span<const int64_t> sorted, int64_t element_bytes, int64_t unit) {
  int64_t count = 0, last = 0;
  for (const int64_t position : sorted) {
    const int64_t first_byte = position * element_bytes;
    int64_t first = floor_divide(first_byte, unit);
    const int64_t final = floor_divide(first_byte + element_bytes - 1, unit);
    if (count > 0) first = std::max(first, last + 1);
    if (final < first) continue;
    count += final - first + 1;
    last = final;
  }
  return count;
}

/// Cycles of one request: the most different words in one bank.
int64_t cycles(std::span<const int64_t> sorted_words) {
  std::array<int64_t, kBanks> in_bank{};
  int64_t most = 1;
  for (const int64_t word : sorted_words) {
    auto& count = in_bank[word - floor_divide(word, kBanks) * kBanks];
    most = std::max(most, ++count);
  }
  return most;
}

}  // namespace

WarpAccess warp_access(std::span<const int64_t> lanes, int64_t vector, int64_t stride, int64_t element_bytes) {
  lanes = lanes.first(std::min(lanes.size(), kMostLanes));
  vector = std::clamp<int64_t>(vector, 1, kMostVector);
  stride = std::clamp(stride, -kFarthestStride, kFarthestStride);
  Positions all;
  for (const int64_t lane : lanes)
    for (int64_t v = 0; v < vector; ++v) all.add(lane + v * stride);
  WarpAccess result;
  result.bytes = static_cast<double>(all.count) * element_bytes;
  all.sort_and_merge();
  const std::span<const int64_t> merged(all.values.data(), all.count);
  result.elements = all.count;
  result.sectors = pieces(merged, element_bytes, kSectorBytes);
  result.lines = pieces(merged, element_bytes, kGpuLineBytes);

  // A thread's neighbouring elements are one access where they make 8 or 16 bytes; otherwise each is its own.
  const bool wide = stride == 1 && vector * element_bytes <= 16;
  const int64_t at_once = wide ? vector : 1;
  const int64_t thread_words = std::max<int64_t>(1, at_once * element_bytes / kBankBytes);
  const size_t group = std::max<int64_t>(1, kBanks / thread_words);
  int64_t requests = 0, sum = 0;
  Positions words;
  for (int64_t v = 0; v < vector; v += at_once) {
    for (size_t first = 0; first < lanes.size(); first += group) {
      words.count = 0;
      for (size_t lane = first; lane < std::min(lanes.size(), first + group); ++lane) {
        const int64_t byte = (lanes[lane] + v * stride) * element_bytes;
        for (int64_t word = 0; word < thread_words && words.count < words.values.size(); ++word)
          words.add(floor_divide(byte, kBankBytes) + word);
      }
      words.sort_and_merge();
      sum += cycles({words.values.data(), words.count});
      ++requests;
    }
  }
  result.cycles = sum;
  result.ways = result.cycles / requests;
  return result;
}

}  // namespace foretime::data
