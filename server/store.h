#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace foretime::server {

/// Keeps objects by id, drops the least recently used. A dropped object lives until its last user is done. Thread-safe.
template <class T>
class RecentStore {
 public:
  /// Keeps at most `most` objects with a weight of at most `most_weight` together; always keeps the newest.
  RecentStore(int64_t most, int64_t most_weight) : most_(most), most_weight_(most_weight) {}

  /// Returns an object, which becomes the most recently used; null if it is not in the store.
  std::shared_ptr<const T> find(const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(id);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().object;
  }

  /// Adds an object as the most recently used, and drops others beyond the limits; does nothing if the id exists.
  void keep(const std::string& id, std::shared_ptr<const T> object, int64_t weight) {
    const std::lock_guard lock(mutex_);
    if (places_.contains(id)) return;
    entries_.push_front({id, std::move(object), weight});
    places_[id] = entries_.begin();
    weight_ += weight;
    while (entries_.size() > 1 && (std::ssize(entries_) > most_ || weight_ > most_weight_)) {
      weight_ -= entries_.back().weight;
      places_.erase(entries_.back().id);
      entries_.pop_back();
    }
  }

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<const T> object;
    int64_t weight;
  };
  const int64_t most_, most_weight_;
  std::mutex mutex_;
  int64_t weight_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, typename std::list<Entry>::iterator> places_;
};

}  // namespace foretime::server
