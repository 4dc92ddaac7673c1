#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <vector>

#include "inference/capi/foretime.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/fuzz/targets.h"
#include "tests/inference/small_models.h"

namespace foretime::fuzz {
namespace {

namespace samples = inference::testing;

constexpr size_t kMostObjects = 4;
constexpr float kUntouched = -12345.0F;

/// A caller of the C interface: what it has open, and what it is told.
class Caller {
 public:
  explicit Caller(std::string_view bytes) : choices_(bytes) {}
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() {
    for (auto* each : graphs_) foretime_graph_close(each);
    for (auto* each : workloads_) foretime_workload_close(each);
    for (auto* each : models_) foretime_close(each);
  }

  void call() {
    constexpr int kMostCalls = 40;
    for (int i = 0; i < kMostCalls && !choices_.done(); ++i) {
      switch (choices_.below(12)) {
        case 0: open(); break;
        case 1: close(); break;
        case 2: describe(); break;
        case 3: open_graph(); break;
        case 4: open_module(); break;
        case 5: score_layouts(); break;
        case 6: score_tiles(); break;
        case 7: open_workload(); break;
        case 8: score_records(); break;
        case 9: score_tir(); break;
        case 10: rank(); break;
        default: runtimes();
      }
    }
  }

 private:
  /// What every call promises of its status. True where it succeeded.
  bool done(foretime_status status, bool null_or_negative = false) {
    require(status >= FORETIME_OK && status < FORETIME_INTERNAL_ERROR, "no call has an internal error",
            foretime_last_error());
    require(std::strcmp(foretime_status_name(status), "") != 0, "a status has a name", "");
    require(status == FORETIME_OK || std::strlen(foretime_last_error()) > 0, "a failure has a message", "");
    require(!null_or_negative || status != FORETIME_OK, "null pointers and negative counts are refused", "");
    return status == FORETIME_OK;
  }

  template <class T>
  T* any(std::deque<T*>& list) {
    return list.empty() || choices_.below(16) == 0 ? nullptr : choices_.of(list);
  }
  template <class T>
  void keep(std::deque<T*>& list, T* made, void (*drop)(T*)) {
    list.push_back(made);
    if (list.size() <= kMostObjects) return;
    drop(list.front());
    list.pop_front();
  }
  int64_t count() { return static_cast<int64_t>(choices_.below(6)) - 1; }

  void open() {
    static const std::array bundles = {
        inference::serialize_bundle(samples::layout_bundle()), inference::serialize_bundle(samples::tile_bundle()),
        inference::serialize_bundle(samples::loops_bundle()), inference::serialize_bundle(samples::trees_bundle())};
    const auto& bundle = choices_.of(bundles);
    foretime_options options = {sizeof options, 1, 4096};
    if (choices_.below(8) == 0) options.size = choices_.below(64);
    if (choices_.below(8) == 0) {  // rarely many, because making them takes longer than all else
      options.threads = static_cast<int32_t>(choices_.number() % (choices_.below(32) == 0 ? 300 : 4));
    }
    if (choices_.below(8) == 0) options.max_states = choices_.number();
    const bool null = choices_.below(16) == 0;
    auto* const untouched = reinterpret_cast<foretime_model*>(this);
    auto* model = untouched;
    const size_t size = choices_.below(8) == 0 ? choices_.below(4096) : bundle.size();
    if (done(foretime_open_bytes(null ? nullptr : bundle.data(), size, choices_.flag() ? &options : nullptr, &model),
             null)) {
      keep(models_, model, foretime_close);
    } else {
      require(model == untouched, "a call that fails writes to none of its results", "foretime_open_bytes");
    }
    done(foretime_open_bytes(bundle.data(), bundle.size(), nullptr, nullptr), true);
    done(foretime_open(choices_.flag() ? nullptr : "/nowhere/model.foretime", nullptr, &model), true);
  }

  template <class T>
  void close(std::deque<T*>& list, void (*drop)(T*)) {
    if (list.empty()) return drop(nullptr);
    drop(list.front());
    list.pop_front();
  }
  void close() {
    switch (choices_.below(3)) {
      case 0: return close(models_, foretime_close);
      case 1: return close(graphs_, foretime_graph_close);
      default: close(workloads_, foretime_workload_close);
    }
  }

  void describe() {
    if (models_.empty()) return;
    const auto* model = choices_.of(models_);
    size_t size = 0;
    const char* text = foretime_describe(model, choices_.flag() ? &size : nullptr);
    require(text != nullptr && (size == 0 || std::strlen(text) == size), "a manifest is text of its size", "");
    const auto kind = foretime_model_kind(model);
    require(kind >= FORETIME_LAYOUT && kind <= FORETIME_TREES, "a model has a kind", "");
  }

