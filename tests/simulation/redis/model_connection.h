#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hiredis/hiredis.h>

#include "jobs/redis/redis_client.h"
#include "tests/simulation/redis/redis_model.h"

namespace foretime::simulation {

/// An answer as hiredis would have read it from a socket.
inline jobs::Reply reply_of(const Answer& answer) {
  const auto bytes = answer.wire();
  const std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader(redisReaderCreate(), &redisReaderFree);
  void* reply = nullptr;
  redisReaderFeed(reader.get(), bytes.data(), bytes.size());
  redisReaderGetReply(reader.get(), &reply);
  return jobs::Reply(static_cast<redisReply*>(reply));
}

/// A conversation with a model of Redis, without delay or fault.
class ModelConnection final : public jobs::RedisTransport {
 public:
  explicit ModelConnection(std::shared_ptr<RedisModel> model) : model_(std::move(model)) {}
  void send(const std::vector<Arguments>& calls) override {
    for (const auto& call : calls) answers_.push_back(model_->run(call));
  }
  jobs::Reply receive(const std::string& command) override { return try_receive(command); }
  jobs::Reply try_receive(const std::string&) override {
    if (answers_.empty()) return nullptr;
    auto reply = reply_of(answers_.front());
    answers_.pop_front();
    return reply;
  }

 private:
  std::shared_ptr<RedisModel> model_;
  std::deque<Answer> answers_;
};

}  // namespace foretime::simulation
