#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/sparse/plan_tensors.h"

namespace foretime::models {

class BlockJoin;

/// Holds the plan of *all* candidates of a layout graph with shared states. Its states never change, and a batch
/// selects rows of its readout. These rows and the types of nodes stay on the host.
class ResidentPlan {
 public:
  enum class Home { device, host };
  /// `plan` is of all candidates of one group, in their order. With `Home::host` it stays in host memory, pinned for a
  /// GPU, and each batch copies it to the GPU. Throws ModelError if the candidates share no states.
  ResidentPlan(const plans::MessagePlan& plan, const PlanTensorOptions& options, Home home = Home::device);

  int64_t bytes() const { return bytes_; }    // bytes in its home memory
  int64_t states() const { return states_; }  // states of all levels

 private:
  friend class ResidentBatch;

  PlanTensors tensors_;    // whole plan without the rows of its readout
  torch::Tensor on_host_;  // bytes that `tensors_` are views of, if its home is the host
  int64_t bytes_ = 0, states_ = 0;
  std::vector<int32_t> node_types_, node_collections_;
  plans::PlanPool nodes_, configurable_, tied_;  // last stages, [candidates, ..]; tied_ may have none
  std::vector<double> nodes_counts_, configurable_counts_, tied_counts_;  // [candidates]
};

/// Joins resident plans to the plan of a batch: the plans of its groups, concatenated, each with all of its states. On
/// a GPU one kernel joins them.
class ResidentBatch {
 public:
  struct Entry {
    std::shared_ptr<const ResidentPlan> plan;
    std::span<const int64_t> candidates;
  };
  /// `entries` hold plans of one request that were made with these options. Repeated plans are joined once.
  ResidentBatch(std::vector<Entry> entries, const PlanTensorOptions& options);

  /// Returns an upper bound of the bytes that the plan takes in an arena.
  int64_t max_bytes() const;
  /// Returns the plan's tensors, which have their values when the result of `join` has been waited for. The caller
  /// starts the arena's upload.
  PlanTensors copy_into(gpu::Arena& arena);
  /// Joins the plans after `upload`, the arena's upload, on the stream that waits for the result. On the CPU it joins
  /// them at once, and both uploads are null.
  std::shared_ptr<gpu::Upload> join(std::shared_ptr<gpu::Upload> upload) &&;

 private:
  std::vector<Entry> entries_;
  std::vector<const ResidentPlan*> plans_;  // distinct plans, in the order of their first entries
  std::vector<size_t> plan_of_;             // [entries] index in `plans_`
  PlanTensorOptions options_;
  std::shared_ptr<BlockJoin> joined_;
};

}  // namespace foretime::models
