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

/// A call that the model has no answer to: candidates of another kind, or run times that it does not predict.
struct WrongKind : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

struct Options {
  int32_t threads = 1;          // that one call may use, the caller's among them
  int64_t max_states = 262144;  // states that each of them holds at once, about
};

/// What a model scores; the numbers are those of foretime_kind.
enum class ModelKind : uint8_t { layout, tile, loops, trees };
const char* kind_name(ModelKind kind);  // layout, tile, loops, trees

/// An opened bundle. Never changes: any number of threads may use one. Calls use `threads` threads that end with them,
/// and no threads of OpenMP; scores do not depend on how many there are.
class Model {
 public:
  /// Throws BundleError as read_scoring_spec does.
  explicit Model(Bundle bundle, const Options& options = {});

  /// Throw as read_bundle and parse_bundle do. open() also takes the name of a pretrained bundle (bundle_file).
  static std::shared_ptr<const Model> open(const std::filesystem::path& path, const Options& options = {});
  static std::shared_ptr<const Model> parse(std::string_view bytes, const std::string& origin,
                                            const Options& options = {});

  ModelKind kind() const { return kind_; }
  const ScoringSpec& spec() const { return spec_; }
  const Options& options() const { return options_; }
  const inference::Executor& executor() const { return executor_; }
  const nlohmann::json& manifest() const { return manifest_; }
  const std::string& manifest_text() const { return manifest_text_; }
  /// That it was opened from; empty of one that was made of bytes.
  const std::string& file() const { return file_; }

  /// Scores of some candidates of a group that was opened by the readers, as the trainer's evaluation gives them: lower
  /// is faster. Layout graphs are pruned as in training. Throws WrongKind for a group of another kind, data::DataError
  /// for other columns or node types, or a candidate that is not there. `failures`: as in Executor::score.
  std::vector<float> score_group(const data::Group& group, std::span<const int64_t> candidates,
                                 std::vector<float>* failures = nullptr) const;
  std::vector<float> score_group(const data::Group& group) const;  // all candidates

  /// Throws as score_group does for the group's graphs.
  void check_graphs(const data::Group& group) const;

  /// Run times that scores stand for, in the unit of the training data (spec().unit). `flops`: [scores], or empty;
  /// only targets per flop look at them. Throws WrongKind where the model does not predict run times, or needs flops.
  std::vector<double> runtimes(std::span<const float> scores, std::span<const double> flops = {}) const;
  /// The same in seconds. Throws WrongKind also where training had normalised run times.
  std::vector<double> seconds(std::span<const float> scores, std::span<const double> flops = {}) const;

 private:
  Options options_;
  ScoringSpec spec_;
  ModelKind kind_;
  nlohmann::json manifest_;
  std::string manifest_text_, file_;
  inference::Executor executor_;
};

/// The form in which a model of programs was trained on syntax trees; null for models of the trees as they are, and for
/// other models.
data::FeaturizerPtr featurizer_of(const ScoringSpec& spec);

/// The groups of files, folders, globs or packed collections, read in the form that the model was trained on. Throws
/// data::DataError, naming the file, where one is of another kind or has other node features.
std::vector<data::GroupHeader> list_groups(const Model& model, const std::vector<std::string>& files);

}  // namespace foretime::inference
