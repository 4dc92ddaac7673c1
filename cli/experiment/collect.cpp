#include "cli/experiment/collect.h"

#include <fmt/format.h>

#include "jobs/confine.h"
#include "jobs/error.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

/// RUNS/JOB/attempt-N of a published checkpoint RUNS/JOB/attempt-N/checkpoints/step-S; a later attempt may have
/// continued one of an earlier, but the last one to publish is the one that ended.
fs::path attempt_of(const jobs::JobRecord& job, const fs::path& runs) {
  if (job.checkpoint.empty())
    throw jobs::JobsError(fmt::format("job {} ({}): succeeded without a checkpoint", job.spec.id, job.spec.name));
  const auto root = fs::weakly_canonical(runs);
  const auto checkpoint = jobs::confine("checkpoint of job " + job.spec.id, job.checkpoint, root, {root});
  const auto folder = checkpoint.parent_path().parent_path();
  if (!fs::exists(folder / "rankings.csv"))
    throw jobs::JobsError(fmt::format("job {} ({}): no rankings.csv in {}; is {} the run root of the agents?",
                                      job.spec.id, job.spec.name, folder.string(), root.string()));
  return folder;
}

}  // namespace

Collection collect(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Sweep& sweep,
                   jobs::Observer& observer, const fs::path& runs) {
  std::vector<std::string> ids;
  for (const auto& spec : sweep.jobs) ids.push_back(spec.id);
  std::map<std::string, jobs::JobRecord> records;
  for (auto& record : observer.jobs(ids)) records[record.spec.id] = std::move(record);
  Collection collection;
  size_t next = 0;
  for (size_t t = 0; t < trials.size(); ++t) {
    if (experiment.entries[trials[t].entry].kind != EntryKind::model) continue;
    const auto found = records.find(sweep.jobs[next++].id);
    if (found == records.end()) {
      ++collection.others["not submitted"];
    } else if (found->second.state != jobs::JobState::succeeded) {
      ++collection.others[to_string(found->second.state)];
    } else {
      collection.trials.push_back({t, attempt_of(found->second, runs), found->second.seconds});
    }
  }
  return collection;
}

}  // namespace foretime::cli
