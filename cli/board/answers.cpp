#include "cli/board/answers.h"

#include "server/http/http.h"

namespace foretime::cli {

using Clock = std::chrono::steady_clock;

void Answers::drop_old() {
  const auto now = Clock::now();
  std::erase_if(cache_, [&](const auto& entry) {
    const auto& kept = entry.second;
    if (kept.until == Clock::time_point{} || kept.until > now) return false;
    bytes_ -= kept.answer.get()->size();
    return true;
  });
}

void Answers::clear() {
  const std::lock_guard lock(mutex_);
  cache_.clear();
  bytes_ = 0;
}

Answers::Text Answers::get(const std::string& question, const std::function<std::string()>& make) {
  std::promise<Text> promise;
  std::shared_future<Text> others;
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    drop_old();
    const auto [place, is_new] = cache_.try_emplace(question);
    if (is_new) {
      number = ++calls_;
      place->second = {promise.get_future().share(), number, {}};
    } else {
      others = place->second.answer;
    }
  }
  if (others.valid()) {
    if (others.wait_for(limits_.patience) != std::future_status::ready)
      throw server::HttpError{503, "busy", "this answer takes long: its files or Redis are slow; try again"};
    return others.get();
  }
  Text text;
  std::exception_ptr failure;
  try {
    text = std::make_shared<const std::string>(make());
    promise.set_value(text);
  } catch (...) {
    failure = std::current_exception();
    promise.set_exception(failure);
  }
  const std::lock_guard lock(mutex_);
  const auto found = cache_.find(question);
  if (found != cache_.end() && found->second.number == number) {
    if (failure || bytes_ + text->size() > limits_.most_bytes) {
      cache_.erase(found);
    } else {
      bytes_ += text->size();
      found->second.until = Clock::now() + limits_.kept;
    }
  }
  if (failure) std::rethrow_exception(failure);
  return text;
}

}  // namespace foretime::cli
