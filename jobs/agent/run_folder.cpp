#include "jobs/agent/run_folder.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/foreign_file.h"
#include "history/run_history.h"
#include "jobs/progress/progress_message.h"

namespace foretime::jobs {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;
constexpr const char* kManifestFile = "manifest.json";  // coordinator/checkpoint_store.h: written last
constexpr const char* kBestNote = "best.json";          // beside checkpoints: {"step": …}
constexpr const char* kDataNote = "data.json";
constexpr uint64_t kMostNote = 64 << 20;  // bytes

/// A folder of a run, such as RUN/checkpoints/step-00000010, of which the job may have made the last two parts links.
struct FolderOfRun {
  explicit FolderOfRun(const fs::path& folder)
      : trusted(folder.parent_path().parent_path()), name(folder.parent_path().filename() / folder.filename()) {}
  fs::path trusted, name;
};

/// Returns a file's text; empty if it does not exist, disappears meanwhile or is not a regular file.
std::optional<std::string> text_of(const fs::path& folder, const fs::path& name) {
  try {
    return read_foreign(folder, name, kMostNote);
  } catch (const StorageError&) {
    throw;
  } catch (const FileError&) {
    return std::nullopt;
  }
}

/// The folder of the checkpoint that a note of the best one names.
std::optional<std::string> step_in(const std::string& note) {
  const auto json = Json::parse(note, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) return std::nullopt;
  return fmt::format("step-{:08}", json["step"].get<uint64_t>());
}

/// The files of a checkpoint, as its manifest lists them; empty where that cannot be read.
std::vector<std::string> files_of(const fs::path& checkpoint) {
  const FolderOfRun own(checkpoint);
  const auto text = text_of(own.trusted, own.name / kManifestFile);
  const auto manifest = text ? Json::parse(*text, nullptr, false) : Json();
  if (!manifest.is_object()) return {};
  std::vector<std::string> names{kManifestFile};
  const auto listed = manifest.value("files", Json::object());
  for (const auto& [name, entry] : listed.items()) {
    if (fs::path(name).filename() != name) return {};
    names.push_back(name);
  }
  return names;
}

/// Copies a file of one folder to another. False if it is not there, or is no regular file.
bool copy_file(const fs::path& folder, const std::string& name, const fs::path& into) {
  std::unique_ptr<InputFile> file;
  try {
    const FolderOfRun own(folder);
    file = open_foreign(own.trusted, own.name / name, UINT64_MAX);
  } catch (const ForeignFileError&) {
  }
  if (!file) return false;
  const auto copy = files().open(into / name, Files::Open::replace);
  std::vector<char> piece(1 << 20);
  while (const auto got = file->read(piece)) copy->write({piece.data(), got});
  copy->sync();
  copy->close();
  return true;
}

/// Copies a checkpoint. Returns false and leaves nothing behind if it is damaged or disappears meanwhile.
bool copy_checkpoint(const fs::path& checkpoint, const fs::path& checkpoints) {
  const auto names = files_of(checkpoint);
  if (names.empty() || !checkpoint_damage(checkpoint).empty()) return false;
  const auto copy = checkpoints / checkpoint.filename();
  auto aside = copy;
  aside += kAsideSuffix;
  files().remove(aside);
  create_folders_synced(checkpoints);
  files().create_folders(aside);
  bool whole = true;
  try {
    for (const auto& name : names) {
      if (files().link(checkpoint / name, aside / name)) continue;
      whole = copy_file(checkpoint, name, aside) && whole;
    }
    files().sync_folder(aside);
    if (whole = whole && checkpoint_damage(aside).empty(); whole) {
      files().remove(copy);
      files().rename(aside, copy);
      files().sync_folder(checkpoints);
    } else {
      files().remove(aside);
    }
  } catch (const FileError&) {
    try {
      files().remove(aside);
    } catch (const FileError&) {
      // The failure that leads here is the one to tell.
    }
    throw;
  }
  return whole;
}

}  // namespace

std::optional<FinalMetrics> read_final_metrics(const std::filesystem::path& run, bool of_program) {
  std::optional<FinalMetrics> found;
  read_foreign_lines(run, "metrics.jsonl", history::kMostMetrics, [&](std::string_view line) {
    if (line.find("\"final\"") == std::string_view::npos) return;
    Json json;
    try {
      json = parse_python_json(std::string(line));
    } catch (const Json::exception&) {
      return;
    }
    if (!json.is_object() || json.value("kind", Json()) != "final") return;
    auto& final = found.emplace();
    for (const auto& [name, value] : json.items()) {
      if (name == "step") {
        if (value.is_number_integer()) final.step = value;
      } else if (of_program || name.find('/') != std::string::npos) {
        if (value.is_number()) final.metrics[name] = value;
        if (value.is_null()) final.metrics[name] = std::numeric_limits<double>::quiet_NaN();
      }
    }
  });
  return found;
}

std::string checkpoint_damage(const std::filesystem::path& folder) {
  const auto path = folder / kManifestFile;
  try {
    const FolderOfRun own(folder);
    const auto text = read_foreign(own.trusted, own.name / kManifestFile, kMostNote);
    if (!text) return fmt::format("{}: no {}", folder.string(), kManifestFile);
    const auto manifest = Json::parse(*text);
    const auto listed = manifest.value("files", Json::object());
    for (const auto& [name, entry] : listed.items()) {
      const uint64_t bytes = entry.at("bytes");
      const auto file = open_foreign(own.trusted, own.name / name, UINT64_MAX);
      if (!file) return fmt::format("{}: no such file", (folder / name).string());
      if (file->size() != bytes)
        return fmt::format("{}: {} bytes, the manifest says {}", (folder / name).string(), file->size(), bytes);
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
  for (const auto& folder : found)
    if (folder.filename().string().starts_with("step-") && checkpoint_damage(folder).empty()) return folder;
  return {};
}

bool keep_checkpoints(const fs::path& checkpoint, const fs::path& run) {
  const auto before = checkpoint.parent_path(), own = run / "checkpoints";
  const auto note = text_of(before.parent_path(), before.filename() / kBestNote);
  const auto best = note ? step_in(*note) : std::nullopt;
  if (best && *best != checkpoint.filename() && copy_checkpoint(before / *best, own))
    write_file_atomically(own / kBestNote, *note);
  if (const auto data = text_of(before.parent_path(), kDataNote); data && !files().exists(run / kDataNote))
    write_file_atomically(run / kDataNote, *data);
  if (!copy_checkpoint(checkpoint, own)) return false;
  if (best && *best == checkpoint.filename()) write_file_atomically(own / kBestNote, *note);
  return true;
}

}  // namespace foretime::jobs
