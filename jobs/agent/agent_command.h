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

/// A job that no agent with these roots could run: its settings or paths are wrong. Ends it as failed.
struct JobUnusable : JobsError {
  using JobsError::JobsError;
};

/// A job whose program is no file in the agent's folder of programs: another agent may have it.
struct MissingProgram : JobsError {
  MissingProgram(const std::string& message, std::filesystem::path program)
      : JobsError("{}", message), program(std::move(program)) {}
  std::filesystem::path program;
};

/// Makes and marks the folder of an attempt (attempt_folder.h): runs/<job id>/attempt-<fence>. Where that exists
/// already (Redis lost a second and gave the fence out again, or another queue has the same job), the token is added.
/// Throws JobUnusable for an id that is no file name, JobsError where both names exist, FileError where it cannot be
/// made.
std::filesystem::path make_attempt_folder(const AgentOptions& options, const Lease& lease);

/// What a fine-tuning leaves in the folder of its attempt.
inline constexpr const char* kBundleFile = "model.foretime";

/// What an attempt needs that does not lie below this run root: artifacts of a job.
struct MissingArtifacts {
  std::string job{};
  Want want = Want::result;
};
/// Empty: all is there, or there is nothing that could be. `needed`: as for attempt_command. `newer`: where a
/// checkpoint lies here, a newer one may be stored. Throws what attempt_command throws.
std::optional<MissingArtifacts> missing_artifacts(const Lease& lease, const AgentOptions& options,
                                                  const std::optional<JobRecord>& needed, bool newer);

/// What a job becomes: its command line through the launcher, environment and working folder. For train, config.yaml is
/// written into `folder`, with every path confined to the roots. `needed` is the record of the first job of
/// `after`: an evaluation or export acts on its checkpoint, and a fine-tuning continues from its bundle. Throws
/// JobUnusable, MissingProgram, configs::SettingsError, JobsError (may work next time).
struct AttemptPlace {
  std::filesystem::path folder;
  JobSlots slots;
  std::function<void(const std::string&)> note = {};  // for the job's log; may be empty
  FetchedArtifact fetched = {};                       // what missing_artifacts() said; in `folder`
  std::filesystem::path resume = {};                  // of a training: resume_checkpoint()
};
/// The checkpoint that a training goes on from; empty: it begins anew.
std::filesystem::path resume_checkpoint(const Lease& lease, const AgentOptions& options, const AttemptPlace& place);
SupervisedProcess::Options attempt_command(const Lease& lease, const Parameters& parameters,
                                           const AgentOptions& options, const std::optional<JobRecord>& needed,
                                           const AttemptPlace& place);

/// `path`, as a job that runs in `folder` names a checkpoint: relative to the run root. Throws JobsError where it lies
/// outside of the folder or is not whole.
std::string published_checkpoint(const std::string& path, const std::filesystem::path& folder,
                                 const AllowedRoots& roots);

}  // namespace foretime::jobs
