#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"

/// Listening sockets that only this machine reaches.
namespace foretime::server {

/// Reports a socket on which the server cannot listen.
struct ListenError : ErrorOf<kComm> {
  using ErrorOf::ErrorOf;
};

/// Holds a listening socket: a Unix socket, whose file is removed with this object, or TCP on a loopback address.
class Listener {
 public:
  /// Listens on a Unix socket to which only this user may connect. Replaces the socket file of a server that has ended.
  /// Throws ListenError if it cannot listen: the path is another kind of file, empty, too long, or used by a server.
  static Listener on_path(const std::filesystem::path& path);
  /// Listens on a loopback address; `port` 0 chooses a free port. Throws ListenError if it cannot listen, and
  /// SettingsError for an address that is not loopback.
  static Listener on_loopback(const std::string& address, uint16_t port);

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  /// Refuses new connections from now on, so that another server may listen here. The descriptor stays open.
  void refuse();

  int descriptor() const { return descriptor_; }
  bool is_tcp() const { return path_.empty(); }
  const std::string& name() const { return name_; }  // such as unix:/path or http://127.0.0.1:1234

 private:
  Listener(int descriptor, std::string name, std::filesystem::path path);
  void remove_file();  // removes the socket's file unless another server has replaced it

  int descriptor_ = -1;
  std::string name_;
  std::filesystem::path path_;  // file of a Unix socket
  uint64_t inode_ = 0;          // inode of that file
};

}  // namespace foretime::server
