#include "jobs/agent/run_folder.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/files.h"

namespace foretime::jobs {
namespace {

using Json = nlohmann::json;
constexpr const char* kManifestFile = "manifest.json";  // coordinator/checkpoint_store.h: written last

}  // namespace

std::optional<FinalMetrics> read_final_metrics(const std::filesystem::path& run) {
  const auto file = run / "metrics.jsonl";
  if (!files().exists(file)) return std::nullopt;
  std::optional<FinalMetrics> found;
  std::istringstream lines(files().read(file));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"final\"") == std::string::npos) continue;
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("kind", Json()) != "final") continue;
    auto& final = found.emplace();
    for (const auto& [name, value] : json.items()) {
      if (name == "step" && value.is_number_integer()) final.step = value;
      if (name.find('/') != std::string::npos && value.is_number()) final.metrics[name] = value;
    }
  }
  return found;
}

std::string checkpoint_damage(const std::filesystem::path& folder) {
  const auto path = folder / kManifestFile;
  try {
    if (!files().exists(path)) return fmt::format("{}: no {}", folder.string(), kManifestFile);
    const auto manifest = Json::parse(files().read(path));
    const auto listed = manifest.value("files", Json::object());
    for (const auto& [name, entry] : listed.items()) {
      const uint64_t bytes = entry.at("bytes"), found = files().size(folder / name);
      if (found != bytes)
        return fmt::format("{}: {} bytes, the manifest says {}", (folder / name).string(), found, bytes);
    }
    return "";
  } catch (const Json::exception& error) {
    return fmt::format("{}: {}", path.string(), error.what());
  } catch (const StorageError&) {
    throw;
  } catch (const FileError& error) {
    return error.what();
  }
}

std::filesystem::path newest_whole_checkpoint(const std::filesystem::path& checkpoints) {
  auto found = files().list(checkpoints);
  std::ranges::reverse(found);  // names have their step with leading zeros
  for (const auto& folder : found) {
    if (folder.filename().string().starts_with("step-") && checkpoint_damage(folder).empty()) return folder;
  }
  return {};
}

bool copy_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& checkpoints) {
  std::map<std::filesystem::path, std::string> contents;
  try {
    for (const auto& file : files().list(checkpoint)) contents[file.filename()] = files().read(file);
  } catch (const StorageError&) {
    throw;
  } catch (const FileError&) {
    return false;
  }
  const auto copy = checkpoints / checkpoint.filename();
  auto aside = copy;
  aside += kAsideSuffix;
  files().remove(aside);
  files().create_folders(aside);
  for (const auto& [name, bytes] : contents) write_file_atomically(aside / name, bytes);
  const bool whole = checkpoint_damage(aside).empty();
  if (whole) {
    files().remove(copy);
    files().rename(aside, copy);
    files().sync_folder(checkpoints);
  } else {
    files().remove(aside);
  }
  return whole;
}

}  // namespace foretime::jobs
