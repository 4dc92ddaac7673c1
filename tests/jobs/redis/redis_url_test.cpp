#include "jobs/redis/redis_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "tests/support/message_of.h"
#include "tests/support/processes.h"

namespace foretime::jobs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Variable;

std::string refusal(const std::string& text) {
  return testing::message_of<JobsError>([&] { RedisUrl::parse(text); });
}

TEST(RedisUrl, ReadsHostPortDatabaseAndCredentials) {
  const auto plain = RedisUrl::parse("redis://box");
  EXPECT_EQ(plain.host, "box");
  EXPECT_EQ(plain.port, 6379);
  EXPECT_EQ(plain.database, 0);
  const auto full = RedisUrl::parse("redis://al%40ice:p%3A%2f%25w@box.example:7000/3");
  EXPECT_EQ(full.user, "al@ice");
  EXPECT_EQ(full.password, "p:/%w");
  EXPECT_EQ(full.host, "box.example");
  EXPECT_EQ(full.port, 7000);
  EXPECT_EQ(full.database, 3);
  EXPECT_EQ(RedisUrl::parse("redis://:p@w@box").password, "p@w");
  EXPECT_EQ(RedisUrl::parse("redis://box:7000/").database, 0);
}

TEST(RedisUrl, ReadsIpv6InBrackets) {
  const auto url = RedisUrl::parse("redis://[fe80::1]:7000");
  EXPECT_EQ(url.host, "fe80::1");
  EXPECT_EQ(url.port, 7000);
  EXPECT_EQ(url.redacted(), "redis://[fe80::1]:7000");
  EXPECT_EQ(RedisUrl::parse("redis://[::1]").port, 6379);
  EXPECT_THAT(refusal("redis://::1:7000"), HasSubstr("is written in [ and ]"));
  EXPECT_THAT(refusal("redis://[::1"), HasSubstr("closing ]"));
}

TEST(RedisUrl, ReadsSockets) {
  const auto url = RedisUrl::parse("unix:///run/re%20dis.sock?db=2");
  EXPECT_EQ(url.socket, "/run/re dis.sock");
  EXPECT_EQ(url.database, 2);
  EXPECT_TRUE(url.host.empty());
  EXPECT_EQ(RedisUrl::parse("unix://u:p@/run/s").password, "p");
  EXPECT_THAT(refusal("unix://run/redis.sock"), HasSubstr("must start with /"));
  EXPECT_THAT(refusal("unix:///run/s?x=1"), HasSubstr("only db=n"));
}

TEST(RedisUrl, SaysWhatIsWrong) {
  for (const auto* port : {"0", "65536", "x", "-1", "", "6379x", "99999999999999999999"})
    EXPECT_THAT(refusal(std::string("redis://box:") + port), HasSubstr("from 1 to 65535")) << port;
  EXPECT_THAT(refusal("redis://box/x"), HasSubstr("database 'x'"));
  EXPECT_THAT(refusal("redis://box/-1"), HasSubstr("database '-1'"));
  EXPECT_THAT(refusal("redis://"), HasSubstr("no host"));
  EXPECT_THAT(refusal("redis://u%4@box"), HasSubstr("hexadecimal"));
  EXPECT_THAT(refusal("redis://b%00x"), HasSubstr("%00"));
  EXPECT_THAT(refusal("rediss://box"), AllOf(HasSubstr("TLS"), HasSubstr("tunnel")));
  EXPECT_THAT(refusal("box:6379"), AllOf(HasSubstr("neither"), HasSubstr("redis://host")));
  EXPECT_THAT(refusal(std::string(10000, 'x')), HasSubstr("10000 bytes"));
}

TEST(RedisUrl, NoRefusalRepeatsAPassword) {
  for (const std::string text :
       {"redis://u:hunter2@box:x", "redis://u:hunter2@box/x", "redis://u:hunter2%@box", "rediss://u:hunter2@box",
        "redis://u:hunt/er2@box", "redis://u:hunter2@", "unix://u:hunter2@run", "redis://u:hunter2@[::1",
        "http://u:hunter2@box", "redis://u:hun?ter2@box", "redis://u:/hunter2@box:6379/0"})
    EXPECT_THAT(refusal(text), AllOf(Not(HasSubstr("hunter2")), Not(HasSubstr("er2")), Not(HasSubstr("no exception"))))
        << text;
}

TEST(RedisUrl, ShowsNoPassword) {
  EXPECT_EQ(RedisUrl::parse("redis://u:hunter2@box/1").redacted(), "redis://u:***@box:6379/1");
  EXPECT_EQ(RedisUrl::parse("redis://:hunter2@box").redacted(), "redis://:***@box:6379");
  EXPECT_EQ(RedisUrl::parse("redis://hunter2@box").redacted(), "redis://***@box:6379");
  EXPECT_EQ(RedisUrl::parse("unix://u:hunter2@/s?db=4").redacted(), "unix://u:***@/s?db=4");
}

TEST(RedisUrl, RedactsText) {
  EXPECT_EQ(redact("args 'a b' and a%20b", "a b"), "args '***' and ***");
  EXPECT_EQ(redact("at redis://u:x@y@box:1 and unix://u:p@/s", ""), "at redis://***@box:1 and unix://***@/s");
  EXPECT_EQ(redact("at redis://box:1, write to me@box", ""), "at redis://box:1, write to me@box");
  EXPECT_EQ(redact("nothing here", ""), "nothing here");
}

TEST(RedisUrl, EnvironmentLaysCredentialsOverTheAddress) {
  bool found = true;
  {
    const Variable url("FORETIME_REDIS", ""), user("FORETIME_REDIS_USER", "u"),
        password("FORETIME_REDIS_PASSWORD", "p");
    RedisUrl::from_environment("", found);
    EXPECT_FALSE(found);
    const auto named = RedisUrl::from_environment("redis://box", found);
    EXPECT_TRUE(found);
    EXPECT_EQ(named.user, "u");
    EXPECT_EQ(named.password, "p");
  }
  const Variable url("FORETIME_REDIS", "redis://a:b@first"), user("FORETIME_REDIS_USER", ""),
      password("FORETIME_REDIS_PASSWORD", "c");
  const auto from_variable = RedisUrl::from_environment("", found);
  EXPECT_EQ(from_variable.host, "first");
  EXPECT_EQ(from_variable.user, "a");
  EXPECT_EQ(from_variable.password, "c");
  EXPECT_EQ(RedisUrl::from_environment("redis://second", found).host, "second");
}

TEST(RedisUrl, CommandLineHoldsNoCredentials) {
  bool found = false;
  for (const std::string option : {"redis://u:hunter2@box", "redis://:hunter2@box", "redis://hunter2@box"}) {
    EXPECT_THAT(
        testing::message_of<JobsError>([&] { RedisUrl::from_environment(option, found); }),
        AllOf(HasSubstr("FORETIME_REDIS_PASSWORD"), HasSubstr("FORETIME_REDIS_USER"), Not(HasSubstr("hunter2"))))
        << option;
  }
}

}  // namespace
}  // namespace foretime::jobs
