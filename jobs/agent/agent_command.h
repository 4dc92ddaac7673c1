#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "jobs/agent/agent_options.h"
#include "jobs/artifacts/transfer.h"
#include "jobs/error.h"
#include "jobs/supervisor/supervisor.h"

namespace foretime::jobs {

/// Thrown for a job whose settings or paths are wrong for every agent with these roots. The job ends as failed.
struct JobUnusable : JobsError {
  using JobsError::JobsError;
};

/// Thrown if the file `program` of a job is not in the agent's folder of programs. Another agent may have the file.
struct MissingProgram : JobsError {
  MissingProgram(const std::string& message, std::filesystem::path program)
      : JobsError("{}", message), program(std::move(program)) {}
  std::filesystem::path program;
};

/// Makes, marks (attempt_folder.h) and returns the folder of an attempt: runs/<job id>/attempt-<fence>. Appends the
/// lease's token if that exists (Redis gave the fence out twice, or another queue has the same job). Throws JobUnusable
/// if the job id is not an is_id(), JobsError if both folders exist, and FileError.
std::filesystem::path make_attempt_folder(const AgentOptions& options, const Lease& lease);

/// The name of the bundle that a fine-tuning writes into the folder of its attempt.
inline constexpr const char* kBundleFile = "model.foretime";

/// Describes the artifacts that an attempt needs and that this run root lacks.
struct MissingArtifacts {
  std::string job{};
  Want want = Want::result;
};
/// Returns the artifacts that must be fetched before the attempt can start; empty if all files exist here, or if no
/// artifact can exist: the first attempt of a training, or a job whose `needed` (see attempt_command) is empty. With
/// `newer`, a later attempt of a training always fetches, since the store may have a newer checkpoint. Throws JobsError
/// if a path of the record is not inside the run root, and FileError.
std::optional<MissingArtifacts> missing_artifacts(const Lease& lease, const AgentOptions& options,
                                                  const std::optional<JobRecord>& needed, bool newer);

/// Holds the folder, slots and files with which an attempt starts.
struct AttemptPlace {
  std::filesystem::path folder;  // folder of the attempt
  JobSlots slots;
  std::function<void(const std::string&)> note = {};  // writes a line into the job's log; may be empty
  FetchedArtifact fetched = {};       // artifacts that missing_artifacts() asked for, in `folder`; not found(): none
  std::filesystem::path resume = {};  // checkpoint that a training continues from (resume_checkpoint); empty: none
};
/// Returns the newer of the fetched checkpoint and the newest whole one of the job's attempts here, from which a
/// training continues; empty if there is neither. Throws FileError and NodeError.
std::filesystem::path resume_checkpoint(const Lease& lease, const AgentOptions& options, const AttemptPlace& place);
/// Returns the command of an attempt: command line through the launcher, environment and working folder. For a
/// training, writes config.yaml (paths confined to the roots) into place.folder; for a program, the files that describe
/// its trial. `needed` is the record of the first job of `after`: an evaluation or export uses its checkpoint, and a
/// fine-tuning its bundle. Throws JobUnusable, MissingProgram, configs::SettingsError, FileError, NodeError, and
/// JobsError for failures that may pass.
SupervisedProcess::Options attempt_command(const Lease& lease, const Parameters& parameters,
                                           const AgentOptions& options, const std::optional<JobRecord>& needed,
                                           const AttemptPlace& place);

/// Returns the checkpoint `path`, as named by a job that runs in `folder`, relative to the run root. Throws JobsError
/// if the checkpoint is outside of `folder` or has no manifest, and the errors of allowed_path().
std::string published_checkpoint(const std::string& path, const std::filesystem::path& folder,
                                 const AllowedRoots& roots);

}  // namespace foretime::jobs
