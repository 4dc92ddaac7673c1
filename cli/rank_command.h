#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/graphs/group.h"
#include "inference/bundle/bundle.h"
#include "inference/candidates/ranking.h"

namespace CLI {
class App;
}

/// `foretime rank`, but for what checkpoints need of LibTorch: the light program has it as well.
namespace foretime::cli {

struct RankArguments {
  std::string model;  // a bundle, a run directory or a checkpoint folder
  std::vector<std::string> ensemble, files;
  std::string format, output, collection;  // format "": not said
  int64_t top = 0;
  std::string candidates, dags, member;
  std::vector<std::string> targets;  // files of machines that a bundle is to know
  std::optional<int64_t> threads;    // of a bundle
  bool force = false;                // replace a file of another kind, or an input
};
using CheckpointRanker = std::function<void(const RankArguments&)>;

/// A model that is a file is a bundle, and ranks here; anything else is left to `rank_checkpoints`.
void add_rank_command(CLI::App& app, const CheckpointRanker& rank_checkpoints);

/// Whether the files or options are what bundles alone rank: tuning records, save_json text, `--candidates`.
bool needs_bundle(const RankArguments& arguments);

/// Ranks by a bundle, without LibTorch: the candidates of graph files, the ones of arguments.candidates, tuning records
/// or save_json text. Throws SettingsError for arguments that do not fit the model or each other, DataError and the
/// errors of inference/ for files.
void rank_bundle(const RankArguments& arguments);
/// The same by a bundle in memory.
void rank_bundle(inference::Bundle bundle, const RankArguments& arguments);

/// Writes the answer of a command as a whole to the file of its --output, or where that is empty to standard output.
/// Throws SettingsError where it cannot be written, and StorageError.
void write_answer(const std::string& output, const std::string& text);

/// Gathers what is ranked, and writes it as the arguments say.
class RankOutput {
 public:
  /// `format`: csv, json or submission.
  RankOutput(const RankArguments& arguments, std::string format);

  /// `collection`: for submissions, where the arguments do not name one; may be empty. `origin` starts messages.
  void add(const inference::Ranking& ranking, const std::string& collection, const std::string& origin);
  /// Standard output, or the file as a whole. Throws SettingsError where it cannot be written.
  void write();

 private:
  const RankArguments& arguments_;
  std::string format_, text_;
  std::vector<inference::Ranking> rankings_;         // format csv, whose columns depend on all of them
  nlohmann::json groups_ = nlohmann::json::array();  // format json
};

/// Ranks groups one after another, each by `rank`. The next one is read meanwhile, and no more than two are in memory.
void rank_groups(
    const std::vector<data::GroupHeader>& headers, RankOutput& output,
    const std::function<inference::Ranking(const data::GroupHeader& header, const data::Group& group)>& rank);

}  // namespace foretime::cli
