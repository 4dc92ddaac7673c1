#include "worker/segments/segment_training.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/counter_random.h"
#include "configs/load.h"

namespace foretime::worker {
namespace {

constexpr int64_t kWhole = -1;  // segment number that means the whole graph

GraphPiece pooled_by_segment(const data::Group& group, const plans::PlanRequest& request,
                             const data::Segments& segments) {
  const auto pool = segments.of_nodes();
  return {group, plans::make_plan_source(group, request, {{}, pool, segments.count()})};
}

int64_t candidates_of(const SampledGraph& graph) { return graph.sample.candidates.size(); }

models::PlanTensors forward_plan(const data::Group& group, std::shared_ptr<const plans::PlanSource> source,
                                 const std::vector<int64_t>& candidates, const plans::PlanRequest& request,
                                 torch::Device device) {
  plans::PlanBuilder builder(request);
  builder.add(group, candidates, std::move(source));
  return models::to_tensors(std::move(builder).build(),
                            {.device = device, .gradients = request.sharing == plans::Sharing::none});
}

}  // namespace

GraphPiece induced_piece(const data::Group& group, const plans::PlanRequest& request, std::span<const int32_t> nodes) {
  if (request.sharing == plans::Sharing::none) {
    auto induced = plans::induced_group(group, nodes);
    auto source = plans::make_plan_source(induced, request);
    return {std::move(induced), std::move(source)};
  }
  return {group, plans::make_plan_source(group, request, {nodes, {}, 1})};
}

SegmentPlans::SegmentPlans(const plans::PlanRequest& request, int64_t cached_nodes)
    : request_(request), cached_nodes_(cached_nodes) {}

std::shared_ptr<const GraphPiece> SegmentPlans::segment(int64_t entry, const LoadedGroup& loaded, int64_t segment) {
  return piece(entry, loaded, segment);
}

std::shared_ptr<const GraphPiece> SegmentPlans::whole(int64_t entry, const LoadedGroup& loaded) {
  return piece(entry, loaded, kWhole);
}

std::shared_ptr<const GraphPiece> SegmentPlans::piece(int64_t entry, const LoadedGroup& loaded, int64_t segment) {
  const std::lock_guard lock(mutex_);
  const Key key{entry, segment};
  if (const auto found = places_.find(key); found != places_.end()) {
    pieces_.splice(pieces_.begin(), pieces_, found->second);
    return found->second->piece;
  }
  const auto& cuts = *loaded.segments;
  const bool whole = segment == kWhole;
  auto made = std::make_shared<const GraphPiece>(whole ? pooled_by_segment(loaded.group, request_, cuts)
                                                       : induced_piece(loaded.group, request_, cuts[segment]));
  const int64_t nodes = whole ? cuts.nodes.size() : cuts[segment].size();
  pieces_.push_front({key, nodes, made});
  places_[key] = pieces_.begin();
  nodes_ += nodes;
  while (nodes_ > cached_nodes_ && pieces_.size() > 1) {
    nodes_ -= pieces_.back().nodes;
    places_.erase(pieces_.back().key);
    pieces_.pop_back();
  }
  return made;
}

SegmentMix mix_segments(const MixRequest& request, const std::function<bool(int64_t, int64_t)>& present) {
  SegmentMix mix{torch::empty({request.candidates}, torch::kFloat),
                 torch::zeros({request.candidates, request.segments}, torch::kFloat)};
  auto* factor = mix.fresh.data_ptr<float>();
  auto* kept = mix.stale.data_ptr<float>();
  const double fresh = request.fresh_end - request.fresh_first;
  const double p = request.keep_probability;
  for (int64_t c = 0; c < request.candidates; ++c, kept += request.segments) {
    double missing = 0;
    for (int64_t s = 0; s < request.segments; ++s) {
      if (s >= request.fresh_first && s < request.fresh_end) continue;
      if (!present(c, s)) {
        missing += 1;
        continue;
      }
      missing += 1 - p;
      const double drawn = random_unit({request.key, random_stream::kept_segments, c, s});
      if (drawn < p) kept[s] = 1.0F;
    }
    factor[c] = 1 + missing / fresh;
  }
  return mix;
}

int64_t live_segment(uint64_t key, int64_t first, int64_t end) {
  // The bias of a remainder is below 2^-40 for any number of segments that a graph can have.
  return first + static_cast<int64_t>(random_bits({key, random_stream::live_segment}) % (end - first));
}

bool is_head_parameter(const std::string& name) {
  return name.starts_with("head.") || (name.starts_with("members.") && name.find(".head.") != std::string::npos);
}

SegmentTraining::SegmentTraining(const configs::Settings& settings, const sharding::DatasetIndex& dataset,
                                 const sharding::ShardPlan& plan, int rank, const models::CostModel& model,
                                 torch::Device device)
    : ForwardPass(model, device),
      stale_(settings.segments.stale),
      keep_(settings.segments.keep_probability),
      refresh_interval_(settings.segments.refresh_interval),
      plans_(std::make_unique<SegmentPlans>(model.plan_request())),
      history_(plan, rank, stale_ == Stale::pools ? model.pool_columns() : 1, settings.segments.history_bytes) {
  for (const auto& entry : dataset.entries) parts_.push_back(entry.parts);
  label_ = fmt::format("{} {} of {} segments of at most {} nodes, data {:016x}", history_.columns(),
                       word_of(settings.segments.stale), word_of(settings.segments.method),
                       settings.sampler.max_segment_nodes, dataset.training_fingerprint());
  if (settings.data.prune_hops >= 0) label_ += fmt::format(", pruned to {} hops", settings.data.prune_hops);
  if (stale_ == Stale::full_forward && request().sharing == plans::Sharing::none)
    throw configs::SettingsError(
        "segments.stale: found full_forward with a model whose candidates share no states: "
        "its pass over the whole graph would hold a state for each node and candidate; "
        "set model.sharing to states, or segments.stale to scores or pools");
}

std::optional<plans::MessagePlan> SegmentTraining::plan(Batch& batch, const GroupStore& store) const {
  const bool head_only = batch.number >= head_from_;
  plans::PlanBuilder builder(request());
  for (const auto& sample : batch.samples) {
    const auto& loaded = store.get(sample.entry);
    batch.graphs.push_back(choose(sample, loaded));
    if (!head_only) add(batch.graphs.back(), loaded, builder);
  }
  if (head_only) return std::nullopt;
  return std::move(builder).build();
}

std::vector<torch::Tensor> SegmentTraining::scores(models::CostModel& model, const Batch& batch,
                                                   const GroupStore& store) {
  if (batch.number >= head_from_) return {score_for_head(model, batch.graphs, store)};
  return {score(model, batch.plan, batch.graphs)};
}

SampledGraph SegmentTraining::choose(const Sample& sample, const LoadedGroup& loaded) const {
  SampledGraph graph{.sample = sample};
  graph.segments = loaded.segments ? loaded.segments->count() : 1;
  std::tie(graph.part_first, graph.part_end) =
      sharding::part_segments(graph.segments, parts_[sample.entry], sample.part);
  graph.live = live_segment(sample.key, graph.part_first, graph.part_end);
  return graph;
}

void SegmentTraining::add(SampledGraph& graph, const LoadedGroup& loaded, plans::PlanBuilder& builder) const {
  const auto& candidates = graph.sample.candidates;
  if (graph.segments == 1) {
    builder.add(loaded.group, candidates, loaded.plan_source);
    return;
  }
  const auto piece = plans_->segment(graph.sample.entry, loaded, graph.live);
  builder.add(piece->group, candidates, piece->source);
  if (stale_ != Stale::full_forward) return;
  const auto whole = plans_->whole(graph.sample.entry, loaded);
  graph.whole =
      std::make_shared<models::PlanTensors>(forward_plan(whole->group, whole->source, candidates, request(), device()));
}

torch::Tensor SegmentTraining::score(models::CostModel& model, const models::PlanTensors& live,
                                     const std::vector<SampledGraph>& graphs) {
  const bool whole = std::all_of(graphs.begin(), graphs.end(), [](const auto& graph) { return graph.segments == 1; });
  if (whole) return model.score(live);
  if (stale_ == Stale::scores || stale_ == Stale::none) return add_scores(model.score(live), graphs);
  return add_pools(model, model.pool(live), graphs);
}

torch::Tensor SegmentTraining::add_scores(const torch::Tensor& live, const std::vector<SampledGraph>& graphs) {
  std::vector<torch::Tensor> factors, sums;
  const auto values = live.detach().to(torch::kCPU, torch::kFloat).unsqueeze(1);
  for (const auto& graph : graphs) {
    const auto before = past(graph);
    const auto mixed = mix(graph, before, graph.live, graph.live + 1, keep_);
    factors.push_back(mixed.fresh);
    sums.push_back((before.values.squeeze(2) * mixed.stale).sum(1));
  }
  int64_t first = 0;
  for (const auto& graph : graphs) {
    write(graph, graph.live, values.narrow(0, first, candidates_of(graph)));
    first += candidates_of(graph);
  }
  return live * torch::cat(factors).to(live.options()) + torch::cat(sums).to(live.options());
}

torch::Tensor SegmentTraining::add_pools(models::CostModel& model, const torch::Tensor& live,
                                         const std::vector<SampledGraph>& graphs) {
  std::vector<torch::Tensor> combined;
  int64_t first = 0;
  for (const auto& graph : graphs) {
    const auto own = live.narrow(0, first, candidates_of(graph));
    first += candidates_of(graph);
    if (graph.segments == 1) {
      combined.push_back(model.combine_pools(own));
      continue;
    }
    Past before;
    if (graph.whole) {
      const torch::NoGradGuard no_grad;
      before.values = model.pool(*graph.whole);
      before.present.assign(candidates_of(graph) * graph.segments, 1);
    } else {
      before = past(graph);
    }
    const auto mixed = mix(graph, before, graph.live, graph.live + 1, keep_);
    combined.push_back(model.combine_pools(torch::cat({own, before.values.to(own.options())}, 1),
                                           torch::cat({mixed.fresh.unsqueeze(1), mixed.stale}, 1).to(own.options())));
  }
  first = 0;
  const auto values = live.detach().to(torch::kCPU, torch::kFloat);
  for (const auto& graph : graphs) {
    write(graph, graph.live, values.narrow(0, first, candidates_of(graph)).squeeze(1));
    first += candidates_of(graph);
  }
  return model.score_pools(torch::cat(combined));
}

torch::Tensor SegmentTraining::score_for_head(models::CostModel& model, const std::vector<SampledGraph>& graphs,
                                              const GroupStore& store) {
  std::vector<torch::Tensor> scores;
  for (const auto& graph : graphs) scores.push_back(head_scores(model, graph, store.get(graph.sample.entry)));
  return torch::cat(scores);
}

torch::Tensor SegmentTraining::head_scores(models::CostModel& model, const SampledGraph& graph,
                                           const LoadedGroup& loaded) {
  const auto pools = fresh_pools(model, graph, loaded);  // [candidates, fresh segments, columns]
  const int64_t candidates = candidates_of(graph), fresh = pools.size(1);
  if (graph.segments == 1 || stale_ == Stale::full_forward) return model.score_pools(model.combine_pools(pools));
  const auto before = past(graph);
  const auto mixed = mix(graph, before, graph.part_first, graph.part_end, 1.0);
  torch::Tensor scores;
  if (stale_ == Stale::pools) {
    const auto weights = torch::cat({mixed.fresh.unsqueeze(1).expand({candidates, fresh}), mixed.stale}, 1);
    scores = model.score_pools(
        model.combine_pools(torch::cat({pools, before.values.to(pools.options())}, 1), weights.to(pools.options())));
  } else {
    const auto apart = model.combine_pools(pools.reshape({candidates * fresh, 1, pools.size(2)}));
    const auto each = model.score_pools(apart).view({candidates, fresh});
    scores = each.sum(1) * mixed.fresh.to(each.options()) +
             (before.values.squeeze(2) * mixed.stale).sum(1).to(each.options());
    if (stale_ == Stale::scores)
      for (int64_t i = 0; i < fresh; ++i) write(graph, graph.part_first + i, each.detach().narrow(1, i, 1));
  }
  return scores;
}

torch::Tensor SegmentTraining::fresh_pools(models::CostModel& model, const SampledGraph& graph,
                                           const LoadedGroup& loaded) const {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const auto pool = [&](const data::Group& group, std::shared_ptr<const plans::PlanSource> source) {
    return model.pool(forward_plan(group, std::move(source), graph.sample.candidates, request(), device()));
  };
  std::vector<torch::Tensor> pools;
  if (graph.segments == 1) {
    pools.push_back(pool(loaded.group, loaded.plan_source));
  } else if (stale_ == Stale::full_forward) {
    const auto whole = plans_->whole(graph.sample.entry, loaded);
    pools.push_back(pool(whole->group, whole->source));
  } else {
    for (int64_t s = graph.part_first; s < graph.part_end; ++s) {
      const auto piece = plans_->segment(graph.sample.entry, loaded, s);
      pools.push_back(pool(piece->group, piece->source));
    }
  }
  model.train(was_training);
  return torch::cat(pools, 1);
}

SegmentTraining::Past SegmentTraining::past(const SampledGraph& graph) const {
  const int64_t candidates = candidates_of(graph), columns = history_.columns();
  Past before{torch::zeros({candidates, graph.segments, columns}, torch::kFloat),
              std::vector<char>(candidates * graph.segments, 0)};
  auto* value = before.values.data_ptr<float>();
  size_t at = 0;
  for (const int64_t candidate : graph.sample.candidates) {
    for (int64_t s = 0; s < graph.segments; ++s, ++at, value += columns) {
      const float* row = history_.find({graph.sample.entry, s, candidate});
      if (row == nullptr) continue;
      before.present[at] = 1;
      std::copy_n(row, columns, value);
    }
  }
  return before;
}

SegmentMix SegmentTraining::mix(const SampledGraph& graph, const Past& past, int64_t first, int64_t end,
                                double keep) const {
  return mix_segments(
      {candidates_of(graph), graph.segments, first, end, keep, graph.sample.key},
      [&](int64_t candidate, int64_t segment) { return past.present[candidate * graph.segments + segment] != 0; });
}

void SegmentTraining::write(const SampledGraph& graph, int64_t segment, const torch::Tensor& values) {
  if (graph.segments == 1 || !keeps_history()) return;
  const auto rows = values.to(torch::kCPU, torch::kFloat).contiguous();
  for (int64_t c = 0; c < candidates_of(graph); ++c)
    history_.write({graph.sample.entry, segment, graph.sample.candidates[c]}, graph.sample.index,
                   rows.data_ptr<float>() + c * history_.columns());
}

void SegmentTraining::end_step(int64_t step, comm::Communicator& comm) {
  if (keeps_history() && step % refresh_interval_ == 0) history_.exchange(comm);
}

std::string SegmentTraining::history_file(comm::Communicator& comm) const {
  return keeps_history() ? history_.gather(comm, label_) : std::string();
}

bool SegmentTraining::restore_history(const std::string& file, const std::string& origin) {
  return keeps_history() && history_.restore(file, label_, origin);
}

}  // namespace foretime::worker
