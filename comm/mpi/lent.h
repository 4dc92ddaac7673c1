#pragma once

#include <list>
#include <memory>
#include <utility>
#include <vector>

#include <mpi.h>
#include <torch/types.h>

namespace foretime::comm {

/// `value` stays where it is found, and is never destroyed.
template <class T>
void keep_until_exit(T value) {
  static auto& kept = *new std::list<T>;
  kept.push_back(std::move(value));
}

/// What one collective has lent to MPI: its requests, and all memory that they read or write. A late peer makes MPI use
/// that memory inside any later call of this process, so where a Lent is dropped before its requests are done, as after
/// a time-out, what it holds stays until the process ends.
class Lent {
 public:
  Lent() : held_(std::make_unique<Held>()) {}
  ~Lent();
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  /// A tensor, whose memory must be its own (see `borrowed`).
  void keep(torch::Tensor tensor) { held_->tensors.push_back(std::move(tensor)); }
  /// Counts or places of pieces; the address stays.
  const int* keep(std::vector<int> numbers) { return held_->numbers.emplace_back(std::move(numbers)).data(); }
  /// A type of MPI's, which is freed with the rest.
  void keep(MPI_Datatype type) { held_->types.push_back(type); }

  /// For a call of MPI that begins something.
  MPI_Request* new_request();
  /// Sets `done` where no request is under way any more, and lets everything go then. Returns MPI's code.
  int test(bool& done);
  /// True where no request is under way.
  bool idle() const { return held_->requests.empty(); }

  /// True where memory had to be kept since the process began: communicators that it was lent for may not be freed.
  static bool any_kept();

 private:
  struct Held {
    ~Held();
    std::vector<MPI_Request> requests;
    std::vector<torch::Tensor> tensors;
    std::list<std::vector<int>> numbers;
    std::vector<MPI_Datatype> types;
  };
  std::unique_ptr<Held> held_;
};

}  // namespace foretime::comm
