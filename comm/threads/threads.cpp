#include "comm/threads/threads.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/bfloat16_sum.h"
#include "comm/tensor_check.h"

namespace foretime::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// What one rank brings to a collective. `call` and `detail` must be the same on all.
struct Offer {
  std::string call, detail;
  torch::Tensor tensor;
  std::string bytes;
};

/// One collective, from the first offer until the last rank has taken the result.
struct Meeting {
  int64_t sequence = 0;
  std::vector<std::optional<Offer>> offers;
  size_t arrived = 0;
  bool done = false;
  std::string mismatch;
  torch::Tensor tensor;            // the result
  std::vector<std::string> bytes;  // all offers'
};

/// Where the threads meet.
class Hub {
 public:
  Hub(int size, std::chrono::duration<double> timeout) : size_(size), timeout_(timeout), entered_(size, 0) {}

  int size() const { return size_; }

  /// The last rank to come runs `combine(meeting)`.
  template <class Combine>
  std::shared_ptr<Meeting> offer(int rank, Offer offer, Combine&& combine) {
    std::unique_lock lock(mutex_);
    throw_if_ended(rank, offer.call);
    auto& slot = open_[++entered_[rank]];
    if (!slot) {
      slot = std::make_shared<Meeting>();
      slot->sequence = entered_[rank];
      slot->offers.resize(size_);
    }
    auto meeting = slot;
    meeting->offers[rank] = std::move(offer);
    if (++meeting->arrived < static_cast<size_t>(size_)) return meeting;
    open_.erase(meeting->sequence);
    find_mismatch(*meeting);
    if (meeting->mismatch.empty()) combine(*meeting);
    for (auto& each : meeting->offers) each->tensor.reset();
    meeting->done = true;
    changed_.notify_all();
    return meeting;
  }

  void wait(int rank, const std::string& call, const Meeting& meeting) {
    std::unique_lock lock(mutex_);
    const auto limit = std::chrono::duration_cast<Clock::duration>(timeout_);
    const bool in_time = changed_.wait_for(lock, limit, [&] { return meeting.done || ended_by_ >= 0; });
    if (meeting.done) {
      if (!meeting.mismatch.empty()) throw CommError(fmt::format("rank {}: {}", rank, meeting.mismatch));
      return;
    }
    throw_if_ended(rank, call);
    if (!in_time) {
      std::vector<std::string> late;
      for (int peer = 0; peer < size_; ++peer) {
        if (!meeting.offers[peer]) late.push_back(fmt::format("rank {} (no answer)", peer));
      }
      throw PeerLostError(fmt::format("rank {}: {} #{} did not finish within {:.1f} s; late: {}", rank, call,
                                      meeting.sequence, timeout_.count(), fmt::join(late, ", ")));
    }
  }

  void abort(int rank, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (ended_by_ < 0) {
      ended_by_ = rank;
      reason_ = reason;
    }
    changed_.notify_all();
  }

 private:
  void throw_if_ended(int rank, const std::string& call) const {
    if (ended_by_ < 0) return;
    throw PeerLostError(fmt::format("rank {}: {}: rank {} ended: {}", rank, call, ended_by_, reason_));
  }

  void find_mismatch(Meeting& meeting) const {
    const auto& first = *meeting.offers[0];
    for (int peer = 1; peer < size_; ++peer) {
      const auto& other = *meeting.offers[peer];
      if (other.call == first.call && other.detail == first.detail) continue;
      meeting.mismatch = fmt::format("call #{} differs between ranks: {} {} on rank 0, {} {} on rank {}",
                                     meeting.sequence, first.call, first.detail, other.call, other.detail, peer);
      return;
    }
  }

  const int size_;
  const std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::shared_ptr<Meeting>> open_;
  std::vector<int64_t> entered_;  // calls, by rank
  int ended_by_ = -1;
  std::string reason_;
};

std::string describe(const torch::Tensor& tensor) {
  return fmt::format("{}[{}]", c10::toString(tensor.scalar_type()), tensor.numel());
}

/// What the ranks' wires would have carried.
torch::Tensor reduce_bfloat16(const Meeting& meeting) {
  const auto ranks = static_cast<int>(meeting.offers.size());
  auto result = meeting.offers[0]->tensor.detach().clone();
  if (ranks == 1) return result;
  std::vector<torch::Tensor> wires;
  for (const auto& offer : meeting.offers) wires.push_back(to_bfloat16_pieces(offer->tensor, 1)[0]);
  from_bfloat16_pieces(sum_in_float32(torch::stack(wires)), result);
  return result;
}

