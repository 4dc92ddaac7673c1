#include "jobs/redis/redis_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/files.h"
#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using std::chrono::steady_clock;

/// What hiredis spends on one element: a redisReply and the pointer to it.
constexpr size_t kElementBytes = sizeof(redisReply) + sizeof(redisReply*);

timeval to_timeval(std::chrono::milliseconds time) {
  return {time.count() / 1000, static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

constexpr int kMoves = 3;
constexpr size_t kLongestError = 1000;  // bytes of an error answer that are quoted

/// Error answers that tell of a passing state: the first word, and what to do.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kPassing = {{
    {"LOADING", "it loads its data; try again in a moment"},
    {"BUSY", "a script runs there for too long"},
    {"MISCONF", "it cannot write its data; is its disk full?"},
    {"OOM",
     "its memory is at maxmemory, so nothing can be submitted; raise maxmemory there, or keep ended jobs for fewer "
     "days (foretime queue --keep-days)"},
    {"CLUSTERDOWN", "its cluster is down"},
    {"MASTERDOWN", "it has lost its primary"},
    {"READONLY", "it is a read-only replica, or was made one by a failover; name its primary"},
    {"NOREPLICAS", "it has too few replicas to accept writes"},
    {"TRYAGAIN", "its cluster moves keys; try again in a moment"},
    {"ASK", "its cluster moves keys; try again in a moment"},
}};

/// Those that need somebody to change something: RedisDenied.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kAdvice = {{
    {"NOAUTH", "set FORETIME_REDIS_USER and FORETIME_REDIS_PASSWORD (or FORETIME_REDIS_PASSWORD_FILE)"},
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

/// "" where the user may not ask, or this Redis does not know.
std::string setting(RedisClient& client, const std::string& name) {
  try {
    const auto pair = texts_of(*client.call({"CONFIG", "GET", name}));
    return pair.size() == 2 ? pair[1] : "";
  } catch (const RedisRefused&) {
    return "";
  }
}

std::string info(RedisClient& client, const std::string& section) {
  try {
    return text_of(*client.call({"INFO", section}));
  } catch (const RedisRefused&) {
    return "";
  }
}

}  // namespace

std::string unavailable_message(const RedisUrl& url, const std::string& what) {
  return redact(fmt::format("Redis at {}: {}; start Redis there, name another with --redis or FORETIME_REDIS, or name "
                            "none to use the embedded one",
                            url.redacted(), what),
                url.password);
}

bool RedisConnection::Budget::spend(size_t bytes) {
  exceeded = exceeded || bytes > left;
  left -= std::min(bytes, left);
  return !exceeded;
}

/// hiredis allocates an array of the length that its header announces, before any element is there.
template <class Count>
void* RedisConnection::create_array(const redisReadTask* task, Count elements) {
  auto& budget = *static_cast<Budget*>(task->privdata);
  if (!budget.spend(static_cast<size_t>(elements) * kElementBytes)) return nullptr;
  return budget.create_array(task, elements);
}

RedisConnection::RedisConnection(const RedisUrl& url, std::chrono::milliseconds timeout, size_t largest_reply)
    : url_(url), timeout_(timeout), largest_reply_(largest_reply) {
  constexpr size_t kLongestSocket = sizeof(sockaddr_un::sun_path) - 1;
  if (url_.socket.size() > kLongestSocket)
    fail(fmt::format("the path of a socket holds at most {} bytes, this one {}", kLongestSocket, url_.socket.size()));
  context_.reset(url_.socket.empty()
                     ? redisConnectWithTimeout(url_.host.c_str(), static_cast<int>(url_.port), to_timeval(timeout_))
                     : redisConnectUnixWithTimeout(url_.socket.c_str(), to_timeval(timeout_)));
  if (!context_) fail("no memory for a connection");
  if (context_->err) fail(fmt::format("cannot connect: {}", context_->errstr));
  fcntl(context_->fd, F_SETFD, FD_CLOEXEC);
  fcntl(context_->fd, F_SETFL, O_NONBLOCK);
  // A peer that vanished without a word is noticed by the time limit of a call; this is for idle connections.
  if (url_.socket.empty()) redisEnableKeepAlive(context_.get());
  functions_ = *context_->reader->fn;
  budget_.create_array = functions_.createArray;
  functions_.createArray = &RedisConnection::create_array;
  context_->reader->fn = &functions_;
  context_->reader->privdata = &budget_;
}

RedisConnection::~RedisConnection() = default;

void RedisConnection::fail(const std::string& what) const { throw RedisUnavailable(unavailable_message(url_, what)); }

