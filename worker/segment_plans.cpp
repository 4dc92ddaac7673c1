#include "worker/segment_plans.h"

namespace foretime::worker {
namespace {

constexpr int64_t kWhole = -1;  // in place of a segment

}  // namespace

data::SegmentRule segment_rule(const configs::Settings& settings) {
  const bool metis = settings.segments.method == "metis";
  return {settings.sampler.max_segment_nodes, metis ? data::SegmentMethod::metis : data::SegmentMethod::contiguous};
}

GraphPiece induced_piece(const data::Group& group, const data::PlanRequest& request, std::span<const int32_t> nodes) {
  if (request.sharing == data::Sharing::none) {
    auto induced = data::induced_group(group, nodes);
    auto source = data::make_plan_source(induced, request);
    return {std::move(induced), std::move(source)};
  }
  return {group, data::make_plan_source(group, request, {nodes, {}, 1})};
}

GraphPiece pooled_by_segment(const data::Group& group, const data::PlanRequest& request,
                             const data::Segments& segments) {
  const auto pool = segments.of_nodes();
  return {group, data::make_plan_source(group, request, {{}, pool, segments.count()})};
}

SegmentPlans::SegmentPlans(const data::SegmentRule& rule, const data::PlanRequest& request, int64_t cached_nodes)
    : rule_(rule), request_(request), cached_nodes_(cached_nodes) {}

std::shared_ptr<const data::Segments> SegmentPlans::segments(int64_t entry, const data::Group& group) {
  const std::lock_guard lock(mutex_);
  return cut(entry, group);
}

std::shared_ptr<const data::Segments> SegmentPlans::cut(int64_t entry, const data::Group& group) {
  auto& known = segments_[entry];
  if (!known) known = std::make_shared<const data::Segments>(data::make_segments(group, rule_));
  return known;
}

std::shared_ptr<const GraphPiece> SegmentPlans::segment(int64_t entry, const data::Group& group, int64_t segment) {
  return piece(entry, group, segment);
}

std::shared_ptr<const GraphPiece> SegmentPlans::whole(int64_t entry, const data::Group& group) {
  return piece(entry, group, kWhole);
}

std::shared_ptr<const GraphPiece> SegmentPlans::piece(int64_t entry, const data::Group& group, int64_t segment) {
  const std::lock_guard lock(mutex_);
  const Key key{entry, segment};
  if (const auto found = places_.find(key); found != places_.end()) {
    pieces_.splice(pieces_.begin(), pieces_, found->second);
    return found->second->piece;
  }
  const auto cuts = cut(entry, group);
  const bool whole = segment == kWhole;
  auto made = std::make_shared<const GraphPiece>(whole ? pooled_by_segment(group, request_, *cuts)
                                                       : induced_piece(group, request_, (*cuts)[segment]));
  const auto nodes = static_cast<int64_t>(whole ? cuts->nodes.size() : (*cuts)[segment].size());
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
