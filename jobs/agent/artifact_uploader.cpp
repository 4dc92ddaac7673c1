#include "jobs/agent/artifact_uploader.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/numbers.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr double kCourierAsleep = 3600, kTidyInterval = 60, kLongestRetry = 20, kLastCarry = 5;  // seconds

double pause_after(int failures, World& world) {
  return world.spread(std::min(kLongestRetry, std::ldexp(1.0, std::min(failures, 10))));
}

/// Ends the storing of what is to be stored, until there is something newer.
struct NotStored : JobsError {
  using JobsError::JobsError;
};

}  // namespace

ArtifactUploader::ArtifactUploader(std::shared_ptr<JobQueue> queue, std::shared_ptr<ArtifactStores> stores,
                                   std::string address, std::function<void()> wake, World& world)
    : state_(new State{.queue = std::move(queue),
                       .stores = std::move(stores),
                       .address = std::move(address),
                       .files = files(),
                       .world = world,
                       .wake = std::move(wake)}),
      world_(world),
      background_(world.run_beside([state = state_] { return state->step(); })) {}

ArtifactUploader::~ArtifactUploader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->wake = nullptr;
    state_->stopping = true;
  }
  background_->wait_at_most(kLastCarry);
}

void ArtifactUploader::announce(const Lease& lease, const std::filesystem::path& run, const std::string& checkpoint) {
  if (!stores()) return;
  {
    const std::lock_guard lock(state_->mutex);
    auto& upload = state_->uploads[lease.token];
    upload.lease = lease;
    upload.run = run;
    upload.checkpoint = checkpoint;
  }
  background_->wake();
}

void ArtifactUploader::ended(const Lease& lease, const std::filesystem::path& run, const std::string& product,
                             bool succeeded) {
  if (!stores()) return;
  {
    const std::lock_guard lock(state_->mutex);
    auto& upload = state_->uploads[lease.token];
    upload.lease = lease;
    upload.run = run;
    upload.product = product;
    upload.ended = true;
    upload.succeeded = succeeded;
    upload.wrapped_up = upload.checkpoint.empty();  // nothing was stored: there is nothing to add
    upload.ended_at = world_.steady_seconds();
    upload.next_try = 0;
  }
  background_->wake();
}

bool ArtifactUploader::settled(const Lease& lease) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->uploads.find(lease.token);
  if (found == state_->uploads.end()) return true;
  return !found->second.waits() || world_.steady_seconds() - found->second.ended_at >= kPatience;
}

std::optional<ArtifactUploader::Outcome> ArtifactUploader::fetch(const Lease& lease, const std::string& job, Want want,
                                                                 const std::filesystem::path& target_folder) {
  {
    const std::lock_guard lock(state_->mutex);
    const auto [at, is_new] = state_->fetches.try_emplace(lease.token);
    if (!is_new) return at->second.outcome;
    at->second = {.job = job, .want = want, .target_folder = target_folder, .began = world_.steady_seconds()};
  }
  background_->wake();
  return std::nullopt;
}

std::vector<std::string> ArtifactUploader::take_notes(const Lease& lease) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->uploads.find(lease.token);
  if (found == state_->uploads.end()) return {};
  auto notes = std::exchange(found->second.notes, {});
  return {notes.begin(), notes.end()};
}

void ArtifactUploader::forget(const Lease& lease) {
  const std::lock_guard lock(state_->mutex);
  state_->uploads.erase(lease.token);
  state_->fetches.erase(lease.token);
}

double ArtifactUploader::next_turn() const {
  const std::lock_guard lock(state_->mutex);
  double next = kNever;
  for (const auto& [token, upload] : state_->uploads)
    if (upload.ended && upload.waits()) next = std::min(next, upload.ended_at + kPatience);
  return next;
}

