#include "jobs/redis/redis_client.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "jobs/error.h"
#include "jobs/redis/redis_health.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/redis_server.h"
#include "tests/support/scratch.h"

namespace foretime::jobs {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::RedisServer;

RedisUrl with(RedisUrl url, const std::string& user, const std::string& password) {
  url.user = user;
  url.password = password;
  return url;
}

std::string refused(RedisClient& client, const RedisClient::Arguments& call = {"PING"}) {
  return message_of<RedisRefused>([&] { client.call(call); });
}
std::string unavailable(RedisClient& client, const RedisClient::Arguments& call = {"PING"}) {
  return message_of<RedisUnavailable>([&] { client.call(call); });
}

/// Accepts one connection after the other on a socket and says the same bytes to each, whatever it is asked.
class Impostor {
 public:
  Impostor(const std::filesystem::path& path, std::string answer, bool hold = true)
      : path_(path.string()), answer_(std::move(answer)), hold_(hold) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener_, 8) != 0)
      throw std::runtime_error("cannot listen on " + path_);
    thread_ = std::thread([this] { serve(); });
  }
  ~Impostor() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    for (const int descriptor : held_) close(descriptor);
  }
  RedisUrl url() const { return {.socket = path_}; }

 private:
  void serve() {
    for (;;) {
      const int descriptor = accept(listener_, nullptr, nullptr);
      if (descriptor < 0) return;
      char request[4096];
      (void)!recv(descriptor, request, sizeof request, 0);
      (void)!send(descriptor, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      if (hold_) held_.push_back(descriptor);
      else close(descriptor);
    }
  }
  std::string path_, answer_;
  bool hold_;
  int listener_ = -1;
  std::vector<int> held_;
  std::thread thread_;
};

TEST(RedisClient, CallsAndPipelines) {
  RedisServer server;
  RedisClient client(server.url());
  EXPECT_EQ(text_of(*client.call({"SET", "a key", std::string("x\0y\r\n", 5)})), "OK");
  EXPECT_EQ(text_of(*client.call({"GET", "a key"})), std::string("x\0y\r\n", 5));
  EXPECT_EQ(text_of(*client.call({"GET", "none"})), "");
  const auto replies =
      client.pipeline({{"INCR", "n"}, {"INCR", "n"}, {"RPUSH", "l", "1", "", "3"}, {"LRANGE", "l", "0", "-1"}});
  EXPECT_EQ(integer_of(*replies[1]), 2);
  EXPECT_THAT(texts_of(*replies[3]), ElementsAre("1", "", "3"));
  EXPECT_THAT(text_of(*client.call({"CLIENT", "GETNAME"})), "foretime");
  EXPECT_TRUE(client.pipeline({}).empty());
  EXPECT_THROW(text_of(*replies[1]), RedisUnavailable);
  EXPECT_THROW(integer_of(*replies[3]), RedisUnavailable);
  EXPECT_THROW(texts_of(*replies[1]), RedisUnavailable);
}

TEST(RedisClient, ErrorInAPipelineLeavesTheConnectionInStep) {
  RedisServer server;
  RedisClient client(server.url());
  EXPECT_THAT(message_of<RedisRefused>([&] {
                client.pipeline({{"SET", "k", "v"}, {"LPUSH", "k", "x"}, {"SET", "z", "1"}});
              }),
              AllOf(HasSubstr("LPUSH"), HasSubstr("WRONGTYPE")));
  EXPECT_EQ(text_of(*client.call({"GET", "z"})), "1");
}

TEST(RedisClient, AnswersAboveAMegabyteArriveWhole) {
  RedisServer server;
  RedisClient client(server.url());
  const std::string large(3 << 20, 'x');
  client.call({"SET", "k", large});
  EXPECT_EQ(text_of(*client.call({"GET", "k"})), large);
}

