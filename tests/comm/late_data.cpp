#include "tests/comm/late_data.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include <malloc.h>
#include <torch/types.h>

#include "comm/algorithms/tree_sum.h"
#include "comm/backends/factory.h"
#include "comm/mpi/mpi_communicator.h"

// What is freed while `watching` is filled with a pattern and never used again, so that whoever writes to it later is
// found out, and whoever sends it sends the pattern.
namespace {

constexpr unsigned char kFreed = 0xDD;
constexpr size_t kLeast = 256;  // bytes; what is smaller goes as ever

struct FreedBlock {
  unsigned char* data;
  size_t bytes;
};
bool watching = false;
std::array<FreedBlock, 1 << 16> freed_blocks;
size_t freed_count = 0;
std::mutex freed_mutex;

void release(void* data) {
  if (!watching || data == nullptr || malloc_usable_size(data) < kLeast) return std::free(data);
  const std::lock_guard lock(freed_mutex);
  const size_t bytes = malloc_usable_size(data);
  std::memset(data, kFreed, bytes);
  if (freed_count < freed_blocks.size()) freed_blocks[freed_count++] = {static_cast<unsigned char*>(data), bytes};
}

/// Bytes that were written after they had been freed.
size_t spoilt_bytes() {
  const std::lock_guard lock(freed_mutex);
  size_t spoilt = 0;
  for (size_t i = 0; i < freed_count; ++i) {
    for (size_t at = 0; at < freed_blocks[i].bytes; ++at) spoilt += freed_blocks[i].data[at] != kFreed ? 1 : 0;
  }
  return spoilt;
}

}  // namespace

void* operator new(size_t bytes) {
  if (void* data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { release(data); }
void operator delete(void* data, size_t) noexcept { release(data); }

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLimit = 10;                // seconds of a collective
constexpr std::chrono::minutes kGiveUp{20};  // only where something hangs
constexpr int kFailedAsItShould = 5;

/// Calls of the data's kind that go at once before the late one; below 0: none is late.
int calls_until_late = -1;

/// The ranks report their events to each other by files in this folder, since MPI is what is tested.
std::filesystem::path events_folder;
constexpr const char* kFailed = "failed";  // rank 0 has given up, and freed what it lent to MPI
constexpr const char* kCome = "come";      // rank 1 has had all data of the late call

void report_event(const char* name) { std::ofstream(events_folder / name) << "\n"; }
bool has_happened(const char* name) { return std::filesystem::exists(events_folder / name); }

/// MPI moves data only inside its calls, whatever they are for.
void drive_mpi_until(const std::function<bool()>& ended) {
  const auto deadline = Clock::now() + kGiveUp;
  while (!ended() && Clock::now() < deadline) {
    int found = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void expect(bool right, const char* what) {
  if (!right) std::printf("%s is not what was sent\n", what);
}

/// Begins the call. The one that shall be late is waited for as well, for nobody else will. Returns whether it was.
template <class Begin>
bool begin_call(MPI_Request* request, int& code, Begin&& begin) {
  const bool late = calls_until_late == 0;
  if (calls_until_late >= 0) --calls_until_late;
  while (late && !has_happened(kFailed)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  code = begin();
  if (!late || code != MPI_SUCCESS) return false;
  drive_mpi_until([&] {
    int done = 0;
    return PMPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  });
  if (*request != MPI_REQUEST_NULL) std::printf("the late call has not ended\n");
  return true;
}

}  // namespace

// MPI's profiling interface: what the communicator calls comes here first.
extern "C" {
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  int code = 0;
  begin_call(request, code, [&] { return PMPI_Ibcast(data, count, type, root, comm, request); });
  return code;
}
int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  int code = 0;
  begin_call(request, code, [&] { return PMPI_Iallreduce(send, receive, count, type, op, comm, request); });
  return code;
}
int MPI_Iallgatherv(const void* send, int count, MPI_Datatype type, void* receive, const int counts[],
                    const int starts[], MPI_Datatype receive_type, MPI_Comm comm, MPI_Request* request) {
  int code = 0;
  begin_call(request, code,
             [&] { return PMPI_Iallgatherv(send, count, type, receive, counts, starts, receive_type, comm, request); });
  return code;
}
int MPI_Ialltoall(const void* send, int count, MPI_Datatype type, void* receive, int receive_count,
                  MPI_Datatype receive_type, MPI_Comm comm, MPI_Request* request) {
  int code = 0;
  const bool late = begin_call(request, code, [&] {
    return PMPI_Ialltoall(send, count, type, receive, receive_count, receive_type, comm, request);
  });
  if (late) expect(*static_cast<const float*>(receive) == 1, "the first number of rank 0");
  return code;
}
}

namespace {

using foretime::comm::Communicator;

constexpr size_t kBytes = 300'000;  // more than MPI sends before the peer is there
constexpr int64_t kValues = 100'000;

/// A sum of numbers that live in a vector of the caller's, which is gone when the call has failed.
void sum_borrowed(Communicator& comm, bool in_tree) {
  std::vector<float> values(kValues, 1.0F);
  const auto tensor = torch::from_blob(values.data(), {kValues}, torch::kFloat);
  (in_tree ? sum_in_tree(comm, tensor, foretime::comm::Wire::float32) : comm.all_reduce(tensor))->wait();
  expect(values[0] == 2 && values[kValues - 1] == 2, "the sum");
}

void call(const std::string& how, Communicator& comm) {
  const auto text_of = [](int rank) { return std::string(kBytes, static_cast<char>('x' + rank)); };
  // Lengths go before texts; in pieces, rank 0's text before that of rank 1.
  if (comm.rank() == 1) calls_until_late = how == "late_sum" || how == "late_stages" ? 0 : how == "late_pieces" ? 2 : 1;
  if (how == "late_gather" || how == "late_pieces") {
    const auto all = comm.all_gather_bytes(text_of(comm.rank()));
    for (int rank = 0; rank < comm.size(); ++rank) expect(all[rank] == text_of(rank), "a gathered text");
  } else if (how == "late_root" || how == "late_reader") {
    const int root = how == "late_root" ? 1 : 0;
    expect(comm.broadcast_bytes(text_of(root), root) == text_of(root), "the root's text");
  } else {
    sum_borrowed(comm, how == "late_stages");
  }
}

}  // namespace

int late_data(const std::string& how, const std::filesystem::path& folder) {
  using namespace foretime::comm;
  events_folder = folder;
  const auto group = std::make_shared<MpiGroup>(std::chrono::duration<double>(kLimit));
  // Pieces are as long as the second data of all_gather_bytes, or longer than all.
  std::unique_ptr<Communicator> comm =
      std::make_unique<MpiCommunicator>(group, how == "late_pieces" ? kBytes : MpiCommunicator::kMaxCount);
  comm->barrier();
  watching = true;
  try {
    call(how, *comm);
  } catch (const CommError& error) {
    std::printf("rank %d: %s\n", comm->rank(), error.what());
    comm->abort(error.what());
  }
  if (comm->rank() == 1) comm->abort("has been late");
  const int rank = comm->rank();
  comm.reset();
  if (rank == 0) report_event(kFailed);
  if (rank == 1) report_event(kCome);
  int more_turns = 100;  // for data that are on their way
  drive_mpi_until([&] { return has_happened(kCome) && more_turns-- == 0; });
  const size_t spoilt = spoilt_bytes();
  if (spoilt > 0) std::printf("%zu bytes were written after they had been freed\n", spoilt);
  std::fflush(nullptr);
  return kFailedAsItShould;
}
