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
  std::optional<configs::Representation> representation;  // form of programs; nullopt for layouts and tiles
  int64_t feature_count = 0, node_type_count = 0;         // columns of node features; number of node types
  std::string columns;      // data::columns_text of a model of a table; "" for other models
  int64_t prune_hops = -1;  // edges around configurable nodes within which nodes are kept; data::kNoPruning: all
  // machine that TIR is assumed to run on, which names no target; nullopt: the defaults of Hardware
  std::optional<data::Hardware> hardware;
  data::Machines machines;  // machines that targets of records may name
  Graph graph;
  Targets targets;
  bool predicts_runtimes = false;                           // true: scores can be converted to run times
  data::RuntimeUnit unit = data::RuntimeUnit::nanoseconds;  // unit of the run times
  bool compares_candidates = false;                         // true: a score depends on the other candidates of its call
};

/// Returns the meaning of a model's input columns and node types in this version of the library, with a hash.
/// `representation` is that of programs, nullopt for layouts and tiles. A list of names is empty if the library's
/// readers make another number of columns or node types.
nlohmann::json schema_of(data::CandidateKind kind, std::optional<configs::Representation> representation,
                         int64_t feature_count, int64_t node_type_count);

/// Returns hardware in the form of manifests; "gpu" is only in that of a GPU.
nlohmann::json to_json(const data::Hardware& hardware);
/// Adds machines to the manifest, replacing those of equal names. A machine without targets takes the replaced one's.
void add_machines(Bundle& bundle, const data::Machines& machines);

/// Reads and checks everything that scoring relies on. Throws BundleError, which names the key, for a missing key, a
/// value of a wrong type or range, another format_version, a graph that does not match the weights, and a schema that
/// differs from this library's. For a differing schema the message names the field, both versions and a remedy.
ScoringSpec read_scoring_spec(const Bundle& bundle);

/// Returns the bytes of a bundle, which depend on manifest and weights alone. Throws BundleError as read_scoring_spec.
std::string serialize_bundle(const Bundle& bundle);

/// Parses the bytes of a bundle. `origin` names the file in messages. Throws BundleError if they are not a bundle, are
/// damaged, or have an invalid scoring spec.
Bundle parse_bundle(std::string_view bytes, const std::string& origin);

/// Reads the file of a bundle. Throws FileError or StorageError if it cannot be read. Throws BundleError as
/// parse_bundle does, for a file of another form, and for more than 4 GiB.
Bundle read_bundle(const std::filesystem::path& path);

/// Writes a temporary file, flushes it to disk and renames it, so that the file is complete or unchanged. Throws
/// FileError or StorageError if it cannot be written, and BundleError as serialize_bundle does.
void write_bundle(const std::filesystem::path& path, const Bundle& bundle);

}  // namespace foretime::inference
