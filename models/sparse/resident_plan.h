#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/sparse/plan_tensors.h"

namespace foretime::models {

class BlockJoin;

/// The plan of *all* candidates of a layout graph whose states are shared, made once: its states never change, and a
/// draw of some candidates is a choice of rows of its readout. Those rows and the types of nodes stay on the host.
class ResidentPlan {
 public:
  enum class Home { device, host };
  /// `plan`: of all candidates of one group, in their order. With `Home::host` it stays in the host's memory, pinned
  /// for a GPU, and goes up by one copy for each draw. Throws ModelError where its candidates share no states.
  ResidentPlan(const plans::MessagePlan& plan, const PlanTensorOptions& options, Home home = Home::device);

  int64_t bytes() const { return bytes_; }    // where it lies
  int64_t states() const { return states_; }  // of all levels

 private:
  friend class ResidentDraw;

  PlanTensors tensors_;    // without those rows
  torch::Tensor on_host_;  // bytes that `tensors_` are views of, where its home is the host
  int64_t bytes_ = 0, states_ = 0;
  std::vector<int32_t> node_types_, node_collections_;
  plans::PlanPool nodes_, configurable_, tied_;  // the last stages: [candidates, ..]; tied_ may have none
  std::vector<double> nodes_counts_, configurable_counts_, tied_counts_;  // [candidates]
};

/// A batch of candidates of resident plans: the plans of its groups side by side, each with all of its states. On a GPU
/// one kernel puts them together.
class ResidentDraw {
 public:
  struct Entry {
    std::shared_ptr<const ResidentPlan> plan;
    std::span<const int64_t> candidates;
  };
  /// Of plans of one request that were made with these options. A plan that comes twice stands there once.
  ResidentDraw(std::vector<Entry> entries, const PlanTensorOptions& options);

  /// Bytes that it takes in an arena at most.
  int64_t room() const;
  /// Its tensors, which are there when the result of `join` has been waited for; the caller starts the arena's upload.
  PlanTensors into(device::Arena& arena);
  /// Puts the plans together: after `upload`, that of the arena, on the stream that waits for the result; at once on
  /// the CPU, where both are null.
  std::shared_ptr<device::Upload> join(std::shared_ptr<device::Upload> upload) &&;

 private:
  std::vector<Entry> entries_;
  std::vector<const ResidentPlan*> plans_;  // each once, in the order of their first entries
  std::vector<size_t> plan_of_;             // [entries]
  PlanTensorOptions options_;
  std::shared_ptr<BlockJoin> joined_;
};

}  // namespace foretime::models
