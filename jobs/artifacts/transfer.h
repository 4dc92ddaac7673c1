#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "jobs/artifacts/artifact_store.h"
#include "jobs/queue/artifact.h"

/// Between the folder of an attempt and a store.
namespace foretime::jobs {

/// What is to be stored, read from the attempt's folder. `artifact.name` says what it is; whoever stores it makes it
/// unique.
struct PackedArtifact {
  Artifact artifact{};
  std::map<std::string, std::string> contents{};  // of its files
};

/// A checkpoint with what evaluations and exports need of its run: its settings, and what was measured. `checkpoint` is
/// relative to `run`. Throws FileError, JobsError where it is damaged (its manifest's sizes).
PackedArtifact pack_checkpoint(const std::filesystem::path& run, const std::string& checkpoint);
/// The settings and measurements of a run that has come to its end.
PackedArtifact pack_run(const std::filesystem::path& run);
/// What an export (a folder) or a fine-tuning (a file) has made; `path` is relative to `run`.
PackedArtifact pack_product(const std::filesystem::path& run, const std::string& path);
/// The step of the best checkpoint of a run, as it says itself; -1: it says none, or has it no more.
int64_t best_step_of(const std::filesystem::path& run);

/// Throws StoreUnavailable, StoreRefused.
void store_artifact(ArtifactStore& store, const std::string& job, const PackedArtifact& packed);

/// What is wanted of a job's artifacts.
enum class Want {
  resume,  // the newest checkpoint, and the best one beside it
  result   // the best checkpoint with its run, or what was made
};

struct FetchedArtifact {
  std::filesystem::path path{};      // resume: of the checkpoint; result: of the run, the exported folder or the bundle
  int64_t step = -1;                 // of the checkpoint
  std::vector<std::string> notes{};  // what was damaged, and passed over
  bool found() const { return !path.empty(); }
};

/// Writes what is wanted into the folder `into`, which is made. Every file is checked against its size and SHA-256: a
/// damaged artifact is passed over for another one that is intact. Nothing is left where none is. Throws
/// StoreUnavailable where a store is not reached (later it may be), FileError for `into`.
FetchedArtifact fetch_artifact(ArtifactStores& stores, const std::string& job, const JobArtifacts& known, Want want,
                               const std::filesystem::path& into);

}  // namespace foretime::jobs
