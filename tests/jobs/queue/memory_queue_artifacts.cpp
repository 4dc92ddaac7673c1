#include <algorithm>

#include "jobs/error.h"
#include "jobs/queue/job_hash.h"
#include "jobs/queue/queue.h"
#include "tests/jobs/queue/memory_queue.h"

/// What MemoryQueue knows of the artifacts of jobs.
namespace foretime::jobs {

uint64_t MemoryQueue::in_redis(const std::map<std::string, Artifact>& by_role) {
  std::map<std::string, uint64_t> bytes;
  for (const auto& [role, artifact] : by_role)
    bytes[artifact.name] = artifact.store == kRedisStore ? artifact.bytes() : 0;
  uint64_t sum = 0;
  for (const auto& [name, size] : bytes) sum += size;
  return sum;
}

/// What the job then has, by role.
KeptArtifact MemoryQueue::place(Job& job, const Artifact& artifact, const std::vector<std::string>& roles, bool ended,
                                std::map<std::string, Artifact>& by_role) {
  by_role = job.artifacts;
  for (const auto& role : roles) by_role[role] = artifact;
  for (auto& [role, other] : by_role)
    if (other.name == artifact.name) other = artifact;
  if (ended && by_role.contains("best")) by_role["last"] = by_role["best"];
  uint64_t used = 0;
  for (const auto& [id, each] : jobs_) used += in_redis(each.artifacts);
  const auto before = in_redis(job.artifacts), after = in_redis(by_role);
  const auto quota = static_cast<uint64_t>(settings_.artifact_bytes);
  if (artifact.store == kRedisStore && after > before && used - before + after > quota)
    return {.answer = KeptArtifact::Answer::full, .used = used, .quota = quota};
  return {};
}

KeptArtifact MemoryQueue::may_store(const Lease& lease, const Artifact& artifact,
                                    const std::vector<std::string>& roles) {
  const auto lock = begin("may_store");
  touch();
  Job* job = holder(lease);
  if (job == nullptr) return {.answer = KeptArtifact::Answer::lost};
  std::map<std::string, Artifact> by_role;
  return place(*job, artifact, roles, false, by_role);
}

KeptArtifact MemoryQueue::keep(const Lease& lease, const Artifact& artifact, const std::vector<std::string>& roles,
                               bool ended) {
  artifact_text(artifact);
  const auto lock = begin("keep");
  touch();
  Job* job = holder(lease);
  if (job == nullptr) return {.answer = KeptArtifact::Answer::lost};
  std::map<std::string, Artifact> by_role;
  auto kept = place(*job, artifact, roles, ended, by_role);
  if (kept.answer != KeptArtifact::Answer::kept) return kept;
  std::set<std::string> still;
  for (const auto& [role, other] : by_role) still.insert(other.name);
  std::set<std::string> dropped;
  for (const auto& [role, other] : job->artifacts)
    if (!still.contains(other.name) && other.store != kRedisStore) dropped.insert(other.name);
  if (!still.contains(artifact.name) && artifact.store != kRedisStore) dropped.insert(artifact.name);
  kept.dropped.assign(dropped.begin(), dropped.end());
  if (artifact.store != kRedisStore) job->stores.insert(artifact.store);
  job->artifacts = by_role;
  job->artifact_trouble.clear();
  return kept;
}

void MemoryQueue::note_trouble_of_artifacts(const Lease& lease, const std::string& trouble) {
  const auto lock = begin("note_trouble_of_artifacts");
  touch();
  if (Job* job = holder(lease)) job->artifact_trouble = trouble.substr(0, Limits::kTrouble);
}

JobArtifacts MemoryQueue::artifacts(const std::string& id) {
  const auto lock = begin("artifacts");
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return {};
  return {.by_role = found->second.artifacts, .trouble = found->second.artifact_trouble};
}

std::vector<ForgottenArtifacts> MemoryQueue::forgotten_artifacts() {
  const auto lock = begin("forgotten_artifacts");
  return gone_;
}

void MemoryQueue::removed(const ForgottenArtifacts& artifacts) {
  const auto lock = begin("removed");
  std::erase(gone_, artifacts);
}

}  // namespace foretime::jobs
