#include "server/batcher.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace foretime::server {
namespace {

template <class T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

Batcher::Batcher(int64_t threads, std::chrono::microseconds window, int64_t most) : window_(window), most_(most) {
  for (int64_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    waits_no_more_ = ended_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Batcher::stop_waiting() {
  const std::lock_guard lock(mutex_);
  waits_no_more_ = true;
  changed_.notify_all();
}

Scored Batcher::score(const std::shared_ptr<const Target>& target, Work work) {
  std::future<Scored> result;
  {
    const std::lock_guard lock(mutex_);
    auto& open = joinable_[target.get()];
    if (!open || open->candidates + work.count > most_) {
      open = std::make_shared<Batch>();
      open->target = target;
      open->start = std::chrono::steady_clock::now();
      if (target->joins_requests()) open->start += window_;
      waiting_.push_back(open);
    }
    open->candidates += work.count;
    result = open->requests.emplace_back(Request{std::move(work), {}}).result.get_future();
    if (!target->joins_requests()) joinable_.erase(target.get());
    changed_.notify_all();
  }
  return result.get();
}

void Batcher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    // Targets that do not join start at once, so the first need not be the earliest.
    const auto next = std::min_element(waiting_.begin(), waiting_.end(),
                                       [](const auto& a, const auto& b) { return a->start < b->start; });
    const auto start = (*next)->start;
    if (!waits_no_more_ && (*next)->candidates < most_ && start > std::chrono::steady_clock::now()) {
      changed_.wait_until(lock, start);
      continue;
    }
    const auto batch = *next;
    waiting_.erase(next);
    const auto open = joinable_.find(batch->target.get());
    if (open != joinable_.end() && open->second == batch) joinable_.erase(open);
    lock.unlock();
    score(*batch);
    lock.lock();
  }
}

void Batcher::score(Batch& batch) {
  if (batch.requests.size() > 1) {
    try {
      return score_joined(batch);
    } catch (const std::exception&) {
      // One of them, perhaps: each for itself.
    }
  }
  for (auto& request : batch.requests) {
    try {
      request.result.set_value(batch.target->score(request.work));
    } catch (...) {
      request.result.set_exception(std::current_exception());
    }
  }
}

void Batcher::score_joined(Batch& batch) {
  Work all;
  for (const auto& [work, result] : batch.requests) {
    all.count += work.count;
    append(all.layouts, work.layouts);
    append(all.tiles, work.tiles);
    append(all.texts, work.texts);
  }
  const auto scored = batch.target->score(all);
  std::vector<Scored> parts;
  int64_t first = 0;
  for (const auto& [work, result] : batch.requests) {
    auto& part = parts.emplace_back();
    part.requests = batch.requests.size();
    part.scores.assign(scored.scores.begin() + first, scored.scores.begin() + first + work.count);
    if (!scored.failures.empty())
      part.failures.assign(scored.failures.begin() + first, scored.failures.begin() + first + work.count);
    if (!scored.unknown_machines.empty()) {
      const auto begin = scored.unknown_machines.begin() + first;
      part.unknown_machines.assign(begin, begin + work.count);
    }
    first += work.count;
    if (scored.failed == 0 || work.texts.empty()) continue;
    // The call told the first failure of all; this request's own is found again.
    const auto failed = [](float score) { return std::isinf(score) && score > 0.0F; };
    part.failed = std::count_if(part.scores.begin(), part.scores.end(), failed);
    if (part.failed == 0) continue;
    const auto place = std::find_if(part.scores.begin(), part.scores.end(), failed) - part.scores.begin();
    Work one{.count = 1, .texts = {work.texts[place]}};
    auto message = batch.target->score(one).first_failure;
    message.erase(0, std::min(message.size(), message.find(": ")));
    part.first_failure = std::to_string(place) + message;
  }
  for (size_t i = 0; i < parts.size(); ++i) batch.requests[i].result.set_value(std::move(parts[i]));
}

}  // namespace foretime::server
