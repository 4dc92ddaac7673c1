#include "models/sparse/resident_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "models/device/join_bodies.h"
#include "models/device/launch.h"
#include "models/graph/error.h"
#include "models/sparse/plan_converter.h"

namespace foretime::models {
namespace {

using device::Stretch;
using torch::Tensor;

/// What an array of a joined plan is made of, one after another: an array without its first numbers, or `count` times
/// 0, or 0, 1, 2, …; each number plus `plus`.
struct Part {
  Tensor from = {};
  int64_t first = 0, count = 0;
  int64_t plus = 0;
  bool counts = false;

  static Part of(const Tensor& from, int64_t plus = 0, int64_t first = 0) {
    return {from, first, from.numel() - first, plus};
  }
  static Part numbers(int64_t from, int64_t count) { return {{}, 0, count, from, true}; }
  static Part same(int64_t value, int64_t count) { return {{}, 0, count, value}; }
};

/// What is to be copied where, by words of 4 or of 8 bytes.
template <class Word>
class Stretches {
 public:
  /// `from`: of the part, where it is when it is joined.
  void add(const Part& part, const void* from, const Tensor& out, int64_t at) {
    const auto* first = from != nullptr ? static_cast<const Word*>(from) + part.first : nullptr;
    list_.push_back(
        {first, static_cast<Word*>(out.data_ptr()) + at, words_, static_cast<Word>(part.plus), part.counts});
    words_ += part.count;
  }
  void place(device::Arena& arena) {
    table_ = arena.add_bytes(list_.data(), static_cast<int64_t>(list_.size() * sizeof(Stretch<Word>)));
  }
  void join(torch::Device device) const {
    if (!device::uses_bodies(device)) {
      for (const auto& stretch : list_) copy(stretch, (&stretch == &list_.back() ? words_ : (&stretch)[1].first));
      return;
    }
    const auto* stretches = reinterpret_cast<const Stretch<Word>*>(table_.data_ptr());
    device::for_each(device, device::JoinWords<Word>{stretches, static_cast<int>(list_.size())}, words_);
  }

 private:
  /// As device::JoinWords does, a stretch at a time.
  static void copy(const Stretch<Word>& stretch, int64_t end) {
    const int64_t count = end - stretch.first;
    if (stretch.from != nullptr) {
      for (int64_t i = 0; i < count; ++i) stretch.to[i] = stretch.from[i] + stretch.plus;
    } else {
      for (int64_t i = 0; i < count; ++i) stretch.to[i] = static_cast<Word>(stretch.counts * i) + stretch.plus;
    }
  }

  std::vector<Stretch<Word>> list_;
  int64_t words_ = 0;
  Tensor table_;
};

/// A sum that grows from block to block.
struct Running {
  int64_t sum = 0;
  int64_t next(int64_t count) { return std::exchange(sum, sum + count); }
};

/// The last stage of a pool for the drawn candidates, whose columns are those of all plans side by side.
struct DrawnRows {
  plans::CsrMatrix rows;
  std::vector<double> counts;
};

}  // namespace

/// The arrays of a draw that are put together on the device.
struct ResidentDraw::Joined {
  explicit Joined(const PlanTensorOptions& wanted) : options(wanted) {}

  Tensor array(const std::vector<Part>& parts, torch::Dtype dtype) {
    int64_t count = 0;
    for (const auto& part : parts) count += part.count;
    const auto out = torch::empty({count}, torch::dtype(dtype).device(options.device));
    kept.push_back(out);
    int64_t at = 0;
    for (const auto& part : parts) {
      if (part.count == 0) continue;
      const void* from = part.from.defined() ? address(part.from) : nullptr;
      out.element_size() == 4 ? words4.add(part, from, out, at) : words8.add(part, from, out, at);
      if (part.from.defined()) kept.push_back(part.from);
      at += part.count;
    }
    return out;
  }

  /// Brings up a plan whose home is the host.
  void bring_up(const Tensor& home, int64_t bytes) {
    auto copied = device::copy_to(options.device, home, bytes);
    const auto* begin = static_cast<const char*>(home.data_ptr());
    moved.push_back({begin, begin + bytes, static_cast<const char*>(copied.bytes.data_ptr())});
    kept.push_back(std::move(copied.bytes));
    if (copied.upload) uploads.push_back(std::move(copied.upload));
  }
  const void* address(const Tensor& of) const {
    const auto* at = static_cast<const char*>(of.data_ptr());
    for (const auto& each : moved) {
      if (at >= each.begin && at < each.end) return each.to + (at - each.begin);
    }
    return at;
  }

