#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "data/graphs/segments.h"
#include "plans/plan_source.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// A piece of a graph, ready for PlanBuilder::add.
struct GraphPiece {
  data::Group group;  // shares the arrays of the group that it is a piece of, where states are shared; else a copy
  std::shared_ptr<const plans::PlanSource> source;
};

/// The subgraph that some nodes induce: as a subset of the group's nodes, or as a group of its own for requests without
/// sharing.
GraphPiece induced_piece(const data::Group& group, const plans::PlanRequest& request, std::span<const int32_t> nodes);

/// The graph as a whole, with one pool a segment. Throws DataError for requests without sharing.
GraphPiece pooled_by_segment(const data::Group& group, const plans::PlanRequest& request,
                             const data::Segments& segments);

/// What the plans of a rank's segments have in common, kept for the next sample: pieces of up to about `cached_nodes`
/// nodes together, those that were used last. Several threads may ask at once.
class SegmentPlans {
 public:
  explicit SegmentPlans(const plans::PlanRequest& request, int64_t cached_nodes = 1 << 18);

  /// `loaded` is the dataset index's entry `entry`, always the same, and has segments.
  std::shared_ptr<const GraphPiece> segment(int64_t entry, const LoadedGroup& loaded, int64_t segment);
  /// pooled_by_segment.
  std::shared_ptr<const GraphPiece> whole(int64_t entry, const LoadedGroup& loaded);
  const plans::PlanRequest& request() const { return request_; }

 private:
  using Key = std::pair<int64_t, int64_t>;  // entry, segment or kWhole
  struct Cached {
    Key key;
    int64_t nodes = 0;
    std::shared_ptr<const GraphPiece> piece;
  };

  std::shared_ptr<const GraphPiece> piece(int64_t entry, const LoadedGroup& loaded, int64_t segment);

  plans::PlanRequest request_;
  int64_t cached_nodes_;
  std::mutex mutex_;
  std::list<Cached> pieces_;  // the one that was used last comes first
  std::map<Key, std::list<Cached>::iterator> places_;
  int64_t nodes_ = 0;  // of all pieces that are kept
};

}  // namespace foretime::worker