TEST(RedisClient, PasswordsAndUsers) {
  RedisServer server(
      {.config = {"requirepass hunter2", "user alice on >wonder9 ~* +@all", "user bob on >builder7 ~* +get +ping"}});
  RedisClient good(with(server.url(), "", "hunter2")), alice(with(server.url(), "alice", "wonder9"));
  EXPECT_EQ(text_of(*good.call({"PING"})), "PONG");
  EXPECT_EQ(text_of(*alice.call({"ACL", "WHOAMI"})), "alice");

  RedisClient none(server.url()), wrong(with(server.url(), "", "hunter3"));
  EXPECT_THAT(refused(none), HasSubstr("FORETIME_REDIS_PASSWORD"));
  EXPECT_THAT(refused(wrong),
              AllOf(HasSubstr("WRONGPASS"), HasSubstr("FORETIME_REDIS_PASSWORD"), Not(HasSubstr("hunter3"))));
  EXPECT_THAT(wrong.name(), Not(HasSubstr("hunter3")));

  // Neither CONFIG nor INFO nor CLIENT: what he may do works, the rest says which right is missing.
  RedisClient bob(with(server.url(), "bob", "builder7"));
  EXPECT_EQ(text_of(*bob.call({"GET", "k"})), "");
  EXPECT_THAT(refused(bob, {"SET", "k", "v"}), AllOf(HasSubstr("NOPERM"), HasSubstr("right")));
  const auto health = examine(bob);
  EXPECT_EQ(health.appendonly + health.appendfsync + health.maxmemory_policy + health.version, "");
  EXPECT_FALSE(health.warnings.empty());
}

TEST(RedisClient, AnAnswerThatRepeatsThePasswordIsRedacted) {
  testing::Scratch scratch;
  Impostor impostor(scratch.path() / "s", "-ERR unknown command 'AUTH', with args beginning with: 'hunter2'\r\n");
  RedisClient client(with(impostor.url(), "", "hunter2"));
  EXPECT_THAT(refused(client), AllOf(HasSubstr("'***'"), Not(HasSubstr("hunter2"))));
}

TEST(RedisClient, RefusesARedisThatEvicts) {
  RedisServer server({.config = {"maxmemory-policy allkeys-lru", "user carol on >c ~* +@all -config"}});
  RedisClient client(server.url()), carol(with(server.url(), "carol", "c"));
  for (auto* each : {&client, &carol})
    EXPECT_THAT(refused(*each), AllOf(HasSubstr("allkeys-lru"), HasSubstr("maxmemory-policy noeviction")));
}

TEST(RedisClient, ReconnectsAfterTheServerWasKilled) {
  RedisServer server;
  RedisClient client(server.url(), std::chrono::seconds(20));
  client.call({"SET", "k", "v"});
  server.kill9();
  EXPECT_THAT(unavailable(client, {"GET", "k"}), HasSubstr("--redis or FORETIME_REDIS"));
  EXPECT_THAT(unavailable(client, {"GET", "k"}), HasSubstr("cannot connect"));
  server.restart();
  EXPECT_EQ(text_of(*client.call({"GET", "k"})), "v");
  // A client that was idle meanwhile notices at its next call only, and is well after that.
  server.restart();
  EXPECT_THROW(client.call({"GET", "k"}), RedisUnavailable);
  EXPECT_EQ(text_of(*client.call({"GET", "k"})), "v");
}

TEST(RedisClient, ASubscriptionThatFailedIsFollowedByANewConversation) {
  RedisServer server;
  RedisClient client(server.url(), std::chrono::seconds(20));
  client.call({"PING"});
  server.restart();
  EXPECT_THROW(client.subscribe("news"), RedisUnavailable);
  const auto messages = client.subscribe("news");
  client.call({"PUBLISH", "news", "text"});
  EXPECT_EQ(texts_of(*messages->receive("SUBSCRIBE")).at(2), "text");
}

TEST(RedisClient, NothingThere) {
  RedisUrl url{.socket = "/nonexistent/redis.sock"};
  RedisClient client(url), tcp(RedisUrl::parse("redis://127.0.0.1:1"));
  EXPECT_MESSAGE(unavailable(client), "/nonexistent/redis.sock");
  EXPECT_THAT(unavailable(tcp), HasSubstr("Connection refused"));
  url.socket = "/" + std::string(200, 'x');
  EXPECT_MESSAGE(message_of<RedisUnavailable>([&] { RedisClient(url).call({"PING"}); }));
}

