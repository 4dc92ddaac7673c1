#include "tests/fuzz/targets.h"

#include <cstring>
#include <random>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "inference/bundle/bundle.h"
#include "inference/capi/foretime.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/inference/small_models.h"

namespace foretime::fuzz {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

template <size_t N>
Names names(std::string_view text) {
  const auto words = split_words<N>(text);
  return {words.begin(), words.end()};
}

const Names kOperations = names<26>(
    "select transform layout_codes lookup dense join add average multiply scale activate layer_norm "
    "batch_norm l2_normalize standardize candidate_softmax csr_sum csr_dense csr_max head_dot "
    "additive_attention dot_attention pool pool_mean top_nodes dropout");
const Names kMatrices = names<31>(
    " node_types collections level.0.node level.0.layout_row level.0.candidate level.1.node "
    "layer.0.relation.0 layer.0.relation.1 layer.0.self nodes configurable tied candidate_of statements "
    "loops loops_of innermost second access.0 access.3 statements_of program_of adjacency "
    "normalized_adjacency kept_nodes v0.adjacency v1.normalized_adjacency v2.kept_nodes level.9.node "
    "layer.99999999999999999999.self");
const Names kModes = {"leaky", "tanh", "exp", "log", "rsqrt", "sum", "max", "least"};
const Names kNumbers = {"slope", "start", "clip",     "values", "least",   "heads",  "scale",
                        "ratio", "tie",   "constant", "offset", "epsilon", "number", "level"};
const Names kValueFields = {"x", "z", "sums", "target", "source", "query", "key", "value"};
const Names kWeightFields = {"weight",  "bias", "table",    "offset",         "scale",
                             "factors", "mean", "variance", "log_temperature"};
const Names kMatrixFields = {"matrix", "adjacency", "nodes"};
const std::vector<double> kValues = {0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 6.0, 8.0, 255.0, 1e-9, 1e30, -1e30, 128.0, -128.0};
const Names kDirections = {"in", "out", "both"};
const Names kNorms = {"sum", "mean", "symmetric", "sender", "laplacian_of_two"};

class Editor {
 public:
  Editor(inference::Bundle bundle, std::string_view bytes) : bundle_(std::move(bundle)), bytes_(bytes) {
    for (const auto& [name, weight] : bundle_.weights) weights_.push_back(name);
    weights_.emplace_back();
  }

  inference::Bundle edit() {
    Json& graph = bundle_.manifest["graph"];
    for (int i = 0; i < kMostEdits && !bytes_.empty(); ++i) {
      if (next(6) == 0) edit_request(graph);
      else edit_list(next(4) == 0 ? graph["score"] : graph["embed"]);
    }
    if (next(2) == 1) {
      // Whatever the last value's width: one column of it is the score.
      auto& embed = graph["embed"];
      const auto add = [&](Json operation) {
        operation["result"] = "v" + std::to_string(embed.size());
        embed.push_back(std::move(operation));
      };
      const auto last = [&] { return embed.back()["result"]; };
      if (next(2) == 1) add({{"op", "pool"}, {"x", last()}, {"matrix", "nodes"}});
      add({{"op", "select"}, {"x", last()}, {"chosen", {0}}});
      graph["embedded"] = last();
      graph["embedded_columns"] = 1;
      graph["score"] = Json::array({{{"op", "select"}, {"result", "v0"}, {"x", "embedded"}, {"chosen", {0}}}});
      graph["scores"] = "v0";
      bundle_.manifest["compares_candidates"] = false;
    }
    return std::move(bundle_);
  }

 private:
  static constexpr int kMostEdits = 24;

  size_t next(size_t bound) {
    if (bytes_.empty()) return 0;
    const auto value = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return value % bound;
  }
  const std::string& one_of(const Names& names) { return names[next(names.size())]; }

  /// Sets, adds or takes away one of a list of names.
  void edit_names(Json& operation, const char* key, const std::string& name) {
    auto& list = operation[key];
    if (!list.is_array()) list = Json::array();
    const size_t at = next(list.size() + 2);
    if (at < list.size()) list[at] = name;
    else if (at == list.size()) list.push_back(name);
    else if (!list.empty()) list.erase(list.size() - 1);
  }

