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
#include "base/no_copy.h"
#include "jobs/agent/world.h"
#include "jobs/artifacts/transfer.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// Uploads checkpoints from run folders to the artifact store and fetches the artifacts that attempts need, on a
/// background thread: no call waits for a store. Uploads the newest and the best checkpoint of each attempt that holds
/// its lease, and retries after 1 to 20 s while the store is unreachable.
class ArtifactUploader : NoCopy {
 public:
  static constexpr double kPatience = 120;      // seconds that the end of an attempt waits for the store
  static constexpr double kFetchPatience = 60;  // seconds that the start of an attempt waits for the store

  /// Starts the thread, which alone uses `queue` (with its own connection) and `stores`; both outlive this object if
  /// the thread hangs. `address` is the store for uploads; if empty, nothing is uploaded, but artifacts of other agents
  /// are still fetched. `wake` is called, from any thread, when an upload or a fetch has ended.
  ArtifactUploader(std::shared_ptr<JobQueue> queue, std::shared_ptr<ArtifactStores> stores, std::string address,
                   std::function<void()> wake, World& world);
  ~ArtifactUploader();

  /// Returns whether artifacts are uploaded.
  bool stores() const { return !state_->address.empty(); }

  /// Makes a whole checkpoint the next one that is uploaded for the attempt, in place of one that waits. `checkpoint`
  /// is relative to `run`, the attempt's folder.
  void announce(const Lease& lease, const std::filesystem::path& run, const std::string& checkpoint);
  /// Records the end of an attempt, and uploads what is left. `product` is the folder made by an export or the file
  /// made by a fine-tuning, relative to `run`; it may be empty.
  void ended(const Lease& lease, const std::filesystem::path& run, const std::string& product, bool succeeded);
  /// Returns whether nothing of an ended attempt is left to be stored, or kPatience has passed since its end.
  bool settled(const Lease& lease);

  struct Outcome {
    FetchedArtifact fetched{};
    std::string unavailable{};  // reason why the store was not reached within kFetchPatience; empty: it was reached
  };
  /// The first call for a lease starts to fetch an artifact of `job` into the folder `target_folder`. Later calls for
  /// that lease ignore the other arguments. Returns empty while the transfer runs, then its outcome.
  std::optional<Outcome> fetch(const Lease& lease, const std::string& job, Want want,
                               const std::filesystem::path& target_folder);

  /// Returns the lines for the job's log that have arrived since the last call.
  std::vector<std::string> take_notes(const Lease& lease);
  /// Drops all data of an attempt; what was not uploaded yet never will be.
  void forget(const Lease& lease);
  /// Returns the next time at which settled() may change although `wake` is not called; kNever if there is none.
  double next_turn() const;

 private:
  struct Upload {
    Lease lease{};
    std::filesystem::path run{};          // folder of the attempt
    std::string checkpoint{}, product{};  // paths to store, relative to `run`; empty: none
    bool ended = false, succeeded = false;
    bool wrapped_up = false;            // the description of the run is stored, or is not to be stored
    std::set<std::string> stored{};     // checkpoints that are stored or were given up
    std::string best{};                 // checkpoint that is stored as the best one
    std::string trouble{};              // error of the last try; empty: none
    double next_try = 0, ended_at = 0;  // times of World::steady_seconds
    int failures = 0;                   // failed tries in a row
    std::deque<std::string> notes{};    // notes for take_notes()
    bool lost = false;                  // the lease was lost
    /// Returns whether something is left to be stored.
    bool waits() const {
      return !lost && ((!checkpoint.empty() && !stored.contains(checkpoint)) || !product.empty() ||
                       (ended && succeeded && !wrapped_up));
    }
  };
  struct Fetch {
    std::string job{};
    Want want = Want::result;
    std::filesystem::path target_folder{};
    double began = 0, next_try = 0;    // times of World::steady_seconds
    int failures = 0;                  // failed tries
    std::optional<Outcome> outcome{};  // empty while the transfer runs
  };
  /// Holds all data of the thread, which may outlive the agent if storage hangs.
  struct State {
    /// Does one fetch, upload or removal, in this order of preference; returns the seconds until the next call.
    double step();
    /// Calls store_all() for a copy of an attempt's Upload, and records the outcome, or the error and the next try.
    void try_upload(const std::string& token, Upload upload);
    /// Tries to fetch the artifacts for an attempt, and records the outcome or the next try.
    void try_fetch(const std::string& token, Fetch fetch);
    /// Removes the artifacts of jobs that the queue has forgotten from the store. Ignores errors, to retry later.
    void remove_forgotten();
    /// Removes the job's stored artifacts that the queue does not keep, of attempts up to that of `lease`.
    void remove_leftovers(const Lease& lease);
    /// Returns the best checkpoint of the attempt, relative to its folder; empty if there is none.
    std::string best_of(const Upload& upload);
    /// Stores what waits in `upload`, and updates it; stops if the lease is lost. Throws errors of store and queue.
    void store_all(Upload& upload);
    /// Uploads an artifact and makes the queue keep it for `roles`. Returns false if the lease was lost.
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
    double next_removal = 0;                  // time of the next remove_forgotten()
    int64_t stored_count = 0;                 // number of uploads, which makes names unique
    bool stopping = false;
  };

  std::shared_ptr<State> state_;
  World& world_;
  std::unique_ptr<Background> background_;  // last: its thread uses the members above
};

}  // namespace foretime::jobs