  /// Row pointers of matrices one below the other; undefined ones are of gathers with so many rows.
  struct Pointers {
    Tensor row_ptr;
    int64_t rows, entries;
  };
  Tensor row_pointers(const std::vector<Pointers>& of) {
    std::vector<Part> parts = {Part::same(0, 1)};
    Running entries;
    for (const auto& each : of) {
      const auto before = entries.next(each.entries);
      parts.push_back(each.row_ptr.defined() ? Part::of(each.row_ptr, before, 1)
                                             : Part::numbers(before + 1, each.rows));
    }
    return array(parts, row_ptr_type_on(options.device));
  }

  /// Lists of long rows one after another; `rows`: of the matrices that they belong to.
  LongRows long_rows(const std::vector<const LongRows*>& of, const std::vector<int64_t>& rows) {
    if (std::none_of(of.begin(), of.end(), [](const auto* each) { return each->rows.defined(); })) return {};
    std::vector<Part> row_parts, pointer_parts = {Part::same(0, 1)}, piece_parts;
    Running row, listed, pieces;
    for (size_t i = 0; i < of.size(); ++i) {
      const auto before = row.next(rows[i]);
      if (!of[i]->rows.defined()) continue;
      row_parts.push_back(Part::of(of[i]->rows, before));
      pointer_parts.push_back(Part::of(of[i]->piece_ptr, pieces.next(of[i]->piece_rows.numel()), 1));
      piece_parts.push_back(Part::of(of[i]->piece_rows, listed.next(of[i]->rows.numel())));
    }
    return {array(row_parts, torch::kInt), array(pointer_parts, torch::kInt), array(piece_parts, torch::kInt)};
  }

  /// Values of all entries; undefined ones are ones. Undefined where all are.
  Tensor values(const std::vector<Tensor>& of, const std::vector<int64_t>& entries) {
    if (std::none_of(of.begin(), of.end(), [](const auto& each) { return each.defined(); })) return {};
    const int64_t bits_of_one = options.dtype == torch::kDouble ? 0x3ff0000000000000 : 0x3f800000;
    std::vector<Part> parts;
    for (size_t i = 0; i < of.size(); ++i)
      parts.push_back(of[i].defined() ? Part::of(of[i]) : Part::same(bits_of_one, entries[i]));
    return array(parts, options.dtype);
  }

  Tensor shifted(const std::vector<Tensor>& of, const std::vector<int64_t>& by) {
    std::vector<Part> parts;
    Running before;
    for (size_t i = 0; i < of.size(); ++i) parts.push_back(Part::of(of[i], before.next(by[i])));
    return array(parts, torch::kInt);
  }

  /// The block-diagonal matrix of these.
  CsrTensor diagonal(const std::vector<const CsrTensor*>& blocks) {
    CsrTensor result;
    std::vector<int64_t> rows, cols, entries;
    std::vector<Pointers> pointers, turned_pointers;
    std::vector<const LongRows*> longs, turned_longs;
    std::vector<Tensor> columns, turned_columns, block_values, turned_values, positions;
    bool gather = true;
    for (const auto* block : blocks) {
      result.rows += block->rows;
      result.cols += block->cols;
      rows.push_back(block->rows);
      cols.push_back(block->cols);
      entries.push_back(block->columns.numel());
      pointers.push_back({block->row_ptr, block->rows, entries.back()});
      turned_pointers.push_back({block->transposed_row_ptr, block->cols, entries.back()});
      longs.push_back(&block->long_rows);
      turned_longs.push_back(&block->transposed_long_rows);
      columns.push_back(block->columns);
      turned_columns.push_back(block->transposed_columns);
      block_values.push_back(block->values);
      turned_values.push_back(block->transposed_values);
      positions.push_back(block->transposed_positions);
      gather = gather && !block->row_ptr.defined();
    }
    if (!gather) result.row_ptr = row_pointers(pointers);
    result.columns = shifted(columns, cols);
    result.values = values(block_values, entries);
    result.long_rows = long_rows(longs, rows);
    if (!turned_columns.front().defined()) return result;
    result.transposed_row_ptr = row_pointers(turned_pointers);
    result.transposed_columns = shifted(turned_columns, rows);
    result.transposed_values = values(turned_values, entries);
    result.transposed_long_rows = long_rows(turned_longs, cols);
    if (positions.front().defined()) result.transposed_positions = shifted(positions, entries);
    return result;
  }