  void open_graph() {
    constexpr int64_t kNodes = 6, kFeatures = 140;
    static const std::vector<float> features(kNodes * kFeatures, 1.0F);
    static const std::array<uint8_t, kNodes> types = {63, 34, 2, 13, 63, 1};
    std::array<int32_t, kNodes> consumer = {1, 2, 3, 4, 5, 5}, producer = {0, 1, 2, 3, 4, 0},
                                configurable = {1, 3, 5, 5, 5, 5};
    foretime_graph_data data = {sizeof data,
                                kNodes,
                                kFeatures,
                                features.data(),
                                types.data(),
                                kNodes,
                                consumer.data(),
                                producer.data(),
                                3,
                                configurable.data(),
                                0,
                                0};
    bool wrong = false;
    for (int i = 0; i < 3 && choices_.flag(); ++i) {
      switch (choices_.below(12)) {
        case 0: data.size = choices_.below(200); break;
        case 1: data.nodes = std::min<int64_t>(choices_.number(), kNodes); break;
        case 2: data.features = std::min<int64_t>(choices_.number(), kFeatures); break;
        case 3: data.node_features = nullptr; break;
        case 4: data.node_types = nullptr; break;
        case 5: data.edges = std::min<int64_t>(choices_.number(), kNodes); break;
        case 6: data.edge_consumer = nullptr; break;
        case 7: choices_.of(consumer) = static_cast<int32_t>(choices_.number()); break;
        case 8: choices_.of(producer) = static_cast<int32_t>(choices_.number()); break;
        case 9: data.configurable = std::min<int64_t>(choices_.number(), kNodes); break;
        case 10: choices_.of(configurable) = static_cast<int32_t>(choices_.number()); break;
        default: data.collection = static_cast<int32_t>(choices_.number());
      }
    }
    auto* model = any(models_);
    wrong = model == nullptr || data.nodes < 0 || data.edges < 0 || data.configurable < 0;
    foretime_graph* graph = nullptr;
    const bool null = choices_.below(16) == 0;
    if (done(foretime_graph_open(model, &data, null ? nullptr : &graph), wrong || null)) check(graph);
    done(foretime_graph_open(model, nullptr, &graph), true);
  }

  void check(foretime_graph* graph) {
    const int64_t nodes = foretime_graph_nodes(graph), configurable = foretime_graph_configurable(graph);
    require(configurable >= 0 && configurable <= nodes, "configurable nodes are nodes", "");
    const int32_t* ids = foretime_graph_configurable_nodes(graph);
    for (int64_t i = 0; i < configurable; ++i)
      require(ids[i] >= 0 && ids[i] < nodes, "a configurable node is a node", "");
    keep(graphs_, graph, foretime_graph_close);
  }

  void open_module() {
    static const auto module = samples::sample_module();
    const size_t size = choices_.below(8) == 0 ? choices_.below(module.size()) : module.size();
    auto* model = any(models_);
    foretime_graph* graph = nullptr;
    if (done(foretime_graph_open_hlo(model, module.data(), size, &graph), model == nullptr)) check(graph);
    done(foretime_graph_open_hlo(model, nullptr, size, &graph), true);
  }

  /// Scores of a call that may fail: untouched then, and numbers otherwise.
  void check_scores(bool ok, const std::vector<float>& scores, int64_t count) {
    for (int64_t i = 0; i < static_cast<int64_t>(scores.size()); ++i) {
      const bool written = scores[static_cast<size_t>(i)] != kUntouched;
      require(written == (ok && i < count), "scores are written where a call succeeds, and nothing else", "");
    }
  }

  void score_layouts() {
    auto* graph = any(graphs_);
    const int64_t candidates = count(), configurable = graph == nullptr ? 0 : foretime_graph_configurable(graph);
    std::vector<int8_t> layouts = samples::random_layouts(8, configurable, 1);
    if (!layouts.empty() && choices_.flag()) choices_.of(layouts) = static_cast<int8_t>(choices_.number());
    std::vector<float> scores(8, kUntouched);
    const bool null = choices_.below(16) == 0;
    const bool ok = done(foretime_score_layouts(graph, layouts.data(), candidates, null ? nullptr : scores.data()),
                         graph == nullptr || candidates < 0);
    if (!null) check_scores(ok, scores, candidates);
  }

