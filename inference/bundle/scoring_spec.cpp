#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/checksum.h"
#include "base/index_range.h"
#include "data/frontends/hlo/node_features.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/graphs/pruning.h"
#include "data/graphs/schema.h"
#include "inference/bundle/bundle.h"

namespace foretime::inference {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kKinds = {"layout", "tile", "program"};
const std::vector<std::string> kUnits = {"nanoseconds", "seconds", "normalized"};
constexpr int64_t kMostColumns = 1 << 16, kMostNodeTypes = 256;

/// A JSON object of the manifest, read key by key; each failure names the key with the objects that it lies in.
class Reader {
 public:
  Reader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) fail_here(fmt::format("{}, expected an object", object.type_name()));
  }

  [[noreturn]] void fail(const char* key, const std::string& what) const {
    throw BundleError("manifest: {}{}: {}", path_, key, what);
  }

  bool has(const char* key) const { return object_.contains(key); }
  const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(key, "missing");
    return *found;
  }
  Reader object(const char* key) const { return {at(key), path_ + key + "."}; }
  void expect(const char* key, bool right, const char* what) const {
    if (!right) fail(key, fmt::format("{}, expected {}", at(key).type_name(), what));
  }
  std::string text(const char* key) const {
    expect(key, at(key).is_string(), "text");
    return at(key).get<std::string>();
  }
  bool truth(const char* key) const {
    expect(key, at(key).is_boolean(), "true or false");
    return at(key).get<bool>();
  }
  int64_t whole(const char* key, int64_t least, int64_t most) const {
    const Json& value = at(key);
    const bool fits =
        value.is_number_integer() && (!value.is_number_unsigned() || std::in_range<int64_t>(value.get<uint64_t>()));
    if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most)
      fail(key, fmt::format("{}, expected a whole number from {} to {}", shown(value), least, most));
    return value.get<int64_t>();
  }
  double number(const char* key) const {
    expect(key, at(key).is_number(), "a number");
    const double value = at(key).get<double>();
    if (!std::isfinite(value)) fail(key, "not a finite number");
    return value;
  }
  template <class Enum>
  Enum one_of(const char* key, const std::vector<std::string>& names) const {
    const auto found = std::find(names.begin(), names.end(), text(key));
    if (found == names.end()) fail(key, fmt::format("{}, expected {}", shown(at(key)), fmt::join(names, ", ")));
    return static_cast<Enum>(found - names.begin());
  }
  template <configs::Choice Enum>
  Enum choice(const char* key) const {
    return one_of<Enum>(key, configs::words_of<Enum>());
  }

  /// A value for messages: not longer than a line.
  static std::string shown(const Json& value) {
    constexpr size_t kLongest = 60;
    if (value.is_structured()) return value.type_name();
    auto text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
    return text;
  }

 private:
  [[noreturn]] void fail_here(const std::string& what) const {
    throw BundleError("manifest{}: {}", path_.empty() ? "" : ": " + path_.substr(0, path_.size() - 1), what);
  }

  const Json& object_;
  std::string path_;
};

/// Returns the difference between two versions of a field, for a message.
std::string difference(const Json& stored, const Json& ours) {
  if (stored.is_array() && ours.is_array()) {
    for (size_t i = 0; i < std::min(stored.size(), ours.size()); ++i)
      if (stored[i] != ours[i])
        return fmt::format("{} at place {}, here {}", Reader::shown(stored[i]), i, Reader::shown(ours[i]));
    return fmt::format("{} entries, here {}", stored.size(), ours.size());
  }
  return fmt::format("{}, here {}", Reader::shown(stored), Reader::shown(ours));
}

void check_schema(const Json& stored, const Json& ours, const std::string& version) {
  const auto refuse = [&](const std::string& field, const std::string& what) {
    throw BundleError(
        "manifest: schema.{}: {}: the bundle was exported by Foretime {}, "
        "whose inputs have another meaning than those of this library, Foretime {}: "
        "export the run again with this version, or use the library of the bundle's version",
        field, what, version, FORETIME_VERSION);
  };
  for (const auto& [field, value] : ours.items()) {
    const auto found = stored.find(field);
    if (found == stored.end()) refuse(field, "missing");
    if (*found != value) refuse(field, difference(*found, value));
  }
  for (const auto& [field, value] : stored.items())
    if (!ours.contains(field)) refuse(field, "not known here");
}

