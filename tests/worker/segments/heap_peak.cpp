#include "tests/worker/segments/heap_peak.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include <malloc.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace foretime::testing {
namespace {

constinit std::atomic<int64_t> heap_used{0}, heap_peak{0};

void* counted(void* block) {
  if (block == nullptr) return block;
  const auto bytes = static_cast<int64_t>(malloc_usable_size(block));
  const int64_t now = heap_used.fetch_add(bytes) + bytes;
  for (int64_t peak = heap_peak.load(); now > peak && !heap_peak.compare_exchange_weak(peak, now);) continue;
  return block;
}

void uncount(void* block) {
  if (block != nullptr) heap_used.fetch_sub(static_cast<int64_t>(malloc_usable_size(block)));
}

}  // namespace

int64_t heap_growth(const std::function<void()>& work) {
  const int64_t before = heap_used.load();
  heap_peak.store(before);
  work();
  return heap_peak.load() - before;
}

}  // namespace foretime::testing

/// In place of glibc's, for every library of the process: programs may define them (the glibc manual, Replacing
/// malloc).
extern "C" {

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t bytes) noexcept { return foretime::testing::counted(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) noexcept { return foretime::testing::counted(__libc_calloc(count, bytes)); }
void* realloc(void* block, size_t bytes) noexcept {
  foretime::testing::uncount(block);
  void* moved = __libc_realloc(block, bytes);
  if (moved == nullptr && bytes > 0) foretime::testing::counted(block);  // it stays as it was
  return foretime::testing::counted(moved);
}
void free(void* block) noexcept {
  foretime::testing::uncount(block);
  __libc_free(block);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  return foretime::testing::counted(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  void* found = memalign(alignment, bytes);
  if (found == nullptr) return ENOMEM;
  *block = found;
  return 0;
}
}

#else

namespace foretime::testing {

int64_t heap_growth(const std::function<void()>& work) {
  work();
  return -1;
}

}  // namespace foretime::testing

#endif