  void edit_list(Json& list) {
    Names values = {"node_features", "layout_rows", "candidate_features", "embedded"};
    for (const auto& operation : list) values.push_back(operation["result"]);
    const size_t at = next(list.size());
    if (next(4) == 0) {
      Json copy = list[next(list.size())];
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(next(list.size() + 1)), copy);
      for (size_t i = 0; i < list.size(); ++i) list[i]["result"] = "v" + std::to_string(i);
      return;
    }
    Json& operation = list[at];
    switch (next(8)) {
      case 0: operation["op"] = one_of(kOperations); break;
      case 1: operation[one_of(kValueFields)] = one_of(values); break;
      case 2: operation[one_of(kMatrixFields)] = one_of(kMatrices); break;
      case 3: operation[one_of(kWeightFields)] = one_of(weights_); break;
      case 4: operation["mode"] = one_of(kModes); break;
      case 5: operation[one_of(kNumbers)] = kValues[next(kValues.size())]; break;
      case 6:
        if (next(2) == 0) edit_names(operation, "inputs", one_of(values));
        else edit_names(operation, "matrices", one_of(kMatrices));
        break;
      default: operation["chosen"] = Json::array({next(200), next(8)});
    }
  }

  void edit_request(Json& graph) {
    Json& request = graph["request"];
    switch (next(7)) {
      case 0: request["layers"] = next(4); break;
      case 1:
        request["relations"].push_back(
            {{"direction", one_of(kDirections)}, {"norm", one_of(kNorms)}, {"self_loop", next(2) == 1}});
        break;
      case 2: request["tile_join"] = one_of({"early", "late"}); break;
      case 3: request["sharing"] = one_of({"none", "invariant", "states"}); break;
      case 4: request["tied"] = next(2) == 1; break;
      case 5: request["collections"] = next(2) == 1; break;
      default: graph["statements"] = next(2) == 1;
    }
  }

  inference::Bundle bundle_;
  std::string_view bytes_;
  Names weights_;
};

/// The bundle with a graph that was edited as the bytes say: other operations, inputs, matrices, weights and numbers,
/// in the bounds of what forms are written with. Most results do not fit together; those that do are forms that nobody
/// has written before.
inference::Bundle edited_graph(inference::Bundle bundle, std::string_view bytes) {
  return Editor(std::move(bundle), bytes).edit();
}

namespace samples = inference::testing;

void promised(bool kept, const char* promise) { require(kept, promise, foretime_last_error()); }

/// True where the call succeeded.
bool done(foretime_status status) {
  promised(status == FORETIME_OK || std::strlen(foretime_last_error()) > 0, "a failure has a message");
  promised(status != FORETIME_INTERNAL_ERROR && status != FORETIME_INVALID_ARGUMENT && status != FORETIME_FILE_ERROR,
           "input from outside is no reason for this status");
  return status == FORETIME_OK;
}

foretime_model* opened(std::string_view bytes) {
  const foretime_options options = {sizeof options, 1, 4096};
  foretime_model* model = nullptr;
  return done(foretime_open_bytes(bytes.data(), bytes.size(), &options, &model)) ? model : nullptr;
}

foretime_model* sample_model(const inference::Bundle& bundle) {
  foretime_model* model = opened(inference::serialize_bundle(bundle));
  promised(model != nullptr, "a sample's bundle can be opened");
  return model;
}

foretime_model* layouts() {
  static foretime_model* const model = sample_model(samples::layout_bundle({.compares = true, .tied = true}));
  return model;
}
foretime_model* tiles() {
  static foretime_model* const model = sample_model(samples::tile_bundle());
  return model;
}
foretime_model* loops() {
  static foretime_model* const model = sample_model(samples::loops_bundle());
  return model;
}
foretime_model* trees() {
  static foretime_model* const model = sample_model(samples::trees_bundle());
  return model;
}

const std::vector<inference::Bundle>& sample_bundles() {
  static const std::vector<inference::Bundle> bundles = {samples::layout_bundle({.compares = true, .tied = true}),
                                                         samples::tile_bundle(), samples::loops_bundle(true, true),
                                                         samples::loops_bundle(false), samples::trees_bundle()};
  return bundles;
}

const samples::SampleWorkload& workload() {
  static const auto sample = samples::sample_workload(2);
  return sample;
}

void score_programs(const foretime_model* model, std::string_view text) {
  const char* const texts[] = {text.data()};
  const size_t sizes[] = {text.size()};
  float score = 0.0F;
  int64_t failed = 0;
  if (done(foretime_score_tir(model, texts, sizes, 1, &score, &failed)))
    promised(failed == 0 || std::strlen(foretime_last_error()) > 0, "what is not scored has a message");
}

void score_lines(const foretime_workload* of, const std::vector<std::string_view>& lines) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const auto line : lines) {
    texts.push_back(line.data());
    sizes.push_back(line.size());
  }
  std::vector<float> scores(lines.size());
  int64_t failed = 0;
  done(foretime_score_records(of, texts.data(), sizes.data(), static_cast<int64_t>(lines.size()), scores.data(),
                              &failed));
}

