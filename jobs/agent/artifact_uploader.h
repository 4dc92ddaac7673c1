#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "jobs/agent/world.h"
#include "jobs/artifacts/transfer.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// Uploads checkpoints from run folders to the artifact store and fetches the artifacts that attempts need, on a
/// background thread: no call here waits for a store. Uploads the newest and the best checkpoint of each attempt
/// whenever there is time, and retries after 1 to 20 s while the store is unreachable. Attempts that have lost their
/// lease upload nothing.
class ArtifactUploader {
 public:
  static constexpr double kPatience = 120;      // seconds that the end of an attempt waits for the store
  static constexpr double kFetchPatience = 60;  // seconds that the start of an attempt waits for the store

  /// Starts the thread, which alone uses `queue` (with its own connection) and `stores`; both outlive this object if
  /// the thread hangs. `address` is the store for uploads; if empty, nothing is uploaded, but artifacts of other agents
  /// are still fetched. `wake` is called, from any thread, when an upload or a fetch has ended.
  ArtifactUploader(std::shared_ptr<JobQueue> queue, std::shared_ptr<ArtifactStores> stores, std::string address,
                   std::function<void()> wake, World& world);
  ~ArtifactUploader();
  ArtifactUploader(const ArtifactUploader&) = delete;
  ArtifactUploader& operator=(const ArtifactUploader&) = delete;

  /// Returns whether artifacts are uploaded.
  bool stores() const { return !state_->address.empty(); }

  /// Queues a whole checkpoint for upload. `checkpoint` is relative to `run`, the attempt's folder.
  void announce(const Lease& lease, const std::filesystem::path& run, const std::string& checkpoint);
  /// Records the end of an attempt. `product` is the file made by an export or a fine-tuning, relative to `run`; it may
  /// be empty.
  void ended(const Lease& lease, const std::filesystem::path& run, const std::string& product, bool succeeded);
  /// Returns whether all artifacts of an ended attempt are stored, or kPatience has passed.
  bool settled(const Lease& lease);

  struct Outcome {
    FetchedArtifact fetched{};
    std::string unavailable{};  // reason why the store was not reached
  };
  /// Starts or continues to fetch an artifact of `job` into the folder `target_folder`. Returns empty while
  /// the transfer runs. Repeated calls with the same arguments refer to the same transfer.
  std::optional<Outcome> fetch(const Lease& lease, const std::string& job, Want want,
                               const std::filesystem::path& target_folder);

  /// Returns the lines for the job's log since the last call.
  std::vector<std::string> take_notes(const Lease& lease);
  /// Forgets an attempt that has ended on this agent.
  void forget(const Lease& lease);
  /// Returns when a call is due although no `wake` comes.
  double next_turn() const;

 private:
  struct Upload {
    Lease lease{};
    std::filesystem::path run{};
    std::string checkpoint{}, product{};  // files to store; empty: none
    bool ended = false, succeeded = false, wrapped_up = false;
    std::set<std::string> stored{};  // checkpoints
    std::string best{};              // checkpoint that is stored as the best one
    std::string trouble{};
    double next_try = 0, ended_at = 0;
    int failures = 0;
    std::deque<std::string> notes{};
    bool lost = false;
    bool waits() const {
      return !lost && ((!checkpoint.empty() && !stored.contains(checkpoint)) || !product.empty() ||
                       (ended && succeeded && !wrapped_up));
    }
  };
  struct Fetch {
    std::string job{};
    Want want = Want::result;
    std::filesystem::path target_folder{};
    double began = 0, next_try = 0;
    int failures = 0;
    std::optional<Outcome> outcome{};
  };
  /// Holds all data of the thread, which may outlive the agent if storage hangs.
  struct State {
    /// Does the next upload or fetch; returns the seconds until the next call.
    double step();
    /// Tries to upload the waiting checkpoint or product of an attempt.
    void try_upload(const std::string& token, Upload upload);
    /// Tries to fetch the artifacts for an attempt.
    void try_fetch(const std::string& token, Fetch fetch);
    void remove_forgotten();
    void remove_leftovers(const Lease& lease);
    std::string best_of(const Upload& upload);
    void store_all(Upload& upload);
    /// Uploads an artifact and makes the queue keep it for `roles`; returns false if the lease was lost.
    bool store_kept(Upload& upload, PackedArtifact packed, const std::vector<std::string>& roles, bool ended);

    std::shared_ptr<JobQueue> queue;
    std::shared_ptr<ArtifactStores> stores;
    std::string address;
    Files& files;
    World& world;
    std::mutex mutex{};  // guards the members below; never held during a call to the queue or a store
    std::function<void()> wake{};
    std::map<std::string, Upload> uploads{};  // key: lease token
    std::map<std::string, Fetch> fetches{};   // key: lease token
    double next_removal = 0;
    int64_t stored_count = 0;
    bool stopping = false;
  };

  std::shared_ptr<State> state_;
  World& world_;
  std::unique_ptr<Background> background_;  // last: its thread uses the members above
};

}  // namespace foretime::jobs
