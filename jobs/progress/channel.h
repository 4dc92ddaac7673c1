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

/// Connects a running job to its agent over a Unix stream socket whose path is in FORETIME_PROGRESS, with one JSON
/// object per line in both directions; from another host over TCP, at FORETIME_PROGRESS_TCP, after a line with the
/// token in FORETIME_PROGRESS_TOKEN. The job needs no Redis. docs/reference/job-protocol.md documents the messages, so
/// that any program can send them.
namespace foretime::jobs {

/// The agent's end of the progress channel: listens, and talks to one peer at a time, which must belong to the same
/// user or send the token. No input from a peer is fatal.
class ProgressReceiver {
 public:
  /// Limits TCP peers that have not sent the token yet: their number (the oldest is disconnected first), the bytes of
  /// their first line, and the seconds until it.
  static constexpr size_t kUnverifiedPeers = 16, kTokenLine = 256;
  static constexpr double kTokenSeconds = 10;

  /// Listens in `folder`, or in a new folder below /tmp (mode 0700) if the path would be too long or the file system
  /// has no sockets. Listens also at `where`, unless its host is empty, for peers that send `token`. Throws NodeError.
  explicit ProgressReceiver(const std::filesystem::path& folder, const ListenAddress& listen_address = {},
                            std::string token = "");
  ~ProgressReceiver();
  ProgressReceiver(const ProgressReceiver&) = delete;
  ProgressReceiver& operator=(const ProgressReceiver&) = delete;

  const std::string& path() const { return path_; }
  /// Returns HOST:PORT; empty if it does not listen on TCP.
  const std::string& tcp_address() const { return tcp_address_; }
  void add_descriptors(std::vector<pollfd>& descriptors) const;
  bool connected() const { return peer_.get() >= 0; }

  using Take = std::function<void(const ProgressMessage&)>;
  using Complain = std::function<void(const std::string&)>;
  /// Passes messages that have arrived to `take`, without waiting. `complain` gets a description of each invalid
  /// message and rejected peer.
  void receive(const Take& take, const Complain& complain);
  /// Sends a request to stop now, and to every peer that connects later.
  void send_stop(const std::string& reason);

 private:
  bool listen_at(const std::string& path);
  void accept_peer(const Complain& complain);
  void accept_tcp_peers(const Complain& complain);
  void accept_job(Descriptor peer);

  /// Describes a TCP peer that has not sent the token yet.
  struct UnverifiedPeer {
    Descriptor socket;
    std::string from, received;
    double since = 0;
  };
  std::string path_, tcp_address_, token_, stop_;
  std::filesystem::path own_folder_;
  Descriptor listener_, tcp_listener_, peer_;
  std::deque<UnverifiedPeer> unverified_;
  std::string after_token_;  // bytes that arrived together with the token
  LineSplitter splitter_{kProgressLine, false};
};

/// The job's end of the progress channel, which only rank 0 opens. If the agent disappears, the training continues
/// and sending does nothing.
class ProgressSender {
 public:
  /// Connects to FORETIME_PROGRESS, or if nobody listens there to FORETIME_PROGRESS_TCP, and sends hello. Returns null
  /// if the variable is not set, or if nobody listens, which is logged to stderr.
  static std::unique_ptr<ProgressSender> from_environment();
  explicit ProgressSender(int socket);  // takes ownership of the descriptor
  ~ProgressSender();
  ProgressSender(const ProgressSender&) = delete;
  ProgressSender& operator=(const ProgressSender&) = delete;

  /// Sends a message; never blocks for long. Progress messages are dropped while the agent does not read; others wait
  /// up to a second and are then kept for the next call. Progress is sent at most once per `kProgressInterval`, and so
  /// is progress with values.
  void send(const ProgressMessage& message);
  /// Returns whether the agent has asked the job to stop at the next step boundary; once true, it stays true.
  bool stop_requested();
  static constexpr double kProgressInterval = 0.5;  // seconds

 private:
  bool flush(double patience_seconds);  // true: nothing is pending
  void disconnect();
  bool reconnect();

  Descriptor socket_;
  std::string tcp_address_, token_;  // address for reconnecting; empty: none
  bool stop_ = false, broken_ = false;
  double last_progress_ = -1e9, last_values_ = -1e9, next_try_ = 0;
  std::string received_, pending_;
  size_t sent_ = 0;  // bytes sent from the first line of pending_
};

/// Ends this process when its parent dies (PR_SET_PDEATHSIG) if FORETIME_PROGRESS is set, so that mpirun's ranks never
/// outlive mpirun. main calls it first, from the thread that lives as long as the process.
void die_with_parent_if_job();

}  // namespace foretime::jobs
