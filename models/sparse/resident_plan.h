#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/sparse/plan_tensors.h"

namespace foretime::models {

class BlockJoin;

/// Holds the plan of *all* candidates of one layout group with shared states, so that a batch only selects rows of the
/// readout. These rows and the types of nodes stay on the host.
class ResidentPlan {
 public:
  enum class Home { device, host };  // memory that keeps the plan
  /// Converts `plan`, of all candidates of one group in their order. With Home::host each batch copies the tensors to
  /// the device. Throws BrokenInvariant for a plan without shared states or with several pools, else as PlanConversion.
  ResidentPlan(const plans::MessagePlan& plan, const PlanTensorOptions& options, Home home = Home::device);

  int64_t bytes() const { return bytes_; }    // bytes of the tensors, in the memory that Home names
  int64_t states() const { return states_; }  // number of states of all levels together

 private:
  friend class ResidentBatch;

  PlanTensors tensors_;    // whole plan without the rows of its readout
  torch::Tensor on_host_;  // bytes that `tensors_` are views of; undefined with Home::device
  int64_t bytes_ = 0, states_ = 0;
  std::vector<int32_t> node_types_, node_collections_;                    // [nodes]; collections may be empty
  plans::PlanPool nodes_, configurable_, tied_;                           // the last stage alone; tied_ may have none
  std::vector<double> nodes_counts_, configurable_counts_, tied_counts_;  // [candidates] nodes that each row sums
};

/// Joins resident plans to the plan of a batch. The plan has all states of each group's plan, and readout rows of the
/// chosen candidates only. Call copy_into() once, upload the arena, then call join().
class ResidentBatch {
 public:
  /// Names one group of the batch.
  struct Entry {
    std::shared_ptr<const ResidentPlan> plan;
    std::span<const int64_t> candidates;  // ids of the chosen candidates, in the order of the batch
  };
  /// `entries`, one or more, hold plans of one request made with these options. A repeated plan's states occur once.
  ResidentBatch(std::vector<Entry> entries, const PlanTensorOptions& options);

  /// Returns an upper bound of the bytes that the plan takes in an arena.
  int64_t max_bytes() const;
  /// Returns the tensors of the batch's plan, made in an arena of at least max_bytes() bytes. Their values are valid
  /// only after join() and the wait for its result. The caller starts the arena's upload.
  PlanTensors copy_into(gpu::Arena& arena);
  /// Returns an upload whose wait() first waits for `upload`, the arena's upload, and then joins the plans on the
  /// current stream. If `upload` is null, as on the CPU, joins the plans at once and returns null.
  std::shared_ptr<gpu::Upload> join(std::shared_ptr<gpu::Upload> upload) &&;

 private:
  std::vector<Entry> entries_;
  std::vector<const ResidentPlan*> plans_;  // distinct plans, in the order of their first entries
  std::vector<size_t> plan_of_;             // [entries] index in `plans_`
  PlanTensorOptions options_;
  std::shared_ptr<BlockJoin> joined_;
};

}  // namespace foretime::models
