#include "jobs/artifacts/artifact_store.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/foreign_file.h"
#include "base/text.h"
#include "jobs/artifacts/s3_store.h"
#include "jobs/queue/artifact.h"
#include "jobs/redis/redis_health.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestInRedis = uint64_t{64} << 20;  // bytes
constexpr const char* kUntilKept = "600000";              // milliseconds
constexpr const char* kFolderScheme = "folder:";

/// Calls `call` and translates errors of Redis and files into those of stores.
template <class Call>
auto as_store(const Call& call) {
  try {
    return call();
  } catch (const RedisUnavailable& error) {
    throw StoreUnavailable(error.what());
  } catch (const RedisDenied& error) {
    throw StoreUnavailable(error.what());
  } catch (const RedisRefused& error) {
    throw StoreRefused(error.what());
  } catch (const StorageError& error) {
    throw StoreUnavailable(error.what());
  } catch (const FileError& error) {
    throw StoreRefused(error.what());
  }
}

}  // namespace

RedisStore::RedisStore(std::unique_ptr<RedisClient> client, const std::string& prefix)
    : client_(std::move(client)), prefix_("{" + prefix + "}:") {}

std::string RedisStore::address() const { return kRedisStore; }
uint64_t RedisStore::largest_file() const { return kLargestInRedis; }

void RedisStore::put(const std::string& name, const std::string& bytes) {
  as_store([&] {
    if (const auto warning = memory_warning(*client_); !warning.empty())
      throw StoreUnavailable("Redis' memory is reserved for jobs: {}", warning);
    size_t at = 0;
    for (const auto& key : redis_part_keys(name, bytes.size())) {
      client_->call({"SET", prefix_ + key, bytes.substr(at, kArtifactPart), "PX", kUntilKept});
      at += kArtifactPart;
    }
  });
}

std::optional<std::string> RedisStore::get(const std::string& name, uint64_t recorded_bytes) {
  return as_store([&]() -> std::optional<std::string> {
    std::string all;
    for (const auto& key : redis_part_keys(name, recorded_bytes)) {
      const auto reply = client_->call({"GET", prefix_ + key});
      if (reply->type == REDIS_REPLY_NIL) return std::nullopt;
      all += text_of(*reply);
    }
    return all;
  });
}

FolderStore::FolderStore(const fs::path& root) : root_(root) {
  as_store([&] {
    if (!files().is_folder(root_))
      throw StoreRefused("{}: not a folder, expected the folder for artifacts", root_.string());
  });
}

std::string FolderStore::address() const { return kFolderScheme + root_.string(); }
uint64_t FolderStore::largest_file() const { return kLargestStored; }

void FolderStore::put(const std::string& name, const std::string& bytes) {
  as_store([&] {
    const auto path = root_ / name;
    files().create_folders(path.parent_path());
    write_file_atomically(path, bytes);
  });
}

std::optional<std::string> FolderStore::get(const std::string& name, uint64_t recorded_bytes) {
  return as_store([&]() -> std::optional<std::string> {
    const auto file = open_foreign(root_, name, UINT64_MAX);
    if (!file) return std::nullopt;
    std::string stored(std::min(file->size(), recorded_bytes + 1), '\0');  // more than the recorded bytes: damaged
    stored.resize(file->read(stored));
    return stored;
  });
}

std::vector<std::string> FolderStore::list(const std::string& job) {
  return as_store([&] {
    std::vector<std::string> names;
    for (const auto& attempt : files().list(root_ / job))
      for (const auto& artifact : files().list(attempt))
        names.push_back(artifact.lexically_relative(root_ / job).string());
    return names;
  });
}

void FolderStore::remove(const std::string& folder) {
  as_store([&] { files().remove(root_ / folder); });
}

void ArtifactStores::add(std::unique_ptr<ArtifactStore> store) {
  const auto address = store->address();
  stores_[address] = std::move(store);
}

ArtifactStore& ArtifactStores::at(const std::string& address) {
  if (const auto found = stores_.find(address); found != stores_.end()) return *found->second;
  if (only_ && address != kRedisStore && address != *only_)
    throw StoreRefused("artifacts in {}: refused, since this agent uses only {} (--artifacts)", printable(address),
                       only_->empty() ? "Redis" : *only_);
  std::unique_ptr<ArtifactStore> made;
  if (address == kRedisStore) made = std::make_unique<RedisStore>(make_client_(), prefix_);
  else if (is_s3_address(address)) made = std::make_unique<S3Store>(address, S3Access::from_environment());
  else if (address.starts_with(kFolderScheme))
    made = std::make_unique<FolderStore>(address.substr(std::string(kFolderScheme).size()));
  else throw StoreRefused("artifacts in {}: unknown store; was it written by a newer program?", printable(address));
  return *(stores_[address] = std::move(made));
}

std::string store_address(const std::string& option) {
  if (option.empty() || option == kRedisStore) return option;
  if (option.starts_with(kFolderScheme)) {
    const fs::path folder = option.substr(std::string(kFolderScheme).size());
    std::error_code failure;
    const auto real = fs::canonical(folder, failure);
    if (failure || !fs::is_directory(real))
      throw JobsError("--artifacts {}: {}, expected a folder that all agents share", option,
                      failure ? failure.message() : "no folder");
    return kFolderScheme + real.string();
  }
  const auto trimmed_option = option.ends_with('/') ? option.substr(0, option.size() - 1) : option;
  if (is_s3_address(trimmed_option)) {
    S3Access::from_environment();
    return trimmed_option;
  }
  throw JobsError("--artifacts {}: expected redis, folder:PATH or s3://BUCKET/PREFIX", printable(option));
}

std::string store_of_queue(const std::string& address, const std::string& queue) {
  if (address.empty() || address == kRedisStore) return address;
  auto own = address + "/" + queue;
  if (address.starts_with(kFolderScheme)) files().create_folder(own.substr(std::string(kFolderScheme).size()));
  return own;
}

}  // namespace foretime::jobs
