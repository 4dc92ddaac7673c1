#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "jobs/artifacts/artifact_store.h"
#include "jobs/queue/artifact.h"

/// Copies artifacts between the folder of an attempt and a store.
namespace foretime::jobs {

/// Holds an artifact read from the attempt's folder. `artifact.name` gives its kind; the uploader makes the name
/// unique.
struct PackedArtifact {
  Artifact artifact{};
  std::map<std::string, std::string> contents{};  // key: file name
};

/// Returns a checkpoint with the files of its run that evaluations and exports need: settings and measurements.
/// `checkpoint` is relative to `run`. Throws FileError, and JobsError if the checkpoint is damaged (sizes in its
/// manifest).
PackedArtifact pack_checkpoint(const std::filesystem::path& run, const std::string& checkpoint);
/// Returns the settings and measurements of a run that has ended.
PackedArtifact pack_run(const std::filesystem::path& run);
/// Returns the product of an export (a folder) or a fine-tuning (a file); `path` is relative to `run`.
PackedArtifact pack_product(const std::filesystem::path& run, const std::string& path);
/// Returns the step of a run's best checkpoint according to its marker; -1 without a marker or checkpoint.
int64_t best_step_of(const std::filesystem::path& run);

/// Stores all files of an artifact. Throws StoreUnavailable and StoreRefused.
void store_artifact(ArtifactStore& store, const std::string& job, const PackedArtifact& packed);

/// Selects the artifact of a job that is fetched.
enum class Want {
  resume,  // newest checkpoint, with the best one
  result   // best checkpoint with its run, or the job's product
};

/// Describes a fetched artifact; not found() if no intact one exists.
struct FetchedArtifact {
  std::filesystem::path path{};      // resume: checkpoint folder; result: run folder, exported folder or bundle
  int64_t step = -1;                 // step of the checkpoint; -1: none
  std::vector<std::string> notes{};  // damaged artifacts that were skipped
  bool found() const { return !path.empty(); }
};

/// Writes the wanted artifact into the folder `target_folder`, which is created. Checks every file's size and
/// SHA-256, and skips a damaged artifact for another one that is intact. Leaves nothing behind if none is. Throws
/// StoreUnavailable if a store is not reached, FileError for `target_folder`.
FetchedArtifact fetch_artifact(ArtifactStores& stores, const std::string& job, const JobArtifacts& known, Want want,
                               const std::filesystem::path& target_folder);

}  // namespace foretime::jobs
