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

/// A bundle is a trained model in one file, for programs that score with it. It is a safetensors file of float32
/// tensors, whose metadata are format ("foretime-bundle"), format_version and manifest, a JSON text.
/// docs/reference/bundle.md describes the keys.
namespace foretime::inference {

constexpr int64_t kBundleVersion = 2;  // increased when older libraries cannot read newer bundles

struct Bundle {
  nlohmann::json manifest;
  inference::Weights weights;
};

/// Holds the parts of a manifest that scoring uses.
struct ScoringSpec {
  data::CandidateKind kind = data::CandidateKind::layout;
  std::optional<configs::Representation> representation;  // representation of programs; nullopt for other kinds
  int64_t feature_count = 0, node_type_count = 0;
  std::string columns;      // data::columns_text of a model of a table; else ""
  int64_t prune_hops = -1;  // data::kNoPruning
  // loops: machine that TIR is assumed to run on; records name their own target
  std::optional<data::Hardware> hardware;
  data::Machines machines;  // machines that records may name
  Graph graph;
  Targets targets;
  bool predicts_runtimes = false;
  data::RuntimeUnit unit = data::RuntimeUnit::nanoseconds;
  bool compares_candidates = false;  // true: a score depends on the other candidates of its call
};

/// Returns the meaning of a model's input columns and node types in this version of the library, with a hash. `kind` is
/// layout, tile or program, `representation` that of programs. Names are empty if the library's readers make another
/// number of columns.
nlohmann::json schema_of(data::CandidateKind kind, std::optional<configs::Representation> representation,
                         int64_t feature_count, int64_t node_type_count);

/// Converts to the form of manifests.
nlohmann::json to_json(const data::Hardware& hardware);
/// Adds machines to those that the bundle's model knows, and replaces machines of equal names.
void add_machines(Bundle& bundle, const data::Machines& machines);

/// Reads and checks everything that scoring relies on. Throws BundleError, which names the key, for missing keys,
/// values of a wrong type or range, another format_version, a graph that does not match the weights, and a schema that
/// differs from the library's; then the message names the field, both versions and a remedy.
ScoringSpec read_scoring_spec(const Bundle& bundle);

/// Returns the bytes of a bundle, which depend on manifest and weights alone. Throws BundleError as read_scoring_spec
/// does.
std::string serialize_bundle(const Bundle& bundle);

/// Parses the bytes of a bundle. `origin` names the file in messages. Throws BundleError if they are not a bundle, are
/// damaged, or have an invalid scoring spec.
Bundle parse_bundle(std::string_view bytes, const std::string& origin);

/// Reads a bundle. Throws FileError, and BundleError as parse_bundle does.
Bundle read_bundle(const std::filesystem::path& path);

/// Writes a temporary file, flushes it to disk and renames it, so that the file is complete or absent. Throws
/// FileError, and BundleError as serialize_bundle does.
void write_bundle(const std::filesystem::path& path, const Bundle& bundle);

}  // namespace foretime::inference