/// One thing at a time: first what a start waits for.
double ArtifactUploader::State::step() {
  const FilesScope scope(files);
  const double now = world.steady_seconds();
  std::unique_lock lock(mutex);
  if (stopping) return kCourierAsleep;
  double next = now + kCourierAsleep;
  for (const auto& [token, fetch] : fetches) {
    if (fetch.outcome) continue;
    if (fetch.next_try <= now) {
      const auto chosen = token;
      auto copy = fetch;
      lock.unlock();
      try_fetch(chosen, std::move(copy));
      return 0;
    }
    next = std::min(next, fetch.next_try);
  }
  for (const auto& [token, upload] : uploads) {
    if (!upload.waits()) continue;
    if (upload.next_try <= now) {
      const auto chosen = token;
      auto copy = upload;
      lock.unlock();
      try_upload(chosen, std::move(copy));
      return 0;
    }
    next = std::min(next, upload.next_try);
  }
  if (address.empty() || address == kRedisStore) return next - now;
  if (next_removal <= now) {
    next_removal = now + world.spread(kTidyInterval);
    lock.unlock();
    remove_forgotten();
  }
  return std::max(0.0, std::min(next, next_removal) - now);
}

void ArtifactUploader::State::try_fetch(const std::string& token, Fetch fetch) {
  std::optional<Outcome> outcome;
  std::string away;
  try {
    outcome = Outcome{};
    outcome->fetched = fetch_artifact(*stores, fetch.job, queue->artifacts(fetch.job), fetch.want, fetch.target_folder);
  } catch (const StoreUnavailable& error) {
    away = error.what();
  } catch (const RedisUnavailable& error) {
    away = error.what();
  } catch (const RedisDenied& error) {
    away = error.what();
  } catch (const StorageError& error) {
    away = error.what();
  } catch (const std::exception& error) {
    outcome->fetched = {.notes = {error.what()}};
  }
  const double now = world.steady_seconds();
  if (!away.empty()) outcome.reset();
  if (!away.empty() && now - fetch.began >= kFetchPatience) outcome = Outcome{.unavailable = away};
  const std::lock_guard lock(mutex);
  const auto found = fetches.find(token);
  if (found == fetches.end()) return;
  found->second.outcome = outcome;
  found->second.next_try = now + pause_after(found->second.failures++, world);
  if (outcome && wake) wake();
}

/// Throws what the queue and the store throw; NotStored where trying again does not help.
bool ArtifactUploader::State::store_kept(Upload& upload, PackedArtifact packed, const std::vector<std::string>& roles,
                                         bool ended) {
  packed.artifact.store = address;
  // A separate name each time: parts that are written again would expire although they are kept.
  packed.artifact.name =
      fmt::format("{}-{}/{}-{}", upload.lease.fence, upload.lease.token, ++stored_count, packed.artifact.name);
  auto room = queue->may_store(upload.lease, packed.artifact, roles);
  if (room.answer == KeptArtifact::Answer::kept) {
    store_artifact(stores->at(address), upload.lease.job, packed);
    room = queue->keep(upload.lease, packed.artifact, roles, ended);
  }
  switch (room.answer) {
    case KeptArtifact::Answer::kept: break;
    case KeptArtifact::Answer::lost: upload.lost = true; return false;
    case KeptArtifact::Answer::full:
      throw NotStored("no room in Redis: artifacts take {} bytes of a quota of {} (foretime queue --artifact-mib)",
                      room.used, room.quota);
    case KeptArtifact::Answer::missing: throw StoreUnavailable("the upload took longer than Redis keeps its parts");
  }
  for (const auto& name : room.dropped) stores->at(address).remove(upload.lease.job + "/" + name);
  return true;
}

/// The folder of the best checkpoint, relative to the run; empty where it is not there.
std::string ArtifactUploader::State::best_of(const Upload& upload) {
  const auto step = best_step_of(upload.run);
  if (step < 0) return "";
  const auto name = fmt::format("checkpoints/step-{:08}", step);
  return files.exists(upload.run / name / "manifest.json") ? name : "";
}

