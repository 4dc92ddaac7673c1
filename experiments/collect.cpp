#include "experiments/collect.h"

#include <fmt/format.h>

#include "jobs/error.h"

namespace foretime::experiments {
namespace {

namespace fs = std::filesystem;

/// Where the attempt that ended the job ran (jobs/agent/agent_command.h): that of its newest lease. Its checkpoint may
/// lie in the folder of an earlier attempt, which this one had nothing to add to.
fs::path attempt_of(const jobs::JobRecord& job, const fs::path& runs) {
  const auto folder = runs / job.spec.id;
  const auto name = fmt::format("attempt-{}", job.fence);
  std::error_code failure;
  for (const auto& item : fs::directory_iterator(folder, failure)) {
    const auto own = item.path().filename().string();
    if ((own == name || own.starts_with(name + "-")) && fs::exists(item.path() / "rankings.csv")) return item.path();
  }
  throw jobs::JobsError(fmt::format("job {} ({}): no rankings.csv in {}; is {} the run root of the agents?",
                                    job.spec.id, job.spec.name, (folder / name).string(), runs.string()));
}

}  // namespace

Collection collect(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Sweep& sweep,
                   jobs::QueueReader& reader, const fs::path& runs) {
  std::vector<std::string> ids;
  for (const auto& spec : sweep.jobs) ids.push_back(spec.id);
  std::map<std::string, jobs::JobRecord> records;
  for (auto& record : reader.jobs(ids)) records[record.spec.id] = std::move(record);
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

}  // namespace foretime::experiments
