#include "jobs/redis/redis_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"
#include "base/numbers.h"
#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr int kMoves = 3;
constexpr size_t kLongestError = 1000;  // bytes of an error answer that are quoted

/// Error answers that tell of a passing state: the first word, and what to do.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kPassing = {{
    {"LOADING", "it loads its data; try again in a moment"},
    {"BUSY", "a script runs there for too long"},
    {"MISCONF", "it cannot write its data; is its disk full?"},
    {"OOM",
     "its memory is at maxmemory, so nothing can be submitted; "
     "raise maxmemory there, or keep ended jobs for fewer days (foretime queue --keep-days)"},
    {"CLUSTERDOWN", "its cluster is down"},
    {"MASTERDOWN", "it has lost its primary"},
    {"READONLY", "it is a read-only replica, or was made one by a failover; name its primary"},
    {"NOREPLICAS", "it has too few replicas to accept writes"},
    {"TRYAGAIN", "its cluster moves keys; try again in a moment"},
    {"ASK", "its cluster moves keys; try again in a moment"},
}};

/// The errors that only a changed configuration or password removes: RedisDenied.
constexpr std::string_view kNoPassword =
    "set FORETIME_REDIS_USER and FORETIME_REDIS_PASSWORD (or FORETIME_REDIS_PASSWORD_FILE)";
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kAdvice = {{
    {"NOAUTH", kNoPassword},
    {"ERR Protocol error: unauthenticated", kNoPassword},  // in place of NOAUTH, where a command has many words
    {"WRONGPASS", "check FORETIME_REDIS_USER and FORETIME_REDIS_PASSWORD (or FORETIME_REDIS_PASSWORD_FILE)"},
    {"NOPERM", "the Redis user lacks this right; docs/reference/jobs.md lists what Foretime needs"},
    {"ACL failure", "the Redis user lacks this right; docs/reference/jobs.md lists what Foretime needs"},
    {"DENIED", "Redis is in protected mode; give it a password, or reach it over its Unix socket"},
}};

std::string_view error_text(const redisReply& reply) { return {reply.str, reply.len}; }
bool is_error(const redisReply& reply) { return reply.type == REDIS_REPLY_ERROR; }
bool starts_with(std::string_view text, std::string_view word) {
  return text.substr(0, word.size()) == word && (text.size() == word.size() || text[word.size()] == ' ');
}

[[noreturn]] void wrong_type(const redisReply& reply, const char* expected) {
  throw RedisUnavailable("Redis: an answer of type {}, expected {}; is this really Redis?", reply.type, expected);
}

}  // namespace

RedisClient::RedisClient(RedisUrl url, std::chrono::milliseconds timeout, size_t largest_reply)
    : url_(std::move(url)), timeout_(timeout), largest_reply_(largest_reply) {}

std::string RedisClient::name() const { return url_.redacted(); }
void RedisClient::disconnect() { connection_.reset(); }

void RedisClient::throw_error(const std::string& command, const redisReply& reply) const {
  const auto text = error_text(reply);
  const auto quoted = std::string(text.substr(0, kLongestError));
  const auto redacted = [&](const std::string& message) { return redact(message, url_.password); };
  for (const auto& [word, meaning] : kPassing)
    if (starts_with(text, word))
      throw RedisUnavailable(redacted(fmt::format("Redis at {}: {} ({}: {})", name(), meaning, command, quoted)));
  if (text.find("max number of clients") != std::string_view::npos)
    throw RedisUnavailable("Redis at {}: it has as many clients as it accepts; raise maxclients", name());
  const auto refusal = [&](const auto& advice) {
    return redacted(fmt::format("Redis at {} refused {}: {}{}", name(), command, quoted, advice));
  };
  for (const auto& [word, what] : kAdvice)
    if (text.find(word) < 8) throw RedisDenied(refusal(fmt::format("; {}", what)));
  if (command == "AUTH" || command == "SELECT") throw RedisDenied(refusal(""));  // connect()
  // The scripts declare flags, which came with Redis 7.0.
  const bool old = text.find("Error compiling script") != std::string_view::npos;
  throw RedisRefused(refusal(old ? "; Foretime needs Redis 7.0 or newer" : ""));
}

