#include "jobs/artifacts/transfer.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/foreign_file.h"
#include "base/hex_digest.h"
#include "base/numbers.h"
#include "base/text.h"
#include "history/run_history.h"
#include "jobs/queue/job.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using TransferJson = nlohmann::json;

constexpr const char* kManifestName = "manifest.json";  // coordinator/checkpoint_store.h: written last
constexpr const char *kCheckpoints = "checkpoints", *kBestFile = "checkpoints/best.json", *kMetrics = "metrics.jsonl";
constexpr size_t kMetricsBytes = 4 << 20, kNoteBytes = 64 << 20;

/// Evaluations alone: steps are many, and nobody asks for them elsewhere. Empty if there is no such file.
std::optional<std::string> evaluations_of(const fs::path& run) {
  std::string kept;
  const bool found = read_foreign_lines(run, kMetrics, history::kMostMetrics, [&](std::string_view line) {
    const auto json = TransferJson::parse(line, nullptr, false);
    const auto kind = json.is_object() ? json.value("kind", TransferJson()) : TransferJson();
    if (kind == "eval" || kind == "final") kept.append(line).append("\n");
  });
  if (!found) return std::nullopt;
  return kept.size() <= kMetricsBytes ? kept : kept.substr(kept.find('\n', kept.size() - kMetricsBytes) + 1);
}

void add_file(PackedArtifact& packed, const std::string& name, std::string bytes) {
  packed.artifact.files[name] = {bytes.size(), hex_digest("SHA256", bytes)};
  packed.contents[name] = std::move(bytes);
}

void add_run(PackedArtifact& packed, const fs::path& run) {
  for (const char* name : {"config.yaml", "data.json", kBestFile})
    if (auto bytes = read_foreign(run, name, kNoteBytes)) add_file(packed, name, *std::move(bytes));
  if (auto lines = evaluations_of(run)) add_file(packed, kMetrics, *std::move(lines));
}

/// A file that is to be stored. Throws JobsError if it has gone.
std::string needed(const fs::path& run, const fs::path& name) {
  auto bytes = read_foreign(run, name, kLargestStored);
  if (!bytes)
    throw JobsError("{}: the file is gone, expected it to be there until it is stored", (run / name).string());
  return *std::move(bytes);
}

/// The files of a folder with a manifest, sizes checked.
void add_folder(PackedArtifact& packed, const fs::path& run, const std::string& folder) {
  const auto path = run / folder;
  const auto text = read_foreign(run, fs::path(folder) / kManifestName, kNoteBytes);
  if (!text) throw JobsError("{}: no {}, expected a whole checkpoint or export", path.string(), kManifestName);
  const auto manifest = TransferJson::parse(*text, nullptr, false);
  if (!manifest.is_object())
    throw JobsError("{}: found no JSON object, expected a manifest", (path / kManifestName).string());
  const auto listed = manifest.value("files", TransferJson::object());
  for (const auto& file : files().list(path)) {
    if (files().is_folder(file)) continue;
    const auto name = file.filename().string();
    auto bytes = needed(run, fs::path(folder) / name);
    const auto entry = listed.is_object() ? listed.find(name) : listed.end();
    if (listed.is_object() && entry != listed.end() && entry->is_object() &&
        entry->value("bytes", TransferJson()) != bytes.size())
      throw JobsError("{}: found {} bytes, expected the size in {}", file.string(), bytes.size(), kManifestName);
    add_file(packed, folder + "/" + name, std::move(bytes));
  }
  for (const auto& [name, entry] : listed.items())
    if (!packed.contents.contains(folder + "/" + name))
      throw JobsError("{}: no such file, but {} lists it", (path / name).string(), kManifestName);
}

/// The files of one artifact, all intact; else throws JobsError saying what is wrong.
std::map<std::string, std::string> fetch_files(ArtifactStores& stores, const std::string& job,
                                               const Artifact& artifact) {
  auto& store = stores.at(artifact.store);
  std::map<std::string, std::string> contents;
  for (const auto& [name, stored] : artifact.files) {
    const auto where = fmt::format("{} in {}", name, artifact.name);
    if (stored.bytes > store.largest_file())
      throw JobsError("{}: found a recorded size of {} bytes, expected at most {}", where, stored.bytes,
                      store.largest_file());
    auto bytes = store.get(fmt::format("{}/{}/{}", job, artifact.name, name), stored.bytes);
    if (!bytes) throw JobsError("{}: the file is no longer in the artifact store", where);
    if (bytes->size() != stored.bytes)
      throw JobsError("{}: found {} bytes, expected {}: it is damaged", where, bytes->size(), stored.bytes);
    if (hex_digest("SHA256", *bytes) != stored.sha256)
      throw JobsError("{}: damaged: its SHA-256 is not the recorded one", where);
    contents[name] = *std::move(bytes);
  }
  return contents;
}

