#pragma once

#include <list>
#include <memory>
#include <utility>
#include <vector>

#include <mpi.h>
#include <torch/types.h>

#include "base/no_copy.h"

namespace foretime::comm {

/// Moves `value` to memory that is never freed, so that it lives until the process ends. Not thread-safe.
template <class T>
void keep_until_exit(T value) {
  static auto& kept = *new std::list<T>;
  kept.push_back(std::move(value));
}

/// Holds the requests of one collective and all memory that MPI reads or writes for them. A late peer may make MPI use
/// this memory in any later call of the process. If an object is destroyed before its requests are done, as after a
/// time-out, its memory is kept until the process ends.
class RetainedBuffers : NoCopy {
 public:
  RetainedBuffers() : contents_(std::make_unique<Contents>()) {}
  ~RetainedBuffers();

  /// Keeps a tensor, which must own its memory (see `borrowed`).
  void keep(torch::Tensor tensor) { contents_->tensors.push_back(std::move(tensor)); }
  /// Keeps counts or offsets of pieces, and returns their fixed address.
  const int* keep(std::vector<int> numbers) { return contents_->numbers.emplace_back(std::move(numbers)).data(); }
  /// Keeps an MPI type, which is freed when all requests are done.
  void keep(MPI_Datatype type) { contents_->types.push_back(type); }

  /// Returns a new request for a non-blocking MPI call; valid until the next new_request().
  MPI_Request* new_request();
  /// Sets `done` to whether no request is in progress any more; if so, releases all memory. Returns MPI's error code.
  int test(bool& done);
  /// Returns whether no request is in progress.
  bool idle() const { return contents_->requests.empty(); }

  /// Returns whether any object was destroyed before its requests were done. MPI communicators must then not be freed.
  static bool any_kept();

 private:
  struct Contents {
    ~Contents();
    std::vector<MPI_Request> requests;
    std::vector<torch::Tensor> tensors;
    std::list<std::vector<int>> numbers;
    std::vector<MPI_Datatype> types;
  };
  std::unique_ptr<Contents> contents_;
};

}  // namespace foretime::comm
