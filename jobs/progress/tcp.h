#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.h"

/// Opens the channel between a job and its agent over TCP, for a rank 0 on another host.
namespace foretime::jobs {

/// Describes where an agent listens: an address of this host that other hosts reach, and the allowed ports.
struct ListenAddress {
  std::string host{};                 // empty: does not listen
  int first_port = 0, last_port = 0;  // 0: any port
  bool operator==(const ListenAddress&) const = default;
};
/// Parses HOST, HOST:PORT or HOST:FIRST-LAST; an IPv6 address needs brackets. Throws JobsError.
ListenAddress parse_listen_address(const std::string& text);

/// Returns the address by which this host reaches another one. If `other_host` is empty or this host, returns the first
/// address that is not loopback; empty if there is none.
std::string own_address(const std::string& other_host, int64_t other_port);

/// Returns a non-blocking listening socket on the first free port; sets `address` to HOST:PORT for peers. Throws
/// NodeError.
Descriptor listen_tcp(const ListenAddress& listen_address, std::string& address);

/// Returns a connected socket; if nobody answers in time, an empty one, and sets `why`.
Descriptor connect_tcp(const std::string& address, double seconds, std::string& why);

/// Sets keepalive so that the loss of the peer's host is noticed within about a minute.
void watch_peer(int socket);

/// Returns the first line that a job sends over TCP; with the newline.
std::string token_line(const std::string& token);
/// Returns whether a line holds `token`, in a time that does not depend on the position of a difference.
bool is_token_line(const std::string& line, const std::string& token);

}  // namespace foretime::jobs
