#include "tests/support/thread_group.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foretime::testing {
namespace {

using namespace comm;

using Clock = std::chrono::steady_clock;

/// Holds the contribution of one rank to a collective. `call` and `detail` must be equal on all ranks.
struct Contribution {
  std::string call, detail;
  torch::Tensor tensor;
  std::string bytes;
};

/// One collective, from the first contribution until the last rank has taken the result.
struct Collective {
  int64_t sequence = 0;
  std::vector<std::optional<Contribution>> contributions;
  size_t arrived = 0;
  bool done = false;
  std::string mismatch;
  torch::Tensor tensor;            // the result
  std::vector<std::string> bytes;  // [ranks] contributed bytes
};

/// Lets threads meet for their collectives.
class Rendezvous {
 public:
  Rendezvous(int size, std::chrono::duration<double> timeout) : size_(size), timeout_(timeout), entered_(size, 0) {}

  int size() const { return size_; }

  /// The last rank to come runs `combine(collective)`.
  template <class Combine>
  std::shared_ptr<Collective> join(int rank, Contribution contribution, Combine&& combine) {
    std::unique_lock lock(mutex_);
    throw_if_ended(rank, contribution.call);
    auto& slot = open_[++entered_[rank]];
    if (!slot) {
      slot = std::make_shared<Collective>();
      slot->sequence = entered_[rank];
      slot->contributions.resize(size_);
    }
    auto collective = slot;
    collective->contributions[rank] = std::move(contribution);
    if (++collective->arrived < static_cast<size_t>(size_)) return collective;
    open_.erase(collective->sequence);
    find_mismatch(*collective);
    if (collective->mismatch.empty()) combine(*collective);
    for (auto& each : collective->contributions) each->tensor.reset();
    collective->done = true;
    changed_.notify_all();
    return collective;
  }

  void wait(int rank, const std::string& call, const Collective& collective) {
    std::unique_lock lock(mutex_);
    const auto limit = std::chrono::duration_cast<Clock::duration>(timeout_);
    const bool in_time = changed_.wait_for(lock, limit, [&] { return collective.done || ended_by_ >= 0; });
    if (collective.done) {
      if (!collective.mismatch.empty()) throw CommError("rank {}: {}", rank, collective.mismatch);
      return;
    }
    throw_if_ended(rank, call);
    if (!in_time) {
      std::vector<std::string> late;
      for (int peer = 0; peer < size_; ++peer) {
        if (!collective.contributions[peer]) late.push_back(fmt::format("rank {} (no answer)", peer));
      }
      throw PeerLostError("rank {}: {} #{} did not finish within {:.1f} s; late: {}", rank, call, collective.sequence,
                          timeout_.count(), fmt::join(late, ", "));
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
    throw PeerLostError("rank {}: {}: rank {} ended: {}", rank, call, ended_by_, reason_);
  }

  void find_mismatch(Collective& collective) const {
    const auto& first = *collective.contributions[0];
    for (int peer = 1; peer < size_; ++peer) {
      const auto& other = *collective.contributions[peer];
      if (other.call == first.call && other.detail == first.detail) continue;
      collective.mismatch = fmt::format("call #{} differs between ranks: {} {} on rank 0, {} {} on rank {}",
                                        collective.sequence, first.call, first.detail, other.call, other.detail, peer);
      return;
    }
  }

  const int size_;
  const std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::shared_ptr<Collective>> open_;
  std::vector<int64_t> entered_;  // calls, by rank
  int ended_by_ = -1;
  std::string reason_;
};

std::string describe(const torch::Tensor& tensor) {
  return fmt::format("{}[{}]", c10::toString(tensor.scalar_type()), tensor.numel());
}

torch::Tensor reduce(const Collective& collective, ReduceOp op) {
  const torch::NoGradGuard no_grad;
  auto result = collective.contributions[0]->tensor.detach().clone();
  for (size_t rank = 1; rank < collective.contributions.size(); ++rank) {
    const auto& other = collective.contributions[rank]->tensor;
    switch (op) {
      case ReduceOp::sum: result.add_(other); break;
      case ReduceOp::max: result.copy_(torch::maximum(result, other)); break;
      case ReduceOp::min: result.copy_(torch::minimum(result, other)); break;
    }
  }
  return result;
}

/// Runs the rest of a collective when it is waited for, if there is any.
class LastCall final : public Work {
 public:
  explicit LastCall(std::function<void()> call) : call_(std::move(call)) {}
  bool poll() override { return !call_; }
  void wait() override {
    if (const auto call = std::exchange(call_, nullptr)) call();
  }

 private:
  std::function<void()> call_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Rendezvous> rendezvous, int rank, int host_block)
      : rendezvous_(std::move(rendezvous)), rank_(rank), host_block_(host_block) {}

  int rank() const override { return rank_; }
  int size() const override { return rendezvous_->size(); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return rendezvous_->size(); }
  int host_block() const override { return host_block_; }
  std::string name() const override { return "threads"; }
  torch::Device device() const override { return torch::kCPU; }

