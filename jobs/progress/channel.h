#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <poll.h>

#include "base/descriptor.h"
#include "base/text.h"
#include "jobs/progress/progress_message.h"
#include "jobs/progress/tcp.h"

/// How a running job talks to its agent: over a Unix stream socket whose path stands in FORETIME_PROGRESS, with one
/// JSON object a line, both ways; from another host over TCP, at FORETIME_PROGRESS_TCP, after a line with the token in
/// FORETIME_PROGRESS_TOKEN. The job needs no Redis. docs/reference/job-protocol.md documents the messages, so
/// that any program can send them.
namespace foretime::jobs {

/// The agent's end of the progress channel: listens, and talks with one peer at a time: one of the same user, or one
/// that says the token. Nothing that a peer sends is fatal.
class ProgressReceiver {
 public:
  /// Peers over TCP that have not said the token yet: how many, for how many seconds, and bytes of what they say. Where
  /// there are more, the oldest is sent away.
  static constexpr size_t kStrangers = 16, kTokenLine = 256;
  static constexpr double kTokenSeconds = 10;

  /// Listens in `folder`, or, where the path would be too long for a socket or the file system has none, in a fresh
  /// folder of its own below /tmp (0700); and at `where`, unless its host is empty, for peers that say `token`. Throws
  /// NodeError.
  explicit ProgressReceiver(const std::filesystem::path& folder, const ListenAddress& where = {},
                            std::string token = "");
  ~ProgressReceiver();
  ProgressReceiver(const ProgressReceiver&) = delete;
  ProgressReceiver& operator=(const ProgressReceiver&) = delete;

  const std::string& path() const { return path_; }
  /// HOST:PORT; empty: it does not listen there.
  const std::string& tcp_address() const { return tcp_address_; }
  void add_descriptors(std::vector<pollfd>& descriptors) const;
  bool connected() const { return peer_.get() >= 0; }

  using Take = std::function<void(const ProgressMessage&)>;
  using Complain = std::function<void(const std::string&)>;
  /// Takes what has arrived, without waiting; `complain` gets what was no message or no peer of ours.
  void receive(const Take& take, const Complain& complain);
  /// Says it now, and to whoever connects later.
  void send_stop(const std::string& reason);

 private:
  bool listen_at(const std::string& path);
  void accept_peer(const Complain& complain);
  void accept_strangers(const Complain& complain);
  void greet(Descriptor peer);

  /// Has not said the token yet.
  struct Stranger {
    Descriptor socket;
    std::string from, said;
    double since = 0;
  };
  std::string path_, tcp_address_, token_, stop_;
  std::filesystem::path own_folder_;
  Descriptor listener_, tcp_listener_, peer_;
  std::deque<Stranger> strangers_;
  std::string early_;  // what came in one piece with the token
  LineSplitter splitter_{kProgressLine, false};
};

/// The job's end of the progress socket, which rank 0 alone opens. A lost agent does not fail the training: sending
/// then does nothing.
class ProgressSender {
 public:
  /// Connects to FORETIME_PROGRESS, or where nobody listens there to FORETIME_PROGRESS_TCP, and says hello. Null where
  /// the variable is not set, and where nobody listens, which is logged to stderr.
  static std::unique_ptr<ProgressSender> from_environment();
  explicit ProgressSender(int socket);  // takes the descriptor
  ~ProgressSender();
  ProgressSender(const ProgressSender&) = delete;
  ProgressSender& operator=(const ProgressSender&) = delete;

  /// Never blocks for long: progress messages are dropped while the agent does not read, others wait up to a second
  /// and are then kept for the next call. Progress is sent at most once in `kProgressInterval`, and so is progress with
  /// values.
  void send(const ProgressMessage& message);
  /// Whether the agent asked the job to stop at the next step boundary; stays true.
  bool stop_requested();
  static constexpr double kProgressInterval = 0.5;  // seconds

 private:
  bool flush(double patience_seconds);  // true: nothing is pending
  void lose_agent();
  bool find_agent();

  Descriptor socket_;
  std::string tcp_address_, token_;  // where to connect anew; empty: nowhere
  bool stop_ = false, broken_ = false;
  double last_progress_ = -1e9, last_values_ = -1e9, next_try_ = 0;
  std::string received_, pending_;
  size_t sent_ = 0;  // of the first line of pending_
};

/// Ends this process when its parent dies (PR_SET_PDEATHSIG), where FORETIME_PROGRESS is set, so that mpirun's ranks
/// never outlive mpirun. main calls it first, from the thread that lives as long as the process.
void die_with_parent_if_job();

}  // namespace foretime::jobs
