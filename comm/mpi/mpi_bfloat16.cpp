#include "comm/mpi/mpi_bfloat16.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/bfloat16_sum.h"
#include "comm/mpi/mpi_channel.h"

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

/// One sum under way. Later ones hold it until its second half has begun.
class Bfloat16Exchange {
 public:
  Bfloat16Exchange(std::shared_ptr<MpiCommunicator::Channel> channel, const Call& call, const torch::Tensor& tensor,
                   std::shared_ptr<Bfloat16Exchange> previous)
      : channel_(std::move(channel)),
        call_(call),
        previous_(std::move(previous)),
        sent_(to_bfloat16_pieces(tensor, channel_->group->size()).cpu()),
        received_(torch::empty_like(sent_)) {
    in_pieces([&](int64_t at, int count, MPI_Datatype type, MPI_Request* request) {
      return MPI_Ialltoall(address(sent_, at), count, type, address(received_, at), count, type, channel_->comm,
                           request);
    });
  }
  ~Bfloat16Exchange() {
    if (stage_ == Stage::done) return;
    channel_->abandoned.push_back(sent_);
    channel_->abandoned.push_back(received_);
    // MPI may still read them, and their number is that of one failed run.
    new std::vector<PieceType>(std::move(types_));
  }
  Bfloat16Exchange(const Bfloat16Exchange&) = delete;
  Bfloat16Exchange& operator=(const Bfloat16Exchange&) = delete;

  /// True when the sum of all ranks is in `result`.
  bool advance() {
    if (stage_ == Stage::scattering) {
      if (previous_ && !previous_->gathers()) return false;
      previous_.reset();
      if (!arrived()) return false;
      gather();
    }
    if (stage_ == Stage::gathering && arrived()) {
      types_.clear();
      stage_ = Stage::done;
    }
    return stage_ == Stage::done;
  }
  const torch::Tensor& result() const { return sent_; }
  const Call& call() const { return call_; }
  MpiGroup& group() { return *channel_->group; }

 private:
  enum class Stage : uint8_t { scattering, gathering, done };

  /// The second half has begun.
  bool gathers() {
    if (stage_ == Stage::scattering) advance();
    return stage_ != Stage::scattering;
  }

  static char* address(const torch::Tensor& tensor, int64_t at) {
    return static_cast<char*>(tensor.data_ptr()) + at * kWidth;
  }

  template <class Start>
  void in_pieces(Start&& start) {
    const int64_t length = sent_.size(1);
    requests_.clear();
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

  void gather() {
    // The exchange is through on this side, so MPI reads no more of what was sent, and its memory takes the result.
    const int rank = channel_->group->rank();
    sent_[rank].copy_(sum_in_float32(received_));
    stage_ = Stage::gathering;
    in_pieces([&](int64_t at, int count, MPI_Datatype type, MPI_Request* request) {
      return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, address(sent_, at), count, type, channel_->gather_comm,
                            request);
    });
  }

  std::shared_ptr<MpiCommunicator::Channel> channel_;
  Call call_;
  std::shared_ptr<Bfloat16Exchange> previous_;
  torch::Tensor sent_, received_;  // [ranks, piece] bfloat16, in host memory
  std::vector<PieceType> types_;
  std::vector<MPI_Request> requests_;
  Stage stage_ = Stage::scattering;
};

namespace {

class Bfloat16Work final : public Work {
 public:
  Bfloat16Work(std::shared_ptr<Bfloat16Exchange> exchange, torch::Tensor tensor)
      : exchange_(std::move(exchange)), tensor_(std::move(tensor)) {}

  bool poll() override { return exchange_->advance(); }
  void wait() override {
    exchange_->group().wait(exchange_->call(), [this] { return poll(); });
    from_bfloat16_pieces(exchange_->result(), tensor_);
  }

 private:
  std::shared_ptr<Bfloat16Exchange> exchange_;
  torch::Tensor tensor_;
};

}  // namespace

std::unique_ptr<Work> start_bfloat16_sum(std::shared_ptr<MpiCommunicator::Channel> channel, const Call& call,
                                         torch::Tensor tensor) {
  auto exchange = std::make_shared<Bfloat16Exchange>(channel, call, tensor, channel->last_exchange.lock());
  channel->last_exchange = exchange;
  return std::make_unique<Bfloat16Work>(std::move(exchange), std::move(tensor));
}

}  // namespace foretime::comm