  std::unique_ptr<Work> all_reduce(torch::Tensor tensor, ReduceOp op) override {
    require_reducible(rank_, "all_reduce", tensor);
    const auto detail = fmt::format("{} op {}", describe(tensor), static_cast<int>(op));
    auto collective =
        rendezvous_->join(rank_, {"all_reduce", detail, tensor, ""}, [op](Collective& c) { c.tensor = reduce(c, op); });
    return std::make_unique<LastCall>([this, collective = std::move(collective), tensor]() mutable {
      copy_result("all_reduce", *collective, tensor);
    });
  }
  /// Runs all stages before it returns.
  std::unique_ptr<Work> run(Stages stages) override {
    for (auto& stage : stages.list) {
      if (auto* exchange = std::get_if<AllToAll>(&stage)) {
        const auto members = members_of(exchange->scope);
        const int64_t row = std::ranges::find(members, rank_) - members.begin();
        const auto sent = stack(stages.call, exchange->send);
        for (size_t i = 0; i < members.size(); ++i)
          exchange->receive[static_cast<int64_t>(i)].copy_(sent[members[i]][row]);
      } else if (auto* gather = std::get_if<AllGather>(&stage)) {
        const auto members = members_of(gather->scope);
        const int64_t row = std::ranges::find(members, rank_) - members.begin();
        const auto sent = stack(stages.call, gather->pieces[row]);
        for (size_t i = 0; i < members.size(); ++i) gather->pieces[static_cast<int64_t>(i)].copy_(sent[members[i]]);
      } else {
        std::get<Compute>(stage)();
      }
    }
    return std::make_unique<LastCall>(nullptr);
  }

  void broadcast(torch::Tensor tensor, int root) override {
    require_reducible(rank_, "broadcast", tensor);
    require_root(rank_, size(), "broadcast", root);
    const auto detail = fmt::format("{} from {}", describe(tensor), root);
    const auto collective = rendezvous_->join(rank_, {"broadcast", detail, tensor, ""}, [root](Collective& c) {
      c.tensor = c.contributions[root]->tensor.detach().clone();
    });
    copy_result("broadcast", *collective, tensor);
  }
  void barrier() override {
    const auto collective = rendezvous_->join(rank_, {"barrier", "", {}, ""}, [](Collective&) {});
    rendezvous_->wait(rank_, "barrier", *collective);
  }

  std::vector<std::string> all_gather_bytes(const std::string& bytes) override {
    return gather("all_gather_bytes", "", bytes);
  }

  std::string broadcast_bytes(const std::string& bytes, int root) override {
    require_root(rank_, size(), "broadcast_bytes", root);
    return gather("broadcast_bytes", fmt::format("from {}", root), rank_ == root ? bytes : "")[root];
  }

  void finish() override { barrier(); }
  void abort(const std::string& reason) noexcept override { rendezvous_->abort(rank_, reason); }

 private:
  void copy_result(const char* call, const Collective& collective, torch::Tensor& target) {
    rendezvous_->wait(rank_, call, collective);
    const torch::NoGradGuard no_grad;
    target.copy_(collective.tensor);
  }
  /// All ranks' tensors, in their order, as one more dimension in front.
  torch::Tensor stack(const char* call, const torch::Tensor& own) {
    const auto collective = rendezvous_->join(rank_, {call, describe(own), own, ""}, [](Collective& c) {
      std::vector<torch::Tensor> all;
      for (const auto& each : c.contributions) all.push_back(each->tensor);
      c.tensor = torch::stack(all);
    });
    rendezvous_->wait(rank_, call, *collective);
    return collective->tensor;
  }

  std::vector<std::string> gather(const char* call, const std::string& detail, const std::string& bytes) {
    const auto collective = rendezvous_->join(rank_, {call, detail, {}, bytes}, [](Collective& c) {
      for (auto& each : c.contributions) c.bytes.push_back(std::move(each->bytes));
    });
    rendezvous_->wait(rank_, call, *collective);
    return collective->bytes;
  }

  /// The ranks of a stage, in their order.
  std::vector<int> members_of(Scope scope) const {
    const auto takes_part = [&](int rank) {
      return scope == Scope::all || (scope == Scope::block ? rank / host_block_ == rank_ / host_block_
                                                           : rank % host_block_ == rank_ % host_block_);
    };
    std::vector<int> members;
    for (int rank = 0; rank < size(); ++rank) {
      if (takes_part(rank)) members.push_back(rank);
    }
    return members;
  }

  std::shared_ptr<Rendezvous> rendezvous_;
  int rank_, host_block_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, std::chrono::duration<double> timeout,
                                                             int host_block) {
  const auto rendezvous = std::make_shared<Rendezvous>(size, timeout);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<ThreadCommunicator>(rendezvous, rank, host_block));
  return ranks;
}

}  // namespace foretime::testing
