#include "worker/store/cross_fitting.h"

#include "base/counter_random.h"

namespace foretime::worker {
namespace {

constexpr uint64_t kFold = 14;  // purpose of the random number, beside those of group_store.cpp

}  // namespace

std::vector<uint8_t> folds_of(std::span<const uint64_t> configurations, int64_t members, uint64_t seed) {
  std::vector<uint8_t> folds;
  folds.reserve(configurations.size());
  for (const uint64_t hash : configurations) {
    const double drawn = random_unit({seed, kFold, hash});
    folds.push_back(static_cast<uint8_t>(drawn * static_cast<double>(members)));
  }
  return folds;
}

}  // namespace foretime::worker
