#include "comm/mpi/peer_watch.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "comm/communicator.h"
#include "comm/mpi/mpi_group.h"

namespace foretime::comm {

namespace {

void check(int code, int rank, const char* what) {
  if (code != MPI_SUCCESS) throw CommError(fmt::format("rank {}: {}: {}", rank, what, mpi_error_text(code)));
}

}  // namespace

std::string Call::text() const { return fmt::format("{} #{}", what, sequence); }

PeerWatch::PeerWatch(MPI_Comm comm) : comm_(comm) {
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  answers_.resize(size_);
  listen();
}

PeerWatch::~PeerWatch() {
  if (leaked_) {
    // MPI may still read or write these; the process is about to end.
    new std::list<Sending>(std::move(sending_));
    return;
  }
  if (receiving_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&receiving_);
    MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
  }
  for (auto& sending : sending_) MPI_Request_free(&sending.request);
  MPI_Comm_free(&comm_);
}

void PeerWatch::listen() {
  check(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, 0, comm_, &receiving_), rank_, "MPI_Irecv");
}

void PeerWatch::serve(int64_t entered, const std::string& waiting) {
  drop_sent();
  for (;;) {
    int arrived = 0;
    MPI_Status status;
    check(MPI_Test(&receiving_, &arrived, &status), rank_, "MPI_Test of the watch channel");
    if (!arrived) return;
    const Message message = incoming_;
    const int from = status.MPI_SOURCE;
    listen();
    const std::string text(message.text.data(), strnlen(message.text.data(), message.text.size()));
    switch (message.kind) {
      case Kind::question:
        send(from, Kind::answer, message.round, entered, waiting);
        break;
      case Kind::answer:
        if (message.round == round_) answers_[from] = Answer{message.entered, text};
        break;
      case Kind::end:
        if (!notice_) notice_ = Notice{from, text};
        break;
    }
  }
}

void PeerWatch::ask() {
  ++round_;
  std::fill(answers_.begin(), answers_.end(), std::nullopt);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) send(peer, Kind::question, round_, 0, "");
  }
}

void PeerWatch::announce_end(const std::string& reason, std::chrono::duration<double> limit) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) send(peer, Kind::end, 0, 0, reason);
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    drop_sent();
    if (sending_.empty() || std::chrono::steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void PeerWatch::send(int to, Kind kind, int32_t round, int64_t entered, const std::string& text) {
  auto& sending = sending_.emplace_back();
  sending.message.kind = kind;
  sending.message.round = round;
  sending.message.entered = entered;
  text.copy(sending.message.text.data(), sending.message.text.size());
  check(MPI_Isend(&sending.message, sizeof sending.message, MPI_BYTE, to, 0, comm_, &sending.request), rank_,
        "MPI_Isend on the watch channel");
}

void PeerWatch::drop_sent() {
  for (auto it = sending_.begin(); it != sending_.end();) {
    int gone = 0;
    check(MPI_Test(&it->request, &gone, MPI_STATUS_IGNORE), rank_, "MPI_Test of the watch channel");
    it = gone ? sending_.erase(it) : std::next(it);
  }
}

}  // namespace foretime::comm