  Tensor below_each_other(const std::vector<Tensor>& of) {
    std::vector<Part> parts;
    for (const auto& each : of) parts.push_back(Part::of(each));
    const auto all = array(parts, of.front().scalar_type());
    return all.view({-1, of.front().size(1)});
  }

  /// The identity of so many states as a gather, whose arrays are made like all others.
  CsrTensor identity(int64_t states) const {
    CsrTensor result;
    result.rows = result.cols = states;
    const auto numbers = torch::dtype(torch::kInt).device(options.device);
    result.columns = result.transposed_columns = torch::arange(states, numbers);
    result.transposed_row_ptr = torch::arange(states + 1, numbers.dtype(row_ptr_type_on(options.device)));
    return result;
  }

  void place(device::Arena& arena) {
    words4.place(arena);
    words8.place(arena);
  }
  void join() {
    words4.join(options.device);
    words8.join(options.device);
    kept.clear();
  }

  PlanTensorOptions options;
  Stretches<int> words4;
  Stretches<long long> words8;
  std::vector<Tensor> kept;                              // what is read and written, until it has been
  std::vector<std::shared_ptr<device::Upload>> uploads;  // of the plans
  struct Moved {
    const char *begin, *end;  // on the host
    const char* to;           // on the device
  };
  std::vector<Moved> moved;
};

namespace {

/// Joins once what it waits for is there.
template <class Joined>
class JoinAfter final : public device::Upload {
 public:
  JoinAfter(std::shared_ptr<device::Upload> upload, std::shared_ptr<Joined> joined)
      : upload_(std::move(upload)), joined_(std::move(joined)) {}
  void wait() override {
    upload_->wait();
    if (!joined_) return;
    for (const auto& each : joined_->uploads) each->wait();
    std::exchange(joined_, nullptr)->join();
  }

