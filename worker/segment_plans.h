#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "configs/settings.h"
#include "data/plan_source.h"
#include "data/segments.h"

namespace foretime::worker {

/// How settings ask for graphs to be cut; max_nodes is 0 where they are not.
data::SegmentRule segment_rule(const configs::Settings& settings);

/// A piece of a graph, ready for PlanBuilder::add.
struct GraphPiece {
  data::Group group;  // shares the arrays of the group that it is a piece of, where states are shared; else a copy
  std::shared_ptr<const data::PlanSource> source;
};

/// The subgraph that some nodes induce: as a subset of the group's nodes, or as a group of its own for requests without
/// sharing.
GraphPiece induced_piece(const data::Group& group, const data::PlanRequest& request, std::span<const int32_t> nodes);

/// The graph as a whole, with one pool a segment. Throws DataError for requests without sharing.
GraphPiece pooled_by_segment(const data::Group& group, const data::PlanRequest& request,
                             const data::Segments& segments);

/// The segments of a rank's graphs and what their plans have in common, kept for the next draw: the cuts always, pieces
/// of up to about `cached_nodes` nodes together, those that were used last. Several threads may ask at once.
class SegmentPlans {
 public:
  SegmentPlans(const data::SegmentRule& rule, const data::PlanRequest& request, int64_t cached_nodes = 1 << 18);

  /// `group` is the catalogue's entry `entry`, always the same.
  std::shared_ptr<const data::Segments> segments(int64_t entry, const data::Group& group);
  std::shared_ptr<const GraphPiece> segment(int64_t entry, const data::Group& group, int64_t segment);
  /// pooled_by_segment.
  std::shared_ptr<const GraphPiece> whole(int64_t entry, const data::Group& group);
  const data::PlanRequest& request() const { return request_; }

 private:
  using Key = std::pair<int64_t, int64_t>;  // entry, segment or kWhole
  struct Cached {
    Key key;
    int64_t nodes = 0;
    std::shared_ptr<const GraphPiece> piece;
  };

  std::shared_ptr<const GraphPiece> piece(int64_t entry, const data::Group& group, int64_t segment);
  std::shared_ptr<const data::Segments> cut(int64_t entry, const data::Group& group);

  data::SegmentRule rule_;
  data::PlanRequest request_;
  int64_t cached_nodes_;
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<const data::Segments>> segments_;
  std::list<Cached> pieces_;  // the one that was used last comes first
  std::map<Key, std::list<Cached>::iterator> places_;
  int64_t nodes_ = 0;  // of all pieces that are kept
};

}  // namespace foretime::worker
