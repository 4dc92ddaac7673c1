#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/no_copy.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/retained_buffers.h"

namespace foretime::comm {
namespace {

/// `count` values of each of several pieces that lie `stride` bytes apart.
MPI_Datatype piece_type(MpiGroup& group, MPI_Datatype value, int count, int64_t stride) {
  MPI_Datatype plain = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  group.check(MPI_Type_contiguous(count, value, &plain), "MPI_Type_contiguous");
  group.check(MPI_Type_create_resized(plain, 0, stride, &type), "MPI_Type_create_resized");
  group.check(MPI_Type_free(&plain), "MPI_Type_free");
  group.check(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

}  // namespace

/// The stages of one collective that is under way. Later ones hold it while they may have to wait for its transfers.
class MpiStages : NoCopy {
 public:
  MpiStages(std::shared_ptr<MpiChannel> channel, const Call& call, Stages stages, std::shared_ptr<MpiStages> previous)
      : channel_(std::move(channel)), call_(call), stages_(std::move(stages)), previous_(std::move(previous)) {
    for (const auto& stage : stages_.list) transfers_ += std::holds_alternative<Compute>(stage) ? 0 : 1;
    begin();
  }

  /// Goes on, after those before it, as far as it can without blocking. True when all stages are done.
  bool advance() {
    if (previous_) previous_->advance();
    while (!done() && arrived()) {
      // Each communicator must see its transfers in the order of the calls.
      if (begun_ < transfers_ && previous_ && !previous_->has_begun(begun_)) return false;
      ++at_;
      begin();
    }
    if (previous_ && previous_->settled()) previous_.reset();
    return done();
  }
  const Call& call() const { return call_; }
  MpiChannel& channel() { return *channel_; }

 private:
  bool done() const { return at_ == stages_.list.size(); }

  /// Returns whether transfer `number` of this and all earlier collectives has begun, if they have one of this number.
  bool has_begun(size_t number) const {
    if (number < transfers_) return begun_ > number;
    return begun_ == transfers_ && (!previous_ || previous_->has_begun(number));
  }
  /// Nobody has to wait for it any more.
  bool settled() const { return begun_ == transfers_ && !previous_; }

  /// Begins stage `at_`, and computes where there is nothing to wait for.
  void begin() {
    while (!done()) {
      auto& stage = stages_.list[at_];
      if (auto* exchange = std::get_if<AllToAll>(&stage)) {
        const auto comm = next_comm(exchange->scope);
        buffers_.keep(exchange->send);
        buffers_.keep(exchange->receive);
        return in_pieces(exchange->send, [&](int64_t at, int count, MPI_Datatype type, MPI_Request* request) {
          return MPI_Ialltoall(address(exchange->send, at), count, type, address(exchange->receive, at), count, type,
                               comm, request);
        });
      }
      if (auto* gather = std::get_if<AllGather>(&stage)) {
        const auto comm = next_comm(gather->scope);
        buffers_.keep(gather->pieces);
        return in_pieces(gather->pieces, [&](int64_t at, int count, MPI_Datatype type, MPI_Request* request) {
          return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, address(gather->pieces, at), count, type, comm,
                                request);
        });
      }
      std::get<Compute>(stage)();
      ++at_;
    }
  }

  MPI_Comm next_comm(Scope scope) {
    const size_t number = begun_++;
    if (number == 0 && scope == Scope::all) return channel_->comm;
    const auto found = channel_->later.find({number, scope});
    FORETIME_CHECK(found != channel_->later.end(), "{}: transfer {} has a scope that these ranks do not have",
                   call_.what, number);
    return found->second;
  }

  static char* address(const torch::Tensor& tensor, int64_t at) {
    return static_cast<char*>(tensor.data_ptr()) + at * tensor.element_size();
  }

  template <class Start>
  void in_pieces(const torch::Tensor& pieces, Start&& start) {
    const auto value = pieces.element_size() == 2 ? MPI_UINT16_T : MPI_UINT32_T;
    const int64_t length = pieces.size(1);
    for (int64_t at = 0; at < length; at += channel_->max_count) {
      const int count = std::min(channel_->max_count, length - at);
      const bool whole = count == length;  // the usual case: MPI sees plain memory
      auto type = value;
      if (!whole) {
        type = piece_type(*channel_->group, value, count, length * pieces.element_size());
        buffers_.keep(type);
      }
      const auto code = start(at, whole ? count : 1, type, buffers_.new_request());
      channel_->group->check(code, call_.what);
    }
  }

  bool arrived() {
    bool done = false;
    channel_->group->check(buffers_.test(done), call_.what);
    return done;
  }

  std::shared_ptr<MpiChannel> channel_;
  Call call_;
  Stages stages_;
  std::shared_ptr<MpiStages> previous_;
  RetainedBuffers buffers_;           // memory of stage `at_`
  size_t at_ = 0;                     // place in stages_.list
  size_t transfers_ = 0, begun_ = 0;  // numbers of transfers in stages_.list
};

namespace {

class StagesWork final : public Work {
 public:
  explicit StagesWork(std::shared_ptr<MpiStages> stages) : stages_(std::move(stages)) {}
  bool poll() override {
    // Those that began later need calls as well, and whoever waits makes no other.
    if (const auto newest = stages_->channel().last_stages.lock()) newest->advance();
    return stages_->advance();
  }
  void wait() override {
    stages_->channel().group->wait(stages_->call(), [this] { return poll(); });
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