torch::Tensor reduce(const Meeting& meeting, ReduceOp op) {
  const torch::NoGradGuard no_grad;
  auto result = meeting.offers[0]->tensor.detach().clone();
  for (size_t rank = 1; rank < meeting.offers.size(); ++rank) {
    const auto& other = meeting.offers[rank]->tensor;
    switch (op) {
      case ReduceOp::sum:
        result.add_(other);
        break;
      case ReduceOp::max:
        result.copy_(torch::maximum(result, other));
        break;
      case ReduceOp::min:
        result.copy_(torch::minimum(result, other));
        break;
    }
  }
  return result;
}

/// Copies the meeting's tensor to this rank's own.
class TensorWork final : public Work {
 public:
  TensorWork(std::shared_ptr<Hub> hub, int rank, const char* call, std::shared_ptr<Meeting> meeting,
             torch::Tensor target)
      : hub_(std::move(hub)), rank_(rank), call_(call), meeting_(std::move(meeting)), target_(std::move(target)) {}
  void wait() override {
    if (!meeting_) return;
    hub_->wait(rank_, call_, *meeting_);
    const torch::NoGradGuard no_grad;
    target_.copy_(meeting_->tensor);
    meeting_.reset();
  }

 private:
  std::shared_ptr<Hub> hub_;
  int rank_;
  const char* call_;
  std::shared_ptr<Meeting> meeting_;
  torch::Tensor target_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return hub_->size(); }
  std::string name() const override { return "threads"; }
  torch::Device device() const override { return torch::kCPU; }

  std::unique_ptr<Work> all_reduce(torch::Tensor tensor, ReduceOp op) override {
    require_reducible(rank_, "all_reduce", tensor);
    const auto detail = fmt::format("{} op {}", describe(tensor), static_cast<int>(op));
    auto meeting =
        hub_->offer(rank_, {"all_reduce", detail, tensor, ""}, [op](Meeting& m) { m.tensor = reduce(m, op); });
    return std::make_unique<TensorWork>(hub_, rank_, "all_reduce", std::move(meeting), std::move(tensor));
  }

  std::unique_ptr<Work> all_reduce_bfloat16(torch::Tensor tensor) override {
    require_float32(rank_, "all_reduce_bfloat16", tensor);
    auto meeting = hub_->offer(rank_, {"all_reduce_bfloat16", describe(tensor), tensor, ""},
                               [](Meeting& m) { m.tensor = reduce_bfloat16(m); });
    return std::make_unique<TensorWork>(hub_, rank_, "all_reduce_bfloat16", std::move(meeting), std::move(tensor));
  }

  void broadcast(torch::Tensor tensor, int root) override {
    require_reducible(rank_, "broadcast", tensor);
    require_root(rank_, size(), "broadcast", root);
    const auto detail = fmt::format("{} from {}", describe(tensor), root);
    auto meeting = hub_->offer(rank_, {"broadcast", detail, tensor, ""},
                               [root](Meeting& m) { m.tensor = m.offers[root]->tensor.detach().clone(); });
    TensorWork(hub_, rank_, "broadcast", std::move(meeting), std::move(tensor)).wait();
  }

  void barrier() override {
    const auto meeting = hub_->offer(rank_, {"barrier", "", {}, ""}, [](Meeting&) {});
    hub_->wait(rank_, "barrier", *meeting);
  }

  std::vector<std::string> all_gather_bytes(const std::string& bytes) override {
    return gather("all_gather_bytes", "", bytes);
  }

  std::string broadcast_bytes(const std::string& bytes, int root) override {
    require_root(rank_, size(), "broadcast_bytes", root);
    return gather("broadcast_bytes", fmt::format("from {}", root), rank_ == root ? bytes : "")[root];
  }

  void abort(const std::string& reason) noexcept override { hub_->abort(rank_, reason); }

 private:
  std::vector<std::string> gather(const char* call, const std::string& detail, const std::string& bytes) {
    const auto meeting = hub_->offer(rank_, {call, detail, {}, bytes}, [](Meeting& m) {
      for (auto& each : m.offers) m.bytes.push_back(std::move(each->bytes));
    });
    hub_->wait(rank_, call, *meeting);
    return meeting->bytes;
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, std::chrono::duration<double> timeout) {
  const auto hub = std::make_shared<Hub>(size, timeout);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<ThreadCommunicator>(hub, rank));
  return ranks;
}

}  // namespace foretime::comm
