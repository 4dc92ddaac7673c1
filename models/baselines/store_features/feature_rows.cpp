#include "models/baselines/store_features/feature_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

namespace foretime::models {
namespace {

constexpr size_t kFeatureBuffers = 5, kBufferFeatures = 18;

/// log2(1 + x), and the same below 0 with the other sign.
float shifted_log(float x) { return x < 0 ? -std::log2(-x + 1) : std::log2(x + 1); }

void append_kind(std::vector<float>& row, const Annotated& loops) {
  constexpr int kPlaces = 8;  // TVM uses the first (none) and the last (mixed) of eight places
  row.push_back(shifted_log(loops.number));
  row.push_back(shifted_log(loops.product));
  row.push_back(shifted_log(loops.length));
  for (int place = 0; place < kPlaces; ++place) row.push_back(place == (loops.number > 0.0F ? kPlaces - 1 : 0));
}

void append_block(std::vector<float>& row, const BlockFeatures& block) {
  row.push_back(block.read && !block.written);
  row.push_back(block.written && !block.read);
  row.push_back(block.read && block.written);
  const std::array sizes = {block.bytes, block.unique_bytes, block.lines, block.unique_lines};
  for (const float size : sizes) row.push_back(shifted_log(size));
  for (int kind = 0; kind < 3; ++kind) row.push_back(kind == block.reuse);
  row.push_back(shifted_log(block.distance_iterations));
  row.push_back(shifted_log(block.distance_bytes));
  row.push_back(shifted_log(block.reuse_count));
  for (const float size : sizes)
    row.push_back(shifted_log(block.reuse_count > 0.5F ? size / block.reuse_count : size * 2));
  row.push_back(shifted_log(block.stride));
}

}  // namespace

void append_store_features(BufferFeatures& buffer, std::vector<float>& row) {
  for (const float count : buffer.operations) row.push_back(shifted_log(count));
  append_kind(row, buffer.vectorized);
  append_kind(row, buffer.unrolled);
  append_kind(row, buffer.parallel);
  row.push_back(buffer.gpu);
  for (const float length : buffer.threads) row.push_back(shifted_log(length));
  std::ranges::stable_sort(buffer.blocks, [](const BlockFeatures& a, const BlockFeatures& b) {
    return a.lines != b.lines ? a.lines > b.lines : a.bytes > b.bytes;
  });
  const size_t count = std::min(buffer.blocks.size(), kFeatureBuffers);
  for (size_t i = 0; i < count; ++i) append_block(row, buffer.blocks[i]);
  row.resize(row.size() + (kFeatureBuffers - count) * kBufferFeatures, 0.0F);
  for (const float point : buffer.curve) row.push_back(shifted_log(point));
  for (const float value : {buffer.alloc_size, buffer.alloc_product, buffer.alloc_outer, buffer.alloc_inner,
                            buffer.outer_product, buffer.loops, buffer.unroll_step})
    row.push_back(shifted_log(value));
}

void sort_store_features(std::span<float> rows) {
  constexpr size_t kFirst = 57, kBytes = 3, kLines = 5;
  using Block = std::array<float, kBufferFeatures>;
  std::array<Block, kFeatureBuffers> blocks;
  std::vector<std::array<float, kStoreFeatures>> sorted(rows.size() / kStoreFeatures);
  for (size_t r = 0; r < sorted.size(); ++r) {
    const auto row = rows.subspan(r * kStoreFeatures, kStoreFeatures);
    for (size_t b = 0; b < kFeatureBuffers; ++b)
      std::copy_n(row.begin() + kFirst + b * kBufferFeatures, kBufferFeatures, blocks[b].begin());
    const auto empty = [](const Block& block) {
      return std::ranges::all_of(block, [](float value) { return value == 0.0F; });
    };
    std::ranges::sort(blocks, [&](const Block& a, const Block& b) {
      if (empty(a) != empty(b)) return empty(b);
      if (a[kLines] != b[kLines]) return a[kLines] > b[kLines];
      if (a[kBytes] != b[kBytes]) return a[kBytes] > b[kBytes];
      return a > b;
    });
    std::ranges::copy(row, sorted[r].begin());
    for (size_t b = 0; b < kFeatureBuffers; ++b)
      std::ranges::copy(blocks[b], sorted[r].begin() + kFirst + b * kBufferFeatures);
  }
  std::ranges::sort(sorted, std::greater<>());
  for (size_t r = 0; r < sorted.size(); ++r) std::ranges::copy(sorted[r], rows.begin() + r * kStoreFeatures);
}

}  // namespace foretime::models
