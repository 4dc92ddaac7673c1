#include "plans/state_hash.h"

#include <algorithm>
#include <cstring>

namespace foretime::plans {

StateHash hash_bytes(std::span<const std::byte> bytes, uint64_t key) {
  StateHash hash{key, bytes.size()};
  for (size_t at = 0; at < bytes.size(); at += sizeof(StateHash)) {
    StateHash block;
    std::memcpy(&block, bytes.data() + at, std::min(sizeof block, bytes.size() - at));
    hash = combined(hash, block);
  }
  return mixed(hash, key);
}

}  // namespace foretime::plans