void read_schema(const Reader& manifest, const std::string& version, ScoringSpec& spec) {
  const auto schema = manifest.object("schema");
  spec.kind = schema.one_of<data::CandidateKind>("kind", kKinds);
  const bool programs = spec.kind == data::CandidateKind::program;
  if (programs) {
    spec.representation = schema.choice<configs::Representation>("representation");
  } else if (!schema.text("representation").empty()) {
    schema.fail("representation", fmt::format("{}, expected \"\" of kind {}",
                                              Reader::shown(schema.at("representation")), schema.text("kind")));
  }
  spec.feature_count = schema.whole("feature_count", 1, kMostColumns);
  spec.node_type_count = schema.whole("node_type_count", 1, kMostNodeTypes);
  check_schema(manifest.at("schema"),
               schema_of(spec.kind, spec.representation, spec.feature_count, spec.node_type_count), version);
  if (!programs) return;
  const int64_t columns = spec.representation == configs::Representation::ast
                              ? data::ProgramColumns::count
                              : data::program_columns(*spec.representation);
  const bool loops =
      spec.representation == configs::Representation::loops && data::are_loop_columns(spec.feature_count);
  if (spec.feature_count != columns && !loops)
    schema.fail("feature_count", fmt::format("{}, expected {}, which readers of {} make", spec.feature_count, columns,
                                             word_of(*spec.representation)));
}

/// The limits of a GPU, which manifests name in the order of data::GpuLimits.
struct GpuField {
  const char* key;
  int64_t data::GpuLimits::*field;
};
constexpr auto kGpuFields = std::to_array<GpuField>({
    {"multiprocessors", &data::GpuLimits::multiprocessors},
    {"warp_size", &data::GpuLimits::warp_size},
    {"threads_per_block", &data::GpuLimits::threads_per_block},
    {"shared_bytes_per_block", &data::GpuLimits::shared_bytes_per_block},
    {"threads_per_multiprocessor", &data::GpuLimits::threads_per_multiprocessor},
    {"blocks_per_multiprocessor", &data::GpuLimits::blocks_per_multiprocessor},
    {"registers_per_multiprocessor", &data::GpuLimits::registers_per_multiprocessor},
    {"registers_per_thread", &data::GpuLimits::registers_per_thread},
    {"shared_bytes_per_multiprocessor", &data::GpuLimits::shared_bytes_per_multiprocessor},
});

data::GpuLimits gpu_in(const Reader& machine) {
  data::GpuLimits gpu;
  if (!machine.has("gpu")) return gpu;  // a CPU
  const auto limits = machine.object("gpu");
  for (const auto& [key, field] : kGpuFields) gpu.*field = limits.whole(key, 1, int64_t{1} << 40);
  if (std::cmp_greater(gpu.warp_size, data::kMostLanes))
    limits.fail("warp_size", fmt::format("{}, expected at most {}", gpu.warp_size, data::kMostLanes));
  if (gpu.threads_per_multiprocessor < gpu.warp_size)
    limits.fail("threads_per_multiprocessor",
                fmt::format("{}, expected a warp or more", gpu.threads_per_multiprocessor));
  return gpu;
}

data::Hardware hardware_in(const Reader& machine) {
  constexpr int64_t kMost = int64_t{1} << 50;
  const auto rate = [&](const char* key) {
    const double found = machine.has(key) ? machine.number(key) : 0.0;  // 0: was not measured
    if (!(found >= 0.0)) machine.fail(key, fmt::format("{}, expected 0 or more", found));
    return found;
  };
  return data::Hardware{.vector_bytes = machine.whole("vector_bytes", 1, kMost),
                        .vector_registers = machine.whole("vector_registers", 1, kMost),
                        .cores = machine.whole("cores", 1, kMost),
                        .l1_bytes = machine.whole("l1_bytes", 1, kMost),
                        .l2_bytes = machine.whole("l2_bytes", 1, kMost),
                        .l3_bytes = machine.whole("l3_bytes", 1, kMost),
                        .multiply_add_gflop_s = rate("multiply_add_gflop_s"),
                        .all_multiply_add_gflop_s = rate("all_multiply_add_gflop_s"),
                        .copy_gb_s = rate("copy_gb_s"),
                        .all_copy_gb_s = rate("all_copy_gb_s"),
                        .gpu = gpu_in(machine)};
}

