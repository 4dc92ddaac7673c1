#include "jobs/artifacts/s3_store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include <curl/curl.h>
#include <fmt/format.h>

#include "base/hex_digest.h"
#include "base/no_copy.h"
#include "base/text.h"
#include "jobs/queue/artifact.h"
#include "jobs/queue/job.h"

namespace foretime::jobs {
namespace {

constexpr const char* kS3Scheme = "s3://";
constexpr long kConnectTimeout = 10, kStallTimeout = 30, kLeastSpeed = 1;
constexpr size_t kAnswerBytes = 4 << 20;  // largest list or error that is read
constexpr int kListings = 1000;           // lists of at most a thousand names each

std::string variable(const char* name, const char* other = nullptr) {
  const char* value = std::getenv(name);
  if ((value == nullptr || *value == 0) && other != nullptr) value = std::getenv(other);
  return value == nullptr ? "" : value;
}

/// BUCKET and PREFIX, or nothing.
std::pair<std::string, std::string> bucket_of(const std::string& address) {
  if (!address.starts_with(kS3Scheme)) return {};
  const auto rest = address.substr(std::strlen(kS3Scheme));
  const auto slash = rest.find('/');
  const auto bucket = rest.substr(0, slash), prefix = slash == std::string::npos ? "" : rest.substr(slash + 1);
  const bool plain = std::all_of(bucket.begin(), bucket.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-' || c == '.';
  });
  const bool named = bucket.size() >= 3 && bucket.size() <= 63 && plain && bucket.front() != '.';
  if (!named || (slash != std::string::npos && !is_artifact_path(prefix))) return {};
  return {bucket, prefix};
}

/// Returns the text in the first element <name> from `at` on, and moves `at` to its end tag; empty if there is none.
std::string element_in(const std::string& xml, const std::string& name, size_t& at) {
  const auto begin = xml.find("<" + name + ">", at);
  if (begin == std::string::npos) return "";
  const auto from = begin + name.size() + 2, end = xml.find("</" + name + ">", from);
  if (end == std::string::npos) return "";
  at = end;
  return xml.substr(from, end - from);
}

std::string first_element(const std::string& xml, const std::string& name) {
  size_t at = 0;
  return element_in(xml, name, at);
}

/// Returns `text` encoded as signatures want it.
std::string query_text(std::string_view text) { return percent_encoded(text, "-._~"); }

}  // namespace

struct S3Store::Request {
  const char* method = "GET";
  std::string key{}, query{};
  const std::string* body = nullptr;  // PUT only
  size_t most = kAnswerBytes;         // bytes of the answer
};

struct S3Store::Answer {
  long status = 0;
  std::string body{};
  size_t most = 0;
  bool too_long = false;
};

struct S3Store::Curl : NoCopy {
  Curl() {
    static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    handle = started ? curl_easy_init() : nullptr;
    if (handle == nullptr) throw StoreUnavailable("libcurl cannot be started");
  }
  ~Curl() { curl_easy_cleanup(handle); }
  CURL* handle;
};

