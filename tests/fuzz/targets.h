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

/// What an input decides: the numbers and texts that a target asks for, one after another; 0 and "" where it has ended.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : left_(bytes) {}
  bool done() const { return left_.empty(); }
  /// In 0 … bound - 1.
  size_t below(size_t bound) {
    size_t value = byte();
    if (bound > 256) value |= size_t{byte()} << 8;
    return bound == 0 ? 0 : value % bound;
  }
  bool flag() { return below(2) == 1; }
  /// Small ones, powers of two and their neighbours, and any others.
  int64_t number() {
    const size_t how = below(4), value = byte();
    if (how == 0) return static_cast<int64_t>(value) - 8;
    if (how == 1) return static_cast<int64_t>((uint64_t{1} << (value % 64)) - (value / 64) % 2);
    if (how == 2) return -static_cast<int64_t>(uint64_t{1} << (value % 63));
    uint64_t any = value;
    for (int i = 0; i < 7; ++i) any = any << 8 | byte();
    return static_cast<int64_t>(any);
  }
  /// So many bytes, or those that are left.
  std::string_view take(size_t count) {
    const auto taken = left_.substr(0, count);
    left_.remove_prefix(taken.size());
    return taken;
  }
  template <class List>
  auto& of(List& list) {
    return list[below(std::size(list))];
  }

 private:
  uint8_t byte() {
    if (left_.empty()) return 0;
    const auto value = static_cast<uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }

  std::string_view left_;
};

// What programs and libforetime read from outside. Each target takes any bytes, must return, and may not touch memory
// that is not its own; calls that fail must leave a message.

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

/// HTTP as it comes over a socket, to a server with a model.
void run_http(std::string_view bytes);
/// Calls of the C interface, in any order, with any arguments that its header allows a caller to get wrong.
void run_capi(std::string_view bytes);
/// A packed collection of a kind, its fields and sections changed as the bytes say, with right checksums or with wrong
/// ones; what is not refused is planned as in training.
void run_packed(std::string_view bytes);
/// An .npz of a kind, its members, their headers and values changed as the bytes say, or raw.
void run_npz(std::string_view bytes);
/// A data file behind a digit: 0 an XLA tuning of layouts, 1 of tiles, 2 records of save_json text, 3 compute DAGs and,
/// behind an empty line, tuning records; 4 candidates to evaluate; 5 a table of measurements in CSV; 6 DAGs
/// as TVM prints them.
void run_files(std::string_view bytes);
/// Text behind a digit: 0 settings, 1 a sweep, 2 a fine-tuning, 3 overrides, a line each; 4 CSV; 5 a machine file, 6 an
/// experiment; 7 a packed history; 8 an address to listen at, or a token.
void run_settings(std::string_view text);
/// Lines that a job sends to its agent, and what the agent answers.
void run_progress(std::string_view text);
/// Redis' replies to calls of the queue and of its reader, made of fields that there are, or raw.
void run_redis(std::string_view bytes);
/// Checkpoints of a run, their manifests and files changed as the bytes say, read by those that go on from them and by
/// those that store them.
void run_checkpoints(std::string_view bytes);
/// Records of stored artifacts, and what a store answers.
void run_artifacts(std::string_view bytes);
/// Lines of text files, plain or gzip, damaged or not: then they are the lines that were written.
void run_lines(std::string_view bytes);
/// A run root whose entries are files, folders, links, FIFOs, sockets and devices as the bytes say, read by everything
/// that reads run directories: nothing may hang, and nothing may show what lies outside of the root.
void run_runs(std::string_view bytes);
/// Requests to the board over made-up replies of Redis and a folder with a run: queries, streams and changes.
void run_board(std::string_view bytes);
/// The folder of an embedded Redis, its files, manifest and record changed as the bytes say, made ready for a server.
void run_store(std::string_view bytes);

using Target = void (*)(std::string_view);
const std::map<std::string, Target>& targets();

/// What to start from, by target: small samples of each kind.
std::vector<std::string> seeds(const std::string& target);
std::vector<std::string> serve_seeds();
std::vector<std::string> http_seeds();
std::vector<std::string> settings_seeds();
std::vector<std::string> progress_seeds();

}  // namespace foretime::fuzz