data::Machines read_machines(const Reader& manifest) {
  if (!manifest.has("machines")) return {};  // a model that does not depend on the machine
  const Json& list = manifest.at("machines");
  manifest.expect("machines", list.is_array(), "a list");
  std::vector<data::Machine> machines;
  for (size_t i = 0; i < list.size(); ++i) {
    const Reader item(list[i], fmt::format("machines[{}].", i));
    data::Machine machine{item.text("name"), {}, hardware_in(item.object("hardware"))};
    item.expect("targets", item.at("targets").is_array(), "a list");
    for (const Json& target : item.at("targets")) {
      if (!target.is_string()) item.fail("targets", "found an item that is no text");
      machine.targets.push_back(target.get<std::string>());
    }
    machines.push_back(std::move(machine));
  }
  try {
    return data::Machines(std::move(machines));
  } catch (const DataError& error) {
    manifest.fail("machines", error.what());
  }
}

Targets read_targets(const Reader& manifest) {
  const auto targets = manifest.object("targets");
  Targets result{.kind = targets.choice<Targets::Kind>("kind"),
                 .scale = targets.number("scale"),
                 .mean = targets.number("mean"),
                 .deviation = targets.number("deviation")};
  if (!(result.scale > 0.0)) targets.fail("scale", fmt::format("{}, expected more than 0", result.scale));
  if (!(result.deviation > 0.0)) targets.fail("deviation", fmt::format("{}, expected more than 0", result.deviation));
  return result;
}

/// Checks the shapes of all weights that the graph names. Other tensors serve further training and may have any shape.
void check_weights(const Weights& weights, const Graph& graph) {
  for (const auto* list : {&graph.embed, &graph.score}) {
    for (const auto& node : *list) {
      for (const auto& weight : weights_of(node.operation)) {
        if (!weight.defined()) continue;
        const auto& values = weights.at(weight.name).values;
        if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
          throw BundleError("tensor {}: a value that is not finite", weight.name);
      }
    }
  }
}

void check_size(const std::string& name, const inference::Weight& weight) {
  const size_t values = weight.values.size();
  size_t product = 1;
  bool fits = true;
  for (const int64_t extent : weight.shape) {
    fits = fits && extent >= 0 && (extent == 0 || product <= values / extent);
    product *= std::max<int64_t>(extent, 0);
  }
  const bool empty = std::find(weight.shape.begin(), weight.shape.end(), 0) != weight.shape.end();
  if (empty ? values != 0 : !fits || product != values)
    throw BundleError("tensor {}: {} values, expected those of shape [{}]", name, values,
                      fmt::join(weight.shape, ", "));
}

/// Checks keys that scoring does not use, but readers of manifests rely on.
void check_description(const Reader& manifest) {
  const auto architecture = manifest.object("architecture");
  architecture.text("type");
  architecture.at("settings");
  manifest.text("settings");
  const auto training = manifest.object("training");
  training.at("data_fingerprint");
  training.whole("step", 0, std::numeric_limits<int64_t>::max());
  training.expect("mean_runtime", training.at("mean_runtime").is_number() || training.at("mean_runtime").is_null(),
                  "a number");
  manifest.object("metrics");
  for (const auto& [name, value] : manifest.at("metrics").items())
    if (!value.is_number() && !value.is_null())
      manifest.fail("metrics", fmt::format("{}: {}, expected a number", name, value.type_name()));
  manifest.text("licence");
  manifest.object("libraries");
}

std::vector<std::string> feature_names(data::CandidateKind kind, std::optional<configs::Representation> representation,
                                       int64_t columns) {
  if (representation == configs::Representation::loops)
    return data::loop_column_names(data::are_loop_columns(columns) ? columns : data::LoopColumns::count);
  if (representation != configs::Representation::curve) return data::feature_names(kind);
  std::vector<std::string> names;  // CurveColumns: curves of one kind each, told apart by their place only
  for (int64_t i = 0; i < data::program_columns(*representation); ++i) names.push_back(fmt::format("curve_{}", i));
  return names;
}

std::vector<std::string> node_type_names(data::CandidateKind kind) {
  if (kind == data::CandidateKind::program) {
    const auto names = data::tir_type_names();
    return {names.begin(), names.end()};
  }
  std::vector<std::string> names;
  for (int64_t i = 0; i < data::kHloOpcodes; ++i) names.emplace_back(data::hlo_opcode_name(i));
  return names;
}

}  // namespace

