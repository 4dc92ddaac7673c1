#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/gpu/arena.h"
#include "models/gpu/join_kernels.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// Lists runs of words (4 or 8 bytes) to copy or fill.
template <class Word>
class WordRuns {
 public:
  /// Adds `count` words at `to`: a copy of those at `from`, or if it is null 0, 1, 2, … if `counts`, else zeros; each
  /// plus `plus`.
  void add(const void* from, Word* to, int64_t count, int64_t plus, bool counts);
  void place(gpu::Arena& arena);
  void join(torch::Device device) const;

 private:
  std::vector<gpu::WordRun<Word>> list_;
  int64_t words_ = 0;
  torch::Tensor table_;
};

/// Joins arrays and matrices of several plans on their device, for batches of resident plans
/// (models/sparse/resident_plan.h): on a GPU by one kernel for each word size. Results have their values after `join`
/// has run.
class BlockJoin {
 public:
  explicit BlockJoin(const PlanTensorOptions& options) : options_(options) {}

  /// Concatenates tensors along the rows.
  torch::Tensor below_each_other(const std::vector<torch::Tensor>& of);
  /// Returns the block-diagonal matrix of `blocks`.
  CsrTensor diagonal(const std::vector<const CsrTensor*>& blocks);
  /// Returns the identity of `states` states as a gather, for `diagonal`.
  CsrTensor identity(int64_t states) const;

  /// Copies a plan from host memory: `bytes` from the begin of `home`. Arrays of other calls may be views of them.
  void bring_up(const torch::Tensor& home, int64_t bytes);
  /// Makes `join` wait for this upload as well.
  void after(std::shared_ptr<gpu::Upload> upload) { uploads_.push_back(std::move(upload)); }

  /// Adds the lists of words to the arena of the batch.
  void place(gpu::Arena& arena);
  /// Runs the kernels, on the stream that waits for the arena's upload.
  void join();

 private:
  struct Part;
  struct Pointers;
  torch::Tensor array(const std::vector<Part>& parts, torch::Dtype dtype);
  const void* address(const torch::Tensor& of) const;
  torch::Tensor row_pointers(const std::vector<Pointers>& of);
  LongRows long_rows(const std::vector<const LongRows*>& of, const std::vector<int64_t>& rows);
  torch::Tensor values(const std::vector<torch::Tensor>& of, const std::vector<int64_t>& entries);
  torch::Tensor shifted(const std::vector<torch::Tensor>& of, const std::vector<int64_t>& by);

  struct Moved {
    const char *begin, *end;  // range in host memory
    const char* to;           // address on the device
  };
  PlanTensorOptions options_;
  WordRuns<int> words4_;
  WordRuns<long long> words8_;
  std::vector<torch::Tensor> kept_;                    // tensors that must live until they have been read and written
  std::vector<std::shared_ptr<gpu::Upload>> uploads_;  // uploads of plans that `join` waits for
  std::vector<Moved> moved_;
};

}  // namespace foretime::models