/// Removes artifacts of attempts up to this one that were stored but not kept, because their agents were killed.
void ArtifactUploader::State::remove_leftovers(const Lease& lease) {
  std::set<std::string> kept;
  for (const auto& [role, artifact] : queue->artifacts(lease.job).by_role) kept.insert(artifact.name);
  auto& store = stores->at(address);
  for (const auto& name : store.list(lease.job)) {
    std::string_view text = name;
    const auto fence = take_number<int64_t>(text).value_or(0);
    if (!kept.contains(name) && fence >= 1 && fence <= lease.fence) store.remove(lease.job + "/" + name);
  }
}

/// Stops where the lease is lost.
void ArtifactUploader::State::store_all(Upload& upload) {
  if (!upload.checkpoint.empty() && !upload.stored.contains(upload.checkpoint)) {
    const auto best = best_of(upload);
    if (!best.empty() && best != upload.checkpoint && best != upload.best) {
      if (!store_kept(upload, pack_checkpoint(upload.run, best), {"best"}, false)) return;
      upload.best = best;
    }
    const auto roles =
        best == upload.checkpoint ? std::vector<std::string>{"last", "best"} : std::vector<std::string>{"last"};
    if (!store_kept(upload, pack_checkpoint(upload.run, upload.checkpoint), roles, false)) return;
    if (best == upload.checkpoint) upload.best = best;
    upload.stored.insert(upload.checkpoint);
  }
  if (!upload.product.empty()) {
    if (!store_kept(upload, pack_product(upload.run, upload.product), {"last"}, false)) return;
    upload.product.clear();
  }
  if (upload.ended && upload.succeeded && !upload.wrapped_up) {
    // The last checkpoint may have turned out to be the best one after it was stored.
    if (const auto best = best_of(upload); !best.empty() && best != upload.best) {
      if (!store_kept(upload, pack_checkpoint(upload.run, best), {"best"}, false)) return;
      upload.best = best;
    }
    if (!store_kept(upload, pack_run(upload.run), {"run"}, true)) return;
    upload.wrapped_up = true;
    remove_leftovers(upload.lease);
  }
}

void ArtifactUploader::State::try_upload(const std::string& token, Upload upload) {
  std::string trouble;
  bool again = false;
  try {
    store_all(upload);
  } catch (const StoreUnavailable& error) {
    trouble = error.what();
    again = true;
  } catch (const RedisUnavailable& error) {
    trouble = error.what();
    again = true;
  } catch (const RedisDenied& error) {
    trouble = error.what();
    again = true;
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  if (!trouble.empty() && trouble != upload.trouble) {
    try {
      queue->note_trouble_of_artifacts(upload.lease, trouble);
    } catch (const std::exception&) {
      // Where Redis is away, that is the trouble.
    }
  }
  const double now = world.steady_seconds();
  const std::lock_guard lock(mutex);
  const auto found = uploads.find(token);
  if (found == uploads.end()) return;
  auto& kept = found->second;
  kept.stored.insert(upload.stored.begin(), upload.stored.end());
  kept.best = upload.best;
  kept.lost = upload.lost;
  if (kept.product == upload.product || upload.product.empty()) kept.product = upload.product;
  kept.wrapped_up = kept.wrapped_up || upload.wrapped_up;
  if (!trouble.empty() && trouble != kept.trouble) kept.notes.push_back("not stored: " + trouble);
  if (trouble.empty() && !kept.trouble.empty()) kept.notes.push_back("stored in " + address + " again");
  kept.trouble = trouble;
  kept.next_try = again ? now + pause_after(kept.failures++, world) : 0;
  if (!again) kept.failures = 0;
  if (!trouble.empty() && !again) {  // until there is a newer one
    kept.stored.insert(upload.checkpoint);
    kept.product.clear();
    if (upload.ended) kept.wrapped_up = true;
  }
  if (wake) wake();
}

/// Removes artifacts of jobs that the queue has forgotten.
void ArtifactUploader::State::remove_forgotten() {
  try {
    for (const auto& gone : queue->forgotten_artifacts()) {
      if (gone.store != address) continue;
      stores->at(address).remove(gone.job);
      queue->removed(gone);
    }
  } catch (const JobsError&) {
    // The next time.
  }
}

}  // namespace foretime::jobs
