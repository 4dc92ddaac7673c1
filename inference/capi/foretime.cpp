#include "inference/capi/foretime.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "data/graphs/group.h"
#include "inference/capi/internal.h"
#include "inference/scoring/graph_scorer.h"
#include "inference/scoring/model.h"
#include "inference/scoring/program_scorer.h"

namespace {

thread_local std::string last_message;
thread_local const char* last_error = "";  // last_message, or a literal where there was no memory for it

}  // namespace

namespace foretime::capi {

foretime_status note(foretime_status status, const char* message) noexcept {
  try {
    last_message = message;
    last_error = last_message.c_str();
  } catch (...) {
    last_error = "out of memory";
  }
  return status;
}

void expect_pointer(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Invalid(fmt::format("{}: a null pointer", name));
}

void expect_range(int64_t value, int64_t least, int64_t most, const char* name) {
  if (value < least || value > most) throw Invalid(fmt::format("{}: {}, expected {} to {}", name, value, least, most));
}

}  // namespace foretime::capi

namespace {

namespace data = foretime::data;
using namespace foretime::inference;
using foretime::DataError;
using foretime::FileError;
using foretime::capi::expect_pointer;
using foretime::capi::expect_range;
using foretime::capi::guarded;
using foretime::capi::Invalid;
using foretime::capi::note;

constexpr int64_t kMostCandidates = std::numeric_limits<int32_t>::max();  // limit of one call
constexpr int64_t kMostIds = std::numeric_limits<int32_t>::max();
constexpr int32_t kMostThreads = 256;

/// A product of sizes that an array in memory can have.
size_t array_size(int64_t count, int64_t each, size_t element_bytes, const char* name) {
  constexpr int64_t kMost = std::numeric_limits<ptrdiff_t>::max();
  if (each > 0 && count > kMost / each / static_cast<int64_t>(element_bytes))
    throw Invalid(fmt::format("{}: {} x {} values, more than memory can hold", name, count, each));
  return count * each;
}

template <class T>
std::span<const T> array(const T* values, int64_t count, int64_t each, const char* name) {
  const size_t size = array_size(count, each, sizeof(T), name);
  if (size > 0) expect_pointer(values, name);
  return {values, size};
}

template <class T>
std::vector<T> copied(const T* values, int64_t count, int64_t each, const char* name) {
  const auto all = array(values, count, each, name);
  return {all.begin(), all.end()};
}

/// Reads a structure of a caller that may know fewer members, which then are 0, or more, which then must be 0.
/// `least`: its size in the first version of the interface.
template <class T>
T structure(const T* given, size_t least, const char* name) {
  constexpr size_t kMost = 4096;
  T known{};
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < least || size > kMost)
    throw Invalid(fmt::format("{}: its size is {}, expected {}: sizeof of the structure", name, size, sizeof(T)));
  const auto* bytes = reinterpret_cast<const char*>(given);
  if (size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + size, [](char c) { return c != 0; }))
    throw Invalid(fmt::format("{}: sets members that this version of the library does not know", name));
  std::memcpy(&known, given, std::min(size, sizeof known));
  return known;
}

Options read_options(const foretime_options* given) {
  if (given == nullptr) return {};
  constexpr size_t kFirst = offsetof(foretime_options, max_states) + sizeof(foretime_options::max_states);
  const auto options = structure(given, kFirst, "options");
  expect_range(options.threads, 0, kMostThreads, "options.threads");
  expect_range(options.max_states, 0, kMostIds, "options.max_states");
  Options result;
  if (options.threads > 0) result.threads = options.threads;
  if (options.max_states > 0) result.max_states = options.max_states;
  return result;
}

data::Group read_graph(const Model& model, const foretime_graph_data& given) {
  expect_range(given.nodes, 1, kMostIds, "nodes");
  expect_range(given.features, 0, kMostIds, "features");
  expect_range(given.edges, 0, kMostIds, "edges");
  expect_range(given.configurable, 0, given.nodes, "configurable");
  expect_range(given.collection, 0, data::kCollections - 1, "collection");
  expect_range(given.reserved, 0, 0, "reserved");
  const auto& spec = model.spec();
  if (spec.kind == data::CandidateKind::tile && given.configurable != 0)
    throw Invalid(fmt::format("configurable: found {}, expected 0 for a model of tiles", given.configurable));
  data::Group group;
  group.name = "graph";
  group.kind = spec.kind;
  group.collection = static_cast<data::Collection>(given.collection);
  group.graphs.feature_count = given.features;
  group.graphs.node_type_count = spec.node_type_count;
  group.graphs.graph_ptr = std::vector<int64_t>{0, given.nodes};
  group.graphs.edge_ptr = std::vector<int64_t>{0, given.edges};
  group.graphs.node_features = copied(given.node_features, given.nodes, given.features, "node_features");
  group.graphs.node_types = copied(given.node_types, given.nodes, 1, "node_types");
  group.graphs.edge_source = copied(given.edge_producer, given.edges, 1, "edge_producer");
  group.graphs.edge_target = copied(given.edge_consumer, given.edges, 1, "edge_consumer");
  group.layout.nodes = copied(given.configurable_nodes, given.configurable, 1, "configurable_nodes");
  return group;
}