TEST(RedisClient, AnswersAboveTheLimitEndTheConnection) {
  RedisServer server;
  RedisClient client(server.url(), std::chrono::seconds(20), 100'000);
  client.call({"SET", "k", std::string(90'000, 'x')});
  EXPECT_EQ(text_of(*client.call({"GET", "k"})).size(), 90'000U);
  client.call({"APPEND", "k", std::string(90'000, 'x')});
  EXPECT_MESSAGE(unavailable(client, {"GET", "k"}));
  // An array of few bytes that costs much memory.
  EXPECT_MESSAGE(unavailable(client, {"EVAL", "local t = {} for i = 1, 7000 do t[i] = 1 end return t", "0"}));
  EXPECT_EQ(text_of(*client.call({"PING"})), "PONG");
}

TEST(RedisClient, AnnouncedLengthsAreNotBelieved) {
  testing::Scratch scratch;
  for (const std::string answer : {"*2000000000\r\n", "*1000000\r\n*1000000\r\n", "*-7\r\n", "*4\r\n*2000000000\r\n"}) {
    Impostor impostor(scratch.path() / "s", answer);
    RedisClient client(with(impostor.url(), "", "p"), std::chrono::seconds(20), 1 << 20);
    EXPECT_THAT(unavailable(client), AnyOf(HasSubstr("above the limit"), HasSubstr("cannot be from Redis"))) << answer;
    unlink((scratch.path() / "s").c_str());
  }
}

TEST(RedisClient, OthersThanRedis) {
  testing::Scratch scratch;
  {
    Impostor impostor(scratch.path() / "http", "HTTP/1.1 400 Bad Request\r\n\r\n");
    RedisClient client(impostor.url());
    EXPECT_MESSAGE(unavailable(client));
  }
  {
    Impostor impostor(scratch.path() / "mute", "", false);
    RedisClient client(impostor.url());
    EXPECT_MESSAGE(unavailable(client));
  }
}

TEST(RedisClient, WaitsNoLongerThanItsTimeout) {
  testing::Scratch scratch;
  Impostor impostor(scratch.path() / "s", "+O");  // begins an answer and never ends it
  RedisClient client(impostor.url(), milliseconds(200));
  EXPECT_THAT(unavailable(client), HasSubstr("within 0.2 s"));

  RedisServer server({.config = {"enable-debug-command local"}});
  RedisClient slow(server.url(), milliseconds(2000));
  slow.call({"PING"});
  EXPECT_MESSAGE(unavailable(slow, {"DEBUG", "SLEEP", "6"}));
  RedisClient patient(server.url(), std::chrono::minutes(20));
  EXPECT_EQ(text_of(*patient.call({"PING"})), "PONG");
  EXPECT_EQ(text_of(*slow.call({"PING"})), "PONG");  // and not the late answer to the sleep
}

TEST(RedisClient, ScriptsAreLoadedWhenRedisForgotThem) {
  RedisServer server;
  RedisClient client(server.url());
  const std::string text = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}";
  const std::string sha1 = text_of(*client.call({"SCRIPT", "LOAD", text}));
  for (int i = 1; i <= 3; ++i) {
    if (i == 2) client.call({"SCRIPT", "FLUSH"});
    if (i == 3) server.restart(), client.disconnect();
    const auto reply = client.script(text, sha1, {"k"}, {"a"});
    EXPECT_EQ(integer_of(*reply->element[2]), i);  // once each
  }
  EXPECT_THAT(message_of<RedisRefused>(
                  [&] { client.script("return redis.error_reply('NO way')", std::string(40, '0'), {}, {}); }),
              HasSubstr("NO way"));
}

TEST(RedisClient, ReplicasAndFullOnesSayWhatToDo) {
  RedisServer::Options options{.config = {"replicaof 127.0.0.1 1"}};
  RedisServer replica(options);
  RedisClient client(replica.url());
  EXPECT_THAT(unavailable(client, {"SET", "k", "v"}), AllOf(HasSubstr("READONLY"), HasSubstr("primary")));
  const auto health = examine(client);
  EXPECT_EQ(health.role, "slave");
  EXPECT_THAT(health.warnings, ::testing::Contains(HasSubstr("replica")));

  options.config = {"maxmemory 1mb"};
  RedisServer full(options);
  RedisClient filler(full.url());
  EXPECT_THAT(message_of<RedisUnavailable>([&] {
                for (int i = 0; i < 100; ++i) filler.call({"SET", std::to_string(i), std::string(100'000, 'x')});
              }),
              HasSubstr("raise maxmemory"));
}

TEST(RedisClient, FollowsAClustersMoves) {
  testing::Scratch scratch;
  // Both answers of the checks on connecting are refusals, the third is the move.
  const std::string denied = "-NOPERM no\r\n";
  Impostor nowhere(scratch.path() / "s", denied + denied + denied + "-MOVED 7 127.0.0.1:1\r\n");
  RedisClient client(nowhere.url());
  EXPECT_THAT(unavailable(client, {"GET", "k"}), AllOf(HasSubstr("redis://127.0.0.1:1"), HasSubstr("cannot connect")));
  Impostor broken(scratch.path() / "t", denied + denied + denied + "-MOVED 7\r\n");
  RedisClient other(broken.url());
  EXPECT_MESSAGE(unavailable(other, {"GET", "k"}));
}

TEST(RedisClient, DatabasesAreApart) {
  RedisServer server;
  auto url = server.url();
  url.database = 3;
  RedisClient third(url), first(server.url());
  third.call({"SET", "k", "3"});
  EXPECT_EQ(text_of(*first.call({"GET", "k"})), "");
  url.database = 99;
  EXPECT_THAT(message_of<RedisDenied>([&] { RedisClient(url).call({"PING"}); }), HasSubstr("SELECT"));
}

TEST(RedisHealth, WarnsWhereJobsCouldBeLost) {
  RedisServer safe({.appendfsync = "always"});
  RedisClient client(safe.url());
  const auto good = examine(client);
  EXPECT_TRUE(good.warnings.empty()) << good.warnings.front();
  EXPECT_EQ(good.role + " " + good.appendonly + " " + good.appendfsync + " " + good.maxmemory_policy,
            "master yes always noeviction");
  EXPECT_GE(std::stoi(good.version), 7);

  client.call({"CONFIG", "SET", "appendfsync", "everysec"});
  EXPECT_THAT(examine(client).warnings, ElementsAre(HasSubstr("one second")));
  client.call({"CONFIG", "SET", "appendonly", "no"});
  EXPECT_THAT(examine(client).warnings, ElementsAre(HasSubstr("appendonly no")));
  client.call({"CONFIG", "SET", "maxmemory-policy", "volatile-ttl"});  // after we connected
  EXPECT_THAT(examine(client).warnings, ElementsAre(HasSubstr("appendonly no"), HasSubstr("volatile-ttl")));
}

TEST(RedisMemory, IsWarnedOfBeforeItIsFull) {
  RedisServer server(RedisServer::Options{false, "no", {}});
  RedisClient client(server.url());
  const auto used = std::stoll(info_field(text_of(*client.call({"INFO", "memory"})), "used_memory"));
  EXPECT_EQ(memory_warning(client), "");
  client.call({"CONFIG", "SET", "maxmemory", std::to_string(2 * used)});
  EXPECT_EQ(memory_warning(client), "");
  client.call({"CONFIG", "SET", "maxmemory", std::to_string(used + used / 8)});
  EXPECT_THAT(memory_warning(client), HasSubstr("of maxmemory"));
  EXPECT_THAT(memory_warning(client), HasSubstr("--keep-jobs"));
  EXPECT_THAT(examine(client).warnings, ::testing::Contains(memory_warning(client)));
}

}  // namespace
}  // namespace foretime::jobs
