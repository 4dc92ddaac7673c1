#include "tests/comm/standin/nccl.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/comm/standin/streams.h"

namespace {

constexpr size_t kChunk = 1 << 16;

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

/// What one rank sends another, a chunk at a time.
struct Box {
  std::atomic<uint64_t> written, read;
  std::array<char, kChunk> bytes;
};
struct alignas(64) Segment {
  std::atomic<int> attached;
};

/// One send or receive of a kernel.
struct Transfer {
  int peer;
  bool sends;
  char* data;
  size_t bytes;
};
/// Its transfers at once, then `finish`.
struct Kernel {
  std::vector<Transfer> transfers;
  std::function<void()> finish;
};

}  // namespace

/// Shared with its kernels, which may outlive it; never freed.
struct StandinComm {
  int rank = 0, size = 1;
  std::string name;  // of the shared memory
  Segment* segment = nullptr;
  std::string fault;
  std::mt19937 random;
  std::atomic<ncclResult_t> state{ncclSuccess};
  std::atomic<bool> aborted{false};
  std::atomic<int> kernels{0};  // enqueued and not through
  int collectives = 0;
  bool finalized = false;

  Box& box(int from, int to) { return reinterpret_cast<Box*>(segment + 1)[from * size + to]; }

  /// True when it moved something.
  bool advance(Transfer& transfer) {
    auto& box = transfer.sends ? this->box(rank, transfer.peer) : this->box(transfer.peer, rank);
    const bool full = box.written.load(std::memory_order_acquire) != box.read.load(std::memory_order_acquire);
    if (transfer.bytes == 0 || full == transfer.sends) return false;
    const auto count = std::min(kChunk, transfer.bytes);
    if (transfer.sends) {
      std::memcpy(box.bytes.data(), transfer.data, count);
      box.written.fetch_add(1, std::memory_order_release);
    } else {
      std::memcpy(transfer.data, box.bytes.data(), count);
      box.read.fetch_add(1, std::memory_order_release);
    }
    transfer.data += count;
    transfer.bytes -= count;
    return true;
  }

  void run(Kernel& kernel) {
    if (fault == "slow:" + std::to_string(rank)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto open = [](const Transfer& each) { return each.bytes > 0; };
    while (std::ranges::any_of(kernel.transfers, open)) {
      if (aborted.load(std::memory_order_relaxed)) break;
      bool moved = false;
      // Of several with one peer and direction, the first one that is open.
      for (size_t i = 0; i < kernel.transfers.size(); ++i) {
        auto& each = kernel.transfers[i];
        const bool later = std::any_of(kernel.transfers.begin(), kernel.transfers.begin() + static_cast<long>(i),
                                       [&](const Transfer& other) {
                                         return other.bytes > 0 && other.peer == each.peer && other.sends == each.sends;
                                       });
        if (!later) moved |= advance(each);
      }
      if (!moved) nap();
    }
    if (!aborted.load(std::memory_order_relaxed) && kernel.finish) kernel.finish();
    kernels.fetch_sub(1, std::memory_order_relaxed);
  }

  /// Runs `step` now, or some time later on another thread, as a non-blocking communicator may.
  ncclResult_t now_or_later(std::function<void()> step) {
    if (random() % 2 == 0) {
      step();
      return ncclSuccess;
    }
    state.store(ncclInProgress);
    const auto pause = std::chrono::microseconds(random() % 2000);
    std::thread([this, pause, step = std::move(step)] {
      std::this_thread::sleep_for(pause);
      step();
      auto expected = ncclInProgress;
      state.compare_exchange_strong(expected, ncclSuccess);
    }).detach();
    return ncclInProgress;
  }

  /// Two calls at a time are the caller's mistake, and so is one on an ended communicator.
  ncclResult_t submit(cudaStream_t stream, Kernel kernel) {
    const auto found = state.load();
    if (found == ncclInProgress || finalized) {
      std::fprintf(stderr, "stand-in of NCCL: a call while another one is in progress, or after the end\n");
      return ncclInvalidUsage;
    }
    if (found != ncclSuccess) return found;
    kernels.fetch_add(1, std::memory_order_relaxed);
    if (fault == "error:" + std::to_string(rank) && ++collectives == 5) {
      kernels.fetch_sub(1, std::memory_order_relaxed);
      state.store(ncclRemoteError);
      return ncclSuccess;
    }
    return now_or_later([this, stream, kernel = std::move(kernel)]() mutable {
      foretime::standin::enqueue(stream, [this, kernel = std::move(kernel)]() mutable { run(kernel); });
    });
  }
};

namespace {

/// Open group of this thread, if any.
thread_local bool grouping = false;
thread_local Kernel group;
thread_local ncclComm_t group_comm = nullptr;
thread_local cudaStream_t group_stream = nullptr;

size_t width(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclFloat64: return 8;
  }
  return 0;
}

char* bytes_of(const void* data) { return static_cast<char*>(const_cast<void*>(data)); }

/// Adds in the order of the ranks, in `Sum`.
template <class T, class Sum>
void reduce_as(const std::vector<std::vector<char>>& pieces, void* result, size_t count, ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    Sum total{};
    for (size_t rank = 0; rank < pieces.size(); ++rank) {
      T value;
      std::memcpy(&value, pieces[rank].data() + i * sizeof(T), sizeof(T));
      const auto next = static_cast<Sum>(value);
      if (rank == 0) {
        total = next;
      } else if (op == ncclSum) {
        total = static_cast<Sum>(total + next);
      } else {
        total = op == ncclMax ? std::max(total, next) : std::min(total, next);
      }
    }
    static_cast<T*>(result)[i] = static_cast<T>(total);
  }
}