std::vector<std::string_view> read_texts(const char* const* texts, const size_t* sizes, int64_t count,
                                         const char* name) {
  expect_range(count, 0, kMostCandidates, "count");
  std::vector<std::string_view> views;
  if (count == 0) return views;
  expect_pointer(texts, name);
  views.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) throw Invalid(fmt::format("{}[{}]: a null pointer", name, i));
    views.emplace_back(texts[i], sizes != nullptr ? sizes[i] : std::strlen(texts[i]));
  }
  return views;
}

void give(const std::vector<float>& result, float* scores) { std::copy(result.begin(), result.end(), scores); }

void give(const ProgramScores& result, float* scores, int64_t* failed) {
  give(result.scores, scores);
  if (failed != nullptr) *failed = result.failed;
  if (result.failed > 0) note(FORETIME_OK, result.first_failure.c_str());
}

void give(const ProgramScores& result, float* scores, float* failures, int64_t* failed) {
  std::copy(result.failures.begin(), result.failures.end(), failures);
  give(result, scores, failed);
}

void expect_failures(const Model& model) {
  if (!model.executor().predicts_failures())
    throw WrongKind("the model does not predict chances of failure: it was trained without model.failure_output");
}

}  // namespace

int foretime_abi_version(void) { return FORETIME_ABI_VERSION; }

const char* foretime_version(void) { return FORETIME_VERSION; }

const char* foretime_status_name(foretime_status status) {
  // In the order of foretime_status.
  constexpr const char* kNames[] = {"ok",        "invalid argument", "file error",    "bad bundle",
                                    "bad input", "wrong kind",       "out of memory", "internal error"};
  return status >= 0 && status < std::ssize(kNames) ? kNames[status] : "unknown status";
}

const char* foretime_last_error(void) { return last_error; }

foretime_status foretime_open(const char* path, const foretime_options* options, foretime_model** model) {
  return guarded([&] {
    expect_pointer(path, "path");
    expect_pointer(model, "model");
    *model = new foretime_model{Model::open(path, read_options(options))};
  });
}

foretime_status foretime_open_bytes(const void* bytes, size_t size, const foretime_options* options,
                                    foretime_model** model) {
  return guarded([&] {
    expect_pointer(bytes, "bytes");
    expect_pointer(model, "model");
    const std::string_view all(static_cast<const char*>(bytes), size);
    *model = new foretime_model{Model::parse(all, "bundle", read_options(options))};
  });
}

void foretime_close(foretime_model* model) { delete model; }

foretime_kind foretime_model_kind(const foretime_model* model) {
  return model == nullptr ? FORETIME_LAYOUT : static_cast<foretime_kind>(model->model->kind());
}

const char* foretime_describe(const foretime_model* model, size_t* size) {
  if (size != nullptr) *size = model == nullptr ? 0 : model->model->manifest_text().size();
  return model == nullptr ? "" : model->model->manifest_text().c_str();
}

const char* foretime_model_file(const foretime_model* model) {
  return model == nullptr ? "" : model->model->file().c_str();
}

foretime_status foretime_graph_open(const foretime_model* model, const foretime_graph_data* data,
                                    foretime_graph** graph) {
  return guarded([&] {
    expect_pointer(model, "model");
    expect_pointer(data, "data");
    expect_pointer(graph, "graph");
    if (model->model->spec().kind == data::CandidateKind::program)
      throw WrongKind("found a model of tensor programs, expected one of layouts or tiles to score graphs");
    constexpr size_t kFirst = offsetof(foretime_graph_data, reserved) + sizeof(foretime_graph_data::reserved);
    *graph = new foretime_graph{{model->model, read_graph(*model->model, structure(data, kFirst, "data"))}};
  });
}

foretime_status foretime_graph_open_hlo(const foretime_model* model, const void* bytes, size_t size,
                                        foretime_graph** graph) {
  return guarded([&] {
    expect_pointer(model, "model");
    expect_pointer(bytes, "bytes");
    expect_pointer(graph, "graph");
    const std::string_view all(static_cast<const char*>(bytes), size);
    *graph = new foretime_graph{GraphScorer::from_hlo(model->model, all)};
  });
}

void foretime_graph_close(foretime_graph* graph) { delete graph; }

int64_t foretime_graph_nodes(const foretime_graph* graph) { return graph == nullptr ? 0 : graph->scorer.nodes(); }

int64_t foretime_graph_configurable(const foretime_graph* graph) {
  return graph == nullptr ? 0 : std::ssize(graph->scorer.configurable());
}

const int32_t* foretime_graph_configurable_nodes(const foretime_graph* graph) {
  return graph == nullptr ? nullptr : graph->scorer.configurable().data();
}

