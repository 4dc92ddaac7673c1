#include "worker/segments/segment_plans.h"

namespace foretime::worker {
namespace {

constexpr int64_t kWhole = -1;  // in place of a segment

}  // namespace

GraphPiece induced_piece(const data::Group& group, const plans::PlanRequest& request, std::span<const int32_t> nodes) {
  if (request.sharing == plans::Sharing::none) {
    auto induced = plans::induced_group(group, nodes);
    auto source = plans::make_plan_source(induced, request);
    return {std::move(induced), std::move(source)};
  }
  return {group, plans::make_plan_source(group, request, {nodes, {}, 1})};
}

GraphPiece pooled_by_segment(const data::Group& group, const plans::PlanRequest& request,
                             const data::Segments& segments) {
  const auto pool = segments.of_nodes();
  return {group, plans::make_plan_source(group, request, {{}, pool, segments.count()})};
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
  const auto nodes = static_cast<int64_t>(whole ? cuts.nodes.size() : cuts[segment].size());
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

}  // namespace foretime::worker
