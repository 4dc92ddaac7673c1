#include "comm/mpi/mpi_group.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/process.h"
#include "comm/communicator.h"
#include "comm/mpi/retained_buffers.h"

namespace foretime::comm {
namespace {

void check(int code, int rank, const char* what) {
  if (code != MPI_SUCCESS) throw CommError("rank {}: {}: {}", rank, what, mpi_error_text(code));
}

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Long enough for a failing rank to leave main after its notice, also on a machine with much to do. mpirun ends the
// wait.
constexpr Seconds kLinger{10.0};
constexpr Seconds kAnswerLimit{5.0};    // waiting time for answers of peers at the end of the time limit
constexpr Seconds kAnnounceLimit{1.0};  // less than kLinger: whoever is told by a rank waits for it to speak

/// MPI moves data only inside its calls, so a wait polls: at first without pause (a core that is given away on a busy
/// machine comes back milliseconds later), then ever more rarely, to leave the cores to ranks that still compute.
class Backoff {
 public:
  void pause() {
    const auto waited = Clock::now() - start_;
    if (waited < std::chrono::milliseconds(1)) return;
    if (waited < std::chrono::milliseconds(100)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(waited < std::chrono::seconds(1) ? std::chrono::microseconds(50)
                                                                   : std::chrono::microseconds(1000));
    }
  }

 private:
  Clock::time_point start_ = Clock::now();
};

Clock::duration clock_time(Seconds seconds) { return std::chrono::duration_cast<Clock::duration>(seconds); }

std::string late_ranks(const Call& call, const MpiGroup& group,
                       const std::vector<std::optional<PeerWatch::Answer>>& answers) {
  std::vector<std::string> late, here;
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    const auto& answer = answers[rank];
    if (std::cmp_equal(rank, group.rank())) continue;
    const auto name = group.name_of(rank);
    if (!answer) late.push_back(name + " (no answer)");
    else if (answer->entered < call.sequence) late.push_back(fmt::format("{} ({})", name, answer->action));
    else here.push_back(fmt::format("{} {}", name, answer->action));
  }
  // Different names of one number mean ranks that differ in their calls; equal names mean a stalled connection.
  if (late.empty()) return fmt::format("no rank is late: {}", fmt::join(here, ", "));
  return fmt::format("late: {}", fmt::join(late, ", "));
}

/// See Communicator::host_block; `leaders` has the first rank of each rank's host.
int largest_block(const std::vector<int>& leaders) {
  const auto shares_hosts = [&](size_t block) {
    for (size_t rank = 0; rank < leaders.size(); ++rank)
      if (leaders[rank] != leaders[rank / block * block]) return false;
    return true;
  };
  size_t block = 1;
  while (leaders.size() % (2 * block) == 0 && shares_hosts(2 * block)) block *= 2;
  return block;
}

}  // namespace

std::string Call::text() const { return fmt::format("{} #{}", what, sequence); }

PeerWatch::PeerWatch(MPI_Comm comm) : comm_(comm) {
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  answers_.resize(size_);
  worked_at_.resize(size_);
  listen();
}

PeerWatch::~PeerWatch() {
  if (receiving_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&receiving_);
    MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
  }
  for (auto& sending : sending_) MPI_Request_free(&sending.request);
  if (!sending_.empty()) keep_until_exit(std::move(sending_));
  MPI_Comm_free(&comm_);
}

void PeerWatch::listen() {
  check(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, 0, comm_, &receiving_), rank_, "MPI_Irecv");
}

void PeerWatch::serve(int64_t entered, const std::string& action, bool works) {
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
        send(from, {.kind = Kind::answer, .round = message.round, .works = works ? 1 : 0, .entered = entered}, action);
        break;
      case Kind::answer:
        if (message.round == round_) answers_[from] = Answer{message.entered, text};
        if (message.works != 0) worked_at_[from] = Clock::now();
        break;
      case Kind::end:
        if (!notice_ || from < notice_->rank) notice_ = Notice{from, text};
        break;
    }
  }
}

