#include "tests/comm/standin/streams.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <semaphore.h>

using Clock = std::chrono::steady_clock;

/// Times that it was recorded, and that its place in a stream was reached. Never freed: callers may destroy an event
/// that a stream has yet to reach, and a count of references would order the two.
struct StandinEvent {
  int device = 0;
  bool timed = false;
  std::atomic<int64_t> recorded{0}, reached{0};
  std::atomic<int64_t> nanoseconds{0};

  bool is_reached(int64_t number) {
    return reached.load(std::memory_order_relaxed) >= number && reached.load(std::memory_order_acquire) >= number;
  }
};

/// A queue with one way in and one way out: its thread learns from those who enqueue, and they nothing of it. Never
/// freed, like events.
struct StandinStream {
  explicit StandinStream(int gpu) : device(gpu) {
    sem_init(&waiting, 0, 0);
    thread = std::thread([this] { run(); });
  }

  bool push(std::function<void()> work) {
    const std::lock_guard lock(producers);
    if (destroyed) return false;
    auto* item = new Item{std::move(work), {}};
    last->next.store(item, std::memory_order_release);
    last = item;
    ++pushed;
    sem_post(&waiting);
    return true;
  }

  bool idle() {
    const std::lock_guard lock(producers);
    return done.load(std::memory_order_relaxed) == pushed && done.load(std::memory_order_acquire) == pushed;
  }

  void destroy() {
    {
      const std::lock_guard lock(producers);
      destroyed = true;
      sem_post(&waiting);
    }
    // A kernel that waits for a peer may be in its way for ever.
    for (int i = 0; i < 1000 && !ended.load(std::memory_order_acquire); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (ended) {
      thread.join();
    } else {
      thread.detach();
    }
  }

  const int device;

 private:
  struct Item {
    std::function<void()> work;
    std::atomic<Item*> next{nullptr};
  };

  void run() {
    auto random = foretime::standin::generator(1);
    const int jitter = std::stoi(foretime::standin::setting("FORETIME_STANDIN_JITTER", "200"));
    for (Item* at = first;;) {
      while (sem_wait(&waiting) != 0) {
      }
      auto* next = at->next.load(std::memory_order_acquire);
      if (next == nullptr) break;
      delete at;
      at = next;
      if (jitter > 0 && random() % 2 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(jitter)));
      at->work();
      at->work = nullptr;
      done.fetch_add(1, std::memory_order_release);
    }
    ended.store(true, std::memory_order_release);
  }

  sem_t waiting;
  std::mutex producers;
  Item* first = new Item;  // of the thread: done with
  Item* last = first;
  int64_t pushed = 0;
  bool destroyed = false;
  std::atomic<int64_t> done{0};
  std::atomic<bool> ended{false};
  std::thread thread;
};

namespace foretime::standin {
namespace {

thread_local int current_device = 0;
thread_local cudaStream_t chosen_stream = nullptr;

// Relaxed: no thread learns anything of another by them.
std::atomic<uint32_t> contexts{0};  // a bit a GPU
std::atomic<int> least_number{0};   // of priorities

std::string view() { return setting("FORETIME_STANDIN_VIEW", "all"); }

}  // namespace

std::set<int> gpus_made_current() {
  const auto bits = contexts.exchange(0, std::memory_order_relaxed);
  std::set<int> gpus;
  for (int gpu = 0; gpu < 32; ++gpu) {
    if ((bits >> gpu & 1U) != 0) gpus.insert(gpu);
  }
  return gpus;
}

int highest_priority() { return least_number.load(std::memory_order_relaxed); }

std::string setting(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

int local_rank() { return std::stoi(setting("OMPI_COMM_WORLD_LOCAL_RANK", "0")); }

std::mt19937 generator(uint32_t user) {
  static std::atomic<uint32_t> number{0};
  std::seed_seq seed{static_cast<uint32_t>(std::stoul(setting("FORETIME_STANDIN_SEED", "1"))),
                     static_cast<uint32_t>(local_rank()), user, number++};
  return std::mt19937(seed);
}

bool enqueue(cudaStream_t stream, std::function<void()> work) { return stream->push(std::move(work)); }

cudaStream_t compute_stream(int gpu) {
  if (chosen_stream != nullptr) return chosen_stream;
  static std::mutex mutex;
  static auto* streams = new std::map<int, cudaStream_t>;
  const std::lock_guard lock(mutex);
  auto& stream = (*streams)[gpu];
  if (stream == nullptr) stream = new StandinStream(gpu);
  return stream;
}

cudaStream_t set_compute_stream(cudaStream_t stream) { return std::exchange(chosen_stream, stream); }

}  // namespace foretime::standin

using foretime::standin::current_device, foretime::standin::contexts, foretime::standin::least_number;

const char* cudaGetErrorString(cudaError_t code) {
  constexpr std::array<const char*, 4> kTexts{"no error", "not ready", "invalid value", "invalid device"};
  return kTexts[static_cast<size_t>(code)];
}

cudaError_t cudaGetDeviceCount(int* count) {
  const auto view = foretime::standin::view();
  *count = view == "none"  ? 0
           : view == "all" ? std::stoi(foretime::standin::setting("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
                           : 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  int count = 0;
  cudaGetDeviceCount(&count);
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  current_device = device;
  contexts.fetch_or(1U << device, std::memory_order_relaxed);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const auto view = foretime::standin::view();
  const int place = view == "own" ? foretime::standin::local_rank() : view == "shared" ? 0 : device;
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", place + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new StandinStream(current_device);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  least_number.store(std::min(priority, foretime::standin::highest_priority()), std::memory_order_relaxed);
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->destroy();
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return stream->idle() ? cudaSuccess : cudaErrorNotReady; }

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  while (!stream->idle()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream->push([event, number = event->recorded.load(std::memory_order_relaxed)] {
    while (!event->is_reached(number)) std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new StandinEvent;
  (*event)->device = current_device;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != stream->device) return cudaErrorInvalidDevice;
  const auto number = event->recorded.fetch_add(1, std::memory_order_relaxed) + 1;
  stream->push([event, number] {
    event->nanoseconds.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    event->reached.store(number, std::memory_order_release);
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->is_reached(event->recorded.load(std::memory_order_relaxed)) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->timed || !end->timed) return cudaErrorInvalidValue;
  if (cudaEventQuery(begin) != cudaSuccess || cudaEventQuery(end) != cudaSuccess) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(end->nanoseconds - begin->nanoseconds) * 1e-6F;
  return cudaSuccess;
}
