#include "data/frontends/ansor/features/store_features.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/ansor/features/store_feature_work.h"

namespace foretime::data {
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

/// Which of BufferFeatures::threads a loop sets.
int thread_place(Annotation annotation) {
  switch (annotation) {
    case Annotation::block_x:
      return 0;
    case Annotation::block_y:
      return 1;
    case Annotation::block_z:
      return 2;
    case Annotation::thread_x:
      return 3;
    case Annotation::thread_y:
      return 4;
    case Annotation::thread_z:
      return 5;
    default:
      return annotation == Annotation::vthread ? 6 : -1;
  }
}

}  // namespace

BufferFeatures& StoreFeatures::Work::buffer_of(int32_t stage) {
  int32_t& place = place_of_stage[static_cast<size_t>(stage)];
  if (place < 0) {
    place = static_cast<int32_t>(used++);
    if (buffers.size() < used) buffers.emplace_back();
    BufferFeatures& fresh = buffers[static_cast<size_t>(place)];
    std::vector<BlockFeatures> blocks = std::move(fresh.blocks);
    blocks.clear();
    fresh = {};
    fresh.stage = stage;
    fresh.blocks = std::move(blocks);
  }
  return buffers[static_cast<size_t>(place)];
}

float StoreFeatures::Work::product_of(size_t count) const {
  float product = 1.0F;
  for (size_t i = 0; i < count; ++i) product *= static_cast<float>(loop(i).count);
  return product;
}

/// The loops around a store, outermost first, and the innermost pragma.
void StoreFeatures::Work::enter(const NestNode& node) {
  loops.clear();
  bool pragma = false;
  unroll_step = 0;
  for (int32_t at = node.parent; at >= 0; at = statements.nodes[static_cast<size_t>(at)].parent) {
    const NestNode& around = statements.nodes[static_cast<size_t>(at)];
    if (around.kind == NestNode::Kind::loop) loops.push_back(at);
    if (around.kind == NestNode::Kind::pragma && !pragma) {
      unroll_step = static_cast<int16_t>(around.count);
      pragma = true;
    }
  }
  if (loops.size() > kMostLoops)
    throw DataError(fmt::format("a store in {} loops, expected at most {}", loops.size(), kMostLoops));
  std::reverse(loops.begin(), loops.end());
  outer_product = product_of(loops.size());
  constant_lengths = std::all_of(loops.begin(), loops.end(), [&](int32_t at) {
    return statements.nodes[static_cast<size_t>(at)].extent.constant();
  });
}

void StoreFeatures::Work::computation(BufferFeatures& buffer) {
  const StoreOperations& counts = value.operations;
  const std::array<int64_t, 16> all = {0,
                                       counts.float_add_subtract,
                                       counts.float_multiply,
                                       counts.float_divide_modulo,
                                       counts.float_compare,
                                       counts.float_math,
                                       counts.float_other,
                                       0,
                                       counts.integer.add_subtract,
                                       counts.integer.multiply,
                                       counts.integer.divide_modulo,
                                       counts.integer.compare,
                                       counts.integer_math,
                                       counts.integer_other,
                                       counts.integer.logic,
                                       counts.integer.select};
  for (size_t i = 0; i < all.size(); ++i) buffer.operations[i] += outer_product * static_cast<float>(all[i]);
  buffer.vectorized.number = buffer.unrolled.number = buffer.parallel.number = 0.0F;
  buffer.vectorized.length = buffer.unrolled.length = buffer.parallel.length = 0.0F;
  buffer.threads.fill(1.0F);
  for (size_t i = 0; i < loops.size(); ++i) {
    const NestNode& around = loop(i);
    const auto length = static_cast<float>(around.count);
    const auto add = [&](Annotated& kind) {
      kind.product = kind.number == 0.0F ? length : kind.product * length;
      kind.number += 1.0F;
      kind.length = length;
    };
    if (around.annotation == Annotation::vectorize) add(buffer.vectorized);
    if (around.annotation == Annotation::unroll) add(buffer.unrolled);
    if (around.annotation == Annotation::parallel) add(buffer.parallel);
    const int place = thread_place(around.annotation);
    if (place < 0) continue;
    gpu = true;
    float& threads = buffer.threads[static_cast<size_t>(place)];
    threads = place == 6 ? threads * length : length;
  }
  buffer.gpu = gpu;
}

/// Operations per byte over operations, at ten places, between the values of the loops.
void StoreFeatures::Work::curve(BufferFeatures& buffer) {
  buffer.curve.fill(0.0F);
  if (operations.empty() || value.operations.float_total() == 0) return;
  const auto intensity = [&](size_t i) { return operations[i] / memory[i]; };
  size_t at = 0;
  for (size_t point = 0; point < kCurvePoints; ++point) {
    const float wanted = operations.back() * static_cast<float>(point + 1) / static_cast<float>(kCurvePoints);
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

void StoreFeatures::Work::store(const NestNode& node) {
  enter(node);
  values.find(*nest, statements, node, value);
  BufferFeatures& buffer = buffer_of(node.stage);
  computation(buffer);
  regions();
  blocks(buffer);
  curve(buffer);
  buffer.outer_product = outer_product;
  buffer.loops = static_cast<float>(loops.size());
  buffer.unroll_step = static_cast<float>(unroll_step);
}

void StoreFeatures::Work::allocation(const NestNode& node) {
  enter(node);
  BufferFeatures& buffer = buffer_of(node.stage);
  const auto elements = static_cast<float>(node.count);
  buffer.alloc_size = elements * static_cast<float>(element_bytes(node.stage));
  buffer.alloc_product = elements * outer_product;
  buffer.alloc_outer = outer_product;
  buffer.alloc_inner = buffer.outer_product / outer_product;
}

void StoreFeatures::Work::extract(LoopNest& scheduled, int64_t line) {
  nest = &scheduled;
  cache_line = line > 0 ? line : kDefaultCacheLine;
  forms.clear();
  forms.set_pool(scheduled.pool);
  nest_statements(scheduled, statements);
  used = 0;
  gpu = false;
  place_of_stage.assign(scheduled.stages.size(), -1);
  type_bytes.clear();
  for (const DagStage& stage : scheduled.dag->stages) type_bytes.push_back(bytes_of(stage.type));
  largest.assign(2 * scheduled.variables.size(), 0);
  if (touches.size() < statements.nodes.size()) touches.resize(statements.nodes.size());
  for (size_t i = 0; i < statements.nodes.size(); ++i) touches[i].clear();
  for (const NestNode& node : statements.nodes) {
    if (node.kind == NestNode::Kind::store) store(node);
  }
  for (const NestNode& node : statements.nodes) {
    if (node.kind == NestNode::Kind::allocation) allocation(node);
  }
}

StoreFeatures::StoreFeatures() : work_(std::make_unique<Work>()) {}
StoreFeatures::~StoreFeatures() = default;

int64_t StoreFeatures::extract(LoopNest& nest, int64_t cache_line_bytes, std::vector<float>& rows) {
  work_->extract(nest, cache_line_bytes);
  for (size_t i = work_->used; i-- > 0;) append_store_features(work_->buffers[i], rows);
  return static_cast<int64_t>(work_->used);
}

}  // namespace foretime::data