void RedisConnection::wait(short events, Deadline deadline, const std::string& doing) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd descriptor{context_->fd, events, 0};
    const int ready = left.count() < 0 ? 0 : poll(&descriptor, 1, static_cast<int>(left.count()));
    if (ready > 0) return;
    if (ready == 0) fail(fmt::format("no answer to {} within {}", doing, in_seconds(timeout_)));
    if (errno != EINTR) fail(fmt::format("{}: poll: {}", doing, std::strerror(errno)));
  }
}

void RedisConnection::send(const std::vector<Arguments>& calls) {
  std::string bytes;
  const auto add_length = [&](char type, size_t length) {
    std::array<char, 24> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), length).ptr;
    bytes += type;
    bytes.append(text.data(), end).append("\r\n");
  };
  for (const auto& call : calls) {
    add_length('*', call.size());
    for (const auto& argument : call) {
      add_length('$', argument.size());
      bytes.append(argument).append("\r\n");
    }
  }
  const auto& command = calls.empty() || calls.front().empty() ? std::string("nothing") : calls.front().front();
  auto deadline = steady_clock::now() + timeout_;
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(context_->fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent > 0) {
      at += static_cast<size_t>(sent);
      deadline = steady_clock::now() + timeout_;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait(POLLOUT, deadline, command);
    } else if (errno != EINTR) {
      fail(fmt::format("connection lost while sending {}: {}", command, std::strerror(errno)));
    }
  }
}

Reply RedisConnection::receive(const std::string& command) {
  return receive_until(steady_clock::now() + timeout_, command);
}

Reply RedisConnection::try_receive(const std::string& command) { return receive_until(Deadline::min(), command); }

Reply RedisConnection::receive_until(Deadline deadline, const std::string& command) {
  budget_.left = largest_reply_;
  budget_.exceeded = false;
  size_t received = 0;
  for (;;) {
    void* reply = nullptr;
    const bool sound = redisReaderGetReply(context_->reader, &reply) == REDIS_OK;
    if (sound && reply) return Reply(static_cast<redisReply*>(reply));
    if (budget_.exceeded || received > largest_reply_)
      fail(fmt::format("the answer to {} is above the limit of {} bytes", command, largest_reply_));
    if (!sound) fail(fmt::format("the answer to {} cannot be from Redis: {}", command, context_->reader->errstr));
    if (deadline != Deadline::min()) wait(POLLIN, deadline, command);
    std::array<char, 64 << 10> buffer;
    const ssize_t count = recv(context_->fd, buffer.data(), buffer.size(), 0);
    if (count == 0) fail(fmt::format("it closed the connection instead of answering {}", command));
    if (count > 0) {
      received += static_cast<size_t>(count);
      if (redisReaderFeed(context_->reader, buffer.data(), static_cast<size_t>(count)) != REDIS_OK)
        fail(fmt::format("no memory for the answer to {}", command));
    } else if (errno == EAGAIN && deadline == Deadline::min()) {
      return nullptr;
    } else if (errno != EINTR && errno != EAGAIN) {
      fail(fmt::format("connection lost before the answer to {}: {}", command, std::strerror(errno)));
    }
  }
}

RedisClient::RedisClient(RedisUrl url, std::chrono::milliseconds timeout, size_t largest_reply)
    : url_(std::move(url)), timeout_(timeout), largest_reply_(largest_reply) {}

std::string RedisClient::name() const { return url_.redacted(); }
void RedisClient::disconnect() { connection_.reset(); }

