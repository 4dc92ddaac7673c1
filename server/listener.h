#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"

/// Listening sockets that only this machine reaches.
namespace foretime::server {

/// A socket that cannot be listened on.
struct ListenError : ErrorOf<kComm> {
  using ErrorOf::ErrorOf;
};

/// A listening socket on this machine: a Unix socket, whose file goes with this object, or TCP on a loopback address.
class Listener {
 public:
  /// Only this user may connect. A socket that a server left behind, which nobody listens on, is replaced. Throws
  /// ListenError where the path is something else, is too long, or has a listener.
  static Listener on_path(const std::filesystem::path& path);
  /// `port` 0: one that is free. Throws ListenError; SettingsError for an address that is not of the loopback.
  static Listener on_loopback(const std::string& address, uint16_t port);

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  /// From now on nobody can connect, and another server may listen here. The descriptor stays open.
  void refuse();

  int descriptor() const { return descriptor_; }
  bool is_tcp() const { return path_.empty(); }
  const std::string& name() const { return name_; }  // unix:/path, http://127.0.0.1:1234

 private:
  Listener(int descriptor, std::string name, std::filesystem::path path);
  void remove_file();

  int descriptor_ = -1;
  std::string name_;
  std::filesystem::path path_;  // of a Unix socket
  uint64_t inode_ = 0;          // of its file
};

}  // namespace foretime::server
