#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "configs/settings.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/machines.h"
#include "data/graphs/group.h"
#include "inference/bundle/targets.h"
#include "inference/graph/graph.h"
#include "inference/runtime/references.h"

/// A bundle: a trained model in one file, for those who score with it. It is a safetensors file of float32 tensors,
/// whose metadata are format ("foretime-bundle"), format_version and manifest, a JSON text. docs/reference/bundle.md
/// describes the keys.
namespace foretime::inference {

constexpr int64_t kBundleVersion = 2;  // raised when an older library could no longer read a newer bundle

struct Bundle {
  nlohmann::json manifest;
  inference::Weights weights;
};

/// What a manifest says of how its model scores.
struct ScoringSpec {
  data::CandidateKind kind = data::CandidateKind::layout;
  std::optional<configs::Representation> representation;  // of programs
  int64_t feature_count = 0, node_type_count = 0;
  std::string columns;                     // data::columns_text, of a model of a table; else empty
  int64_t prune_hops = -1;                 // data::kNoPruning
  std::optional<data::Hardware> hardware;  // loops: that TIR is taken to run on; records name their own target
  data::Machines machines;                 // that records name
  Graph graph;
  Targets targets;
  bool predicts_runtimes = false;
  data::RuntimeUnit unit = data::RuntimeUnit::nanoseconds;
  bool compares_candidates = false;  // a score depends on the other candidates of its call
};

/// What the columns and node types of a model's inputs mean to the running version of the library, with a hash of it
/// all. `kind`: layout, tile or program; `representation`: of programs. Names are empty where the data have
/// another number of columns than the library's readers make.
nlohmann::json schema_of(data::CandidateKind kind, std::optional<configs::Representation> representation,
                         int64_t feature_count, int64_t node_type_count);

/// As manifests have it.
nlohmann::json to_json(const data::Hardware& hardware);
/// Machines that the bundle's model is to know; those that it knows by the same names are replaced.
void add_machines(Bundle& bundle, const data::Machines& machines);

/// Reads and checks all that scoring relies on. Throws BundleError, which names the key: for missing keys, values of
/// another type or range, another format_version, a graph that does not fit the weights, and a schema that is not what
/// the running library makes; then the message says which field differs, both versions, and what to do.
ScoringSpec read_scoring_spec(const Bundle& bundle);

/// The bytes of a bundle. They depend on manifest and weights alone. Throws BundleError where read_scoring_spec does.
std::string serialize_bundle(const Bundle& bundle);

/// `origin` stands for the file in messages. Throws BundleError for bytes that are no bundle, are damaged, or whose
/// scoring spec cannot be read.
Bundle parse_bundle(std::string_view bytes, const std::string& origin);

/// Throws FileError, and BundleError as parse_bundle does.
Bundle read_bundle(const std::filesystem::path& path);

/// Writes aside, flushes to disk and renames: the file is complete or not there. Throws FileError, and BundleError as
/// serialize_bundle does.
void write_bundle(const std::filesystem::path& path, const Bundle& bundle);

}  // namespace foretime::inference
