#include "cli/jobs/job_history.h"

#include "base/error.h"
#include "history/run_history.h"

namespace foretime::cli {

JobHistory history_of(const jobs::JobRecord& job, const std::filesystem::path& runs) {
  JobHistory kept{history::unpack(job.history), "Redis (thinned and rounded)"};
  const auto folder = runs / job.spec.id;
  try {
    if (!history::is_run(folder)) return kept;
    auto whole = history::read_run(folder);
    if (whole.last_step() < kept.history.last_step()) return kept;  // attempts ran on other machines
    return {std::move(whole), folder.string()};
  } catch (const Error&) {
    return kept;
  }
}

}  // namespace foretime::cli
