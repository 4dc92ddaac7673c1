#include <algorithm>
#include <utility>
#include <vector>

#include "comm/mpi/mpi_communicator.h"

namespace foretime::comm {
namespace {

constexpr int64_t kWidth = 2;  // bytes of a bfloat16

/// `count` values of each of several pieces that lie `stride` values apart; freed with the collective that uses it.
class PieceType {
 public:
  PieceType(MpiGroup& group, int count, int64_t stride) {
    MPI_Datatype plain = MPI_DATATYPE_NULL;
    group.check(MPI_Type_contiguous(count, MPI_UINT16_T, &plain), "MPI_Type_contiguous");
    group.check(MPI_Type_create_resized(plain, 0, static_cast<MPI_Aint>(stride * kWidth), &type_),
                "MPI_Type_create_resized");
    group.check(MPI_Type_free(&plain), "MPI_Type_free");
    group.check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  PieceType(PieceType&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}
  PieceType& operator=(PieceType&&) = delete;
  ~PieceType() {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace

/// The stages of one collective that is under way. Later ones hold it until its last transfer has begun.
class MpiStages {
 public:
  MpiStages(std::shared_ptr<MpiChannel> channel, const Call& call, Stages stages, std::shared_ptr<MpiStages> previous)
      : channel_(std::move(channel)), call_(call), stages_(std::move(stages)), previous_(std::move(previous)) {
    for (size_t i = 0; i < stages_.list.size(); ++i) {
      if (!std::holds_alternative<Compute>(stages_.list[i])) last_transfer_ = i;
    }
    begin();
  }
  ~MpiStages() {
    if (done()) return;
    auto& abandoned = channel_->abandoned;
    abandoned.insert(abandoned.end(), stages_.tensors.begin(), stages_.tensors.end());
    // MPI may still read them, and their number is that of one failed run.
    new std::vector<PieceType>(std::move(types_));
  }
  MpiStages(const MpiStages&) = delete;
  MpiStages& operator=(const MpiStages&) = delete;

  /// Goes on as far as it can without blocking. True when all stages are done.
  bool advance() {
    while (!done() && arrived()) {
      // Transfers of this collective may begin when all those of the previous one have.
      if (at_ < last_transfer_ && previous_ && !previous_->all_transfers_begun()) return false;
      if (at_ < last_transfer_) previous_.reset();
      types_.clear();
      requests_.clear();
      ++at_;
      begin();
    }
    return done();
  }
  const Call& call() const { return call_; }
  MpiGroup& group() { return *channel_->group; }

 private:
  bool done() const { return at_ == stages_.list.size(); }

  bool all_transfers_begun() {
    if (at_ < last_transfer_) advance();
    return at_ >= last_transfer_;
  }

  /// Begins stage `at_`, and computes where there is nothing to wait for.
  void begin() {
    while (!done()) {
      auto& stage = stages_.list[at_];
      if (auto* exchange = std::get_if<AllToAll>(&stage)) {
        const auto comm = at_ == 0 ? channel_->comm : channel_->later_comm;
        return in_pieces(exchange->send.size(1), [&](int64_t at, int count, MPI_Datatype type, MPI_Request* request) {
          return MPI_Ialltoall(address(exchange->send, at), count, type, address(exchange->receive, at), count, type,
                               comm, request);
        });
      }
      if (auto* gather = std::get_if<AllGather>(&stage)) {
        const auto comm = at_ == 0 ? channel_->comm : channel_->later_comm;
        return in_pieces(gather->pieces.size(1), [&](int64_t at, int count, MPI_Datatype type, MPI_Request* request) {
          return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, address(gather->pieces, at), count, type, comm,
                                request);
        });
      }
      std::get<Compute>(stage)();
      ++at_;
    }
  }

  static char* address(const torch::Tensor& tensor, int64_t at) {
    return static_cast<char*>(tensor.data_ptr()) + at * kWidth;
  }

  template <class Start>
  void in_pieces(int64_t length, Start&& start) {
    for (int64_t at = 0; at < length; at += channel_->max_count) {
      const auto count = static_cast<int>(std::min(channel_->max_count, length - at));
      const bool whole = count == length;  // the usual case: MPI sees plain memory
      if (!whole) types_.emplace_back(*channel_->group, count, length);
      requests_.push_back(MPI_REQUEST_NULL);
      const auto code = start(at, whole ? count : 1, whole ? MPI_UINT16_T : types_.back().get(), &requests_.back());
      channel_->group->check(code, call_.what);
    }
  }

  bool arrived() {
    int done = 0;
    channel_->group->check(
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), call_.what);
    return done != 0;
  }

  std::shared_ptr<MpiChannel> channel_;
  Call call_;
  Stages stages_;
  std::shared_ptr<MpiStages> previous_;
  std::vector<PieceType> types_;
  std::vector<MPI_Request> requests_;  // of stage `at_`
  size_t at_ = 0, last_transfer_ = 0;  // places in stages_.list
};

namespace {

class StagesWork final : public Work {
 public:
  explicit StagesWork(std::shared_ptr<MpiStages> stages) : stages_(std::move(stages)) {}
  bool poll() override { return stages_->advance(); }
  void wait() override {
    stages_->group().wait(stages_->call(), [this] { return poll(); });
  }

 private:
  std::shared_ptr<MpiStages> stages_;
};

}  // namespace

std::unique_ptr<Work> start_stages(std::shared_ptr<MpiChannel> channel, const Call& call, Stages stages) {
  auto under_way = std::make_shared<MpiStages>(channel, call, std::move(stages), channel->last_stages.lock());
  channel->last_stages = under_way;
  return std::make_unique<StagesWork>(std::move(under_way));
}

}  // namespace foretime::comm
