#include "jobs/queue/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/hex_digest.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

template <class Choice>
Choice named(const std::string& text, const char* what) {
  if (const auto choice = configs::choice_named<Choice>(text)) return *choice;
  throw JobsError("{} '{}': expected one of {}", what, text.substr(0, 100),
                  fmt::join(configs::words_of<Choice>(), ", "));
}

}  // namespace

std::string to_string(JobKind kind) { return configs::word_of(kind); }
std::string to_string(JobState state) { return configs::word_of(state); }
std::string to_string(Outcome outcome) { return configs::word_of(outcome); }
bool ended_by_storage(const JobResult& result) {
  return result.outcome == Outcome::preempted && result.unasked && result.exit_code == kStorage;
}
JobKind parse_job_kind(const std::string& text) { return named<JobKind>(text, "job kind"); }
JobState parse_job_state(const std::string& text) { return named<JobState>(text, "job state"); }

bool is_final(JobState state) {
  return state == JobState::succeeded || state == JobState::failed || state == JobState::cancelled ||
         state == JobState::dead;
}

std::string content_id(const std::string& text) { return hex_digest("SHA256", text).substr(0, 16); }

std::string job_id(const JobSpec& spec) {
  const nlohmann::json content = {to_string(spec.kind), spec.sweep,      spec.trial,
                                  spec.settings,        spec.parameters, spec.after};
  return content_id(content.dump());
}

}  // namespace foretime::jobs
