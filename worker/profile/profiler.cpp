#include "worker/profile/profiler.h"

#include <algorithm>

namespace foretime::worker {
namespace {

using Clock = Profiler::Clock;

int64_t nanoseconds(Clock::duration time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(); }

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Profiler::Profiler(size_t limit)
    : limit_(std::max<size_t>(limit, 1)),
      start_(Clock::now()),
      training_thread_(std::this_thread::get_id()),
      texts_(1) {}

uint32_t Profiler::number_of(std::string_view text, bool needed) {
  if (text.empty()) return 0;
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  if (!needed && texts_.size() >= kMaxTexts) return 0;
  const auto number = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(text, number);
  return number;
}

/// Threads that come and go share lanes, so that a trace has as many as there were threads at one time.
uint16_t Profiler::free_lane() const {
  for (uint16_t lane = 1;; ++lane) {
    if (std::none_of(threads_.begin(), threads_.end(), [&](const auto& item) { return item.second.lane == lane; }))
      return lane;
  }
}

Profiler::Thread& Profiler::thread() {
  const auto id = std::this_thread::get_id();
  const auto found = threads_.find(id);
  if (found != threads_.end()) return found->second;
  const uint16_t lane = id == training_thread_ ? 0 : free_lane();
  return threads_.emplace(id, Thread{lane, {}}).first->second;
}

void Profiler::begin(std::string_view name, std::string_view detail) {
  const std::lock_guard lock(mutex_);
  const auto name_number = number_of(name, true), detail_number = number_of(detail, false);
  thread().open.push_back({name_number, detail_number, Clock::now(), {}});
}

void Profiler::end() {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  const auto found = threads_.find(std::this_thread::get_id());
  if (found == threads_.end()) return;
  auto& [lane, open] = found->second;
  const auto span = open.back();
  open.pop_back();
  if (!open.empty()) open.back().inner += now - span.begin;
  record(lane == 0 ? SpanPlace::training : SpanPlace::beside, lane, span.name, span.detail, span.begin, now,
         span.inner);
  if (open.empty()) threads_.erase(found);
}

void Profiler::add(std::string_view name, Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  auto& own = thread();
  if (!own.open.empty()) own.open.back().inner += end - begin;
  const uint16_t lane = own.lane;
  if (own.open.empty()) threads_.erase(std::this_thread::get_id());
  record(lane == 0 ? SpanPlace::training : SpanPlace::beside, lane, number_of(name, true), 0, begin, end, {});
}

void Profiler::add_transfer(std::string_view name, Clock::time_point begin, Clock::time_point end,
                            std::string_view detail) {
  const std::lock_guard lock(mutex_);
  record(SpanPlace::wire, ProfileEvent::kWireLane, number_of(name, true), number_of(detail, false), begin, end, {});
}

void Profiler::record(SpanPlace place, uint16_t lane, uint32_t name, uint32_t detail, Clock::time_point begin,
                      Clock::time_point end, Clock::duration inner) {
  auto& totals = totals_[{place, name}];
  ++totals.count;
  totals.seconds += seconds(end - begin);
  totals.self_seconds += seconds(end - begin - inner);
  totals.longest = std::max(totals.longest, seconds(end - begin));
  const ProfileEvent event{nanoseconds(begin - start_), nanoseconds(end - begin), name, detail, lane};
  if (ring_.size() < limit_) {
    ring_.push_back(event);
  } else {
    ring_[static_cast<size_t>(recorded_) % limit_] = event;
  }
  ++recorded_;
}

ProfileSnapshot Profiler::snapshot() const {
  const std::lock_guard lock(mutex_);
  ProfileSnapshot result;
  result.wall_ns = nanoseconds(Clock::now() - start_);
  result.start = start_;
  result.dropped = recorded_ - static_cast<int64_t>(ring_.size());
  result.texts = texts_;
  result.events = ring_;
  if (result.dropped > 0) {
    const auto first = static_cast<std::ptrdiff_t>(static_cast<size_t>(recorded_) % limit_);
    std::rotate(result.events.begin(), result.events.begin() + first, result.events.end());
  }
  for (const auto& [key, totals] : totals_) result.totals[{key.first, texts_[key.second]}] = totals;
  return result;
}

}  // namespace foretime::worker
