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

/// Thrown for a job that no agent with these roots could run, because its settings or paths are wrong. The job then
/// ends as failed.
struct JobUnusable : JobsError {
  using JobsError::JobsError;
};

/// Thrown if the program of a job is not a file in the agent's folder of programs. Another agent may have it.
struct MissingProgram : JobsError {
  MissingProgram(const std::string& message, std::filesystem::path program)
      : JobsError("{}", message), program(std::move(program)) {}
  std::filesystem::path program;
};

/// Makes and marks the folder of an attempt (attempt_folder.h): runs/<job id>/attempt-<fence>. If that folder exists
/// already (Redis lost a second of writes and reissued the fence, or another queue has the same job), the lease's token
/// is appended. Throws JobUnusable if the job id is not a valid file name, JobsError if both names exist, and FileError
/// if the folder cannot be made.
std::filesystem::path make_attempt_folder(const AgentOptions& options, const Lease& lease);

/// Names the bundle that a fine-tuning writes into the folder of its attempt.
inline constexpr const char* kBundleFile = "model.foretime";

/// Describes the artifacts that an attempt needs and that this run root lacks.
struct MissingArtifacts {
  std::string job{};
  Want want = Want::result;
};
/// Returns the artifacts that must be fetched before the attempt can start; empty if every file exists here or none can
/// exist. `needed` is described at attempt_command. With `newer`, a newer checkpoint may be in the store although one
/// exists here. Throws the errors of attempt_command.
std::optional<MissingArtifacts> missing_artifacts(const Lease& lease, const AgentOptions& options,
                                                  const std::optional<JobRecord>& needed, bool newer);

/// Holds the folder, slots and files with which an attempt starts.
struct AttemptPlace {
  std::filesystem::path folder;
  JobSlots slots;
  std::function<void(const std::string&)> note = {};  // writes a line into the job's log; may be empty
  FetchedArtifact fetched = {};                       // artifacts that missing_artifacts() asked for, in `folder`
  std::filesystem::path resume = {};                  // resume_checkpoint() of a training
};
/// Returns the checkpoint that a training continues from; empty if it starts from the beginning.
std::filesystem::path resume_checkpoint(const Lease& lease, const AgentOptions& options, const AttemptPlace& place);
/// Returns the command of an attempt: command line through the launcher, environment and working folder. For train,
/// writes config.yaml into `folder`, with every path confined to the roots. `needed` is the record of the first job of
/// `after`: an evaluation or export uses its checkpoint, and a fine-tuning continues from its bundle. Throws
/// JobUnusable, MissingProgram, configs::SettingsError, and JobsError for failures that may pass.
SupervisedProcess::Options attempt_command(const Lease& lease, const Parameters& parameters,
                                           const AgentOptions& options, const std::optional<JobRecord>& needed,
                                           const AttemptPlace& place);

/// Returns `path`, a checkpoint as named by a job that runs in `folder`, relative to the run root. Throws JobsError if
/// the checkpoint is outside of the folder or not whole.
std::string published_checkpoint(const std::string& path, const std::filesystem::path& folder,
                                 const AllowedRoots& roots);

}  // namespace foretime::jobs
