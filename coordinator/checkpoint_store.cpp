#include "coordinator/checkpoint_store.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "base/atomic_file.h"
#include "base/foreign_file.h"
#include "base/numbers.h"
#include "base/output_target.h"
#include "base/partial_files.h"
#include "base/text.h"

namespace foretime::coordinator {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
constexpr const char *kManifest = "manifest.json", *kBest = "best.json";
constexpr int64_t kFormat = 1;  // version of manifest.json and of the files that it lists
constexpr const char *kPrefix = "step-", *kDamaged = "damaged-";
constexpr uint64_t kMostManifestBytes = 64 << 20;

uint32_t checksum(const std::string& bytes) {
  return crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

std::optional<int64_t> step_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  const auto digits = name.substr(std::min(name.size(), std::strlen(kPrefix)));
  if (!name.starts_with(kPrefix) || digits.starts_with('-')) return std::nullopt;
  return parse_number<int64_t>(digits);
}

StoredCheckpoint read_folder(const fs::path& folder) {
  const auto manifest_path = folder / kManifest;
  const auto text = read_foreign(folder, kManifest, kMostManifestBytes);
  if (!text) {
    if (!files().exists(folder)) throw RunError("{}: this checkpoint is missing", folder.string());
    throw RunError("{}: no {}: not a complete checkpoint", folder.string(), kManifest);
  }
  StoredCheckpoint checkpoint{.folder = folder};
  Json manifest;
  try {
    manifest = Json::parse(*text);
    require_format(manifest.at("format"), kFormat, manifest_path);
    checkpoint.step = manifest.at("step").get_ref<const uint64_t&>();  // no other number
    if (const auto named = step_of(folder); named && *named != checkpoint.step)
      throw RunError("{}: step {}, expected {} as its folder says", manifest_path.string(), checkpoint.step, *named);
    for (const auto& [name, entry] : manifest.at("files").items()) {
      if (name.empty() || name.find('/') != std::string::npos)
        throw RunError("{}: file name '{}', expected a name without folders", manifest_path.string(), name);
      const auto size = entry.at("bytes").get_ref<const uint64_t&>(),
                 crc = entry.at("crc32").get_ref<const uint64_t&>();
      const auto file = open_foreign(folder, name, UINT64_MAX);
      if (!file) throw RunError("{}: no such file, expected it by the manifest", (folder / name).string());
      if (file->size() != size)
        throw RunError("{}: {} bytes, the manifest says {}", (folder / name).string(), file->size(), size);
      std::string bytes(size, '\0');
      bytes.resize(file->read(bytes));
      if (checksum(bytes) != crc)
        throw RunError("{}: CRC-32 {:08x}, the manifest says {:08x}: the file is damaged", (folder / name).string(),
                       checksum(bytes), crc);
      checkpoint.files.emplace(name, std::move(bytes));
    }
  } catch (const Json::exception& error) {
    throw RunError("{}: is damaged ({}), expected format, step, and files with bytes and crc32", manifest_path.string(),
                   printable_utf8(error.what()));
  }
  return checkpoint;
}

}  // namespace

void require_format(const Json& found, int64_t known, const fs::path& file) {
  if (found == known) return;
  if (found.is_number() && found > known)
    throw NewerFormat("{}: format {}, expected {}: a newer version of Foretime wrote it; use that version",
                      file.string(), found.dump(), known);
  throw RunError("{}: format {}, expected {}: the file is damaged", file.string(), found.dump(), known);
}

void write_folder(const fs::path& folder, const std::map<std::string, std::string>& contents,
                  const std::string& manifest) {
  auto aside = folder;
  aside += kAsideSuffix;
  files().remove(aside);
  create_folders_synced(folder.parent_path());
  files().create_folder(aside);
  try {
    for (const auto& [name, bytes] : contents) write_synced(aside / name, bytes);
    if (!manifest.empty()) write_synced(aside / kManifest, manifest);
    replace_folder(aside, folder);
  } catch (const FileError&) {
    try {
      files().remove(aside);
    } catch (const FileError&) {
      // The failure that leads here is the one to tell.
    }
    throw;
  }
  try {
    // What a process left that was killed between two renames: this folder, as it was before.
    for (const auto& path : files().list(folder.parent_path()))
      if (is_partial_file_of(path, folder.filename().string())) files().remove(path);
  } catch (const FileError&) {
    // The new one is in place.
  }
}

fs::path CheckpointStore::folder(int64_t step) const { return root_ / fmt::format("{}{:08}", kPrefix, step); }

void CheckpointStore::remove_partial_files() {
  for (const auto& path : files().list(root_)) {
    const auto name = path.filename().string();
    const bool of_step =
        step_of(root_ / name.substr(0, name.find('.'))) && is_partial_file_of(path, name.substr(0, name.find('.')));
    if (of_step || is_partial_file_of(path, kBest)) files().remove(path);
  }
}

void CheckpointStore::clear() {
  remove_partial_files();
  files().remove(root_ / kBest);
  for (const auto& path : files().list(root_)) {
    const auto name = path.filename().string();
    const bool damaged = name.starts_with(kDamaged);
    if (step_of(damaged ? root_ / name.substr(std::strlen(kDamaged)) : path)) files().remove(path);
  }
}