  void score_tiles() {
    auto* graph = any(graphs_);
    const int64_t candidates = count();
    auto tiles = samples::random_tiles(8, 1);
    if (choices_.below(4) == 0) choices_.of(tiles) = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> scores(8, kUntouched);
    const bool ok =
        done(foretime_score_tiles(graph, tiles.data(), candidates, scores.data()), graph == nullptr || candidates < 0);
    check_scores(ok, scores, candidates);
  }

  static const samples::SampleWorkload& workload() {
    static const auto sample = samples::sample_workload(4);
    return sample;
  }

  void open_workload() {
    const auto& dag = workload().compute_dag;
    auto* model = any(models_);
    foretime_workload* made = nullptr;
    const size_t size = choices_.below(8) == 0 ? choices_.below(dag.size()) : dag.size();
    if (done(foretime_workload_open(model, dag.data(), size, &made), model == nullptr))
      keep(workloads_, made, foretime_workload_close);
    done(foretime_workload_open(model, nullptr, size, &made), true);
  }

  void score_records() {
    auto* of = any(workloads_);
    std::vector<const char*> texts;
    std::vector<size_t> sizes;
    for (const auto& record : workload().records) {
      texts.push_back(record.c_str());
      sizes.push_back(choices_.below(8) == 0 ? choices_.below(record.size()) : record.size());
    }
    if (choices_.below(16) == 0) choices_.of(texts) = nullptr;
    score(of == nullptr, texts, sizes, [&](int64_t count, float* scores, int64_t* failed) {
      return foretime_score_records(of, texts.data(), choices_.flag() ? sizes.data() : nullptr, count, scores, failed);
    });
  }

  void score_tir() {
    static const std::string program =
        R"({"root": 1, "nodes": [{"type_key": ""}, {"type_key": "IntImm", "attrs": {"dtype": "int32", "span": "0", "value": "3"}}], "b64ndarrays": [], "attrs": {"tvm_version": "0.8.0"}})";
    auto* model = any(models_);
    std::vector<const char*> texts(4, program.c_str());
    std::vector<size_t> sizes(4, program.size());
    choices_.of(sizes) = choices_.below(program.size());
    score(model == nullptr, texts, sizes, [&](int64_t count, float* scores, int64_t* failed) {
      return foretime_score_tir(model, texts.data(), sizes.data(), count, scores, failed);
    });
  }

  template <class Call>
  void score(bool wrong, const std::vector<const char*>& texts, const std::vector<size_t>& /*sizes*/,
             const Call& call) {
    const int64_t most = static_cast<int64_t>(texts.size()), chosen = std::min(count(), most);
    std::vector<float> scores(texts.size(), kUntouched);
    int64_t failed = -1;
    const bool ok = done(call(chosen, scores.data(), choices_.flag() ? &failed : nullptr), wrong || chosen < 0);
    check_scores(ok, scores, chosen);
    require(failed >= -1 && failed <= std::max<int64_t>(chosen, 0), "no more fail than there are", "");
  }

  void rank() {
    std::array<float, 6> scores = {
        3, 1, 2, 1, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
    std::array<int64_t, 6> order{};
    const int64_t of = std::min<int64_t>(count() + 1, 6), top = choices_.number();
    const bool null = choices_.below(16) == 0;
    if (!done(foretime_rank(null ? nullptr : scores.data(), of, top, order.data()), of < 0 || (null && of > 0))) return;
    const int64_t ranked = top < 0 ? of : std::min(of, top);
    for (int64_t i = 0; i < ranked; ++i) {
      const auto place = order.at(static_cast<size_t>(i));
      require(place >= 0 && place < of, "a place is one of the scores'", "");
      for (int64_t j = 0; j < i; ++j) require(order.at(static_cast<size_t>(j)) != place, "places are distinct", "");
    }
  }

  void runtimes() {
    auto* model = any(models_);
    std::array<float, 4> scores = {0.5F, -1e30F, std::numeric_limits<float>::infinity(), 1e30F};
    std::array<double, 4> seconds{};
    const int64_t of = std::min<int64_t>(count(), 4);
    done(foretime_runtimes(model, scores.data(), of, seconds.data()), model == nullptr || of < 0);
  }

  Choices choices_;
  std::deque<foretime_model*> models_;
  std::deque<foretime_graph*> graphs_;
  std::deque<foretime_workload*> workloads_;
};

}  // namespace

void run_capi(std::string_view bytes) { Caller(bytes).call(); }

}  // namespace foretime::fuzz
