#include "jobs/redis_client.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <sys/time.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRedirections = 3;
constexpr int kSlowestAnswer = 12;  // timeouts in all, for a peer that sends now and then a byte
constexpr const char* kAdvice =
    "start Redis there, name another with --redis or FORETIME_REDIS, or name none to use the one that foretime runs "
    "itself";

timeval to_timeval(std::chrono::milliseconds time) {
  return {static_cast<time_t>(time.count() / 1000), static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

// hiredis allocates an array by its announced length before a single element has arrived.
constexpr auto kMostElements = static_cast<int>(Limits::kReply / 16);
redisReplyObjectFunctions default_functions;
void* create_bounded_array(const redisReadTask* task, decltype(redisReadTask::elements) elements) {
  return elements > kMostElements ? nullptr : default_functions.createArray(task, elements);
}
redisReplyObjectFunctions* bounded(redisReplyObjectFunctions* original) {
  static redisReplyObjectFunctions functions = [original] {
    default_functions = *original;
    auto changed = *original;
    changed.createArray = create_bounded_array;
    return changed;
  }();
  return &functions;
}

std::string_view view(const redisReply& reply) { return {reply.str, static_cast<size_t>(reply.len)}; }
bool is_error(const redisReply& reply) { return reply.type == REDIS_REPLY_ERROR; }
bool is_error(const redisReply& reply, std::string_view code) {
  return is_error(reply) && view(reply).substr(0, code.size()) == code;
}

/// Errors that pass: trying again later helps.
bool passes(const redisReply& error) {
  return is_error(error, "LOADING") || is_error(error, "BUSY ") || is_error(error, "CLUSTERDOWN") ||
         is_error(error, "MASTERDOWN") || is_error(error, "TRYAGAIN");
}

std::string advice_for(const redisReply& error) {
  if (is_error(error, "NOAUTH") || is_error(error, "WRONGPASS") || view(error).find("AUTH") != std::string_view::npos) {
    return "; set FORETIME_REDIS_PASSWORD (and FORETIME_REDIS_USER), or put both into the URL in FORETIME_REDIS";
  }
  if (is_error(error, "NOPERM")) return "; docs/jobs.md, Security, has the rights that a user needs";
  if (is_error(error, "READONLY")) return "; this is a replica: name the primary";
  if (is_error(error, "MISCONF") || is_error(error, "OOM")) return "; see the log and the memory of this Redis";
  return "";
}

/// The value of `name:value` in what INFO answers.
std::string info_field(const std::string& info, const std::string& name) {
  const auto at = ("\n" + info).find("\n" + name + ":");
  if (at == std::string::npos) return "";
  const auto start = at + name.size() + 1;
  return info.substr(start, info.find_first_of("\r\n", start) - start);
}

std::string second_of(const redisReply& reply) {
  return reply.type == REDIS_REPLY_ARRAY && reply.elements >= 2 ? text_of(*reply.element[1]) : "";
}

}  // namespace

RedisClient::RedisClient(RedisUrl url, std::chrono::milliseconds timeout, size_t max_reply)
    : url_(std::move(url)), timeout_(timeout), max_reply_(max_reply) {}

std::string RedisClient::name() const { return url_.redacted(); }
void RedisClient::disconnect() { context_.reset(); }

void RedisClient::lose(const std::string& what) {
  context_.reset();
  throw RedisUnavailable(
      redact(fmt::format("Redis at {} cannot be used: {}; {}", name(), what, kAdvice), url_.password));
}

void RedisClient::refuse(const redisReply& error) const {
  const auto text = std::string(view(error).substr(0, 1000));
  const auto message = redact(fmt::format("Redis at {}: {}", name(), text), url_.password);
  if (passes(error)) throw RedisUnavailable(message);
  throw RedisRefused(message + advice_for(error));
}

void RedisClient::connect() {
  if (context_) return;
  const auto limit = to_timeval(timeout_);
  context_.reset(url_.socket.empty() ? redisConnectWithTimeout(url_.host.c_str(), static_cast<int>(url_.port), limit)
                                     : redisConnectUnixWithTimeout(url_.socket.c_str(), limit));
  if (!context_) throw RedisUnavailable("no memory for a connection to Redis");
  if (context_->err != 0) lose(context_->errstr);
  context_->reader->fn = bounded(context_->reader->fn);
  redisSetTimeout(context_.get(), limit);
  if (url_.socket.empty()) redisEnableKeepAlive(context_.get());
  try {
    authenticate();
    check_eviction();
  } catch (...) {
    context_.reset();
    throw;
  }
}

void RedisClient::authenticate() {
  const auto require = [&](const Arguments& arguments) {
    const auto reply = exchange(arguments);
    if (is_error(*reply)) refuse(*reply);
  };
  if (!url_.user.empty())
    require({"AUTH", url_.user, url_.password});
  else if (!url_.password.empty())
    require({"AUTH", url_.password});
  if (url_.database != 0) require({"SELECT", std::to_string(url_.database)});
  exchange({"CLIENT", "SETNAME", "foretime"});  // a convenience for CLIENT LIST, which may be forbidden
}

void RedisClient::check_eviction() {
  std::string policy;
  if (const auto reply = exchange({"CONFIG", "GET", "maxmemory-policy"}); !is_error(*reply))
    policy = second_of(*reply);
  else if (is_error(*reply, "NOAUTH") || passes(*reply))
    refuse(*reply);
  else if (const auto info = exchange({"INFO", "memory"}); !is_error(*info))
    policy = info_field(text_of(*info), "maxmemory_policy");
  if (policy.empty() || policy == "noeviction") return;
  throw RedisRefused(
      fmt::format("Redis at {} may throw jobs away when its memory is full: maxmemory-policy is {}, expected "
                  "noeviction; run: redis-cli config set maxmemory-policy noeviction",
                  name(), policy));
}

void RedisClient::append(const Arguments& arguments) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const auto& argument : arguments) {
    texts.push_back(argument.data());
    sizes.push_back(argument.size());
  }
  if (redisAppendCommandArgv(context_.get(), static_cast<int>(arguments.size()), texts.data(), sizes.data()) !=
      REDIS_OK)
    lose(context_->errstr);
}

