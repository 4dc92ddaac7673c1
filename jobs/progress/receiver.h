#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <poll.h>

#include "base/text.h"
#include "jobs/progress/message.h"

namespace foretime::jobs {

/// The agent's end of the progress channel: listens, and talks with one peer of the same user at a time. Nothing that a
/// peer sends is fatal.
class ProgressReceiver {
 public:
  /// Listens in `folder`, or, where the path would be too long for a socket or the file system has none, in a fresh
  /// folder of its own below /tmp (0700). Throws JobsError.
  explicit ProgressReceiver(const std::filesystem::path& folder);
  ~ProgressReceiver();
  ProgressReceiver(const ProgressReceiver&) = delete;
  ProgressReceiver& operator=(const ProgressReceiver&) = delete;

  const std::string& path() const { return path_; }
  void add_descriptors(std::vector<pollfd>& descriptors) const;
  bool connected() const { return peer_ >= 0; }

  using Take = std::function<void(const ProgressMessage&)>;
  using Complain = std::function<void(const std::string&)>;
  /// Takes what has arrived, without waiting; `complain` gets what was no message or no peer of ours.
  void receive(const Take& take, const Complain& complain);
  /// Says it now, and to whoever connects later.
  void send_stop(const std::string& reason);

 private:
  bool listen_at(const std::string& path);
  void accept_peer(const Complain& complain);
  void hang_up();

  std::string path_, stop_;
  std::filesystem::path own_folder_;
  int listener_ = -1, peer_ = -1;
  LineSplitter splitter_{kProgressLine, false};
};

}  // namespace foretime::jobs