void score_records(const foretime_model* model, std::string_view table, const std::vector<std::string_view>& lines) {
  foretime_workload* made = nullptr;
  if (!done(foretime_workload_open(model, table.data(), table.size(), &made))) return;
  score_lines(made, lines);
  foretime_workload_close(made);
}

void score_graph(const foretime_model* model, foretime_graph* graph) {
  constexpr int64_t kCandidates = 2, kMostConfigurable = 1000;
  float scores[kCandidates];
  const int64_t configurable = foretime_graph_configurable(graph);
  promised(configurable <= foretime_graph_nodes(graph), "configurable nodes are nodes");
  if (foretime_model_kind(model) == FORETIME_TILE) {
    const auto chosen = samples::random_tiles(kCandidates, 1);
    done(foretime_score_tiles(graph, chosen.data(), kCandidates, scores));
  } else if (configurable <= kMostConfigurable) {
    const auto chosen = samples::random_layouts(kCandidates, configurable, 1);
    done(foretime_score_layouts(graph, chosen.data(), kCandidates, scores));
  }
  foretime_graph_close(graph);
}

void open_module(const foretime_model* model, std::string_view bytes) {
  foretime_graph* graph = nullptr;
  if (done(foretime_graph_open_hlo(model, bytes.data(), bytes.size(), &graph))) score_graph(model, graph);
}

}  // namespace

void run_bundle(std::string_view bytes) {
  foretime_model* model = opened(bytes);
  if (model == nullptr) return;
  size_t size = 0;
  promised(std::strlen(foretime_describe(model, &size)) == size, "a manifest is text of its size");
  switch (foretime_model_kind(model)) {
    case FORETIME_LAYOUT:
    case FORETIME_TILE: open_module(model, samples::sample_module()); break;
    case FORETIME_LOOPS:
      score_records(model, workload().compute_dag, {workload().records[0], workload().records[1]});
      break;
    case FORETIME_TREES:
      score_programs(model,
                     R"({"root": 1, "nodes": [{"type_key": ""}, {"type_key": "IntImm", "attrs": {"dtype": "int32",
                                "span": "0", "value": "3"}}], "b64ndarrays": [], "attrs": {"tvm_version": "0.8.0"}})");
      break;
  }
  const float score = 1.0F;
  double seconds = 0.0;
  done(foretime_runtimes(model, &score, 1, &seconds));
  foretime_close(model);
}

void run_graph(std::string_view text) {
  using Json = nlohmann::json;
  if (text.empty()) return;
  const auto& bundles = sample_bundles();
  const auto chosen = static_cast<uint8_t>(text.front() - '0');
  const auto& bundle = bundles[chosen % bundles.size()];
  text.remove_prefix(1);
  if (chosen >= bundles.size()) return run_bundle(samples::unchecked_bytes(edited_graph(bundle, text)));
  constexpr int kDeepest = 30;
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > kDeepest;
    return !deep;
  };
  auto form = Json::parse(text, watch, false);
  if (deep || form.is_discarded()) return;
  auto changed = bundle;
  changed.manifest["graph"] = std::move(form);
  run_bundle(samples::unchecked_bytes(changed));
}

void run_tir(std::string_view text) {
  score_programs(loops(), text);
  score_programs(trees(), text);
}

void run_records(std::string_view text) {
  std::vector<std::string_view> lines;
  constexpr size_t kMostLines = 8;
  while (lines.size() < kMostLines) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  const auto table = lines.front();
  lines.erase(lines.begin());
  score_records(loops(), table.empty() ? workload().compute_dag : table, lines);
}

void run_hlo(std::string_view bytes) {
  open_module(layouts(), bytes);
  open_module(tiles(), bytes);
}

const std::map<std::string, Target>& targets() {
  static const std::map<std::string, Target> all = {{"bundle", run_bundle},
                                                    {"graph", run_graph},
                                                    {"tir", run_tir},
                                                    {"records", run_records},
                                                    {"hlo", run_hlo},
                                                    {"serve", run_serve},
                                                    {"http", run_http},
                                                    {"capi", run_capi},
                                                    {"packed", run_packed},
                                                    {"npz", run_npz},
                                                    {"files", run_files},
                                                    {"settings", run_settings},
                                                    {"progress", run_progress},
                                                    {"redis", run_redis},
                                                    {"checkpoints", run_checkpoints},
                                                    {"artifacts", run_artifacts},
                                                    {"lines", run_lines},
                                                    {"runs", run_runs},
                                                    {"board", run_board},
                                                    {"store", run_store}};
  return all;
}

