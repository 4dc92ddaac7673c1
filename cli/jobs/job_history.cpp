#include "cli/jobs/job_history.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "history/run_history.h"

namespace foretime::cli {

JobHistory history_of(const jobs::JobRecord& job, const std::filesystem::path& runs) {
  JobHistory kept{history::History(), "Redis (thinned and rounded)"};
  std::optional<history::HistoryError> damage;
  try {
    kept.history = history::unpack(job.history);
  } catch (const history::HistoryError& error) {
    damage = error;
  }
  try {
    const auto folder = runs / job.spec.id;
    if (history::is_run(folder)) {
      auto whole = history::read_run(folder);
      // Otherwise attempts ran on other machines.
      if (whole.last_step() >= kept.history.last_step()) return {std::move(whole), folder.string()};
    }
  } catch (const Error&) {  // what Redis has will do
  }
  if (damage) throw *damage;
  return kept;
}

}  // namespace foretime::cli
