#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/gpu/arena.h"
#include "models/gpu/join_kernels.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// Lists runs of words (4 or 8 bytes) that join() copies or fills.
template <class Word>
class WordRuns {
 public:
  /// Adds a run of `count` words that begins at `to`. The words are those at `from`; if `from` is null, they are 0, 1,
  /// 2, … with `counts`, and zeros without. `plus` is added to each word.
  void add(const void* from, Word* to, int64_t count, int64_t plus, bool counts);
  /// Copies the list of runs into `arena`, where the kernel of join() reads it.
  void place(gpu::Arena& arena);
  /// Writes all runs: on a GPU by one kernel, which must follow the arena's upload, on the CPU at once.
  void join(torch::Device device) const;

 private:
  std::vector<gpu::WordRun<Word>> list_;
  int64_t words_ = 0;
  torch::Tensor table_;
};

/// Joins arrays and matrices of several plans on their device, for batches of resident plans (resident_plan.h): on a
/// GPU by one kernel for each word size. Results are returned at once, but have their values only after join().
class BlockJoin {
 public:
  explicit BlockJoin(const PlanTensorOptions& options) : options_(options) {}

  /// Returns the concatenation of one or more matrices of equal widths and types along the rows.
  torch::Tensor below_each_other(const std::vector<torch::Tensor>& matrices);
  /// Returns the block-diagonal matrix of `blocks`, which all have transposes or all have none.
  CsrTensor diagonal(const std::vector<const CsrTensor*>& blocks);
  /// Returns the identity matrix [states, states] as a gather, for `diagonal`; it has its values at once.
  CsrTensor identity(int64_t states) const;

  /// Starts copying the first `bytes` bytes of `home` to the device. join() reads views of `home` from the copy.
  void bring_up(const torch::Tensor& home, int64_t bytes);
  /// Makes `join` wait for `upload` first.
  void after(std::shared_ptr<gpu::Upload> upload) { uploads_.push_back(std::move(upload)); }

  /// Copies the lists of runs into the arena of the batch. Must follow all calls that return results.
  void place(gpu::Arena& arena);
  /// Writes the results: on a GPU by kernels on the current stream, which must already wait for the arena's upload.
  void join();

 private:
  struct Part;
  struct Pointers;
  /// Returns a new vector of `dtype` (4 or 8 bytes) on the device. join() copies the parts into it, one after another.
  torch::Tensor array(const std::vector<Part>& parts, torch::Dtype dtype);
  /// Returns the address of a tensor's data at the time of the join: on the device if `bring_up` copies it.
  const void* address(const torch::Tensor& tensor) const;
  /// Returns the row pointers of the matrix that has the rows of all `matrices`, one matrix after another.
  torch::Tensor row_pointers(const std::vector<Pointers>& matrices);
  /// Returns the long rows of that matrix; undefined if no block has any. `rows`: number of rows of each block.
  LongRows long_rows(const std::vector<const LongRows*>& blocks, const std::vector<int64_t>& rows);
  /// Returns the values of all blocks, ones for undefined blocks; undefined if all are. `entries`: numbers of entries.
  torch::Tensor values(const std::vector<torch::Tensor>& blocks, const std::vector<int64_t>& entries);
  /// Returns the int32 numbers of all blocks; those of block i are increased by by[0] + … + by[i - 1].
  torch::Tensor shifted(const std::vector<torch::Tensor>& blocks, const std::vector<int64_t>& by);

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
