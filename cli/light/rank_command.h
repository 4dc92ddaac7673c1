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
  std::string model;                         // a bundle, a run directory or a checkpoint folder
  std::vector<std::string> ensemble, files;  // further checkpoints that score with `model`; files to rank
  std::string format, output, collection;  // format: csv, json or submission, "": not given; output "": standard output
  int64_t top = 0;                         // number of candidates shown of each group; 0: all
  std::string candidates, dags, member;  // files of candidates and of compute DAGs; member of records of save_json text
  std::vector<std::string> targets;      // machine files that are added to the bundle for this call
  std::optional<int64_t> threads;        // threads that score with a bundle; 0 or not given: one for each core
  bool force = false;                    // true: the output may replace a file of another kind, or an input
};
using CheckpointRanker = std::function<void(const RankArguments&)>;

/// Ranks with checkpoints: that of arguments.model alone, or with arguments.ensemble. Exports the model to a bundle in
/// memory if needs_bundle. Needs LibTorch (rank.cpp).
void rank_checkpoints(const RankArguments& arguments);

/// Adds the command. A model that is a file is ranked with as a bundle; `checkpoint_ranker` ranks with any other model.
void add_rank_command(CLI::App& app, const CheckpointRanker& checkpoint_ranker);

/// Returns whether only bundles take these files (records, save_json) or --candidates, --dags, --member, --targets.
bool needs_bundle(const RankArguments& arguments);

/// Ranks with the bundle arguments.model, without LibTorch: the candidates of graph files, of arguments.candidates, of
/// tuning records or of save_json text. Throws SettingsError for arguments that do not fit the model or each other,
/// DataError and the errors of inference/ for files.
void rank_bundle(const RankArguments& arguments);
/// Ranks with a bundle in memory, as the other rank_bundle.
void rank_bundle(inference::Bundle bundle, const RankArguments& arguments);

/// Writes the output of a command as a whole to the file `output`, or to standard output if `output` is empty. Throws
/// SettingsError, StorageError if storage fails, and std::system_error if standard output has no reader.
void write_answer(const std::string& output, const std::string& text);

/// Collects rankings and writes them in the format of the arguments.
class RankOutput {
 public:
  /// Starts without rankings. `format` is csv, json or submission. `arguments` must outlive this object.
  RankOutput(const RankArguments& arguments, std::string format);

  /// Adds a ranking. A submission uses the collection of the arguments, or else `collection`. Throws DataError, with
  /// the prefix `origin`, if a submission has neither.
  void add(const inference::Ranking& ranking, const std::string& collection, const std::string& origin);
  /// Writes all rankings to standard output or, as a whole, to the file of the arguments. Throws as write_answer does.
  void write();

 private:
  const RankArguments& arguments_;
  std::string format_, text_;
  std::vector<inference::Ranking> rankings_;         // kept for csv, whose columns depend on all of them
  nlohmann::json groups_ = nlohmann::json::array();  // kept for json
};

/// Ranks groups one after another with `rank`, and adds the results to `output`. Reads the next group meanwhile; at
/// most two are in memory. Rethrows errors of reading and of `rank`.
void rank_groups(
    const std::vector<data::GroupHeader>& headers, RankOutput& output,
    const std::function<inference::Ranking(const data::GroupHeader& header, const data::Group& group)>& rank);

}  // namespace foretime::cli
