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

/// Carries checkpoints from run folders to the artifact store, and what attempts need from there into their folders,
/// beside the agent's loop: no call here waits for a store. Of the checkpoints of an attempt the newest is stored
/// whenever there is time, and the best one; where the store is away it is tried again, after 1 to 20 s. Attempts that
/// have lost their lease store nothing.
class ArtifactCourier {
 public:
  static constexpr double kPatience = 120;      // seconds that the end of an attempt waits for the store
  static constexpr double kFetchPatience = 60;  // seconds that its start does

  /// `queue`, over a connection of its own, and `stores` are used by one thread alone, and outlive this where it hangs.
  /// `address`: where artifacts are stored; empty: none are, and those of others are fetched all the same. `wake` is
  /// called, from any thread, when something has come to its end.
  ArtifactCourier(std::shared_ptr<JobQueue> queue, std::shared_ptr<ArtifactStores> stores, std::string address,
                  std::function<void()> wake, World& world);
  ~ArtifactCourier();
  ArtifactCourier(const ArtifactCourier&) = delete;
  ArtifactCourier& operator=(const ArtifactCourier&) = delete;

  /// Whether anything is stored.
  bool stores() const { return !state_->address.empty(); }

  /// A whole checkpoint is there; `checkpoint` is relative to `run`, the attempt's folder.
  void announce(const Lease& lease, const std::filesystem::path& run, const std::string& checkpoint);
  /// The attempt has ended. `product`: what an export or a fine-tuning has made, relative to `run`; or empty.
  void ended(const Lease& lease, const std::filesystem::path& run, const std::string& product, bool succeeded);
  /// Whether nothing of an attempt that has ended is still to be stored, or it has waited long enough.
  bool settled(const Lease& lease);

  struct Outcome {
    FetchedArtifact fetched{};
    std::string unavailable{};  // why the store was not reached
  };
  /// Empty while it goes on. The same call again asks for the same.
  std::optional<Outcome> fetch(const Lease& lease, const std::string& job, Want want,
                               const std::filesystem::path& into);

  /// For the job's log, since the last call.
  std::vector<std::string> take_notes(const Lease& lease);
  /// The attempt is over for this agent.
  void forget(const Lease& lease);
  /// When something changes although nothing wakes the loop.
  double next_turn() const;

 private:
  struct Upload {
    Lease lease{};
    std::filesystem::path run{};
    std::string checkpoint{}, product{};  // to be stored; empty: nothing
    bool ended = false, succeeded = false, wrapped_up = false;
    std::set<std::string> stored{};  // checkpoints
    std::string best{};              // that is stored as the best one
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
    std::filesystem::path into{};
    double began = 0, next_try = 0;
    int failures = 0;
    std::optional<Outcome> outcome{};
  };
  /// All that the thread uses: where storage hangs, it may outlive the agent.
  struct State {
    double step();
    void carry(const std::string& token, Upload upload);
    void bring(const std::string& token, Fetch fetch);
    void tidy();
    void remove_leftovers(const Lease& lease);
    std::string best_of(const Upload& upload);
    void store_all(Upload& upload);
    bool put(Upload& upload, PackedArtifact packed, const std::vector<std::string>& roles, bool ended);

    std::shared_ptr<JobQueue> queue;
    std::shared_ptr<ArtifactStores> stores;
    std::string address;
    Files& files;
    World& world;
    std::mutex mutex{};  // over all that follows; never held over a call to the queue or a store
    std::function<void()> wake{};
    std::map<std::string, Upload> uploads{};  // by token
    std::map<std::string, Fetch> fetches{};   // by token
    double next_tidying = 0;
    int64_t puts = 0;
    bool stopping = false;
  };

  std::shared_ptr<State> state_;
  World& world_;
  std::unique_ptr<Background> background_;  // last: it uses the above
};

}  // namespace foretime::jobs
