#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "data/frontends/ansor/features/store_feature_work.h"
#include "data/frontends/ansor/features/store_features.h"

namespace foretime::data {
namespace {

/// log2(1 + x), and the same below 0 with the other sign.
float shifted_log(float x) { return x < 0 ? -std::log2(-x + 1) : std::log2(x + 1); }

void append_kind(std::vector<float>& row, const Annotated& loops) {
  constexpr int kPlaces = 8;  // of eight places TVM uses the first (none) and the last (mixed)
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
  std::stable_sort(buffer.blocks.begin(), buffer.blocks.end(), [](const BlockFeatures& a, const BlockFeatures& b) {
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

const std::vector<StoreFeatureGroup>& store_feature_groups() {
  static const std::vector<StoreFeatureGroup> groups = {{"computation", 0, 16},
                                                        {"annotations", 16, 41},
                                                        {"buffers", 57, kFeatureBuffers * kBufferFeatures},
                                                        {"intensity curve", 147, kCurvePoints},
                                                        {"allocation", 157, 4},
                                                        {"outer", 161, 3}};
  return groups;
}

const std::vector<std::string>& store_feature_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made = {"float_mad",    "float_addsub",   "float_mul",       "float_divmod",
                                     "float_cmp",    "float_mathfunc", "float_otherfunc", "int_mad",
                                     "int_addsub",   "int_mul",        "int_divmod",      "int_cmp",
                                     "int_mathfunc", "int_otherfunc",  "bool_op",         "select_op"};
    for (const char* kind : {"vec", "unroll", "parallel"}) {
      for (const char* name : {"num", "prod", "len"}) made.push_back(fmt::format("{}_{}", kind, name));
      for (const char* place : {"None", "InnerSpatial", "MiddleSpatial", "OuterSpatial", "InnerReduce", "MiddleReduce",
                                "OuterReduce", "Mixed"})
        made.push_back(fmt::format("{}_type.kPos{}", kind, place));
    }
    made.emplace_back("is_gpu");
    for (const char* thread :
         {"blockIdx_x", "blockIdx_y", "blockIdx_z", "threadIdx_x", "threadIdx_y", "threadIdx_z", "vthread"})
      made.push_back(fmt::format("{}_len", thread));
    for (size_t i = 0; i < kFeatureBuffers; ++i) {
      for (const char* name :
           {"acc_type.kRead", "acc_type.kWrite", "acc_type.kReadWrite", "bytes", "unique_bytes", "lines",
            "unique_lines", "reuse_type.kLoopMultipleRead", "reuse_type.kSerialMultipleReadWrite",
            "reuse_type.kNoReuse", "reuse_dis_iter", "reuse_dis_bytes", "reuse_ct", "bytes_d_reuse_ct",
            "unique_bytes_d_reuse_ct", "lines_d_reuse_ct", "unique_lines_d_reuse_ct", "stride"})
        made.push_back(fmt::format("B{}.{}", i, name));
    }
    for (size_t i = 0; i < kCurvePoints; ++i) made.push_back(fmt::format("arith_intensity_curve_{}", i));
    for (const char* name : {"alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod", "outer_prod",
                             "num_loops", "auto_unroll_max_step"})
      made.emplace_back(name);
    return made;
  }();
  return names;
}

void sort_store_features(std::span<float> rows) {
  constexpr size_t kFirst = 57, kBytes = 3, kLines = 5;
  using Block = std::array<float, kBufferFeatures>;
  std::array<Block, kFeatureBuffers> blocks;
  std::vector<std::array<float, kStoreFeatures>> sorted(rows.size() / kStoreFeatures);
  for (size_t r = 0; r < sorted.size(); ++r) {
    const auto row = rows.subspan(r * kStoreFeatures, kStoreFeatures);
    for (size_t b = 0; b < kFeatureBuffers; ++b)
      std::copy_n(row.begin() + static_cast<std::ptrdiff_t>(kFirst + b * kBufferFeatures), kBufferFeatures,
                  blocks[b].begin());
    const auto empty = [](const Block& block) {
      return std::all_of(block.begin(), block.end(), [](float value) { return value == 0.0F; });
    };
    std::sort(blocks.begin(), blocks.end(), [&](const Block& a, const Block& b) {
      if (empty(a) != empty(b)) return empty(b);
      if (a[kLines] != b[kLines]) return a[kLines] > b[kLines];
      if (a[kBytes] != b[kBytes]) return a[kBytes] > b[kBytes];
      return a > b;
    });
    std::copy(row.begin(), row.end(), sorted[r].begin());
    for (size_t b = 0; b < kFeatureBuffers; ++b)
      std::copy(blocks[b].begin(), blocks[b].end(),
                sorted[r].begin() + static_cast<std::ptrdiff_t>(kFirst + b * kBufferFeatures));
  }
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (size_t r = 0; r < sorted.size(); ++r)
    std::copy(sorted[r].begin(), sorted[r].end(), rows.begin() + static_cast<std::ptrdiff_t>(r * kStoreFeatures));
}

}  // namespace foretime::data
