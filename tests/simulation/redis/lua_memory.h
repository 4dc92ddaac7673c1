#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace foretime::simulation {

/// Memory for Lua: scripts make and drop many small objects, for which malloc takes longer than the scripts.
class LuaMemory {
 public:
  ~LuaMemory() {
    for (char* block : blocks_) delete[] block;
  }
  static void* allocate(void* self, void* old, size_t old_size, size_t size) {
    return static_cast<LuaMemory*>(self)->resize(old, old_size, size);
  }

 private:
  static constexpr size_t kUnit = 16, kClasses = 32, kBlock = 64 << 10;
  struct Free {
    Free* next;
  };
  static size_t class_of(size_t size) { return (size + kUnit - 1) / kUnit; }

  void* resize(void* old, size_t old_size, size_t size) {
    const auto from = class_of(old_size), to = class_of(size);
    if (old != nullptr && from == to) return old;
    if (old != nullptr && from >= kClasses && to >= kClasses) return std::realloc(old, size);
    void* fresh = size == 0 ? nullptr : take(size, to);
    if (old == nullptr) return fresh;
    if (fresh != nullptr) std::memcpy(fresh, old, std::min(old_size, size));
    if (from >= kClasses) {
      std::free(old);
    } else {
      free_[from] = new (old) Free{free_[from]};
    }
    return fresh;
  }
  void* take(size_t size, size_t to) {
    if (to >= kClasses) return std::malloc(size);
    if (Free* first = free_[to]) {
      free_[to] = first->next;
      return first;
    }
    if (left_ < to * kUnit) {
      blocks_.push_back(new char[kBlock]);
      at_ = blocks_.back();
      left_ = kBlock;
    }
    left_ -= to * kUnit;
    return std::exchange(at_, at_ + to * kUnit);
  }

  std::vector<char*> blocks_;
  char* at_ = nullptr;
  size_t left_ = 0;
  std::array<Free*, kClasses> free_{};
};

}  // namespace foretime::simulation
