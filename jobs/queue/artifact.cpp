#include "jobs/queue/artifact.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using ArtifactJson = nlohmann::json;
constexpr size_t kArtifactFiles = 256, kArtifactText = 64 << 10, kArtifactPath = 200, kStoreAddress = 1024;

[[noreturn]] void refuse_artifact(const std::string& name, const std::string& what) {
  throw JobsError("artifact {}: {}", printable(name), what);
}

void check_artifact(const Artifact& artifact) {
  if (!is_artifact_path(artifact.name)) refuse_artifact(artifact.name, "its name is not a relative path");
  if (artifact.store.empty() || artifact.store.size() > kStoreAddress)
    refuse_artifact(artifact.name, "the address of its store is empty or too long");
  if (!is_artifact_path(artifact.path))
    refuse_artifact(artifact.name, "not a relative path: " + printable(artifact.path));
  if (artifact.files.size() > kArtifactFiles)
    refuse_artifact(artifact.name, fmt::format("{} files, expected at most {}", artifact.files.size(), kArtifactFiles));
  for (const auto& [file, stored] : artifact.files) {
    if (!is_artifact_path(file)) refuse_artifact(artifact.name, "not a relative path: " + printable(file));
    if (stored.sha256.size() != 64) refuse_artifact(artifact.name, printable(file) + ": SHA-256 without 64 digits");
  }
}

}  // namespace

uint64_t Artifact::bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, file] : files) sum += file.bytes;
  return sum;
}

bool is_artifact_path(const std::string& path) {
  if (path.empty() || path.size() > kArtifactPath) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    const auto part = path.substr(begin, end - begin);
    const bool plain = has_only_letters_digits_and("._-", part);
    if (part.empty() || part.starts_with('.') || !plain) return false;
    begin = end + 1;
  }
  return true;
}

std::string artifact_text(const Artifact& artifact) {
  check_artifact(artifact);
  ArtifactJson files = ArtifactJson::object();
  for (const auto& [name, file] : artifact.files) files[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  auto text =
      ArtifactJson{{"store", artifact.store}, {"path", artifact.path}, {"step", artifact.step}, {"files", files}}
          .dump();
  if (text.size() > kArtifactText) refuse_artifact(artifact.name, "its record is too large: too many files");
  return text;
}

Artifact parse_artifact(const std::string& name, const std::string& text) {
  if (text.size() > kArtifactText)
    refuse_artifact(name, fmt::format("found a record of {} bytes, expected at most {}", text.size(), kArtifactText));
  Artifact artifact{.name = name};
  try {
    const auto json = ArtifactJson::parse(text);
    artifact.store = json.at("store");
    artifact.path = json.at("path");
    // Whole numbers alone: others may not fit.
    if (json.contains("step")) {
      const auto step = json.at("step").get_ref<const uint64_t&>();
      if (!std::in_range<int64_t>(step)) refuse_artifact(name, fmt::format("step {} is above 2^63 - 1", step));
      artifact.step = step;
    }
    for (const auto& [file, entry] : json.at("files").items())
      artifact.files[file] = {entry.at("bytes").get_ref<const uint64_t&>(), entry.at("sha256").get<std::string>()};
  } catch (const ArtifactJson::exception& error) {
    refuse_artifact(name, error.what());
  }
  check_artifact(artifact);
  return artifact;
}

JobArtifacts artifacts_of(const std::map<std::string, std::string>& fields) {
  JobArtifacts found;
  const auto text = [&](const std::string& field) {
    const auto at = fields.find(field);
    return at == fields.end() ? "" : at->second;
  };
  found.trouble = text("trouble");
  for (const auto* role : kArtifactRoles) {
    const auto name = text(role);
    if (name.empty()) continue;
    try {
      found.by_role[role] = parse_artifact(name, text("of:" + name));
    } catch (const JobsError& error) {
      found.unreadable = error.what();
    }
  }
  return found;
}

std::vector<std::string> redis_part_keys(const std::string& name, uint64_t bytes) {
  std::vector<std::string> keys;
  const uint64_t parts = std::max<uint64_t>(1, (bytes + kArtifactPart - 1) / kArtifactPart);
  for (uint64_t i = 0; i < parts; ++i) keys.push_back(fmt::format("artifact:{}:{}", name, i));
  return keys;
}

}  // namespace foretime::jobs
