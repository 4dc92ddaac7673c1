#include "jobs/redis/redis_url.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "base/numbers.h"
#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr const char* kForms = "expected redis://host[:port][/database] or unix:///path/redis.sock[?db=n]";
constexpr const char* kHidden = "***";
constexpr size_t kLongest = 4096;  // bytes of a URL

[[noreturn]] void refuse_url(const std::string& found) { throw JobsError("Redis URL: {}; {}", found, kForms); }

bool takes(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// `part` is named in the message; its text is not, since it may hold a password.
std::string decoded(std::string_view text, const char* part) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const auto digits = text.substr(i + 1, 2);
    const auto value = parse_number<unsigned char>(digits, 16);
    if (digits.size() < 2 || !value)
      refuse_url(fmt::format("the {} has a % without two hexadecimal digits (% itself is %25)", part));
    if (*value == '\0') refuse_url(fmt::format("the {} holds %00", part));
    out += *value;
    i += 2;
  }
  return out;
}

int64_t number(std::string_view text, const char* part, int64_t lowest, int64_t highest) {
  const auto value = parse_number<int64_t>(text);
  if (!value || *value < lowest || *value > highest)
    refuse_url(
        fmt::format("{} '{}': expected a whole number from {} to {}", part, text.substr(0, 40), lowest, highest));
  return *value;
}

/// Takes `user:password@` off the front of what follows the scheme.
void take_credentials(std::string_view& rest, RedisUrl& url) {
  // A password may hold an @ that nobody encoded: the last one before the path counts.
  const auto at = rest.substr(0, rest.find_first_of("/?")).rfind('@');
  if (at == std::string_view::npos) {
    // A / in a password ends the authority too early; what follows then must never reach a message.
    if (rest.find('@') != std::string_view::npos)
      refuse_url("an @ after the first / or ? (in a password, write / as %2F, ? as %3F and @ as %40)");
    return;
  }
  const auto credentials = rest.substr(0, at);
  const auto colon = credentials.find(':');
  url.user = decoded(credentials.substr(0, colon), "user");
  if (colon != std::string_view::npos) url.password = decoded(credentials.substr(colon + 1), "password");
  rest.remove_prefix(at + 1);
}

RedisUrl parse_socket(std::string_view rest) {
  RedisUrl url;
  if (rest.empty() || rest.front() != '/') take_credentials(rest, url);
  const auto query = rest.find('?');
  url.socket = decoded(rest.substr(0, query), "path");
  if (url.socket.empty() || url.socket.front() != '/') refuse_url("the path of a socket must start with /");
  if (query != std::string_view::npos) {
    auto tail = rest.substr(query + 1);
    if (!takes(tail, "db=")) refuse_url("after the ? of a socket only db=n is known");
    url.database = number(tail, "database", 0, 1'000'000);
  }
  return url;
}

RedisUrl parse_host(std::string_view rest) {
  RedisUrl url;
  take_credentials(rest, url);
  const auto slash = rest.find('/');
  auto place = rest.substr(0, slash);
  if (takes(place, "[")) {
    const auto close = place.find(']');
    if (close == std::string_view::npos) refuse_url("an IPv6 address without its closing ]");
    url.host = std::string(place.substr(0, close));
    place.remove_prefix(close + 1);
  } else {
    const auto colon = place.find(':');
    if (colon != std::string_view::npos && place.find(':', colon + 1) != std::string_view::npos)
      refuse_url("more than one : after the host (an IPv6 address is written in [ and ])");
    url.host = decoded(place.substr(0, colon), "host");
    place.remove_prefix(colon == std::string_view::npos ? place.size() : colon);
  }
  if (url.host.empty()) refuse_url("no host");
  if (url.host.find_first_of(" \t\r\n?#") != std::string::npos)
    refuse_url("the host holds a character that no host has");
  if (!place.empty()) {
    if (!takes(place, ":")) refuse_url("something other than :port after the host");
    url.port = number(place, "port", 1, 65535);
  }
  if (slash != std::string_view::npos && slash + 1 < rest.size())
    url.database = number(rest.substr(slash + 1), "database", 0, 1'000'000);
  return url;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

RedisUrl RedisUrl::parse(const std::string& text) {
  if (text.size() > kLongest) refuse_url(fmt::format("{} bytes long", text.size()));
  if (text.find('\0') != std::string::npos) refuse_url("a zero byte in it");
  std::string_view rest = text;
  if (takes(rest, "unix://")) return parse_socket(rest);
  if (takes(rest, "redis://")) return parse_host(rest);
  if (takes(rest, "rediss://"))
    throw JobsError(
        "Redis URL: rediss:// asks for TLS, which this build does not have; "
        "use a tunnel (ssh -L, stunnel) and redis:// to its near end");
  refuse_url("it starts with neither redis:// nor unix://");
}

RedisUrl RedisUrl::from_environment(const std::string& option, bool& found) {
  const auto named = environment("FORETIME_REDIS");
  found = !option.empty() || !named.empty();
  if (!found) return {};
  auto url = parse(option.empty() ? named : option);
  if (!option.empty() && !(url.user.empty() && url.password.empty()))
    throw JobsError(
        "--redis holds a user or a password, and everybody on this machine can read command lines: give --redis "
        "without them and set FORETIME_REDIS_USER and FORETIME_REDIS_PASSWORD, or set FORETIME_REDIS to the whole URL");
  if (const auto user = environment("FORETIME_REDIS_USER"); !user.empty()) url.user = user;
  if (const auto password = environment("FORETIME_REDIS_PASSWORD"); !password.empty()) url.password = password;
  url.password_file = environment("FORETIME_REDIS_PASSWORD_FILE");
  if (!url.password_file.empty() && !url.password.empty())
    throw JobsError("FORETIME_REDIS_PASSWORD_FILE names a file, and a password is given too: leave one of them out");
  return url;
}

std::string RedisUrl::redacted() const {
  std::string credentials;
  if (!password.empty()) credentials = fmt::format("{}:{}@", percent_encoded(user, "-._~"), kHidden);
  else if (!user.empty()) credentials = fmt::format("{}@", kHidden);
  if (!socket.empty())
    return fmt::format("unix://{}{}{}", credentials, socket, database ? fmt::format("?db={}", database) : "");
  const auto place = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return fmt::format("redis://{}{}:{}{}", credentials, place, port, database ? fmt::format("/{}", database) : "");
}

std::string redact(const std::string& text, const std::string& password) {
  std::string out = text;
  for (const char* scheme : {"redis://", "rediss://", "unix://"}) {
    const std::string_view name = scheme;
    for (size_t at = out.find(name); at != std::string::npos; at = out.find(name, at + 1)) {
      const size_t start = at + name.size();
      const size_t end = std::min(out.find_first_of(" \t\r\n\"'`<>", start), out.size());
      const size_t sign = out.substr(start, end - start).rfind('@');
      if (sign != std::string::npos) out.replace(start, sign, kHidden);
    }
  }
  replace_all(out, password, kHidden);
  replace_all(out, percent_encoded(password, "-._~"), kHidden);
  return out;
}

}  // namespace foretime::jobs
