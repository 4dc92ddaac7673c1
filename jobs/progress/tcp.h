#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.h"

/// Opens the channel between a job and its agent over TCP, for a rank 0 on another host.
namespace foretime::jobs {

/// Describes where an agent listens: an address of this host that other hosts reach, and the allowed ports.
struct ListenAddress {
  std::string host{};                 // empty: the agent does not listen
  int first_port = 0, last_port = 0;  // allowed ports, both included; both 0: any port
  bool operator==(const ListenAddress&) const = default;
};
/// Parses the value of --listen: HOST, HOST:PORT or HOST:FIRST-LAST; an IPv6 address needs brackets to have a port.
/// Throws JobsError for other text.
ListenAddress parse_listen_address(const std::string& text);

/// Returns this host's numeric address on the route to another host. If `other_host` is empty, loopback or not reached,
/// returns the first IPv4 address that is not loopback, or "".
std::string own_address(const std::string& other_host, int64_t other_port);

/// Returns a non-blocking listening socket on the first free allowed port, and sets `address` to HOST:PORT for peers.
/// Throws NodeError if no port can be used.
Descriptor listen_tcp(const ListenAddress& listen_address, std::string& address);

/// Connects to `address` (HOST:PORT), waiting at most `seconds` for each address of HOST. If none answers, returns an
/// invalid descriptor and sets `why`.
Descriptor connect_tcp(const std::string& address, double seconds, std::string& why);

/// Sets options of a TCP socket: a lost peer is noticed within half a minute, and small packets are not delayed.
void watch_peer(int socket);

/// Returns the line, with its newline, by which a job sends the token first over TCP.
std::string token_line(const std::string& token);
/// Returns whether a line is the token_line() of `token`; false for an empty token. The time of the comparison does not
/// depend on the position of a difference.
bool is_token_line(const std::string& line, const std::string& token);

}  // namespace foretime::jobs
