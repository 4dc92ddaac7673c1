#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jobs/artifacts/artifact_store.h"

namespace foretime::jobs {

/// Holds endpoint and credentials for an S3-compatible store, from the variables that AWS' programs read:
/// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (default: Amazon's endpoint of the region), AWS_REGION or
/// AWS_DEFAULT_REGION (default: us-east-1), AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
struct S3Access {
  std::string endpoint{}, region{}, key_id{}, secret{}, session_token{};
  /// Reads the environment. Throws StoreRefused, which names the variable, for a wrong endpoint or a missing key.
  static S3Access from_environment();
};

/// Stores files in a bucket of an S3-compatible store, under a prefix, at ENDPOINT/BUCKET/PREFIX/NAME. Signs each
/// request by AWS Signature Version 4.
class S3Store final : public ArtifactStore {
 public:
  /// Does not connect yet. Throws StoreRefused unless `address` is an is_s3_address().
  S3Store(const std::string& address, S3Access access);
  ~S3Store() override;
  std::string address() const override { return address_; }
  uint64_t largest_file() const override;
  void put(const std::string& name, const std::string& bytes) override;
  std::optional<std::string> get(const std::string& name, uint64_t recorded_bytes) override;
  std::vector<std::string> list(const std::string& job) override;
  void remove(const std::string& folder) override;

 private:
  struct Request;
  struct Answer;
  /// Sends a request and returns the store's answer of status 2xx or 404. Throws StoreUnavailable without a connection
  /// and for the statuses 408, 429 and 5xx, and StoreRefused for any other status.
  Answer perform(const Request& request);
  /// Returns the names of all stored files that begin with `folder` and a slash, without the store's prefix.
  std::vector<std::string> names_in(const std::string& folder);
  std::string key_of(const std::string& name) const { return prefix_.empty() ? name : prefix_ + "/" + name; }

  std::string address_, bucket_, prefix_;
  S3Access access_;
  struct Curl;
  std::unique_ptr<Curl> curl_;
};

/// Returns whether `address` is s3://BUCKET or s3://BUCKET/PREFIX. BUCKET must have 3 to 63 lower-case letters, digits,
/// - and . (not first), and PREFIX must be an is_artifact_path().
bool is_s3_address(const std::string& address);

}  // namespace foretime::jobs