void RedisClient::throw_error(const std::string& command, const redisReply& reply) const {
  const auto text = error_text(reply);
  const auto quoted = std::string(text.substr(0, kLongestError));
  const auto redacted = [&](const std::string& message) { return redact(message, url_.password); };
  for (const auto& [word, meaning] : kPassing) {
    if (starts_with(text, word))
      throw RedisUnavailable(redacted(fmt::format("Redis at {}: {} ({}: {})", name(), meaning, command, quoted)));
  }
  if (text.find("max number of clients") != std::string_view::npos)
    throw RedisUnavailable("Redis at {}: it has as many clients as it accepts; raise maxclients", name());
  const auto refusal = [&](const auto& advice) {
    return redacted(fmt::format("Redis at {} refused {}: {}{}", name(), command, quoted, advice));
  };
  for (const auto& [word, what] : kAdvice) {
    if (text.find(word) < 8) throw RedisDenied(refusal(fmt::format("; {}", what)));
  }
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
    throw RedisRefused(
        "Redis at {}: maxmemory-policy is {}, so it may drop jobs when memory is short; set "
        "maxmemory-policy noeviction (redis-cli config set maxmemory-policy noeviction, and in redis.conf)",
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
  if (url_.database != 0) {
    if (const auto reply = ask({"SELECT", std::to_string(url_.database)}); is_error(*reply))
      throw_error("SELECT", *reply);
  }
  ask({"CLIENT", "SETNAME", "foretime"});  // for CLIENT LIST; a user without the right does without
  refuse_eviction();
}

void RedisClient::follow(const std::string& moved) {
  // MOVED slot host:port; an empty host is the one that we talk to.
  const auto space = moved.rfind(' '), colon = moved.rfind(':');
  int64_t port = 0;
  if (space != std::string::npos && colon != std::string::npos && space < colon)
    std::from_chars(moved.data() + colon + 1, moved.data() + moved.size(), port);
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
  for (size_t i = 0; i < replies.size(); ++i) {
    if (is_error(*replies[i])) throw_error(calls[i].front(), *replies[i]);
  }
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
  for (const auto& reply : replies) {
    if (is_error(*reply)) throw_error("EVALSHA", *reply);
  }
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

std::string memory_warning(RedisClient& client) {
  constexpr double kMuch = 0.8, kMiB = 1 << 20;
  const auto text = info(client, "memory");
  const auto bytes = [&](const char* field) {
    const auto value = info_field(text, field);
    return value.empty() ? 0.0 : std::atof(value.c_str());
  };
  const bool limited = bytes("maxmemory") > 0;
  const double used = bytes("used_memory"), most = bytes(limited ? "maxmemory" : "total_system_memory");
  if (most <= 0 || used < kMuch * most) return "";
  return fmt::format(
      "Redis uses {:.0f} of {:.0f} MiB of {} ({:.0f} %); when it is full, no jobs are taken: raise it, or keep fewer "
      "jobs "
      "that ended (foretime agent --keep-jobs, --keep-days)",
      used / kMiB, most / kMiB, limited ? "maxmemory" : "the machine's memory", 100 * used / most);
}

RedisHealth examine(RedisClient& client) {
  client.call({"PING"});  // what keeps us from connecting at all is no missing right
  RedisHealth health;
  health.version = info_field(info(client, "server"), "redis_version");
  health.role = info_field(info(client, "replication"), "role");
  const auto persistence = info(client, "persistence");
  health.appendonly = setting(client, "appendonly");
  if (health.appendonly.empty()) {
    const auto enabled = info_field(persistence, "aof_enabled");
    if (!enabled.empty()) health.appendonly = enabled == "1" ? "yes" : "no";
  }
  health.appendfsync = setting(client, "appendfsync");
  health.maxmemory_policy = setting(client, "maxmemory-policy");
  if (health.maxmemory_policy.empty()) health.maxmemory_policy = info_field(info(client, "memory"), "maxmemory_policy");

  auto& warnings = health.warnings;
  if (!health.version.empty() && std::atoi(health.version.c_str()) < kLeastRedis) {
    health.usable = false;
    warnings.push_back(fmt::format("version {}: Foretime needs Redis {}.0 or newer", health.version, kLeastRedis));
  }
  if (health.appendonly == "no") {
    warnings.push_back("appendonly no: a restart of Redis loses jobs; set appendonly yes and appendfsync always");
  } else if (health.appendfsync == "everysec") {
    warnings.push_back(
        "appendfsync everysec: up to one second of transitions can be lost when the machine dies; set appendfsync "
        "always");
  } else if (health.appendfsync == "no") {
    warnings.push_back(
        "appendfsync no: the operating system decides when transitions reach the disk, half a minute of them can be "
        "lost when the machine dies; set appendfsync always");
  }
  if (health.appendonly.empty())
    warnings.push_back("appendonly could not be read: nobody knows whether a restart of Redis loses jobs");
  else if (health.appendonly == "yes" && health.appendfsync.empty())
    warnings.push_back("appendfsync could not be read: transitions may be lost when the machine dies");
  if (!health.maxmemory_policy.empty() && health.maxmemory_policy != "noeviction")
    warnings.push_back("maxmemory-policy " + health.maxmemory_policy +
                       ": Redis may drop jobs when memory is short; set maxmemory-policy noeviction");
  health.disk_failed = info_field(persistence, "aof_last_write_status") == "err";
  if (health.disk_failed)
    warnings.push_back("the last write to the append-only file failed: is the disk of Redis full?");
  if (const auto full = memory_warning(client); !full.empty()) warnings.push_back(full);
  health.usable = health.usable && health.role != "slave";
  if (health.role == "slave") warnings.push_back("this Redis is a replica: it takes no jobs; name its primary");
  return health;
}

}  // namespace foretime::jobs
