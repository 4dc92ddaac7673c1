#include "models/baselines/store_features/store_features.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "data/frontends/ansor/replay/nest_statements.h"
#include "models/baselines/store_features/feature_rows.h"
#include "models/baselines/store_features/store_value.h"

namespace foretime::models {
namespace {

constexpr int64_t kDefaultCacheLine = 64;
constexpr size_t kMostLoops = 1024;  // around a store; the public records have up to 15

int64_t bytes_of(const std::string& type) {
  const size_t digits = type.find_first_of("0123456789");
  if (digits == std::string::npos) return type == "bool" ? 1 : 4;
  int64_t bits = 0;
  for (size_t i = digits; i < type.size() && type[i] >= '0' && type[i] <= '9' && bits < 1024; ++i)
    bits = 10 * bits + (type[i] - '0');
  return std::max<int64_t>((bits + 7) / 8, 1);
}

/// Returns the index in BufferFeatures::threads that a loop sets.
int thread_place(data::Annotation annotation) {
  using enum data::Annotation;
  static constexpr data::Annotation kPlaces[] = {block_x, block_y, block_z, thread_x, thread_y, thread_z, vthread};
  const auto* found = std::ranges::find(kPlaces, annotation);
  return found == std::end(kPlaces) ? -1 : found - kPlaces;
}

}  // namespace

/// Computes the features of stores and keeps the memory of StoreFeatures.
struct StoreFeatures::Work {
  Work() : values(forms) {}

  /// Describes the elements of a buffer that one statement touches in one run of a loop.
  struct Touch {
    int32_t memory;
    int64_t elements, element_bytes;
  };

