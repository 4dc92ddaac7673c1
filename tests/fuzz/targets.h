#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace foretime::fuzz {

/// Ends the process where a promise is broken.
inline void require(bool kept, const char* promise, const char* detail) {
  if (kept) return;
  std::fprintf(stderr, "fuzz: broken promise: %s (%s)\n", promise, detail);
  std::abort();
}

// What libforetime reads from outside, through its C interface, and what the server reads. Each target takes any
// bytes, must return, and may not touch memory that is not its own; calls that fail must leave a message.

void run_bundle(std::string_view bytes);
/// A sample's bundle, chosen by the first byte, whose graph is the JSON text behind a digit, or edited as the bytes
/// behind another one say (graph_edits.h): what gets past its checks is run.
void run_graph(std::string_view text);
void run_tir(std::string_view text);
/// A line with a compute DAG (empty: a sample's), then lines with records.
void run_records(std::string_view text);
void run_hlo(std::string_view bytes);
/// Bodies in JSON: a graph, or behind the digits 1, 2 and 3 candidates of layouts, of tiles, and records.
void run_serve(std::string_view text);

using Target = void (*)(std::string_view);
const std::map<std::string, Target>& targets();  // bundle, form, tir, records, hlo, serve

/// What to start from, by target: small samples of each kind.
std::vector<std::string> seeds(const std::string& target);
std::vector<std::string> serve_seeds();

}  // namespace foretime::fuzz
