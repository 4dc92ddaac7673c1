#include "worker/store/group_store.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "base/counter_random.h"
#include "base/error.h"

namespace foretime::worker {
namespace {

std::vector<double> ranks_of(const data::Group& group, const std::vector<int64_t>& candidates) {
  std::vector<int64_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return group.runtimes[candidates[a]] < group.runtimes[candidates[b]]; });
  std::vector<double> rank(candidates.size());
  const double last = std::max(1.0, candidates.size() - 1.0);
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = i / last;
  return rank;
}

/// Returns at most `limit` of the candidates, ascending: a random choice that depends only on the seed.
std::vector<int64_t> limited(std::vector<int64_t> candidates, int64_t limit, uint64_t seed) {
  const auto count = std::ssize(candidates);
  if (limit <= 0 || count <= limit) return candidates;
  const KeyedPermutation permutation(count, random_bits({seed, random_stream::evaluation}));
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < limit; ++i) chosen.push_back(candidates[permutation(i)]);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// Keeps only the first training candidate of each configuration. With `mean` it gets the mean run time of the
/// configuration's training candidates that ran, if any did.
void merge_duplicates(LoadedGroup& loaded, const std::vector<uint64_t>& hashes, bool mean) {
  struct Measured {
    int64_t candidate;
    double sum;
    int64_t ran;
  };
  std::vector<Measured> kept;
  std::unordered_map<uint64_t, size_t> place;
  for (const int64_t c : loaded.train) {
    const auto [at, fresh] = place.emplace(hashes[c], kept.size());
    if (fresh) kept.push_back({c, 0.0, 0});
    if (!std::isfinite(loaded.group.runtimes[c])) continue;
    kept[at->second].sum += loaded.group.runtimes[c];
    ++kept[at->second].ran;
  }
  loaded.train.clear();
  for (const auto& [candidate, sum, ran] : kept) loaded.train.push_back(candidate);
  if (!mean) return;
  std::vector<double> runtimes(loaded.group.runtimes.begin(), loaded.group.runtimes.end());
  for (const auto& [candidate, sum, ran] : kept)
    if (ran > 0) runtimes[candidate] = sum / ran;
  loaded.group.runtimes = std::move(runtimes);
}

void check_official(const std::vector<int64_t>& indices, const std::string& name, int64_t candidates,
                    const configs::Settings& settings) {
  for (const int64_t id : indices)
    if (id < 0 || id >= candidates)
      throw DataError("{}: {}: candidate {}, expected 0 … {}", settings.data.eval_indices, name, id, candidates - 1);
}

}  // namespace

EvalIndices load_official_indices(const configs::DataSettings& settings) {
  if (settings.eval_indices.empty()) return {};
  const auto file = std::filesystem::path(settings.root) / settings.eval_indices;
  if (const auto admit = sharding::allowed_roots_check(settings)) admit(file);
  return data::read_eval_indices(file);
}