void PeerWatch::ask() {
  ++round_;
  std::fill(answers_.begin(), answers_.end(), std::nullopt);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) send(peer, {.kind = Kind::question, .round = round_}, "");
}

void PeerWatch::announce_end(const std::string& reason, std::chrono::duration<double> limit) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) send(peer, {.kind = Kind::end}, reason);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    drop_sent();
    if (sending_.empty() || std::chrono::steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void PeerWatch::send(int to, const Message& header, const std::string& text) {
  auto& sending = sending_.emplace_back();
  sending.message = header;
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

std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return fmt::format("MPI error {}", code);
  return std::string(text, length);
}

MpiGroup::MpiGroup(Seconds timeout) : timeout_(timeout) {
  int initialized = 0, finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) throw CommError("MPI has been finalised in this process and cannot be started again");
  MPI_Initialized(&initialized);
  if (!initialized) {
    // Over one connection, two ranks send each other data in turn. Other MPIs ignore this.
    setenv("OMPI_MCA_btl_tcp_links", "2", 0);
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    owns_mpi_ = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    // Gradients of GPU parameters are handed over on a thread of the autograd engine.
    if (provided < MPI_THREAD_SERIALIZED)
      throw CommError(
          "this MPI library cannot be called from several threads (MPI_THREAD_SERIALIZED); "
          "use an MPI built for threads");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  MPI_Comm_rank(host, &local_rank_);
  MPI_Comm_size(host, &local_size_);
  std::vector<int> leaders(size_);  // [ranks] first rank on the rank's host
  int leader = rank_;
  check(MPI_Bcast(&leader, 1, MPI_INT, 0, host), "MPI_Bcast");
  check(MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
  host_block_ = largest_block(leaders);
  check(MPI_Comm_free(&host), "MPI_Comm_free");
  std::array<char, 256> name{};
  host_name().copy(name.data(), name.size() - 1);
  std::vector<char> names(name.size() * size_);
  const int bytes = name.size();
  check(MPI_Allgather(name.data(), bytes, MPI_CHAR, names.data(), bytes, MPI_CHAR, MPI_COMM_WORLD), "MPI_Allgather");
  for (int rank = 0; rank < size_; ++rank) hosts_.emplace_back(names.data() + static_cast<ptrdiff_t>(rank) * bytes);
  barrier_comm_ = duplicate();
  watch_ = std::make_unique<PeerWatch>(duplicate());
}

MpiGroup::~MpiGroup() {
  if (!finished_) keep_until_exit(std::move(watch_));
}

void MpiGroup::finish() {
  // MPI_Finalize waits for all ranks and cannot be interrupted, so they meet first where they can.
  meet("end of run");
  finished_ = true;
  check(MPI_Comm_free(&barrier_comm_), "MPI_Comm_free");
  watch_.reset();
  if (owns_mpi_) check(MPI_Finalize(), "MPI_Finalize");
}

MPI_Comm MpiGroup::duplicate() const {
  MPI_Comm copy = MPI_COMM_NULL;
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  if (code != MPI_SUCCESS) throw CommError("rank {}: MPI_Comm_dup: {}", rank_, mpi_error_text(code));
  return copy;
}

MPI_Comm MpiGroup::split(int color) const {
  MPI_Comm part = MPI_COMM_NULL;
  int code = MPI_Comm_split(MPI_COMM_WORLD, color, rank_, &part);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN);
  if (code != MPI_SUCCESS) throw CommError("rank {}: MPI_Comm_split: {}", rank_, mpi_error_text(code));
  return part;
}

void MpiGroup::check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  const auto message = fmt::format("rank {}: {}: {}", rank_, what, mpi_error_text(code));
  mark_failed(message);
  throw CommError(message);
}

Call MpiGroup::enter(const char* what) {
  if (failed()) throw CommError("rank {}: {} after a failure: {}", rank_, what, failure_);
  return Call{what, ++entered_};
}

