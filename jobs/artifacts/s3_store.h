#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jobs/artifacts/artifact_store.h"

namespace foretime::jobs {

/// Holds endpoint and credentials for an S3-compatible store, from the variables that AWS' programs read:
/// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (default: Amazon's endpoint of the region), AWS_REGION or
/// AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
struct S3Access {
  std::string endpoint{}, region{}, key_id{}, secret{}, session_token{};
  /// Reads the environment. Throws StoreRefused that names a missing or wrong variable.
  static S3Access from_environment();
};

/// Stores files in a bucket of an S3-compatible store, under a prefix. Uses libcurl, which signs each request (AWS
/// Signature Version 4). Files are addressed as ENDPOINT/BUCKET/PREFIX/NAME, which all such stores understand.
class S3Store final : public ArtifactStore {
 public:
  /// Opens s3://BUCKET or s3://BUCKET/PREFIX. Throws StoreRefused for any other `address`.
  S3Store(const std::string& address, S3Access access);
  ~S3Store() override;
  std::string address() const override { return address_; }
  uint64_t largest_file() const override;
  void put(const std::string& name, const std::string& bytes) override;
  std::optional<std::string> get(const std::string& name, uint64_t bytes) override;
  std::vector<std::string> list(const std::string& job) override;
  void remove(const std::string& folder) override;

 private:
  struct Request;
  struct Answer;
  Answer perform(const Request& request);
  /// Returns all names that begin with `folder` and a slash, without the prefix.
  std::vector<std::string> names_in(const std::string& folder);
  std::string key_of(const std::string& name) const { return prefix_.empty() ? name : prefix_ + "/" + name; }

  std::string address_, bucket_, prefix_;
  S3Access access_;
  struct Curl;
  std::unique_ptr<Curl> curl_;
};

/// Returns whether `address` is s3://BUCKET or s3://BUCKET/PREFIX; PREFIX has only characters that are allowed in
/// artifacts' names.
bool is_s3_address(const std::string& address);

}  // namespace foretime::jobs
