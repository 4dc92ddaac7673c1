#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/device/arena.h"
#include "models/device/join_bodies.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// What is to be copied where, by words of 4 or of 8 bytes.
template <class Word>
class Stretches {
 public:
  /// `count` words to `to`: those from `from` on, or where it is null 0 or (`counts`) 0, 1, 2, …; each plus `plus`.
  void add(const void* from, Word* to, int64_t count, int64_t plus, bool counts);
  void place(device::Arena& arena);
  void join(torch::Device device) const;

 private:
  std::vector<device::Stretch<Word>> list_;
  int64_t words_ = 0;
  torch::Tensor table_;
};

/// Arrays and matrices of several plans put together where they are computed on, for a draw of resident plans
/// (models/sparse/resident_plan.h): on a GPU by one kernel for each length of words. What its functions return is there
/// when `join` has run.
class BlockJoin {
 public:
  explicit BlockJoin(const PlanTensorOptions& options) : options_(options) {}

  /// Blocks one below the other.
  torch::Tensor below_each_other(const std::vector<torch::Tensor>& of);
  /// The block-diagonal matrix of these.
  CsrTensor diagonal(const std::vector<const CsrTensor*>& blocks);
  /// The identity of so many states as a gather, for `diagonal`.
  CsrTensor identity(int64_t states) const;

  /// Brings up a plan whose home is the host: `bytes` from `home` on, of which the arrays above may be views.
  void bring_up(const torch::Tensor& home, int64_t bytes);
  /// `join` waits for this upload as well.
  void after(std::shared_ptr<device::Upload> upload) { uploads_.push_back(std::move(upload)); }

  /// The lists of what is copied go up with the other arrays of a batch.
  void place(device::Arena& arena);
  /// On the stream that waits for the arena's upload.
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
    const char *begin, *end;  // on the host
    const char* to;           // on the device
  };
  PlanTensorOptions options_;
  Stretches<int> words4_;
  Stretches<long long> words8_;
  std::vector<torch::Tensor> kept_;                       // what is read and written, until it has been
  std::vector<std::shared_ptr<device::Upload>> uploads_;  // of the plans
  std::vector<Moved> moved_;
};

}  // namespace foretime::models