void reduce(ncclDataType_t type, const std::vector<std::vector<char>>& pieces, void* result, size_t count,
            ncclRedOp_t op) {
  switch (type) {
    case ncclUint8: return reduce_as<uint8_t, uint8_t>(pieces, result, count, op);
    case ncclInt32: return reduce_as<int32_t, int32_t>(pieces, result, count, op);
    case ncclInt64: return reduce_as<int64_t, int64_t>(pieces, result, count, op);
    case ncclFloat16: return reduce_as<c10::Half, float>(pieces, result, count, op);
    case ncclFloat32: return reduce_as<float, float>(pieces, result, count, op);
    case ncclFloat64: return reduce_as<double, double>(pieces, result, count, op);
    case ncclBfloat16: return reduce_as<c10::BFloat16, float>(pieces, result, count, op);
  }
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t code) {
  constexpr std::array<const char*, 6> kTexts{"no error",      "system error", "invalid argument",
                                              "invalid usage", "remote error", "in progress"};
  return kTexts[static_cast<size_t>(code)];
}
const char* ncclGetLastError(ncclComm_t) { return "stand-in"; }
ncclResult_t ncclGetVersion(int* version) {
  *version = 22000;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> number{0};
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/foretime-standin-%d-%d", static_cast<int>(getpid()), number++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;  // a peer that never comes would hold the caller for ever
  auto* made = *comm = new StandinComm;
  made->rank = rank;
  made->size = size;
  made->name = id.internal;
  made->fault = foretime::standin::setting("FORETIME_STANDIN_FAULT", "");
  made->random = foretime::standin::generator(2);
  made->state.store(ncclInProgress);
  std::thread([made] {
    const size_t bytes = sizeof(Segment) + sizeof(Box) * static_cast<size_t>(made->size * made->size);
    const int file = shm_open(made->name.c_str(), O_CREAT | O_RDWR, 0600);
    void* memory = MAP_FAILED;
    if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0)
      memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (memory == MAP_FAILED) {
      made->state.store(ncclSystemError);
      return;
    }
    made->segment = static_cast<Segment*>(memory);
    made->segment->attached.fetch_add(1);
    while (made->segment->attached.load() < made->size && !made->aborted) nap();
    if (made->rank == 0) shm_unlink(made->name.c_str());
    made->state.store(ncclSuccess);
  }).detach();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->state.load();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm->state.load() != ncclSuccess || comm->kernels != 0) return ncclInvalidUsage;
  comm->finalized = true;
  return comm->now_or_later([] {});
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return comm->finalized ? ncclSuccess : ncclInvalidUsage; }

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  while (comm->fault == "stuck_abort") std::this_thread::sleep_for(std::chrono::seconds(1));
  comm->aborted.store(true);
  while (comm->state.load() == ncclInProgress || comm->kernels != 0) nap();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * width(type);
  Kernel kernel;
  auto* pieces = new std::vector<std::vector<char>>(static_cast<size_t>(comm->size));  // deleted by the kernel
  for (int peer = 0; peer < comm->size; ++peer) {
    auto& piece = (*pieces)[static_cast<size_t>(peer)];
    piece.resize(bytes);
    kernel.transfers.push_back({peer, true, bytes_of(send), bytes});
    kernel.transfers.push_back({peer, false, piece.data(), bytes});
  }
  kernel.finish = [=] {
    reduce(type, *pieces, receive, count, op);
    delete pieces;
  };
  return comm->submit(stream, std::move(kernel));
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * width(type);
  Kernel kernel;
  for (int peer = 0; comm->rank == root && peer < comm->size; ++peer)
    kernel.transfers.push_back({peer, true, bytes_of(send), bytes});
  kernel.transfers.push_back({root, false, bytes_of(receive), bytes});
  return comm->submit(stream, std::move(kernel));
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const size_t bytes = count * width(type);
  Kernel kernel;
  for (int peer = 0; peer < comm->size; ++peer) {
    kernel.transfers.push_back({peer, true, bytes_of(send), bytes});
    if (peer != comm->rank || bytes_of(receive) + static_cast<size_t>(peer) * bytes != send)
      kernel.transfers.push_back({peer, false, bytes_of(receive) + static_cast<size_t>(peer) * bytes, bytes});
  }
  // In place, nobody takes what goes to oneself.
  std::erase_if(kernel.transfers, [&](const Transfer& each) {
    return each.peer == comm->rank && bytes_of(receive) + static_cast<size_t>(comm->rank) * bytes == send;
  });
  return comm->submit(stream, std::move(kernel));
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (!grouping) return comm->submit(stream, {{{peer, true, bytes_of(send), count * width(type)}}, nullptr});
  group.transfers.push_back({peer, true, bytes_of(send), count * width(type)});
  group_comm = comm;
  group_stream = stream;
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (!grouping) return comm->submit(stream, {{{peer, false, bytes_of(receive), count * width(type)}}, nullptr});
  group.transfers.push_back({peer, false, bytes_of(receive), count * width(type)});
  group_comm = comm;
  group_stream = stream;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  grouping = true;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  grouping = false;
  Kernel all = std::exchange(group, {});
  return all.transfers.empty() ? ncclSuccess : group_comm->submit(group_stream, std::move(all));
}