void MpiGroup::wait(const Call& call, const std::function<bool()>& finished) {
  if (failed()) throw CommError("rank {}: {} after a failure: {}", rank_, call.text(), failure_);
  const auto limit = clock_time(timeout_);
  auto end_at = Clock::now() + limit;
  // A rank that works answers after a piece of its work, so it is asked early; one that waits answers at once.
  const std::array<Clock::duration, 2> ask_before{limit / 2, clock_time(std::min(timeout_ / 2, kAnswerLimit))};
  const std::string here = call.text(), action = "waits in " + here;
  size_t asked = 0;
  Backoff backoff;
  while (!finished()) {
    watch_->serve(entered_, action);
    check_notice(here);
    const auto now = Clock::now();
    if (asked < ask_before.size() && now >= end_at - ask_before[asked]) {
      watch_->ask();
      ++asked;
    } else if (now >= end_at && others_work(call, end_at - limit)) {
      end_at = now + limit;
      asked = 0;
    } else if (now >= end_at) {
      mark_failed(fmt::format("rank {}: {} did not finish within {:.1f} s; {}", rank_, here, timeout_.count(),
                              late_ranks(call, *this, watch_->answers())));
      throw PeerLostError(failure_);
    }
    backoff.pause();
  }
}

void MpiGroup::check_notice(const std::string& here) {
  const auto& notice = watch_->notice();
  if (!notice) return;
  peer_has_failed_ = true;
  mark_failed(fmt::format("rank {}: {}: {} ended: {}", rank_, here, name_of(notice->rank), notice->reason));
  throw PeerLostError(failure_);
}

bool MpiGroup::others_work(const Call& call, Clock::time_point since) const {
  bool any = false;
  for (int rank = 0; rank < size_; ++rank) {
    const auto& answer = watch_->answers()[rank];
    const bool works = watch_->worked_at(rank) >= since, late = !answer || answer->entered < call.sequence;
    if (rank == rank_) continue;
    if (late && !works) return false;
    any = any || works;
  }
  return any;
}

void MpiGroup::keep_alive() {
  if (failed()) throw CommError("rank {}: after a failure: {}", rank_, failure_);
  watch_->serve(entered_, "works", /*works=*/true);
  check_notice("own work");
}

void MpiGroup::meet(const char* what) {
  const Call call = enter(what);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(barrier_comm_, &request), "MPI_Ibarrier");
  wait(call, [&] {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    return done != 0;
  });
}

bool MpiGroup::announce_failure(const std::string& reason) noexcept {
  try {
    mark_failed(reason.empty() ? "failure" : reason);
    if (peer_has_failed_) return false;
    if (finished_) return true;
    // time for sending the notice and receiving those of lower ranks
    const auto limit = Clock::now() + clock_time(kAnnounceLimit);
    if (!std::exchange(announced_, true)) watch_->announce_end(reason, kAnnounceLimit);
    while (rank_ > 0 && Clock::now() < limit) {
      watch_->serve(entered_, "ends");
      if (const auto& notice = watch_->notice(); notice && notice->rank < rank_) {
        peer_has_failed_ = true;
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  } catch (const std::exception&) {
    // MPI is broken: nobody else may be left who could tell.
  }
  return true;
}

void MpiGroup::abort(const std::string& reason) noexcept {
  try {
    mark_failed(reason.empty() ? "abort" : reason);
    if (finished_) return;
    if (peer_has_failed_) {
      std::this_thread::sleep_for(kLinger);  // the peer has told everybody itself
    } else if (!std::exchange(announced_, true)) {
      watch_->announce_end(reason, kAnnounceLimit);
    }
  } catch (const std::exception&) {
    failure_ = "abort";
  }
}

std::string MpiGroup::name_of(int rank) const {
  const auto& host = hosts_[rank];
  const bool several = std::ranges::any_of(hosts_, [&](const auto& other) { return other != host; });
  return several ? fmt::format("rank {} on {}", rank, host) : fmt::format("rank {}", rank);
}

void MpiGroup::mark_failed(const std::string& why) {
  if (failure_.empty()) failure_ = why;
}

}  // namespace foretime::comm
