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

/// Reports a call that the model cannot answer: candidates of another kind, or run times that it does not predict.
struct WrongKind : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

struct Options {
  int32_t threads = 1;          // threads of one call, including the caller's
  int64_t max_states = 262144;  // approximate limit of states in memory for each thread
};

/// Names the kinds of candidates; the numbers are those of foretime_kind.
enum class ModelKind : uint8_t { layout, tile, loops, trees };
/// Returns layout, tile, loops or trees.
const char* kind_name(ModelKind kind);

/// Holds an opened bundle. It is immutable: any number of threads may use one. Calls start `threads` threads that end
/// with them, and use no threads of OpenMP; scores do not depend on the number of threads.
class Model {
 public:
  /// Takes a bundle. Throws BundleError as read_scoring_spec does.
  explicit Model(Bundle bundle, const Options& options = {});

  /// Opens a file, or a pretrained bundle by name (bundle_file). Throws as read_bundle does.
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

  /// Scores some candidates of a group of the readers, as the trainer's evaluation does: lower is faster. Layout graphs
  /// are pruned as in training. `failures` is as in Executor::score. Throws WrongKind for a group of another kind,
  /// data::DataError for other columns or node types, or for a candidate that does not exist.
  std::vector<float> score_group(const data::Group& group, std::span<const int64_t> candidates,
                                 std::vector<float>* failures = nullptr) const;
  /// Scores all candidates of a group.
  std::vector<float> score_group(const data::Group& group) const;

  /// Throws as score_group does if the model cannot score the group's graphs.
  void check_graphs(const data::Group& group) const;

  /// Converts scores to run times in the unit of the training data (spec().unit). `flops` is [scores], or empty; only
  /// targets per flop use it. Throws WrongKind if the model does not predict run times, or needs flops.
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

/// Returns the featurizer of a model of programs, which converts syntax trees to its representation; null for models of
/// unchanged trees, and for other models.
data::FeaturizerPtr featurizer_of(const ScoringSpec& spec);

/// Lists the groups of files, folders, globs or packed collections, in the representation that the model was trained
/// on. Throws data::DataError, naming the file, for a file of another kind or with other node features.
std::vector<data::GroupHeader> list_groups(const Model& model, const std::vector<std::string>& files);

}  // namespace foretime::inference