void CheckpointStore::commit(int64_t step, const std::map<std::string, std::string>& contents) {
  // Without those above it: whoever has removed the run's directory wants no part of it back.
  if (files().create_folder(root_)) files().sync_folder(root_.parent_path().empty() ? "." : root_.parent_path());
  remove_partial_files();  // frees the space of unfinished files
  Json manifest = {{"format", kFormat}, {"step", step}, {"files", Json::object()}};
  for (const auto& [name, bytes] : contents)
    manifest["files"][name] = {{"bytes", bytes.size()}, {"crc32", checksum(bytes)}};
  write_folder(folder(step), contents, manifest.dump(2) + "\n");
}

std::vector<int64_t> CheckpointStore::steps() const {
  std::vector<int64_t> found;
  for (const auto& path : files().list(root_)) {
    const auto step = step_of(path);
    if (step && files().exists(path / kManifest)) found.push_back(*step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

StoredCheckpoint CheckpointStore::read(int64_t step) const { return read_folder(folder(step)); }

StoredCheckpoint CheckpointStore::read_intact(int64_t step, const Warn& warn) const {
  std::set<int64_t> tried;
  std::exception_ptr first, storage;
  for (std::optional<int64_t> candidate = step; candidate;) {
    try {
      return read(*candidate);
    } catch (const UnreachableError&) {
      throw;  // the checkpoint may be intact and readable later
    } catch (const NewerFormat&) {
      throw;  // the checkpoint is intact
    } catch (const StorageError& error) {
      if (!storage) storage = std::current_exception();
      warn(error.what());
    } catch (const Error& error) {
      if (!first) first = std::current_exception();
      warn(error.what());
    }
    tried.insert(*candidate);
    candidate.reset();
    for (const int64_t other : steps()) {  // listed again, since other processes may prune
      if (tried.contains(other)) continue;
      if (other < step || !candidate) candidate = other;
    }
  }
  std::rethrow_exception(storage ? storage : first);
}

void CheckpointStore::set_aside_after(int64_t step) {
  for (const int64_t later : steps()) {
    if (later <= step) continue;
    auto aside = folder(later);
    aside.replace_filename(kDamaged + aside.filename().string());
    files().remove(aside);
    files().rename(folder(later), aside);
  }
}

void CheckpointStore::mark_best(int64_t step, const std::string& metric, double value) {
  write_file_atomically(root_ / kBest, Json{{"step", step}, {"metric", metric}, {"value", value}}.dump() + "\n");
}

void CheckpointStore::unmark_best() { files().remove(root_ / kBest); }

std::optional<int64_t> CheckpointStore::noted_best() const {
  const auto path = root_ / kBest;
  const auto text = read_foreign(root_, kBest, kMostManifestBytes);
  if (!text) return std::nullopt;
  try {
    const int64_t step = Json::parse(*text).at("step").get_ref<const uint64_t&>();
    // Step 0 is no checkpoint: no evaluation was the best yet.
    return step == 0 && !files().is_folder(folder(step)) ? std::nullopt : std::optional(step);
  } catch (const Json::exception& error) {
    throw RunError("{}: {}", path.string(), printable_utf8(error.what()));
  }
}

std::optional<int64_t> CheckpointStore::best_step() const {
  const auto step = noted_best();
  return step && files().exists(folder(*step) / kManifest) ? step : std::nullopt;
}

void CheckpointStore::prune(int64_t last, bool keep_best) {
  const auto all = steps();
  const auto best = keep_best ? best_step() : std::nullopt;
  for (const auto& path : files().list(root_)) {
    const auto name = path.filename().string();
    if (!name.starts_with(kDamaged) || all.empty()) continue;
    const auto damaged = step_of(root_ / name.substr(std::strlen(kDamaged)));
    if (damaged && *damaged <= all.back()) files().remove(path);  // this run wrote these steps again
  }
  for (int64_t i = 0; i + last < std::ssize(all); ++i)
    if (best != all[i]) remove_folder(folder(all[i]));
}

std::optional<fs::path> folder_of_checkpoints(const fs::path& path) {
  const auto named = path.has_filename() ? path : path.parent_path();
  if (!files().is_folder(path) || files().exists(path / kManifest) || step_of(named)) return std::nullopt;
  return files().is_folder(path / "checkpoints") ? path / "checkpoints" : path;
}

StoredCheckpoint read_intact_checkpoint(const fs::path& path, const CheckpointStore::Warn& warn) {
  const auto named = path.has_filename() ? path : path.parent_path();
  if (const auto step = step_of(named)) return CheckpointStore(named.parent_path()).read_intact(*step, warn);
  const auto root = folder_of_checkpoints(path);
  if (!root) return read_checkpoint(path);
  const CheckpointStore store(*root);
  const auto steps = store.steps();
  if (steps.empty()) throw RunError("{}: holds no complete checkpoint", path.string());
  return store.read_intact(store.best_step().value_or(steps.back()), warn);
}

StoredCheckpoint read_checkpoint(const fs::path& path) {
  const auto root = folder_of_checkpoints(path);
  if (!root && is_of_kind(path, FileKind::bundle))
    throw RunError(
        "{}: found a bundle, expected a checkpoint or a run directory: name the run that it was exported from",
        path.string());
  if (!root && !files().is_folder(path))
    throw RunError("{}: {}, expected a checkpoint or a run directory", path.string(),
                   files().exists(path) ? "not a folder" : "no such file or folder");
  if (!root) return read_folder(path);
  const CheckpointStore store(*root);
  const auto steps = store.steps();
  if (steps.empty()) throw RunError("{}: holds no complete checkpoint", path.string());
  return store.read(store.best_step().value_or(steps.back()));
}

}  // namespace foretime::coordinator
