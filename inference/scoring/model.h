#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/dataset/group_files.h"
#include "data/graphs/group.h"
#include "inference/bundle/bundle.h"
#include "inference/graph/graph.h"

namespace foretime::inference {

/// Reports a call that the model cannot answer: another kind of candidates, or run times that it does not predict.
struct WrongKind : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

struct Options {
  int32_t threads = 1;          // threads of one call, including the caller's; clamped to 1 … 256
  int64_t max_states = 262144;  // approximate number of states (rows of hidden vectors) that a thread holds; at least 1
};

/// Names the kinds of candidates; the numbers are those of foretime_kind.
enum class ModelKind : uint8_t { layout, tile, loops, trees };
const char* kind_name(ModelKind kind);

/// Holds an opened bundle. Thread-safe. A call runs on Options::threads threads, including the caller's; the others end
/// before it returns. It uses no threads of OpenMP. Scores do not depend on the number of threads.
class Model {
 public:
  /// Takes a bundle. Throws BundleError as read_scoring_spec does.
  explicit Model(Bundle bundle, const Options& options = {});

  /// Opens a file, or a pretrained bundle by name. Throws as bundle_file and read_bundle do.
  static std::shared_ptr<const Model> open(const std::filesystem::path& path, const Options& options = {});
  /// Opens the bytes of a bundle; `origin` names them in messages. Throws as parse_bundle does.
  static std::shared_ptr<const Model> parse(std::string_view bytes, const std::string& origin,
                                            const Options& options = {});

  ModelKind kind() const { return kind_; }
  const ScoringSpec& spec() const { return spec_; }
  const Options& options() const { return options_; }
  const inference::Executor& executor() const { return executor_; }
  const nlohmann::json& manifest() const { return manifest_; }
  const std::string& manifest_text() const { return manifest_text_; }
  /// Returns the file that the model was opened from; "" if it was made of bytes.
  const std::string& file() const { return file_; }

  /// Scores some candidates of a group that was read from files, as the trainer's evaluation does; a lower score means
  /// faster. Layout graphs are pruned as in training. `failures` is as in Executor::score. Throws as check_graphs does,
  /// and DataError for a candidate that does not exist.
  std::vector<float> score_group(const data::Group& group, std::span<const int64_t> candidates,
                                 std::vector<float>* failures = nullptr) const;
  /// Scores all candidates of a group.
  std::vector<float> score_group(const data::Group& group) const;

  /// Throws WrongKind if the group has another kind of candidates, DataError for other feature columns or node types.
  void check_graphs(const data::Group& group) const;

  /// Converts scores to run times in the unit of the training data (spec().unit); +infinity stays. `flops` [scores] are
  /// numbers of arithmetic operations, which only targets per flop use; else it may be empty. Throws WrongKind if the
  /// model does not predict run times, or needs flops and has not one for each score.
  std::vector<double> runtimes(std::span<const float> scores, std::span<const double> flops = {}) const;
  /// Converts scores to seconds. Throws WrongKind as `runtimes` does, and if training had normalised run times.
  std::vector<double> seconds(std::span<const float> scores, std::span<const double> flops = {}) const;

 private:
  Options options_;
  ScoringSpec spec_;
  ModelKind kind_;
  nlohmann::json manifest_;
  std::string manifest_text_, file_;
  inference::Executor executor_;
};

/// Returns the converter of syntax trees to the model's representation; null for models of plain trees and of graphs.
data::FeaturizerPtr featurizer_of(const ScoringSpec& spec);

/// Lists the groups of files, folders, globs or packed collections, in the representation that the model was trained
/// on. Throws as data::list_groups, and DataError, which names the file, for another number of node features or other
/// columns of a table.
std::vector<data::GroupHeader> list_groups(const Model& model, const std::vector<std::string>& files);

}  // namespace foretime::inference