  void extract(data::LoopNest& scheduled, int64_t line) {
    nest = &scheduled;
    cache_line = line > 0 ? line : kDefaultCacheLine;
    forms.clear();
    forms.set_pool(scheduled.pool);
    data::nest_statements(scheduled, statements);
    used = 0;
    gpu = false;
    const data::ComputeDag& dag = *scheduled.dag;
    place_of_memory.assign(dag.memories(), -1);
    type_bytes.assign(dag.memories(), 0);
    for (size_t stage = 0; stage < dag.stages.size(); ++stage) {
      const auto& types = dag.stages[stage].types;
      for (size_t k = 0; k < types.size(); ++k) type_bytes[dag.memory(stage, k)] = bytes_of(types[k]);
    }
    largest.assign(2 * scheduled.variables.size(), 0);
    if (touches.size() < statements.nodes.size()) touches.resize(statements.nodes.size());
    for (size_t i = 0; i < statements.nodes.size(); ++i) touches[i].clear();
    for (const data::NestNode& node : statements.nodes)
      if (node.kind == data::NestNode::Kind::store) store(node);
    for (const data::NestNode& node : statements.nodes)
      if (node.kind == data::NestNode::Kind::allocation) allocation(node);
  }
  /// The loops around a store, outermost first, and the innermost pragma.
  void enter(const data::NestNode& node) {
    loops.clear();
    bool pragma = false;
    unroll_step = 0;
    for (int32_t at = node.parent; at >= 0; at = statements.nodes[at].parent) {
      const data::NestNode& around = statements.nodes[at];
      if (around.kind == data::NestNode::Kind::loop) loops.push_back(at);
      if (around.kind == data::NestNode::Kind::pragma && !pragma) {
        unroll_step = around.count;
        pragma = true;
      }
    }
    if (loops.size() > kMostLoops)
      throw DataError("a store in {} loops, expected at most {}", loops.size(), kMostLoops);
    std::ranges::reverse(loops);
    outer_product = product_of(loops.size());
    constant_lengths = std::ranges::all_of(loops, [&](int32_t at) { return statements.nodes[at].extent.constant(); });
  }
  void store(const data::NestNode& node) {
    enter(node);
    values.find(*nest, statements, node, value);
    BufferFeatures& buffer = buffer_of(memory_of(node));
    computation(buffer);
    regions();
    blocks(buffer);
    curve(buffer);
    buffer.outer_product = outer_product;
    buffer.loops = loops.size();
    buffer.unroll_step = unroll_step;
  }
  void computation(BufferFeatures& buffer) {
    const auto& [add, multiply, divide, compare, math, other, integer_math, integer_other, integer] = value.operations;
    const auto& [sums, products, quotients, compares, logic, selects] = integer;
    const std::array<int64_t, 16> all = {0,     add,    multiply, divide,    compare,  math,         other,
                                         0,     sums,   products, quotients, compares, integer_math, integer_other,
                                         logic, selects};
    for (size_t i = 0; i < all.size(); ++i) buffer.operations[i] += outer_product * all[i];
    buffer.vectorized.number = buffer.unrolled.number = buffer.parallel.number = 0.0F;
    buffer.vectorized.length = buffer.unrolled.length = buffer.parallel.length = 0.0F;
    buffer.threads.fill(1.0F);
    for (size_t i = 0; i < loops.size(); ++i) {
      const data::NestNode& around = loop(i);
      const float length = around.count;
      const auto add = [&](Annotated& kind) {
        kind.product = kind.number == 0.0F ? length : kind.product * length;
        kind.number += 1.0F;
        kind.length = length;
      };
      if (around.annotation == data::Annotation::vectorize) add(buffer.vectorized);
      if (around.annotation == data::Annotation::unroll) add(buffer.unrolled);
      if (around.annotation == data::Annotation::parallel) add(buffer.parallel);
      const int place = thread_place(around.annotation);
      if (place < 0) continue;
      gpu = true;
      float& threads = buffer.threads[place];
      threads = place == 6 ? threads * length : length;
    }
    buffer.gpu = gpu;
  }
  /// Sets the loops' iterations for one run of loop i; the loops around it are at 0. Returns the loop's iterations.
  int64_t run_inside(size_t i) {
    const auto set = [&](size_t at, int64_t count) {
      largest[loop(at).variable] = std::max<int64_t>(count, 1) - 1;
      return count;
    };
    const int64_t iterations = set(i, loop(i).count);
    if (constant_lengths) return iterations;
    int64_t first = iterations;
    for (size_t at = i; at < loops.size(); ++at) {
      if (loop(at).extent.constant()) continue;
      const int64_t most = forms.bounds(forms.write(loop(at).extent), largest).high;
      const int64_t count = set(at, most >= data::kUnbounded ? 1 : most);
      if (at == i) first = count;
    }
    return first;
  }
  /// The bytes and elements that the store touches in one run of each loop, from the innermost outwards.
  void regions() {
    memory.clear();
    operations.clear();
    double done = value.operations.float_total();
    for (size_t i = 0; i < loops.size(); ++i) largest[loop(i).variable] = 0;
    for (size_t i = loops.size(); i-- > 0;) {
      const int64_t iterations = run_inside(i);
      int64_t bytes = 0;
      // The written buffer comes last, as in TVM's hash table: its region over all loops is what stays.
      for (size_t b = value.buffers.size(); b-- > 0;) {
        const BufferAccess& access = value.buffers[b];
        int64_t elements = 1;
        region.resize(access.rank);
        for (uint32_t d = 0; d < access.rank; ++d) {
          data::AffineBounds all{data::kUnbounded, -data::kUnbounded};
          for (uint32_t k = 0; k < access.count; ++k) {
            const data::AffineBounds one = forms.bounds(value.forms[access.first + k * access.rank + d], largest);
            all = {std::min(all.low, one.low), std::max(all.high, one.high)};
          }
          // TVM keeps lengths in 32 bits.
          region[d] = static_cast<uint64_t>(all.high) - all.low + 1;
          elements = static_cast<uint64_t>(elements) * region[d];
        }
        elements = std::max<int64_t>(elements, 0);
        const int64_t each = element_bytes(access.memory);
        touches[loops[i]].push_back({access.memory, elements, each});
        bytes = bytes + static_cast<uint64_t>(elements) * each;
      }
      memory.push_back(bytes);
      done *= iterations;
      operations.push_back(done);
    }
  }
  void blocks(BufferFeatures& buffer) {
    buffer.blocks.clear();
    for (size_t b = value.buffers.size(); b-- > 0;) {
      const BufferAccess& access = value.buffers[b];
      const auto& shape = shape_of(access);
      const float each = element_bytes(access.memory);
      BlockFeatures block;
      block.read = access.read;
      block.written = access.written;
      block.bytes = outer_product * each;
      if (loops.empty()) {
        block.unique_bytes = each;
        block.lines = block.unique_lines = 1.0F;
      } else {
        const auto& outermost = touches[loops.front()];
        const auto first =
            std::ranges::find_if(outermost, [&](const Touch& touch) { return touch.memory == access.memory; });
        block.unique_bytes = first->elements * each;
        int64_t step = 0, ratio = 1;
        size_t depth = loops.size();
        while (depth > 0) {
          step = stride(access, loop(depth - 1).variable);
          if (step != 0) break;
          // As TVM has it: the innermost length, for each loop that is passed.
          ratio = static_cast<uint64_t>(ratio) * loop(loops.size() - 1).count;
          --depth;
        }
        block.lines = outer_product / ratio * std::min(1.0F, step * each / cache_line);
        block.lines = std::max(block.lines, 1.0F);
        block.stride = depth == loops.size() ? step : 0.0F;
        // TVM compares every buffer's shape with the region that the loop over buffers ended with: the written one's.
        float run = each;
        for (size_t d = std::min(region.size(), shape.size()); d-- > 0;) {
          if (region[d] != shape[d]) continue;
          run *= region[d];
          break;
        }
        block.unique_lines = std::max(block.unique_bytes / std::min<float>(run, cache_line), 1.0F);
      }
      reuse(access, block);
      buffer.blocks.push_back(block);
    }
  }
  /// Finds how soon a buffer is touched again: by a loop on which the access does not depend, or by another statement.
  void reuse(const BufferAccess& access, BlockFeatures& block) {
    float iterations = 1.0F;
    double bytes = -1.0;
    for (size_t i = loops.size(); i-- > 0;) {
      const data::NestNode& around = loop(i);
      const auto& touched = touches[loops[i]];
      const auto all_bytes = [&](bool whole) {
        double total = 0.0;
        for (const Touch& touch : touched)
          total += static_cast<double>(whole ? touch.elements : 1) * touch.element_bytes;
        return total;
      };
      if (!mentions(access, around.variable)) {
        if (bytes < 0.0) bytes = all_bytes(false);
        block.reuse = 0;
        block.distance_iterations = iterations;
        block.distance_bytes = bytes;
        block.reuse_count = around.count;
        return;
      }
      iterations *= around.count;
      bytes = all_bytes(true);
      int64_t times = 0;
      float least = std::numeric_limits<float>::max();
      for (const Touch& touch : touched) {
        if (touch.memory != access.memory) continue;
        ++times;
        least = std::min<float>(least, touch.elements);
      }
      if (times < 2) continue;
      block.reuse = 1;
      block.distance_iterations = least / around.count;
      block.distance_bytes = static_cast<float>(bytes) / around.count;
      block.reuse_count = times - 1;
      return;
    }
  }
  /// Operations per byte over operations, at ten places, between the values of the loops.
  void curve(BufferFeatures& buffer) {
    buffer.curve.fill(0.0F);
    if (operations.empty() || value.operations.float_total() == 0) return;
    const auto intensity = [&](size_t i) { return operations[i] / memory[i]; };
    size_t at = 0;
    for (size_t point = 0; point < kCurvePoints; ++point) {
      const float wanted = operations.back() * (point + 1) / kCurvePoints;
      while (at + 1 < operations.size() && operations[at] < wanted - 1e-4) ++at;
      if (at == 0) {
        buffer.curve[point] = intensity(0);
        continue;
      }
      const float base = intensity(at - 1);
      const float slope = (intensity(at) - base) / (operations[at] - operations[at - 1]);
      buffer.curve[point] = base + slope * (wanted - operations[at - 1]);
    }
  }
  void allocation(const data::NestNode& node) {
    enter(node);
    BufferFeatures& buffer = buffer_of(memory_of(node));
    const float elements = node.count;
    buffer.alloc_size = elements * element_bytes(memory_of(node));
    buffer.alloc_product = elements * outer_product;
    buffer.alloc_outer = outer_product;
    buffer.alloc_inner = buffer.outer_product / outer_product;
  }
  int32_t memory_of(const data::NestNode& node) const { return nest->dag->memory(node.stage, node.output); }
  const std::vector<int64_t>& shape_of(const BufferAccess& access) const {
    return nest->dag->stages[nest->dag->stage_of(access.memory)].shape;
  }
  BufferFeatures& buffer_of(int32_t memory) {
    int32_t& place = place_of_memory[memory];
    if (place < 0) {
      place = used++;
      if (buffers.size() < used) buffers.emplace_back();
      BufferFeatures& fresh = buffers[place];
      std::vector<BlockFeatures> blocks = std::move(fresh.blocks);
      blocks.clear();
      fresh = {};
      fresh.blocks = std::move(blocks);
    }
    return buffers[place];
  }
  int64_t stride(const BufferAccess& access, int32_t variable) const {
    if (access.rank == 0) return 1;
    const auto& shape = shape_of(access);
    int64_t least = std::numeric_limits<int64_t>::max();
    bool any = false;
    for (uint32_t k = 0; k < access.count; ++k) {
      int64_t elements = 1;
      for (uint32_t d = access.rank; d-- > 0;) {
        bool found = false;
        const int64_t coefficient = forms.coefficient(value.forms[access.first + k * access.rank + d], variable, found);
        if (found) {
          any = true;
          least = std::min<int64_t>(least, static_cast<uint64_t>(std::abs(coefficient)) * elements);
          break;
        }
        elements = static_cast<uint64_t>(elements) * shape[d];
      }
    }
    return any ? least : 0;
  }
  bool mentions(const BufferAccess& access, int32_t variable) const {
    for (uint32_t i = 0; i < access.count * access.rank; ++i)
      if (forms.mentions(value.forms[access.first + i], variable)) return true;
    return false;
  }
  float product_of(size_t count) const {
    float product = 1.0F;
    for (size_t i = 0; i < count; ++i) product *= loop(i).count;
    return product;
  }
  const data::NestNode& loop(size_t i) const { return statements.nodes[loops[i]]; }
  int64_t element_bytes(int32_t memory) const { return type_bytes[memory]; }