void RedisClient::flush() {
  for (int done = 0; done == 0;) {
    if (redisBufferWrite(context_.get(), &done) != REDIS_OK) lose(context_->errstr);
  }
}

Reply RedisClient::read() {
  const auto limit = Clock::now() + kSlowestAnswer * timeout_;
  for (;;) {
    void* found = nullptr;
    if (redisGetReplyFromReader(context_.get(), &found) != REDIS_OK) {
      // What hiredis calls "out of memory" is our refusal of an array.
      if (context_->err == REDIS_ERR_OOM) lose(fmt::format("an answer announces more than {} elements", kMostElements));
      lose(fmt::format("what answers there does not speak Redis' protocol ({})", context_->errstr));
    }
    if (found != nullptr) return Reply(static_cast<redisReply*>(found));
    if (context_->reader->len > max_reply_) lose(fmt::format("an answer of more than {} bytes", max_reply_));
    if (Clock::now() > limit) lose(fmt::format("no whole answer in {} s", kSlowestAnswer * timeout_.count() / 1000));
    if (redisBufferRead(context_.get()) != REDIS_OK) {
      const bool late = context_->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
      lose(late ? fmt::format("no answer in {} ms", timeout_.count()) : std::string(context_->errstr));
    }
  }
}

Reply RedisClient::exchange(const Arguments& arguments) {
  append(arguments);
  flush();
  return read();
}

Reply RedisClient::exchange_following(const Arguments& arguments) {
  connect();
  auto reply = exchange(arguments);
  for (int i = 0; i < kRedirections && is_error(*reply, "MOVED "); ++i) {
    // MOVED slot host:port; an empty host means the one that answered.
    const auto place = std::string(view(*reply).substr(view(*reply).rfind(' ') + 1));
    const auto colon = place.rfind(':');
    if (colon == std::string::npos) break;
    auto target = RedisUrl::parse("redis://127.0.0.1" + place.substr(colon));
    if (colon > 0)
      url_.host = place.substr(0, colon);
    else if (!url_.socket.empty())
      url_.host = target.host;
    url_.port = target.port;
    url_.socket.clear();
    context_.reset();
    connect();
    reply = exchange(arguments);
  }
  return reply;
}

