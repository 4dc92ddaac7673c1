#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.h"

/// The channel between a job and its agent where a Unix socket does not reach: rank 0 runs on another host.
namespace foretime::jobs {

/// Where an agent listens: an address of this host that others reach, and the ports that it may take.
struct ListenAddress {
  std::string host{};                 // empty: nowhere
  int first_port = 0, last_port = 0;  // 0: any
  bool operator==(const ListenAddress&) const = default;
};
/// HOST, HOST:PORT or HOST:FIRST-LAST; an IPv6 address stands in brackets. Throws JobsError.
ListenAddress parse_listen_address(const std::string& text);

/// The address by which this host reaches another one, or, where that is empty or this host itself, the first one that
/// is no loopback; empty where there is none.
std::string own_address(const std::string& other_host, int64_t other_port);

/// A socket that does not block, on the first port that is free; `address` is what others connect to, HOST:PORT.
/// Throws NodeError.
Descriptor listen_tcp(const ListenAddress& where, std::string& address);

/// A connected socket; an empty one where nobody answers in time, with `why`.
Descriptor connect_tcp(const std::string& address, double seconds, std::string& why);

/// Notices within about a minute that a peer's host is gone.
void watch_peer(int socket);

/// The first line that a job sends over TCP; with the newline.
std::string token_line(const std::string& token);
/// Whether a line is that of `token`, in a time that does not depend on where they differ.
bool is_token_line(const std::string& line, const std::string& token);

}  // namespace foretime::jobs
