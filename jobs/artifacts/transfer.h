#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "jobs/artifacts/artifact_store.h"
#include "jobs/queue/artifact.h"

/// Copies artifacts between the folder of an attempt and a store.
namespace foretime::jobs {

/// Holds an artifact read from the attempt's folder. `artifact.name` is step-N, run or product; the uploader makes the
/// name unique. `artifact.store` is empty.
struct PackedArtifact {
  Artifact artifact{};
  std::map<std::string, std::string> contents{};  // bytes of each of artifact.files
};

/// Returns the files of a checkpoint, and those that pack_run() returns. `checkpoint` is relative to the run's folder
/// `run`. Throws FileError, and JobsError if its manifest or a file of the manifest is missing or a size differs.
PackedArtifact pack_checkpoint(const std::filesystem::path& run, const std::string& checkpoint);
/// Returns these files of a run's folder, as far as they exist: config.yaml, data.json, checkpoints/best.json, and the
/// lines of evaluations and final metrics of metrics.jsonl, at most the newest 4 MiB. Throws FileError.
PackedArtifact pack_run(const std::filesystem::path& run);
/// Returns the product of an export (a folder with a manifest) or a fine-tuning (a file); `path` is relative to `run`.
/// Throws FileError, and JobsError if the product is missing or damaged.
PackedArtifact pack_product(const std::filesystem::path& run, const std::string& path);
/// Returns the step in a run's checkpoints/best.json, -1 without one; the checkpoint need not exist. Throws FileError.
int64_t best_step_of(const std::filesystem::path& run);

/// Stores all files of an artifact. Throws StoreRefused before the first one if a file is larger than the store
/// accepts, and the errors of ArtifactStore::put.
void store_artifact(ArtifactStore& store, const std::string& job, const PackedArtifact& packed);

/// Selects the artifact of a job that is fetched.
enum class Want {
  resume,  // the newest checkpoint, and the best one if it is intact; only the best one if the newest is damaged
  result   // the best checkpoint, else the newest one, with its run's description; or the product of the job
};

/// Describes a fetched artifact; not found() if no intact one exists.
struct FetchedArtifact {
  std::filesystem::path path{};      // resume: checkpoint folder; result: run folder, exported folder or bundle
  int64_t step = -1;                 // step of the checkpoint; 0 for a product; -1: nothing was fetched
  std::vector<std::string> notes{};  // a message for each artifact that was skipped as damaged or missing
  bool found() const { return !path.empty(); }
};

/// Writes the wanted artifact of `known`, the artifacts of `job`, into the folder `target_folder`, which is created.
/// Checks every file's size and SHA-256, and takes an intact artifact in place of a damaged one (see Want). Writes
/// nothing if none is intact. Throws StoreUnavailable if a store is not reached, and FileError for `target_folder`.
FetchedArtifact fetch_artifact(ArtifactStores& stores, const std::string& job, const JobArtifacts& known, Want want,
                               const std::filesystem::path& target_folder);

}  // namespace foretime::jobs