Reply RedisClient::call(const Arguments& arguments) {
  auto reply = exchange_following(arguments);
  if (is_error(*reply)) refuse(*reply);
  return reply;
}

std::vector<Reply> RedisClient::pipeline(const std::vector<Arguments>& calls) {
  if (calls.empty()) return {};
  // The first one alone: it connects, and finds out where a cluster keeps the keys.
  std::vector<Reply> replies;
  replies.push_back(exchange_following(calls.front()));
  for (size_t i = 1; i < calls.size(); ++i) append(calls[i]);
  if (calls.size() > 1) flush();
  while (replies.size() < calls.size()) replies.push_back(read());
  for (const auto& reply : replies) {
    if (is_error(*reply)) refuse(*reply);
  }
  return replies;
}

Reply RedisClient::script(const std::string& text, const std::string& sha1, const Arguments& keys,
                          const Arguments& arguments) {
  Arguments words = {"EVALSHA", sha1, std::to_string(keys.size())};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto reply = exchange_following(words);
  if (is_error(*reply, "NOSCRIPT")) {
    words[0] = "EVAL";
    words[1] = text;
    reply = exchange_following(words);
  }
  if (is_error(*reply)) refuse(*reply);
  return reply;
}

std::string text_of(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_NIL) return "";
  if (reply.type == REDIS_REPLY_INTEGER) return std::to_string(reply.integer);
  if (reply.type != REDIS_REPLY_STRING && reply.type != REDIS_REPLY_STATUS)
    throw RedisUnavailable(fmt::format("Redis answered type {}, expected text", reply.type));
  return std::string(view(reply));
}

int64_t integer_of(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_INTEGER)
    throw RedisUnavailable(fmt::format("Redis answered type {}, expected an integer", reply.type));
  return reply.integer;
}

std::vector<std::string> texts_of(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_NIL) return {};
  if (reply.type != REDIS_REPLY_ARRAY)
    throw RedisUnavailable(fmt::format("Redis answered type {}, expected an array", reply.type));
  std::vector<std::string> texts;
  for (size_t i = 0; i < reply.elements; ++i) texts.push_back(text_of(*reply.element[i]));
  return texts;
}

RedisHealth examine(RedisClient& client) {
  RedisHealth health;
  const auto ask = [&](const RedisClient::Arguments& question) -> Reply {
    try {
      return client.call(question);
    } catch (const RedisRefused&) {
      return nullptr;  // a right that this user lacks
    }
  };
  const auto setting = [&](const std::string& name) {
    const auto reply = ask({"CONFIG", "GET", name});
    return reply ? second_of(*reply) : "";
  };
  std::string info;
  if (const auto reply = ask({"INFO"})) info = text_of(*reply);
  health.version = info_field(info, "redis_version");
  health.role = info_field(info, "role");
  health.appendonly = setting("appendonly");
  if (const auto enabled = info_field(info, "aof_enabled"); health.appendonly.empty() && !enabled.empty())
    health.appendonly = enabled == "1" ? "yes" : "no";
  health.appendfsync = setting("appendfsync");
  health.maxmemory_policy = setting("maxmemory-policy");
  if (health.maxmemory_policy.empty()) health.maxmemory_policy = info_field(info, "maxmemory_policy");

  auto& warnings = health.warnings;
  if (health.appendonly == "no")
    warnings.push_back("appendonly is no: a restart of Redis loses jobs; run: redis-cli config set appendonly yes");
  if (health.appendonly == "yes" && health.appendfsync == "everysec") {
    warnings.push_back(
        "appendfsync is everysec: if the machine dies, up to one second of submissions and results is lost; run: "
        "redis-cli config set appendfsync always");
  }
  if (health.appendonly == "yes" && health.appendfsync == "no")
    warnings.push_back("appendfsync is no: if the machine dies, up to half a minute is lost; always is safe");
  if (health.role == "slave") warnings.push_back("this is a replica, which takes no jobs: name the primary");
  if (info_field(info, "aof_last_write_status") == "err")
    warnings.push_back("the last write to the append-only file failed: is the disk full?");
  return health;
}

}  // namespace foretime::jobs
