/// What a store touches of each buffer, and how soon again: the part of StoreFeatures about memory.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "data/frontends/ansor/features/store_feature_work.h"

namespace foretime::data {

/// Sets what the loops take in one run of loop i: those around it stand at 0. Gives the loop's iterations.
int64_t StoreFeatures::Work::run_inside(size_t i) {
  const auto set = [&](size_t at, int64_t count) {
    largest[static_cast<size_t>(loop(at).variable)] = std::max<int64_t>(count, 1) - 1;
    return count;
  };
  const int64_t iterations = set(i, loop(i).count);
  if (constant_lengths) return iterations;
  int64_t first = iterations;
  for (size_t at = i; at < loops.size(); ++at) {
    if (loop(at).extent.constant()) continue;
    const int64_t most = forms.bounds(forms.write(loop(at).extent), largest).high;
    const int64_t count = set(at, most >= kUnbounded ? 1 : most);
    if (at == i) first = count;
  }
  return first;
}

/// The bytes and elements that the store touches in one run of each loop, from the innermost outwards.
void StoreFeatures::Work::regions() {
  memory.clear();
  operations.clear();
  auto done = static_cast<double>(value.operations.float_total());
  for (size_t i = 0; i < loops.size(); ++i) largest[static_cast<size_t>(loop(i).variable)] = 0;
  for (size_t i = loops.size(); i-- > 0;) {
    const int64_t iterations = run_inside(i);
    int64_t bytes = 0;
    // The written buffer comes last, as in TVM's hash table: its region over all loops is what stays.
    for (size_t b = value.buffers.size(); b-- > 0;) {
      const BufferAccess& access = value.buffers[b];
      int64_t elements = 1;
      region.resize(access.rank);
      for (uint32_t d = 0; d < access.rank; ++d) {
        AffineBounds all{kUnbounded, -kUnbounded};
        for (uint32_t k = 0; k < access.count; ++k) {
          const AffineBounds one = forms.bounds(value.forms[access.first + k * access.rank + d], largest);
          all = {std::min(all.low, one.low), std::max(all.high, one.high)};
        }
        // TVM keeps lengths in 32 bits.
        region[d] = static_cast<int32_t>(static_cast<uint64_t>(all.high) - static_cast<uint64_t>(all.low) + 1);
        elements = static_cast<int64_t>(static_cast<uint64_t>(elements) * static_cast<uint64_t>(region[d]));
      }
      elements = std::max<int64_t>(elements, 0);
      const int64_t each = element_bytes(access.stage);
      touches[static_cast<size_t>(loops[i])].push_back({access.stage, elements, each});
      bytes = static_cast<int64_t>(static_cast<uint64_t>(bytes) +
                                   static_cast<uint64_t>(elements) * static_cast<uint64_t>(each));
    }
    memory.push_back(static_cast<float>(bytes));
    done *= static_cast<double>(iterations);
    operations.push_back(static_cast<float>(done));
  }
}

int64_t StoreFeatures::Work::stride(const BufferAccess& access, int32_t variable) const {
  if (access.rank == 0) return 1;
  const auto& shape = nest->dag->stages[static_cast<size_t>(access.stage)].shape;
  int64_t least = std::numeric_limits<int64_t>::max();
  bool any = false;
  for (uint32_t k = 0; k < access.count; ++k) {
    int64_t elements = 1;
    for (uint32_t d = access.rank; d-- > 0;) {
      bool found = false;
      const int64_t coefficient = forms.coefficient(value.forms[access.first + k * access.rank + d], variable, found);
      if (found) {
        any = true;
        least = std::min(least, static_cast<int64_t>(static_cast<uint64_t>(std::abs(coefficient)) *
                                                     static_cast<uint64_t>(elements)));
        break;
      }
      elements = static_cast<int64_t>(static_cast<uint64_t>(elements) * static_cast<uint64_t>(shape[d]));
    }
  }
  return any ? least : 0;
}

bool StoreFeatures::Work::mentions(const BufferAccess& access, int32_t variable) const {
  for (uint32_t i = 0; i < access.count * access.rank; ++i) {
    if (forms.mentions(value.forms[access.first + i], variable)) return true;
  }
  return false;
}

/// How soon a buffer is touched again: by the innermost loop that it does not depend on, or by another statement in an
/// inner loop.
void StoreFeatures::Work::reuse(const BufferAccess& access, BlockFeatures& block) {
  float iterations = 1.0F;
  double bytes = -1.0;
  for (size_t i = loops.size(); i-- > 0;) {
    const NestNode& around = loop(i);
    const auto& touched = touches[static_cast<size_t>(loops[i])];
    const auto all_bytes = [&](bool whole) {
      double total = 0.0;
      for (const Touch& touch : touched)
        total += static_cast<double>(whole ? touch.elements : 1) * static_cast<double>(touch.element_bytes);
      return total;
    };
    if (!mentions(access, around.variable)) {
      if (bytes < 0.0) bytes = all_bytes(false);
      block.reuse = 0;
      block.distance_iterations = iterations;
      block.distance_bytes = static_cast<float>(bytes);
      block.reuse_count = static_cast<float>(around.count);
      return;
    }
    iterations *= static_cast<float>(around.count);
    bytes = all_bytes(true);
    int64_t times = 0;
    float least = std::numeric_limits<float>::max();
    for (const Touch& touch : touched) {
      if (touch.stage != access.stage) continue;
      ++times;
      least = std::min(least, static_cast<float>(touch.elements));
    }
    if (times < 2) continue;
    block.reuse = 1;
    block.distance_iterations = least / static_cast<float>(around.count);
    block.distance_bytes = static_cast<float>(bytes) / static_cast<float>(around.count);
    block.reuse_count = static_cast<float>(times - 1);
    return;
  }
}

void StoreFeatures::Work::blocks(BufferFeatures& buffer) {
  buffer.blocks.clear();
  for (size_t b = value.buffers.size(); b-- > 0;) {
    const BufferAccess& access = value.buffers[b];
    const auto& shape = nest->dag->stages[static_cast<size_t>(access.stage)].shape;
    const auto each = static_cast<float>(element_bytes(access.stage));
    BlockFeatures block;
    block.read = access.read;
    block.written = access.written;
    block.bytes = outer_product * each;
    if (loops.empty()) {
      block.unique_bytes = each;
      block.lines = block.unique_lines = 1.0F;
    } else {
      const auto& outermost = touches[static_cast<size_t>(loops.front())];
      const auto first = std::find_if(outermost.begin(), outermost.end(),
                                      [&](const Touch& touch) { return touch.stage == access.stage; });
      block.unique_bytes = static_cast<float>(first->elements) * each;
      int64_t step = 0, ratio = 1;
      size_t depth = loops.size();
      while (depth > 0) {
        step = stride(access, loop(depth - 1).variable);
        if (step != 0) break;
        // As TVM has it: the innermost length, for each loop that is passed.
        ratio =
            static_cast<int64_t>(static_cast<uint64_t>(ratio) * static_cast<uint64_t>(loop(loops.size() - 1).count));
        --depth;
      }
      block.lines = outer_product / static_cast<float>(ratio) *
                    std::min(1.0F, static_cast<float>(step) * each / static_cast<float>(cache_line));
      block.lines = std::max(block.lines, 1.0F);
      block.stride = depth == loops.size() ? static_cast<float>(step) : 0.0F;
      // TVM compares every buffer's shape with the region that the loop over buffers ended with: the written one's.
      float run = each;
      for (size_t d = std::min(region.size(), shape.size()); d-- > 0;) {
        if (region[d] != shape[d]) continue;
        run *= static_cast<float>(region[d]);
        break;
      }
      block.unique_lines = std::max(block.unique_bytes / std::min(run, static_cast<float>(cache_line)), 1.0F);
    }
    reuse(access, block);
    buffer.blocks.push_back(block);
  }
}

}  // namespace foretime::data