void divide_candidates(LoadedGroup& loaded, sharding::Role role, const configs::Settings& settings,
                       const EvalIndices& official, std::span<const uint64_t> configurations) {
  const auto& group = loaded.group;
  const uint64_t seed = settings.trainer.seed;
  std::vector<int64_t> held_out;
  if (role != sharding::Role::train) {
    if (const auto* named = data::find_indices(official, group.collection, group.name)) {
      check_official(*named, group.name, group.candidates, settings);
      loaded.evaluated = *named;
      return;
    }
    held_out.resize(group.candidates);
    std::iota(held_out.begin(), held_out.end(), 0);
  } else {
    if (!group.labelled())
      throw DataError("{}: all run times are 0, expected measured run times in a group of data.train", group.name);
    std::vector<uint64_t> hashes(configurations.begin(), configurations.end());
    if (hashes.empty()) hashes = data::configuration_hashes(group);
    for (int64_t c = 0; c < group.candidates; ++c) {
      const uint64_t hash = hashes[c];
      if (random_unit({seed, random_stream::holdout, hash}) < settings.data.holdout) held_out.push_back(c);
      else if (random_unit({seed, random_stream::train_fraction, hash}) < settings.data.train_fraction)
        loaded.train.push_back(c);
    }
    if (loaded.train.empty())
      throw DataError("{}: no candidate is left to train on (of {}, with data.holdout {} and data.train_fraction {})",
                      group.name, group.candidates, settings.data.holdout, settings.data.train_fraction);
    if (settings.data.duplicates != configs::Duplicates::keep)
      merge_duplicates(loaded, hashes, settings.data.duplicates == configs::Duplicates::mean);
    if (settings.trainer.cross_fitting) loaded.folds = folds_of(hashes, settings.model.ensemble_size, seed);
    if (settings.sampler.fast_bias != 0) loaded.speed_rank = ranks_of(group, loaded.train);
  }
  // Nothing is measured of unlabelled groups, they are there to be ranked: as a whole or not at all.
  const int64_t limit = group.labelled() ? settings.data.max_eval_candidates : 0;
  loaded.evaluated = limited(std::move(held_out), limit, seed);
}

LoadedGroup labels_of(const data::GroupHeader& header, const data::GroupSummary& summary) {
  LoadedGroup labels;
  labels.group.name = header.name;
  labels.group.kind = header.kind;
  labels.group.candidates = header.candidates;
  labels.group.runtimes = summary.runtimes;
  labels.group.flops = summary.flops;
  return labels;
}

data::SegmentRule segment_rule(const configs::Settings& settings) {
  return {settings.sampler.max_segment_nodes, settings.segments.method};
}

std::shared_ptr<const data::Segments> segments_of(const data::Group& group, const configs::Settings& settings) {
  const auto rule = segment_rule(settings);
  if (rule.max_nodes <= 0 || group.kind != data::CandidateKind::layout || group.graphs.nodes() <= rule.max_nodes)
    return nullptr;
  return std::make_shared<const data::Segments>(data::make_segments(group, rule));
}

struct GroupStore::Slot {
  explicit Slot(const sharding::IndexEntry& entry) : item(entry) {}

  sharding::IndexEntry item;
  std::mutex mutex;  // guards the members below
  bool opened = false;
  std::exception_ptr failure;
  LoadedGroup loaded;
  std::optional<data::ColumnStatistics> features;  // statistics over all nodes of an .npz file, if it is pruned
};

GroupStore::GroupStore(const configs::Settings& settings, const sharding::DatasetIndex& catalogue,
                       const std::vector<int64_t>& entries, const EvalIndices& official)
    : settings_(settings), official_(official) {
  for (const int64_t entry : entries) {
    const auto& item = catalogue.entries[entry];
    const auto* named = data::find_indices(official, item.header.collection, item.header.name);
    if (item.role != sharding::Role::train && named != nullptr)
      check_official(*named, item.header.name, item.header.candidates, settings);
    slots_.emplace(entry, std::make_unique<Slot>(item));
  }
}

GroupStore::~GroupStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  more_.notify_all();
}

std::vector<int64_t> GroupStore::entries() const {
  std::vector<int64_t> entries;
  for (const auto& [entry, slot] : slots_) entries.push_back(entry);
  return entries;
}

void GroupStore::prune(Slot& slot) const {
  auto& group = slot.loaded.group;
  if (slot.item.role == sharding::Role::train && slot.item.header.member < 0)
    slot.features = data::column_statistics(group.graphs.node_features.span(), group.graphs.feature_count,
                                            settings_.model.features.log);
  group = data::pruned_group(group, settings_.data.prune_hops);
}

