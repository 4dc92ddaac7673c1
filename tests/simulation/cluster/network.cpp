#include "tests/simulation/cluster/network.h"

#include <algorithm>
#include <utility>

#include "jobs/error.h"
#include "tests/simulation/redis/model_connection.h"

namespace foretime::simulation {
namespace {

constexpr Time kPatience = 5 * kSecond;  // of a call, as RedisClient's

}  // namespace

/// One connection, as both ends know it.
struct SimulatedRedis::Conversation {
  int64_t node = 0, life = 0;  // life: which of the server's processes it leads to
  std::deque<Answer> inbox;
  bool broken = false, closed = false;  // reset by the server; given up by the client
  Time last_request = 0, last_answer = 0;
  std::function<void()> notify;  // of a subscriber
};

class SimulatedRedis::Transport final : public jobs::RedisTransport {
 public:
  Transport(SimulatedRedis& redis, int64_t node, std::function<void()> notify)
      : redis_(redis), scheduler_(redis.scheduler_), notify_(std::move(notify)) {
    conversation_->node = node;
    pause(redis_.latency());
    if (redis_.cut_off.count(node) != 0) {
      pause(kPatience);
      fail("cannot connect: Connection timed out");
    }
    if (!redis_.up_) fail("cannot connect: Connection refused");
    conversation_->life = redis_.life_;
  }
  ~Transport() override { conversation_->closed = true; }

  void send(const std::vector<Arguments>& calls) override {
    if (scheduler_.dying() || conversation_->broken) fail("connection lost");
    for (const auto& call : calls) {
      if (call.front() != "SUBSCRIBE") continue;
      redis_.subscribers_[call.at(1)].push_back(conversation_);
      conversation_->notify = notify_;
    }
    if (redis_.hold_back &&
        redis_.hold_back(conversation_->node, calls, [&redis = redis_, conversation = conversation_, calls] {
          redis.deliver(conversation, calls, true);
        }))
      return;
    if (redis_.lost(*conversation_)) return;
    const auto at = std::max(conversation_->last_request, scheduler_.now() + redis_.latency());
    conversation_->last_request = at;
    scheduler_.at(
        at, [&redis = redis_, conversation = conversation_, calls] { redis.deliver(conversation, calls, false); });
  }

  jobs::Reply receive(const std::string& command) override {
    const auto deadline = scheduler_.now() + kPatience;
    while (conversation_->inbox.empty()) {
      if (conversation_->broken) fail("it closed the connection instead of answering " + command);
      if (scheduler_.now() >= deadline) fail("no answer to " + command + " within 5 s");
      wait(deadline);
    }
    return pop();
  }

  jobs::Reply try_receive(const std::string&) override {
    if (conversation_->broken) fail("connection lost");
    return conversation_->inbox.empty() ? nullptr : pop();
  }

 private:
  jobs::Reply pop() {
    auto reply = reply_of(conversation_->inbox.front());
    conversation_->inbox.pop_front();
    return reply;
  }
  [[noreturn]] static void fail(const std::string& what) { throw jobs::RedisUnavailable("Redis: {}", what); }
  /// A process that dies while it waits sees a connection that fails: this may be called by destructors.
  void wait(Time until) {
    if (scheduler_.dying()) fail("connection lost");
    try {
      scheduler_.wait(conversation_.get(), until);
    } catch (const Killed&) {
      fail("connection lost");
    }
    if (scheduler_.dying()) fail("connection lost");
  }
  void pause(Time time) {
    const auto until = scheduler_.now() + time;
    while (scheduler_.now() < until) wait(until);
  }

  SimulatedRedis& redis_;
  Scheduler& scheduler_;
  std::function<void()> notify_;
  std::shared_ptr<Conversation> conversation_ = std::make_shared<Conversation>();
};

SimulatedRedis::SimulatedRedis(Scheduler& scheduler, bool sync_always)
    : scheduler_(scheduler),
      model_([this] { return kEpoch_us + scheduler_.now() + clock_offset_us_; }),
      sync_always_(sync_always) {
  model_.publish = [this](const std::string& channel, const std::string& text) {
    auto& listeners = subscribers_[channel];
    std::erase_if(listeners, [](const auto& weak) {
      const auto conversation = weak.lock();
      return !conversation || conversation->closed || conversation->broken;
    });
    for (const auto& weak : listeners)
      answer(weak.lock(), Answer::array({Answer::of(std::string("message")), Answer::of(channel), Answer::of(text)}));
    return static_cast<int64_t>(listeners.size());
  };
}

std::unique_ptr<jobs::RedisTransport> SimulatedRedis::connect(int64_t node, std::function<void()> notify) {
  return std::make_unique<Transport>(*this, node, std::move(notify));
}

Time SimulatedRedis::latency() {
  if (delay > 0 && scheduler_.chance(delay)) return scheduler_.integer(0, kMinute);
  return scheduler_.integer(50, 3 * kMillisecond);
}

bool SimulatedRedis::lost(const Conversation& conversation) {
  return cut_off.count(conversation.node) != 0 || (loss > 0 && scheduler_.chance(loss));
}

void SimulatedRedis::deliver(const std::shared_ptr<Conversation>& conversation,
                             const std::vector<std::vector<std::string>>& calls, bool certain) {
  if (!up_ || conversation->life != life_ || conversation->broken) {
    conversation->broken = true;
    scheduler_.wake(conversation.get());
    return;
  }
  // What was on its way when the client closed may still be read, or not.
  if (conversation->closed && !certain && scheduler_.chance(0.5)) return;
  for (const auto& call : calls) {
    // appendfsync everysec: by now all of a second ago is on disk.
    if (!sync_always_ && scheduler_.now() - synced_at_ > kSecond) {
      model_.fsync();
      synced_at_ = scheduler_.now();
    }
    if (call.front() == "SUBSCRIBE") {
      answer(conversation,
             Answer::array({Answer::of(std::string("subscribe")), Answer::of(call.at(1)), Answer::of(1)}));
      continue;
    }
    auto reply = model_.run(call);
    asked_at_ = scheduler_.now();
    if (changed) changed(call, reply);
    if (sync_always_) model_.fsync();
    answer(conversation, std::move(reply));
  }
}

void SimulatedRedis::answer(const std::shared_ptr<Conversation>& conversation, Answer answer) {
  if (lost(*conversation)) return;
  const auto at = std::max(conversation->last_answer, scheduler_.now() + latency());
  conversation->last_answer = at;
  scheduler_.at(at, [&scheduler = scheduler_, conversation, answer = std::move(answer)] {
    if (conversation->closed) return;
    conversation->inbox.push_back(answer);
    scheduler.wake(conversation.get());
    if (conversation->notify) conversation->notify();
  });
}

void SimulatedRedis::crash() {
  up_ = false;
  ++life_;
  if (sync_always_ || scheduler_.now() - asked_at_ > kSecond) model_.fsync();
  const auto unsynced = static_cast<int64_t>(model_.unsynced());
  model_.crash(static_cast<size_t>(scheduler_.integer(0, unsynced)));
  synced_at_ = crashed_at_ = scheduler_.now();
  for (const auto& [channel, listeners] : subscribers_) {
    for (const auto& weak : listeners) {
      // Where the whole machine died nobody resets the connection: keep-alive finds that out.
      scheduler_.at(scheduler_.now() + (scheduler_.chance(0.5) ? 0 : kMinute), [weak] {
        const auto conversation = weak.lock();
        if (!conversation || conversation->closed) return;
        conversation->broken = true;
        if (conversation->notify) conversation->notify();
      });
    }
  }
  subscribers_.clear();
}

}  // namespace foretime::simulation