void RedisClient::refuse_eviction() {
  connection_->send({{"CONFIG", "GET", "maxmemory-policy"}, {"INFO", "memory"}});
  const auto setting = connection_->receive("CONFIG"), info = connection_->receive("INFO");
  std::string policy;
  if (setting->type == REDIS_REPLY_ARRAY && setting->elements == 2) policy = texts_of(*setting)[1];
  if (policy.empty() && info->type == REDIS_REPLY_STRING) policy = info_field(text_of(*info), "maxmemory_policy");
  // Where we may read neither, whoever set up the user is trusted with the rest.
  if (!policy.empty() && policy != "noeviction")
    throw RedisDenied(
        "Redis at {}: maxmemory-policy is {}, so it may drop jobs when memory is short; "
        "set maxmemory-policy noeviction (redis-cli config set maxmemory-policy noeviction, and in redis.conf)",
        name(), policy.substr(0, 100));
}

void RedisClient::connect() {
  if (prepare_) prepare_();
  connection_ = connect_by_ ? connect_by_(url_) : std::make_unique<RedisConnection>(url_, timeout_, largest_reply_);
  const auto ask = [&](const Arguments& arguments) {
    connection_->send({arguments});
    return connection_->receive(arguments.front());
  };
  if (!url_.password_file.empty()) {
    try {
      url_.password = trimmed(files().read(url_.password_file));
    } catch (const FileError& error) {
      connection_.reset();
      throw RedisDenied("FORETIME_REDIS_PASSWORD_FILE: {}", error.what());
    }
  }
  if (!url_.user.empty() || !url_.password.empty()) {
    Arguments arguments = {"AUTH"};
    if (!url_.user.empty()) arguments.push_back(url_.user);
    arguments.push_back(url_.password);
    if (const auto reply = ask(arguments); is_error(*reply)) throw_error("AUTH", *reply);
  }
  if (url_.database != 0)
    if (const auto reply = ask({"SELECT", std::to_string(url_.database)}); is_error(*reply))
      throw_error("SELECT", *reply);
  ask({"CLIENT", "SETNAME", "foretime"});  // shown by CLIENT LIST; needs a right that a user may lack
  refuse_eviction();
}

void RedisClient::follow(const std::string& moved) {
  // MOVED slot host:port; an empty host is the one that we talk to.
  const auto space = moved.rfind(' '), colon = moved.rfind(':');
  int64_t port = 0;
  if (space != std::string::npos && colon != std::string::npos && space < colon)
    port = parse_number<int64_t>(moved.substr(colon + 1)).value_or(0);
  const auto host = port > 0 ? moved.substr(space + 1, colon - space - 1) : "";
  if (port < 1 || port > 65535 || (host.empty() && url_.host.empty()))
    throw RedisUnavailable(
        unavailable_message(url_, "its cluster names no node for the keys: " + moved.substr(0, 200)));
  disconnect();
  if (!host.empty()) url_.host = host;
  url_.socket.clear();
  url_.port = port;
}

std::vector<Reply> RedisClient::exchange(const std::vector<Arguments>& calls) {
  std::vector<Reply> replies(calls.size());
  std::vector<size_t> open(calls.size());  // calls without an answer yet
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  try {
    for (int moves = 0; !open.empty(); ++moves) {
      if (!connection_) connect();
      if (open.size() == calls.size()) {
        connection_->send(calls);
      } else {
        std::vector<Arguments> sent;
        for (const size_t i : open) sent.push_back(calls[i]);
        connection_->send(sent);
      }
      std::vector<size_t> moved;
      for (const size_t i : open) {
        replies[i] = connection_->receive(calls[i].front());
        // A call that was answered so was not executed: repeating it is safe.
        if (is_error(*replies[i]) && starts_with(error_text(*replies[i]), "MOVED")) moved.push_back(i);
      }
      open = std::move(moved);
      if (open.empty()) break;
      if (moves == kMoves) throw RedisUnavailable(unavailable_message(url_, "its cluster sends us from node to node"));
      follow(std::string(error_text(*replies[open.front()])));
    }
  } catch (const RedisUnavailable&) {
    disconnect();
    if (explain_) explain_();
    throw;
  } catch (...) {
    disconnect();
    throw;
  }
  for (const auto& reply : replies) {
    // A new connection says the password again, and may find the new primary.
    const auto text = is_error(*reply) ? error_text(*reply) : "";
    if (starts_with(text, "NOAUTH") || starts_with(text, "READONLY")) disconnect();
  }
  return replies;
}