void GroupStore::open(Slot& slot) const {
  if (slot.failure) std::rethrow_exception(slot.failure);
  if (!slot.opened) {
    const auto& header = slot.item.header;
    const bool train = slot.item.role == sharding::Role::train;
    try {
      slot.loaded.group = data::load_group(header);
      const auto configurations =
          train && header.member >= 0 ? data::load_summary(header).configurations : Array<uint64_t>();
      divide_candidates(slot.loaded, slot.item.role, settings_, official_, configurations.span());
      if (settings_.data.prune_hops >= 0) prune(slot);
      slot.loaded.segments = segments_of(slot.loaded.group, settings_);
    } catch (...) {
      slot.loaded = {};
      slot.failure = std::current_exception();
      failed_ = true;
      throw;
    }
    slot.opened = true;
  }
  if (slot.loaded.plan_source) return;
  std::shared_ptr<const plans::PlanRequest> request;
  {
    const std::lock_guard lock(mutex_);
    request = request_;
  }
  const bool by_segment = slot.loaded.segments && settings_.segments.stale != configs::Stale::full_forward;
  if (request && !by_segment) slot.loaded.plan_source = plans::make_plan_source(slot.loaded.group, *request);
}

const LoadedGroup& GroupStore::get(int64_t entry) const {
  Slot& slot = *slots_.at(entry);
  const std::lock_guard lock(slot.mutex);
  open(slot);
  return slot.loaded;
}

TrainingPart GroupStore::training_part(int64_t entry) const {
  const auto& header = slots_.at(entry)->item.header;
  const bool log = settings_.model.features.log;
  TrainingPart part;
  if (header.member < 0) {
    const LoadedGroup& loaded = get(entry);
    part.labels.runtimes = loaded.group.runtimes;
    part.labels.flops = loaded.group.flops;
    part.train = loaded.train;
    const auto& graphs = loaded.group.graphs;
    const auto& whole = slots_.at(entry)->features;
    part.features = whole ? *whole : data::column_statistics(graphs.node_features.span(), graphs.feature_count, log);
    if (header.kind == data::CandidateKind::tile)
      part.tile_features = data::column_statistics(loaded.group.tile_features.span(), data::kTileFeatures, log);
  } else {
    const auto summary = data::load_summary(header);
    auto labels = labels_of(header, summary);
    divide_candidates(labels, sharding::Role::train, settings_, official_, summary.configurations.span());
    part.labels = std::move(labels.group);
    part.train = std::move(labels.train);
    part.features = log ? summary.log_features : summary.features;
    part.tile_features = log ? summary.log_tile_features : summary.tile_features;
  }
  part.labels.name = header.name;
  part.labels.kind = header.kind;
  part.labels.candidates = header.candidates;
  return part;
}

void GroupStore::prepare_plans(const plans::PlanRequest& request) {
  const std::lock_guard lock(mutex_);
  request_ = std::make_shared<const plans::PlanRequest>(request);
}

void GroupStore::read_ahead(const std::vector<int64_t>& order) {
  {
    const std::lock_guard lock(mutex_);
    ahead_.insert(ahead_.end(), order.begin(), order.end());
  }
  more_.notify_all();
  while (std::ssize(readers_) < settings_.data.read_threads) readers_.emplace_back([this] { read_in_background(); });
}

void GroupStore::check() const {
  if (!failed_) return;
  for (const auto& [entry, slot] : slots_) {
    const std::lock_guard lock(slot->mutex);
    if (slot->failure) std::rethrow_exception(slot->failure);
  }
}

void GroupStore::read_in_background() {
  for (;;) {
    int64_t entry = 0;
    {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [&] { return stopping_ || !ahead_.empty(); });
      if (stopping_) return;
      entry = ahead_.front();
      ahead_.pop_front();
    }
    try {
      get(entry);
    } catch (const std::exception&) {
      continue;  // kept in the slot: who asks for the group hears of it
    }
  }
}

std::vector<uint8_t> folds_of(std::span<const uint64_t> configurations, int64_t members, uint64_t seed) {
  std::vector<uint8_t> folds;
  folds.reserve(configurations.size());
  for (const uint64_t hash : configurations) {
    const double drawn = random_unit({seed, random_stream::cross_fitting, hash});
    folds.push_back(drawn * members);
  }
  return folds;
}

}  // namespace foretime::worker