S3Access S3Access::from_environment() {
  S3Access access{.endpoint = variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
                  .region = variable("AWS_REGION", "AWS_DEFAULT_REGION"),
                  .key_id = variable("AWS_ACCESS_KEY_ID"),
                  .secret = variable("AWS_SECRET_ACCESS_KEY"),
                  .session_token = variable("AWS_SESSION_TOKEN")};
  if (access.region.empty()) access.region = "us-east-1";
  if (access.endpoint.empty()) access.endpoint = "https://s3." + access.region + ".amazonaws.com";
  while (access.endpoint.ends_with('/')) access.endpoint.pop_back();
  if (!access.endpoint.starts_with("https://") && !access.endpoint.starts_with("http://"))
    throw StoreRefused("AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL: found {}, expected https://HOST or http://HOST:PORT",
                       printable(access.endpoint));
  if (access.key_id.empty() || access.secret.empty())
    throw StoreRefused("{} is not set: artifacts in S3 need AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                       access.key_id.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
  return access;
}

bool is_s3_address(const std::string& address) { return !bucket_of(address).first.empty(); }

S3Store::S3Store(const std::string& address, S3Access access)
    : address_(address), access_(std::move(access)), curl_(std::make_unique<Curl>()) {
  std::tie(bucket_, prefix_) = bucket_of(address);
  if (bucket_.empty()) throw StoreRefused("{}: expected s3://BUCKET/PREFIX", printable(address));
}

S3Store::~S3Store() = default;
uint64_t S3Store::largest_file() const { return kLargestStored; }

S3Store::Answer S3Store::perform(const Request& request) {
  CURL* curl = curl_->handle;
  curl_easy_reset(curl);  // keeps the connection
  const auto url = fmt::format("{}/{}{}{}{}{}", access_.endpoint, bucket_, request.key.empty() ? "" : "/", request.key,
                               request.query.empty() ? "" : "?", request.query);
  const auto region = "aws:amz:" + access_.region + ":s3";
  curl_slist* headers = nullptr;
  const auto add_header = [&](const std::string& text) { headers = curl_slist_append(headers, text.c_str()); };
  add_header("x-amz-content-sha256: " + hex_digest("SHA256", request.body == nullptr ? "" : *request.body));
  if (!access_.session_token.empty()) add_header("x-amz-security-token: " + access_.session_token);
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> owned(headers, curl_slist_free_all);

  struct Upload {
    const std::string* bytes;
    size_t at = 0;
  } upload{request.body};
  Answer answer{.most = request.most};
  char message[CURL_ERROR_SIZE] = "";
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, message);
  set(CURLOPT_CONNECTTIMEOUT, kConnectTimeout);
  set(CURLOPT_LOW_SPEED_LIMIT, kLeastSpeed);
  set(CURLOPT_LOW_SPEED_TIME, kStallTimeout);
  set(CURLOPT_AWS_SIGV4, region.c_str());
  set(CURLOPT_USERNAME, access_.key_id.c_str());
  set(CURLOPT_PASSWORD, access_.secret.c_str());
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_EXPECT_100_TIMEOUT_MS, 1000L);
  if (request.body != nullptr) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body->size()));
    set(CURLOPT_READDATA, &upload);
    set(
        CURLOPT_READFUNCTION, +[](char* buffer, size_t size, size_t count, void* data) -> size_t {
          auto& from = *static_cast<Upload*>(data);
          const auto bytes = std::min(size * count, from.bytes->size() - from.at);
          std::memcpy(buffer, from.bytes->data() + from.at, bytes);
          from.at += bytes;
          return bytes;
        });
    set(CURLOPT_SEEKDATA, &upload);
    set(
        CURLOPT_SEEKFUNCTION, +[](void* data, curl_off_t offset, int origin) -> int {
          if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
          static_cast<Upload*>(data)->at = offset;
          return CURL_SEEKFUNC_OK;
        });
  } else if (std::strcmp(request.method, "GET") != 0) {
    set(CURLOPT_CUSTOMREQUEST, request.method);
  }
  set(CURLOPT_WRITEDATA, &answer);
  set(
      CURLOPT_WRITEFUNCTION, +[](char* bytes, size_t size, size_t count, void* data) -> size_t {
        auto& to = *static_cast<Answer*>(data);
        to.too_long = to.body.size() + size * count > to.most;
        if (to.too_long) return 0;
        to.body.append(bytes, size * count);
        return size * count;
      });
  const auto code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
  if (code != CURLE_OK && !answer.too_long)
    throw StoreUnavailable("{} at {}: {}", address_, access_.endpoint,
                           *message != 0 ? message : curl_easy_strerror(code));
  if (answer.status / 100 == 2 || answer.status == 404) return answer;
  const auto what =
      fmt::format("{} at {}: {} {}: {}", address_, access_.endpoint, answer.status,
                  printable(first_element(answer.body, "Code")), printable(first_element(answer.body, "Message")));
  if (answer.status >= 500 || answer.status == 429 || answer.status == 408) throw StoreUnavailable(what);
  throw StoreRefused(what);
}

void S3Store::put(const std::string& name, const std::string& bytes) {
  const auto answer = perform({.method = "PUT", .key = key_of(name), .body = &bytes});
  if (answer.status == 404)
    throw StoreRefused("{} at {}: {}", address_, access_.endpoint, printable(first_element(answer.body, "Code")));
}

std::optional<std::string> S3Store::get(const std::string& name, uint64_t recorded_bytes) {
  auto answer = perform({.key = key_of(name), .most = std::max<size_t>(recorded_bytes, 64 << 10)});
  if (answer.status == 404) return std::nullopt;
  return std::move(answer.body);
}

std::vector<std::string> S3Store::names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::string last;  // key of the page before
  for (int i = 0; i < kListings; ++i) {
    // The keys are sorted by name, as signatures require. Pages continue after a key rather than by the store's token:
    // libcurl 8.13 to 8.18 signs a `+`, which tokens contain, as a blank.
    const auto query = fmt::format("list-type=2&prefix={}{}", query_text(key_of(folder) + "/"),
                                   last.empty() ? "" : "&start-after=" + query_text(last));
    const auto answer = perform({.query = query});
    if (answer.status == 404)
      throw StoreRefused("{} at {}: {}", address_, access_.endpoint, printable(first_element(answer.body, "Code")));
    size_t at = 0;
    const auto before = last;
    for (auto key = element_in(answer.body, "Key", at); !key.empty(); key = element_in(answer.body, "Key", at)) {
      last = key;
      if (!key.starts_with(key_of(folder) + "/")) continue;  // a store that lists more than it was asked for
      const auto name = key.substr(key_of("").size());
      if (is_artifact_path(name)) names.push_back(name);
    }
    if (first_element(answer.body, "IsTruncated") != "true" || last == before) break;
  }
  return names;
}

std::vector<std::string> S3Store::list(const std::string& job) {
  std::set<std::string> artifacts;
  for (const auto& name : names_in(job)) {
    const auto begin = job.size() + 1, end = name.find('/', std::min(name.size(), name.find('/', begin)) + 1);
    if (end != std::string::npos) artifacts.insert(name.substr(begin, end - begin));
  }
  return {artifacts.begin(), artifacts.end()};
}

void S3Store::remove(const std::string& folder) {
  for (const auto& name : names_in(folder)) perform({.method = "DELETE", .key = key_of(name)});
}

}  // namespace foretime::jobs