 private:
  std::shared_ptr<device::Upload> upload_;
  std::shared_ptr<Joined> joined_;
};

plans::PlanPool last_stage(const plans::PlanPool& pool) {
  return pool.stages.empty() ? plans::PlanPool() : plans::PlanPool{{pool.stages.back()}};
}

std::vector<double> counts_of(const plans::PlanPool& pool) {
  std::vector<double> counts;
  for (const auto& stage : pool.stages) counts = row_sums(stage, counts);
  return counts;
}

}  // namespace

ResidentPlan::ResidentPlan(const plans::MessagePlan& plan, const PlanTensorOptions& options, Home home)
    : node_types_(plan.node_types.begin(), plan.node_types.end()),
      node_collections_(plan.node_collections.begin(), plan.node_collections.end()),
      nodes_(last_stage(plan.readout.nodes)),
      configurable_(last_stage(plan.readout.configurable)),
      tied_(last_stage(plan.readout.tied)),
      nodes_counts_(counts_of(plan.readout.nodes)),
      configurable_counts_(counts_of(plan.readout.configurable)),
      tied_counts_(counts_of(plan.readout.tied)) {
  if (plan.readout.nodes.stages.size() < 2 || plan.readout.pools != 1)
    throw ModelError("resident plan: {} stages and {} pools of a readout, expected shared states and one pool",
                     plan.readout.nodes.stages.size(), plan.readout.pools);
  for (const auto& level : plan.levels) states_ += level->states();
  auto without_rows = options;
  without_rows.candidate_rows = false;
  const PlanConversion conversion(plan, without_rows);
  auto arena = home == Home::host ? device::Arena::on_host_for(options.device, conversion.room())
                                  : device::Arena(options.device, conversion.room());
  tensors_ = conversion.into(arena);
  bytes_ = arena.used();
  if (home == Home::host) {
    on_host_ = arena.memory();
  } else {
    tensors_.upload = arena.upload();
  }
}

ResidentDraw::ResidentDraw(std::vector<Entry> entries, const PlanTensorOptions& options)
    : entries_(std::move(entries)), options_(options), joined_(std::make_shared<Joined>(options)) {
  for (const auto& entry : entries_) {
    const auto known = std::find(plans_.begin(), plans_.end(), entry.plan.get());
    plan_of_.push_back(static_cast<size_t>(known - plans_.begin()));
    if (known == plans_.end()) plans_.push_back(entry.plan.get());
  }
}

ResidentDraw::~ResidentDraw() = default;

int64_t ResidentDraw::room() const {
  const PlanRoom room{options_.gradients};
  int64_t nodes = 0, drawn = 0, stretches = 0, layout_rows = 0;
  for (const auto* plan : plans_) {
    nodes += static_cast<int64_t>(plan->node_types_.size());
    layout_rows += plan->tensors_.layout_rows.size(0);
    // Of a matrix at most 14 arrays, some with a start of their own.
    const auto layers = static_cast<int64_t>(plan->tensors_.layers.size());
    const auto relations = layers == 0 ? 0 : static_cast<int64_t>(plan->tensors_.layers.front()->relations.size());
    stretches += 24 * (2 * (layers + 1) + layers * (relations + 1) + 8) + 8;
  }
  int64_t bytes = 2 * room.of_gather(static_cast<size_t>(nodes), 256) + device::Arena::room<double>(layout_rows) +
                  2 * device::Arena::room<Stretch<long long>>(stretches);
  for (const auto& entry : entries_) drawn += static_cast<int64_t>(entry.candidates.size());
  for (const auto pool : {&ResidentPlan::nodes_, &ResidentPlan::configurable_, &ResidentPlan::tied_}) {
    int64_t count = 0, cols = 0;
    for (const auto* plan : plans_) cols += (plan->*pool).stages.empty() ? 0 : (plan->*pool).stages[0].cols;
    for (const auto& entry : entries_) {
      if ((entry.plan.get()->*pool).stages.empty()) continue;
      const auto& rows = (entry.plan.get()->*pool).stages[0];
      for (const int64_t c : entry.candidates)
        count += rows.row_ptr[static_cast<size_t>(c) + 1] - rows.row_ptr[static_cast<size_t>(c)];
    }
    bytes += room.of_rows_and_entries(std::max(drawn, cols), count) + device::Arena::room<double>(drawn);
  }
  return bytes;
}

PlanTensors ResidentDraw::into(device::Arena& arena) {
  PlanConverter convert(options_, arena);
  PlanTensors result;
  const auto each = [&](const auto& of) {
    std::vector<std::decay_t<decltype(of(*plans_.front()))>> all;
    for (const auto* plan : plans_) all.push_back(of(*plan));
    return all;
  };
  using Of = const ResidentPlan&;

  // of(plan): its block, or null for the identity of so many states. Undefined where all are.
  const auto diagonal_or_identity = [&](const auto& of) {
    std::vector<CsrTensor> made;
    made.reserve(plans_.size());
    std::vector<const CsrTensor*> blocks;
    for (const auto* plan : plans_) {
      const auto [block, states] = of(*plan);
      if (block == nullptr) made.push_back(joined_->identity(states));
      blocks.push_back(block != nullptr ? block : &made.back());
    }
    return made.size() == plans_.size() ? CsrTensor() : joined_->diagonal(blocks);
  };

  std::vector<int32_t> types, collections;
  std::vector<double> is_layout;
  for (const auto* plan : plans_) {
    types.insert(types.end(), plan->node_types_.begin(), plan->node_types_.end());
    collections.insert(collections.end(), plan->node_collections_.begin(), plan->node_collections_.end());
    is_layout.push_back(0);
    is_layout.insert(is_layout.end(), static_cast<size_t>(plan->tensors_.layout_rows.size(0) - 1), 1);
    result.node_type_count = std::max(result.node_type_count, plan->tensors_.node_type_count);
    if (plan->tensors_.upload) joined_->uploads.push_back(plan->tensors_.upload);
    if (plan->on_host_.defined()) joined_->bring_up(plan->on_host_, plan->bytes_);
  }
  result.node_types = convert.gather(types, result.node_type_count, "node type");
  if (!collections.empty())
    result.node_collections = convert.gather(collections, data::kCollections, "collection of a node");
  result.is_layout = convert.copy_rows(is_layout, 1);
  result.node_features = joined_->below_each_other(each([](Of plan) { return plan.tensors_.node_features; }));
  result.layout_rows = joined_->below_each_other(each([](Of plan) { return plan.tensors_.layout_rows; }));

  for (size_t l = 0; l < plans_.front()->tensors_.levels.size(); ++l) {
    auto level = std::make_shared<LevelTensors>();
    level->node = joined_->diagonal(each([&](Of plan) { return &plan.tensors_.levels[l]->node; }));
    level->layout_row = joined_->diagonal(each([&](Of plan) { return &plan.tensors_.levels[l]->layout_row; }));
    level->states = level->node.rows;
    result.levels.push_back(std::move(level));
  }
  for (size_t l = 0; l < plans_.front()->tensors_.layers.size(); ++l) {
    auto layer = std::make_shared<LayerTensors>();
    for (size_t r = 0; r < plans_.front()->tensors_.layers[l]->relations.size(); ++r)
      layer->relations.push_back(
          joined_->diagonal(each([&](Of plan) { return &plan.tensors_.layers[l]->relations[r]; })));
    layer->self = diagonal_or_identity([&](Of plan) {
      const auto& self = plan.tensors_.layers[l]->self;
      return std::pair(self.defined() ? &self : nullptr, plan.tensors_.levels[l]->states);
    });
    result.layers.push_back(std::move(layer));
  }

  const auto pool = [&](auto tensors, auto rows, auto counts) {
    PoolTensors joined;
    if ((plans_.front()->*rows).stages.empty()) return joined;
    size_t stages = 0;
    for (const auto* plan : plans_) stages = std::max(stages, (plan->tensors_.*tensors).stages.size());
    for (size_t s = 0; s < stages; ++s) {
      // Plans of few candidates have a stage less.
      joined.stages.push_back(diagonal_or_identity([&](Of plan) {
        const auto& own = (plan.tensors_.*tensors).stages;
        return std::pair(s < own.size() ? &own[s] : nullptr, (plan.*rows).stages[0].cols);
      }));
    }
    std::vector<int64_t> first = {0};
    for (const auto* plan : plans_) first.push_back(first.back() + (plan->*rows).stages[0].cols);
    plans::CsrMatrix drawn;
    drawn.row_ptr = {0};
    drawn.cols = first.back();
    std::vector<double> drawn_counts;
    for (size_t e = 0; e < entries_.size(); ++e) {
      const auto& of = (entries_[e].plan.get()->*rows).stages[0];
      for (const int64_t c : entries_[e].candidates) {
        for (auto i = of.row_ptr[static_cast<size_t>(c)]; i < of.row_ptr[static_cast<size_t>(c) + 1]; ++i) {
          drawn.columns.push_back(of.columns[static_cast<size_t>(i)] + static_cast<int32_t>(first[plan_of_[e]]));
          drawn.values.push_back(of.values[static_cast<size_t>(i)]);
        }
        drawn.row_ptr.push_back(static_cast<int64_t>(drawn.columns.size()));
        drawn_counts.push_back((entries_[e].plan.get()->*counts)[static_cast<size_t>(c)]);
      }
    }
    drawn.rows = static_cast<int64_t>(drawn_counts.size());
    joined.stages.push_back(convert.matrix(drawn));
    joined.counts = convert.copy(drawn_counts, options_.dtype).unsqueeze(1);
    return joined;
  };
  result.nodes = pool(&PlanTensors::nodes, &ResidentPlan::nodes_, &ResidentPlan::nodes_counts_);
  result.configurable =
      pool(&PlanTensors::configurable, &ResidentPlan::configurable_, &ResidentPlan::configurable_counts_);
  result.tied = pool(&PlanTensors::tied, &ResidentPlan::tied_, &ResidentPlan::tied_counts_);
  result.group_ptr = {0};
  for (const auto& entry : entries_)
    result.group_ptr.push_back(result.group_ptr.back() + static_cast<int64_t>(entry.candidates.size()));
  joined_->place(arena);
  return result;
}

std::shared_ptr<device::Upload> ResidentDraw::join(std::shared_ptr<device::Upload> upload) && {
  if (upload) return std::make_shared<JoinAfter<Joined>>(std::move(upload), std::move(joined_));
  joined_->join();
  return nullptr;
}

}  // namespace foretime::models
