#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "inference/bundle/bundle.h"
#include "inference/scoring/ranking.h"

namespace CLI {
class App;
}

/// Implements `foretime rank` without the part for checkpoints, which needs LibTorch, so that the light program has it.
namespace foretime::cli {

/// Holds the arguments of `foretime rank`.
struct RankArguments {
  std::string model;  // a bundle, a run directory or a checkpoint folder
  std::vector<std::string> ensemble, files;
  std::string format, output, collection;  // format "": not given
  int64_t top = 0;
  std::string candidates, dags, member;
  std::vector<std::string> targets;  // machine files that a bundle should know
  std::optional<int64_t> threads;    // bundles only
  bool force = false;                // replace a file of another kind, or an input
};
using CheckpointRanker = std::function<void(const RankArguments&)>;

/// Ranks with checkpoints: the best of a run, or several as an ensemble. Needs LibTorch (rank.cpp).
void rank_checkpoints(const RankArguments& arguments);

/// Adds the command. A model that is a file is a bundle and is ranked here; `checkpoint_ranker` ranks with any other
/// one.
void add_rank_command(CLI::App& app, const CheckpointRanker& checkpoint_ranker);

/// Returns whether only bundles can rank these files or options: tuning records, save_json text, `--candidates`.
bool needs_bundle(const RankArguments& arguments);

/// Ranks with a bundle, without LibTorch: the candidates of graph files, of arguments.candidates, of tuning records or
/// of save_json text. Throws SettingsError for arguments that do not fit the model or each other, DataError and the
/// errors of inference/ for files.
void rank_bundle(const RankArguments& arguments);
/// Ranks with a bundle in memory.
void rank_bundle(inference::Bundle bundle, const RankArguments& arguments);

/// Writes the output of a command as a whole to the file `output`, or to standard output if that is empty. Throws
/// SettingsError if it cannot be written, and StorageError.
void write_answer(const std::string& output, const std::string& text);

/// Collects rankings and writes them in the format of the arguments.
class RankOutput {
 public:
  /// Starts without rankings. `format` is csv, json or submission.
  RankOutput(const RankArguments& arguments, std::string format);

  /// Adds a ranking. `collection` is used in submissions if the arguments give none; it may be empty. `origin` is the
  /// prefix of messages.
  void add(const inference::Ranking& ranking, const std::string& collection, const std::string& origin);
  /// Writes all rankings to standard output or, as a whole, to the file. Throws SettingsError if it cannot be written.
  void write();

 private:
  const RankArguments& arguments_;
  std::string format_, text_;
  std::vector<inference::Ranking> rankings_;         // kept for csv, whose columns depend on all of them
  nlohmann::json groups_ = nlohmann::json::array();  // kept for json
};

/// Ranks groups one after another with `rank`. Reads the next group meanwhile; at most two are in memory.
void rank_groups(
    const std::vector<data::GroupHeader>& headers, RankOutput& output,
    const std::function<inference::Ranking(const data::GroupHeader& header, const data::Group& group)>& rank);

}  // namespace foretime::cli