std::unique_ptr<RedisTransport> RedisClient::subscribe(const std::string& channel) {
  try {
    if (!connection_) connect();
    connection_->send({{"SUBSCRIBE", channel}});
    const auto reply = connection_->receive("SUBSCRIBE");
    if (is_error(*reply)) throw_error("SUBSCRIBE", *reply);
    return std::move(connection_);
  } catch (...) {
    disconnect();
    throw;
  }
}

Reply RedisClient::call(const Arguments& arguments) { return std::move(pipeline({arguments}).front()); }

std::vector<Reply> RedisClient::pipeline(const std::vector<Arguments>& calls) {
  auto replies = exchange(calls);
  for (size_t i = 0; i < replies.size(); ++i)
    if (is_error(*replies[i])) throw_error(calls[i].front(), *replies[i]);
  return replies;
}

Reply RedisClient::script(const std::string& text, const std::string& sha1, const Arguments& keys,
                          const Arguments& arguments) {
  return std::move(scripts(text, sha1, keys, {arguments}).front());
}

std::vector<Reply> RedisClient::scripts(const std::string& text, const std::string& sha1, const Arguments& keys,
                                        const std::vector<Arguments>& arguments) {
  std::vector<Arguments> calls;
  for (const auto& each : arguments) {
    auto& call = calls.emplace_back(Arguments{"EVALSHA", sha1, std::to_string(keys.size())});
    call.insert(call.end(), keys.begin(), keys.end());
    call.insert(call.end(), each.begin(), each.end());
  }
  auto replies = exchange(calls);
  const auto unknown = std::find_if(replies.begin(), replies.end(), [](const Reply& reply) {
    return is_error(*reply) && starts_with(error_text(*reply), "NOSCRIPT");
  });
  if (unknown != replies.end()) {
    calls.erase(calls.begin(), calls.begin() + (unknown - replies.begin()));
    calls.front()[0] = "EVAL";
    calls.front()[1] = text;
    replies.erase(unknown, replies.end());
    for (auto& reply : exchange(calls)) replies.push_back(std::move(reply));
  }
  for (const auto& reply : replies)
    if (is_error(*reply)) throw_error("EVALSHA", *reply);
  return replies;
}

std::string text_of(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_NIL) return "";
  if (reply.type != REDIS_REPLY_STRING && reply.type != REDIS_REPLY_STATUS) wrong_type(reply, "text");
  return {reply.str, reply.len};
}

int64_t integer_of(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_INTEGER) wrong_type(reply, "an integer");
  return reply.integer;
}

std::vector<std::string> texts_of(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_NIL) return {};
  if (reply.type != REDIS_REPLY_ARRAY) wrong_type(reply, "an array");
  std::vector<std::string> texts;
  texts.reserve(reply.elements);
  for (size_t i = 0; i < reply.elements; ++i) texts.push_back(text_of(*reply.element[i]));
  return texts;
}

std::string info_field(const std::string& info, const std::string& name) {
  const auto key = name + ":";
  for (size_t at = info.find(key); at != std::string::npos; at = info.find(key, at + 1)) {
    if (at != 0 && info[at - 1] != '\n') continue;
    const auto start = at + key.size();
    return info.substr(start, info.find_first_of("\r\n", start) - start);
  }
  return "";
}

}  // namespace foretime::jobs