foretime_status foretime_score_layouts(const foretime_graph* graph, const int8_t* layouts, int64_t candidates,
                                       float* scores) {
  return guarded([&] {
    expect_pointer(graph, "graph");
    expect_range(candidates, 0, kMostCandidates, "candidates");
    if (candidates > 0) expect_pointer(scores, "scores");
    const auto each = std::ssize(graph->scorer.configurable()) * data::kLayoutFeatures;
    give(graph->scorer.score_layouts(array(layouts, candidates, each, "layouts"), candidates), scores);
  });
}

foretime_status foretime_score_tiles(const foretime_graph* graph, const float* tiles, int64_t candidates,
                                     float* scores) {
  return guarded([&] {
    expect_pointer(graph, "graph");
    expect_range(candidates, 0, kMostCandidates, "candidates");
    if (candidates > 0) expect_pointer(scores, "scores");
    give(graph->scorer.score_tiles(array(tiles, candidates, data::kTileFeatures, "tiles"), candidates), scores);
  });
}

foretime_status foretime_workload_open(const foretime_model* model, const char* compute_dag, size_t size,
                                       foretime_workload** workload) {
  return guarded([&] {
    expect_pointer(model, "model");
    expect_pointer(compute_dag, "compute_dag");
    expect_pointer(workload, "workload");
    *workload = new foretime_workload{{model->model, std::string_view(compute_dag, size)}};
  });
}

void foretime_workload_close(foretime_workload* workload) { delete workload; }

foretime_status foretime_score_records(const foretime_workload* workload, const char* const* records,
                                       const size_t* sizes, int64_t count, float* scores, int64_t* failed) {
  return guarded([&] {
    expect_pointer(workload, "workload");
    const auto texts = read_texts(records, sizes, count, "records");
    if (count > 0) expect_pointer(scores, "scores");
    give(workload->scorer.score(texts), scores, failed);
  });
}

const char* foretime_unknown_machine(const foretime_model* model, const char* target) {
  thread_local std::string name;
  name.clear();
  if (model != nullptr && target != nullptr) guarded([&] { name = model->model->spec().machines.unknown(target); });
  return name.c_str();
}

int foretime_predicts_failures(const foretime_model* model) {
  return model != nullptr && model->model->executor().predicts_failures() ? 1 : 0;
}

foretime_status foretime_score_records_and_failures(const foretime_workload* workload, const char* const* records,
                                                    const size_t* sizes, int64_t count, float* scores, float* failures,
                                                    int64_t* failed) {
  return guarded([&] {
    expect_pointer(workload, "workload");
    expect_failures(workload->scorer.model());
    const auto texts = read_texts(records, sizes, count, "records");
    if (count > 0) expect_pointer(scores, "scores");
    if (count > 0) expect_pointer(failures, "failures");
    give(workload->scorer.score(texts), scores, failures, failed);
  });
}

foretime_status foretime_score_tir_and_failures(const foretime_model* model, const char* const* programs,
                                                const size_t* sizes, int64_t count, float* scores, float* failures,
                                                int64_t* failed) {
  return guarded([&] {
    expect_pointer(model, "model");
    expect_failures(*model->model);
    const auto texts = read_texts(programs, sizes, count, "programs");
    if (count > 0) expect_pointer(scores, "scores");
    if (count > 0) expect_pointer(failures, "failures");
    give(score_tir(*model->model, texts), scores, failures, failed);
  });
}

foretime_status foretime_score_tir(const foretime_model* model, const char* const* programs, const size_t* sizes,
                                   int64_t count, float* scores, int64_t* failed) {
  return guarded([&] {
    expect_pointer(model, "model");
    const auto texts = read_texts(programs, sizes, count, "programs");
    if (count > 0) expect_pointer(scores, "scores");
    give(score_tir(*model->model, texts), scores, failed);
  });
}

foretime_status foretime_rank(const float* scores, int64_t count, int64_t top, int64_t* order) {
  return guarded([&] {
    expect_range(count, 0, std::numeric_limits<int64_t>::max(), "count");
    const auto all = array(scores, count, 1, "scores");
    const int64_t wanted = top < 0 ? count : std::min(top, count);
    if (wanted > 0) expect_pointer(order, "order");
    std::vector<int64_t> places(all.size());
    std::iota(places.begin(), places.end(), 0);
    const auto before = [&](int64_t a, int64_t b) {
      const float x = all[a], y = all[b];
      if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
      return x < y || (!(y < x) && a < b);
    };
    std::partial_sort(places.begin(), places.begin() + wanted, places.end(), before);
    std::copy_n(places.begin(), wanted, order);
  });
}

foretime_status foretime_runtimes(const foretime_model* model, const float* scores, int64_t count, double* seconds) {
  return guarded([&] {
    expect_pointer(model, "model");
    expect_range(count, 0, std::numeric_limits<int64_t>::max(), "count");
    const auto all = array(scores, count, 1, "scores");
    if (count > 0) expect_pointer(seconds, "seconds");
    const auto result = model->model->seconds(all);
    std::copy(result.begin(), result.end(), seconds);
  });
}