/// Returns whether one name is a folder of another.
bool do_collide(const std::map<std::string, std::string>& contents) {
  return std::ranges::any_of(contents, [&](const auto& file) {
    for (auto slash = file.first.find('/'); slash != std::string::npos; slash = file.first.find('/', slash + 1))
      if (contents.contains(file.first.substr(0, slash))) return true;
    return false;
  });
}

/// Returns whether `path` is one of the files, or a folder that has some.
bool is_among(const std::string& path, const std::map<std::string, std::string>& contents) {
  const auto first = contents.lower_bound(path + "/");
  return contents.contains(path) || (first != contents.end() && first->first.starts_with(path + "/"));
}

void write_files(const std::map<std::string, std::string>& contents, const fs::path& target_folder) {
  for (const auto& [name, bytes] : contents) {
    files().create_folders((target_folder / name).parent_path());
    write_whole(target_folder / name, bytes);
  }
}

}  // namespace

PackedArtifact pack_checkpoint(const fs::path& run, const std::string& checkpoint) {
  PackedArtifact packed;
  const auto name = fs::path(checkpoint).filename().string();
  const auto step = parse_number<int64_t>(name.substr(name.rfind('-') + 1)).value_or(0);
  packed.artifact = {.name = name, .path = checkpoint, .step = step};
  add_folder(packed, run, checkpoint);
  add_run(packed, run);
  return packed;
}

PackedArtifact pack_run(const fs::path& run) {
  PackedArtifact packed;
  packed.artifact = {.name = "run", .path = "config.yaml"};
  add_run(packed, run);
  return packed;
}

PackedArtifact pack_product(const fs::path& run, const std::string& path) {
  PackedArtifact packed;
  packed.artifact = {.name = "product", .path = path};
  if (files().is_folder(run / path)) add_folder(packed, run, path);
  else add_file(packed, path, needed(run, path));
  return packed;
}

int64_t best_step_of(const fs::path& run) {
  const auto json = TransferJson::parse(read_foreign(run, kBestFile, kNoteBytes).value_or(""), nullptr, false);
  const auto step = json.is_object() ? json.value("step", TransferJson()) : TransferJson();
  return step.is_number_integer() ? step.get<int64_t>() : -1;
}

void store_artifact(ArtifactStore& store, const std::string& job, const PackedArtifact& packed) {
  for (const auto& [name, bytes] : packed.contents)
    if (bytes.size() > store.largest_file())
      throw StoreRefused("{}: found {} bytes, but the artifact store {} takes files of at most {}", name, bytes.size(),
                         store.address(), store.largest_file());
  for (const auto& [name, bytes] : packed.contents)
    store.put(fmt::format("{}/{}/{}", job, packed.artifact.name, name), bytes);
}

FetchedArtifact fetch_artifact(ArtifactStores& stores, const std::string& job, const JobArtifacts& known, Want want,
                               const fs::path& target_folder) {
  FetchedArtifact fetched;
  if (!known.unreadable.empty()) fetched.notes.push_back(known.unreadable);
  std::map<std::string, std::string> all;
  const auto try_role = [&](const char* role) -> const Artifact* {
    const auto found = known.by_role.find(role);
    if (found == known.by_role.end()) return nullptr;
    try {
      const auto& artifact = found->second;
      auto joined = fetch_files(stores, job, artifact);
      if (std::strcmp(role, "run") != 0 && !is_among(artifact.path, joined))
        throw JobsError("artifact {}: holds no file at or below its path {}: it is damaged", artifact.name,
                        artifact.path);
      joined.insert(all.begin(), all.end());
      if (do_collide(joined))
        throw JobsError("artifact {}: found a file whose name is also that of a folder: it is damaged", artifact.name);
      all = std::move(joined);
      return &artifact;
    } catch (const StoreUnavailable&) {
      throw;
    } catch (const JobsError& error) {
      fetched.notes.push_back(error.what());
      return nullptr;
    }
  };
  const Artifact* main = nullptr;
  if (want == Want::resume) {
    const auto* best = try_role("best");
    main = try_role("last");  // fetched after the best one, so that the newer description of the run wins
    if (main == nullptr) main = best;
  } else {
    main = try_role("best");
    if (main == nullptr) main = try_role("last");
    if (main != nullptr && main->path.starts_with(kCheckpoints)) try_role("run");
  }
  if (main == nullptr) return fetched;
  write_files(all, target_folder);
  fetched.step = main->step;
  const bool of_run = want == Want::result && main->path.starts_with(kCheckpoints);
  fetched.path = of_run ? target_folder : target_folder / main->path;
  return fetched;
}

}  // namespace foretime::jobs