std::vector<std::string> seeds(const std::string& target) {
  if (target == "bundle") {
    std::vector<std::string> all;
    for (const auto& bundle : sample_bundles()) all.push_back(inference::serialize_bundle(bundle));
    return all;
  }
  if (target == "serve") return serve_seeds();
  if (target == "http") return http_seeds();
  if (target == "settings") return settings_seeds();
  if (target == "progress") return progress_seeds();
  static const std::set<std::string> kOfChoices = {"capi",        "packed",    "npz",  "redis", "lines",
                                                   "checkpoints", "artifacts", "runs", "board", "store"};
  if (kOfChoices.contains(target)) {
    // Any bytes will do.
    std::vector<std::string> all = {std::string(1, '\0')};
    std::mt19937 random(7);
    while (all.size() < 24) {
      std::string bytes(20 * all.size(), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      all.push_back(std::move(bytes));
    }
    return all;
  }
  if (target == "graph") {
    std::vector<std::string> all;
    for (const auto& bundle : sample_bundles())
      all.push_back(std::to_string(all.size()) + bundle.manifest.at("graph").dump());
    return all;
  }
  if (target == "tir") {
    std::vector<std::string> texts = {R"({"root": 0, "nodes": [{"type_key": ""}]})"};
    for (const auto& text : samples::sample_trees(24)) {
      const auto plain = nlohmann::json::parse(text).dump();
      if (plain.size() < 25000 && texts.size() < 4) texts.push_back(plain);
    }
    return texts;
  }
  if (target == "records") {
    const auto sample = samples::sample_workload(12);
    std::vector<std::string> texts = {sample.compute_dag + "\n" + sample.records[0]};
    for (size_t i = 0; i + 1 < sample.records.size(); i += 2)
      texts.push_back("\n" + sample.records[i] + "\n" + sample.records[i + 1]);
    // Other operators: what a DAG may hold.
    for (const auto& table : samples::sample_lines("ansor/dags.jsonl.gz", 40)) {
      if (table.size() < 6000 && texts.size() < 16) texts.push_back(table + "\n");
    }
    return texts;
  }
  const auto module = samples::sample_module();
  const std::vector<std::string> modules = {module, testing::bytes_field(1, module),
                                            testing::module_tuning(module, {testing::layout_run({{{0, 1}}}, 10)}, {4}),
                                            testing::module_tuning(module, {testing::tile_run({8, 16}, 10, true)})};
  if (target == "hlo") {
    auto seeds = modules;
    seeds.push_back(
        "HloModule m\n\n%f (a: f32[2]) -> f32[2] {\n  ROOT %a = f32[2]{0} parameter(0)\n}\n\nENTRY %e {\n"
        "  %p = (f32[2]{0}, s32[]) parameter(0)\n  %q = f32[2]{0} get-tuple-element(%p), index=0\n"
        "  %c = f32[1,2,3]{2,1,0} convolution(%q, %q), window={size=3 stride=2 pad=1_1}, dim_labels=b0f_0io->b0f\n"
        "  %s = f32[1]{0} slice(%q), slice={[0:1]}\n  %d = f32[4]{0} pad(%q, %c), padding=0_2_1\n"
        "  ROOT %r = f32[2]{0} fusion(%q), kind=kLoop, calls=%f, metadata={op_name=\"a\"}\n}\n");
    return seeds;
  }
  std::vector<std::string> files = {"0" + modules[2], "1" + modules[3], R"(4{"graph": [0, 1, 1]})",
                                    "5m,n,tile,runtime\n1,2,a,0.5\n1,3,b,0.25\n2,2,a,inf\n2,3,b,0.125\n",
                                    "6p0 = PLACEHOLDER [4, 8]\nT(i0, i1) = max(p0[i0, i1], 0f)\n"};
  const auto workload = samples::sample_workload(4);
  files.push_back("3" + workload.compute_dag + "\n");
  for (const auto& record : workload.records) files.back() += "\n" + record;
  for (const auto& text : samples::sample_trees(24)) {
    if (text.size() > 25000 || files.size() > 8) continue;
    files.push_back("2" + text);
    const auto plain = nlohmann::json::parse(text).dump();
    files.push_back("2" + nlohmann::json{{"id", "a"}, {"workload", "w"}, {"runtime", 0.5}, {"text", plain}}.dump() +
                    "\n");
  }
  return files;
}

}  // namespace foretime::fuzz