  data::AffinePool no_pool;
  PostfixExpressions forms{no_pool};
  StoreValues values;
  data::NestStatements statements;
  StoreValue value;
  data::LoopNest* nest = nullptr;
  int64_t cache_line = 64;  // bytes

  std::vector<BufferFeatures> buffers;  // order of their first store
  size_t used = 0;
  std::vector<int32_t> place_of_memory;     // [memories] index in buffers, or -1
  std::vector<int64_t> type_bytes;          // [memories]
  std::vector<std::vector<Touch>> touches;  // [nodes] of loops
  bool gpu = false;

  // Of the store looked at:
  std::vector<int32_t> loops;  // nodes around it, outermost first
  bool constant_lengths = true;
  float outer_product = 1.0F;
  int64_t unroll_step = 0;
  std::vector<int64_t> largest;           // [variables] values of the loop variables go up to this
  std::vector<int64_t> region;            // [dimensions] size of the written region over all loops
  std::vector<float> memory, operations;  // bytes touched and operations done in each loop, innermost first
  std::vector<float> row;
};

StoreFeatures::StoreFeatures() : work_(std::make_unique<Work>()) {}
StoreFeatures::~StoreFeatures() = default;

int64_t StoreFeatures::extract(data::LoopNest& nest, int64_t cache_line_bytes, std::vector<float>& rows) {
  work_->extract(nest, cache_line_bytes);
  for (size_t i = work_->used; i-- > 0;) append_store_features(work_->buffers[i], rows);
  return work_->used;
}

}  // namespace foretime::models