Json schema_of(data::CandidateKind kind, std::optional<configs::Representation> representation, int64_t feature_count,
               int64_t node_type_count) {
  const auto if_as_many = [](std::vector<std::string> names, int64_t count) {
    return std::ssize(names) == count ? names : std::vector<std::string>();
  };
  Json schema = {{"kind", kKinds[index_of(kind)]},
                 {"representation", representation ? word_of(*representation) : ""},
                 {"feature_count", feature_count},
                 {"node_type_count", node_type_count},
                 {"feature_names", if_as_many(feature_names(kind, representation, feature_count), feature_count)},
                 {"candidate_feature_names", data::candidate_feature_names(kind)},
                 {"node_type_names", if_as_many(node_type_names(kind), node_type_count)}};
  const auto text = schema.dump();
  schema["hash"] = fmt::format("{:016x}", checksum_of(std::span<const char>(text)));
  return schema;
}

Json to_json(const data::Hardware& hardware) {
  Json json = {{"vector_bytes", hardware.vector_bytes},
               {"vector_registers", hardware.vector_registers},
               {"cores", hardware.cores},
               {"l1_bytes", hardware.l1_bytes},
               {"l2_bytes", hardware.l2_bytes},
               {"l3_bytes", hardware.l3_bytes},
               {"multiply_add_gflop_s", hardware.multiply_add_gflop_s},
               {"all_multiply_add_gflop_s", hardware.all_multiply_add_gflop_s},
               {"copy_gb_s", hardware.copy_gb_s},
               {"all_copy_gb_s", hardware.all_copy_gb_s}};
  if (hardware.is_gpu())
    for (const auto& [key, field] : kGpuFields) json["gpu"][key] = hardware.gpu.*field;
  return json;
}

void add_machines(Bundle& bundle, const data::Machines& machines) {
  auto& list = bundle.manifest["machines"];
  if (!list.is_array()) list = Json::array();
  for (const auto& machine : machines.all()) {
    const auto of_name = [&](const Json& item) { return item.at("name") == machine.name; };
    const auto before = std::find_if(list.begin(), list.end(), of_name);
    // A newly measured file has no targets; records without a machine name still belong to the known targets.
    Json targets = machine.targets;
    if (machine.targets.empty() && before != list.end()) targets = before->at("targets");
    list.erase(std::remove_if(list.begin(), list.end(), of_name), list.end());
    list.push_back({{"name", machine.name}, {"targets", targets}, {"hardware", to_json(machine.hardware)}});
  }
}

ScoringSpec read_scoring_spec(const Bundle& bundle) {
  const Reader manifest(bundle.manifest, "");
  const auto version = Reader::shown(manifest.at("foretime_version"));
  if (const auto& found = manifest.at("format_version"); found != kBundleVersion)
    throw BundleError(
        "manifest: format_version: {}, written by Foretime {}; this library, Foretime {}, reads version {}: "
        "use the library of the bundle's version, or export the run again with this one",
        Reader::shown(found), version, FORETIME_VERSION, kBundleVersion);
  const auto exported_by = manifest.text("foretime_version");
  for (const auto& [name, weight] : bundle.weights) check_size(name, weight);
  ScoringSpec spec;
  read_schema(manifest, exported_by, spec);
  if (const auto columns = bundle.manifest.find("columns"); columns != bundle.manifest.end()) {
    manifest.object("columns");
    if (spec.kind != data::CandidateKind::tile)
      manifest.fail("columns", "found columns of a table, expected none for a model of another kind than tile");
    spec.columns = columns->dump();
  }
  spec.prune_hops = manifest.whole("prune_hops", data::kNoPruning, 1 << 20);
  if (!manifest.at("hardware").is_null()) spec.hardware = hardware_in(manifest.object("hardware"));
  spec.machines = read_machines(manifest);
  spec.graph = parse_graph(manifest.at("graph"), shapes_of(bundle.weights), spec.feature_count);
  check_weights(bundle.weights, spec.graph);
  spec.targets = read_targets(manifest);
  spec.predicts_runtimes = manifest.truth("predicts_runtimes");
  constexpr data::RuntimeUnit kUnitOf[] = {data::RuntimeUnit::nanoseconds, data::RuntimeUnit::seconds,
                                           data::RuntimeUnit::normalized};
  spec.unit = kUnitOf[manifest.one_of<size_t>("runtime_unit", kUnits)];
  // Which nodes are tied depends on the candidates, too.
  spec.compares_candidates = manifest.truth("compares_candidates") || spec.graph.request.tied;
  if (compares_candidates(spec.graph) && !spec.compares_candidates)
    manifest.fail("compares_candidates", "false, expected true of a graph with operations over groups");
  if (spec.graph.statements && spec.representation != configs::Representation::loops)
    manifest.fail("graph", "statements: true, expected false of anything but loop programs");
  check_description(manifest);
  return spec;
}

}  // namespace foretime::inference
