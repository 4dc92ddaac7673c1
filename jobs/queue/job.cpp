#include "jobs/queue/job.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr std::array<std::pair<JobKind, const char*>, 4> kJobKinds = {{{JobKind::train, "train"},
                                                                       {JobKind::evaluate, "evaluate"},
                                                                       {JobKind::export_model, "export"},
                                                                       {JobKind::finetune, "finetune"}}};

constexpr std::array<std::pair<JobState, const char*>, 9> kStates = {{{JobState::blocked, "blocked"},
                                                                      {JobState::waiting, "waiting"},
                                                                      {JobState::delayed, "delayed"},
                                                                      {JobState::held, "held"},
                                                                      {JobState::active, "active"},
                                                                      {JobState::succeeded, "succeeded"},
                                                                      {JobState::failed, "failed"},
                                                                      {JobState::cancelled, "cancelled"},
                                                                      {JobState::dead, "dead"}}};

constexpr std::array<std::pair<Outcome, const char*>, 6> kOutcomes = {{{Outcome::succeeded, "succeeded"},
                                                                       {Outcome::stopped, "stopped"},
                                                                       {Outcome::cancelled, "cancelled"},
                                                                       {Outcome::preempted, "preempted"},
                                                                       {Outcome::error, "error"},
                                                                       {Outcome::failed, "failed"}}};

template <class Table, class Value>
std::string name_in(const Table& table, Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "unknown";
}

template <class Table>
auto value_in(const Table& table, const std::string& text, const std::string& what) {
  std::string names;
  for (const auto& [value, name] : table) {
    if (text == name) return value;
    names.append(names.empty() ? "" : ", ").append(name);
  }
  throw JobsError(fmt::format("{} '{}': expected one of {}", what, text.substr(0, 100), names));
}

}  // namespace

std::string to_string(JobKind kind) { return name_in(kJobKinds, kind); }
std::string to_string(JobState state) { return name_in(kStates, state); }
std::string to_string(Outcome outcome) { return name_in(kOutcomes, outcome); }
JobKind parse_job_kind(const std::string& text) { return value_in(kJobKinds, text, "job kind"); }
JobState parse_job_state(const std::string& text) { return value_in(kStates, text, "job state"); }

bool is_final(JobState state) {
  return state == JobState::succeeded || state == JobState::failed || state == JobState::cancelled ||
         state == JobState::dead;
}

std::string content_id(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    throw JobsError("SHA-256 is not available from libcrypto");
  std::string id;
  for (size_t i = 0; i < 8; ++i) id += fmt::format("{:02x}", digest[i]);
  return id;
}

std::string job_id(const JobSpec& spec) {
  const nlohmann::json content = {to_string(spec.kind), spec.sweep,      spec.trial,
                                  spec.settings,        spec.parameters, spec.after};
  return content_id(content.dump());
}

}  // namespace foretime::jobs
