#include "models/sparse/resident_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/index_range.h"
#include "models/graph/error.h"
#include "models/sparse/block_join.h"
#include "models/sparse/plan_converter.h"

namespace foretime::models {
namespace {

/// Joins once what it waits for is there.
class JoinAfter final : public gpu::Upload {
 public:
  JoinAfter(std::shared_ptr<gpu::Upload> upload, std::shared_ptr<BlockJoin> joined)
      : upload_(std::move(upload)), joined_(std::move(joined)) {}
  void wait() override {
    upload_->wait();
    if (joined_) std::exchange(joined_, nullptr)->join();
  }

 private:
  std::shared_ptr<gpu::Upload> upload_;
  std::shared_ptr<BlockJoin> joined_;
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
  FORETIME_CHECK(plan.readout.nodes.stages.size() >= 2 && plan.readout.pools == 1,
                 "plans without shared states, or with {} pools", plan.readout.pools);
  for (const auto& level : plan.levels) states_ += level->states();
  auto without_rows = options;
  without_rows.candidate_rows = false;
  const PlanConversion conversion(plan, without_rows);
  auto arena = home == Home::host ? gpu::Arena::on_host_for(options.device, conversion.max_bytes())
                                  : gpu::Arena(options.device, conversion.max_bytes());
  tensors_ = conversion.copy_into(arena);
  bytes_ = arena.used();
  if (home == Home::host) on_host_ = arena.memory();
  else tensors_.upload = arena.upload();
}

ResidentBatch::ResidentBatch(std::vector<Entry> entries, const PlanTensorOptions& options)
    : entries_(std::move(entries)), options_(options), joined_(std::make_shared<BlockJoin>(options)) {
  for (const auto& entry : entries_) {
    const auto known = std::find(plans_.begin(), plans_.end(), entry.plan.get());
    plan_of_.push_back(known - plans_.begin());
    if (known == plans_.end()) plans_.push_back(entry.plan.get());
  }
}

int64_t ResidentBatch::max_bytes() const {
  const PlanBytes bound{options_.gradients};
  int64_t nodes = 0, drawn = 0, word_runs = 0, layout_rows = 0;
  for (const auto* plan : plans_) {
    nodes += std::ssize(plan->node_types_);
    layout_rows += plan->tensors_.layout_rows.size(0);
    // Of a matrix at most 14 arrays, some with a start of their own.
    const auto layers = std::ssize(plan->tensors_.layers);
    const auto relations = layers == 0 ? 0 : std::ssize(plan->tensors_.layers.front()->relations);
    word_runs += 24 * (2 * (layers + 1) + layers * (relations + 1) + 8) + 8;
  }
  int64_t bytes = 2 * bound.of_gather(nodes, 256) + gpu::Arena::max_bytes<double>(layout_rows) +
                  2 * gpu::Arena::max_bytes<gpu::WordRun<long long>>(word_runs);
  for (const auto& entry : entries_) drawn += std::ssize(entry.candidates);
  for (const auto pool : {&ResidentPlan::nodes_, &ResidentPlan::configurable_, &ResidentPlan::tied_}) {
    int64_t count = 0, cols = 0;
    for (const auto* plan : plans_) cols += (plan->*pool).stages.empty() ? 0 : (plan->*pool).stages[0].cols;
    for (const auto& entry : entries_) {
      if ((entry.plan.get()->*pool).stages.empty()) continue;
      const auto& rows = (entry.plan.get()->*pool).stages[0];
      for (const int64_t c : entry.candidates) count += rows.row_ptr[c + 1] - rows.row_ptr[c];
    }
    bytes += bound.of_rows_and_entries(std::max(drawn, cols), count) + gpu::Arena::max_bytes<double>(drawn);
  }
  return bytes;
}

PlanTensors ResidentBatch::copy_into(gpu::Arena& arena) {
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
    is_layout.insert(is_layout.end(), plan->tensors_.layout_rows.size(0) - 1, 1);
    result.node_type_count = std::max(result.node_type_count, plan->tensors_.node_type_count);
    if (plan->tensors_.upload) joined_->after(plan->tensors_.upload);
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
        for (const int64_t i : entries_of(of.row_ptr, c)) {
          drawn.columns.push_back(of.columns[i] + static_cast<int32_t>(first[plan_of_[e]]));
          drawn.values.push_back(of.values[i]);
        }
        drawn.row_ptr.push_back(drawn.columns.size());
        drawn_counts.push_back((entries_[e].plan.get()->*counts)[c]);
      }
    }
    drawn.rows = drawn_counts.size();
    joined.stages.push_back(convert.matrix(drawn));
    joined.counts = convert.copy(drawn_counts, options_.dtype).unsqueeze(1);
    return joined;
  };
  result.nodes = pool(&PlanTensors::nodes, &ResidentPlan::nodes_, &ResidentPlan::nodes_counts_);
  result.configurable =
      pool(&PlanTensors::configurable, &ResidentPlan::configurable_, &ResidentPlan::configurable_counts_);
  result.tied = pool(&PlanTensors::tied, &ResidentPlan::tied_, &ResidentPlan::tied_counts_);
  result.group_ptr = {0};
  for (const auto& entry : entries_) result.group_ptr.push_back(result.group_ptr.back() + std::ssize(entry.candidates));
  joined_->place(arena);
  return result;
}

std::shared_ptr<gpu::Upload> ResidentBatch::join(std::shared_ptr<gpu::Upload> upload) && {
  if (upload) return std::make_shared<JoinAfter>(std::move(upload), std::move(joined_));
  joined_->join();
  return nullptr;
}

}  // namespace foretime::models
