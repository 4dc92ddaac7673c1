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
#include "base/no_copy.h"
#include "base/text.h"
#include "jobs/progress/progress_message.h"
#include "jobs/progress/tcp.h"

/// Connects a running job to its agent over a Unix stream socket whose path is in FORETIME_PROGRESS, or from another
/// host over TCP, at FORETIME_PROGRESS_TCP, after a line with the token in FORETIME_PROGRESS_TOKEN. Each line is a JSON
/// object, in both directions (docs/reference/job-protocol.md).
namespace foretime::jobs {

/// The agent's end of the progress channel. It listens, and talks to one peer at a time, which must run as the same
/// user or, over TCP, send the token. Invalid input is reported and never thrown.
class ProgressReceiver : NoCopy {
 public:
  /// Limits for TCP peers that have not sent the token yet: the number of peers (the oldest is disconnected first), the
  /// bytes of a peer's first line, and the seconds that a peer has to send it.
  static constexpr size_t kUnverifiedPeers = 16, kTokenLine = 256;
  static constexpr double kTokenSeconds = 10;

  /// Listens on a Unix socket in `folder`, or in a new folder below /tmp (mode 0700) if the path is too long or the
  /// file system has no sockets. Also listens at `listen_address`, unless its host is empty, for peers that send
  /// `token`. Throws NodeError if it cannot listen.
  explicit ProgressReceiver(const std::filesystem::path& folder, const ListenAddress& listen_address = {},
                            std::string token = "");
  ~ProgressReceiver();

  const std::string& path() const { return path_; }  // path of the Unix socket
  /// Returns HOST:PORT; empty if this object does not listen on TCP.
  const std::string& tcp_address() const { return tcp_address_; }
  /// Adds the descriptors that become readable when receive() has something to do.
  void add_descriptors(std::vector<pollfd>& descriptors) const;
  bool connected() const { return peer_.get() >= 0; }

  using Take = std::function<void(const ProgressMessage&)>;
  using Complain = std::function<void(const std::string&)>;
  /// Accepts peers, and passes messages that have arrived to `take`, without waiting and at most about 1 MiB.
  /// `complain` gets a description of each invalid message and each rejected peer.
  void receive(const Take& take, const Complain& complain);
  /// Sends a request to stop to the connected peer, and to every peer that connects later.
  void send_stop(const std::string& reason);

 private:
  /// Listens on a Unix socket at `path`; returns false, with errno, if that fails or the path is too long.
  bool listen_at(const std::string& path);
  void accept_peer(const Complain& complain);       // accepts a peer of the Unix socket unless one is connected
  void accept_tcp_peers(const Complain& complain);  // reads tokens; a peer with the right one becomes the connected one
  void accept_job(Descriptor peer);                 // makes `peer` the connected peer, in place of the last one

  /// Describes a TCP peer that has not sent the token yet.
  struct UnverifiedPeer {
    Descriptor socket;
    std::string from, received;  // address of the peer, and the bytes that it has sent
    double since = 0;            // time of the connection (steady_seconds)
  };
  std::string path_, tcp_address_, token_;
  std::string stop_;                  // line of send_stop(); empty: not requested
  std::filesystem::path own_folder_;  // folder made below /tmp; empty: none
  Descriptor listener_, tcp_listener_, peer_;
  std::deque<UnverifiedPeer> unverified_;
  std::string after_token_;  // bytes that arrived together with the token
  LineSplitter splitter_{kProgressLine, false};
};

/// The job's end of the progress channel, which only rank 0 opens. If the agent disappears, nothing is thrown: send()
/// does nothing, or connects again if the channel uses TCP.
class ProgressSender : NoCopy {
 public:
  /// Connects to FORETIME_PROGRESS, or if nobody listens there to FORETIME_PROGRESS_TCP, and sends hello. Returns null
  /// if FORETIME_PROGRESS is not set or empty, or, with a message on stderr, if nobody listens at either address.
  static std::unique_ptr<ProgressSender> from_environment();
  explicit ProgressSender(int socket);  // takes ownership of the descriptor
  ~ProgressSender();

  /// Sends a message, waiting at most about a second. A progress message is dropped while the agent does not read, or
  /// if the last one of its sort (with values or without) was sent less than kProgressInterval ago. Other messages are
  /// kept for the next call if the agent does not read them. Above 1 MiB of kept messages, the connection is given up.
  /// A message that to_line() refuses is dropped, with a message on stderr.
  void send(const ProgressMessage& message);
  /// Returns whether the agent has asked the job to stop at the next step boundary, in this call or before.
  bool stop_requested();
  static constexpr double kProgressInterval = 0.5;  // seconds

 private:
  /// Sends pending_, waiting at most `patience_seconds`. Returns whether nothing is left to be sent.
  bool flush(double patience_seconds);
  void disconnect();  // stops sending until reconnect() succeeds
  /// Connects again to tcp_address_, from time to time. Returns whether the connection is there.
  bool reconnect();

  Descriptor socket_;
  std::string tcp_address_, token_;  // address for reconnecting; empty: none
  bool stop_ = false, broken_ = false;
  double last_progress_ = -1e9, last_values_ = -1e9, next_try_ = 0;
  std::string received_, pending_;  // incomplete line of the agent; lines that are not sent yet
  size_t sent_ = 0;                 // bytes of the first line of pending_ that were sent
};

/// If FORETIME_PROGRESS is set, makes the kernel send SIGKILL to this process when the process's parent dies, so that
/// mpirun's ranks never outlive mpirun. main calls this first, from the thread that lives as long as the process.
void die_with_parent_if_job();

}  // namespace foretime::jobs
