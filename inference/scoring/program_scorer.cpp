#include "inference/scoring/program_scorer.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/threads.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/loop_program.h"
#include "data/frontends/loops/nest_program.h"
#include "data/frontends/loops/tree_program.h"
#include "data/frontends/tir/tir_reader.h"

namespace foretime::inference {
namespace {

/// Nodes that a program may have: far more than any real one, so that a hostile one takes some memory and no more.
constexpr int64_t kMostProgramNodes = 1 << 17;
constexpr int64_t kPartNodes = 16384;

data::Group group_of(data::GraphBlock graphs) {
  data::Group group;
  group.name = "programs";
  group.kind = data::CandidateKind::program;
  group.candidates = graphs.graphs();
  group.graphs = std::move(graphs);
  return group;
}

/// Programs on their way to scores: what `embed` gave for the texts that could be read.
class EmbeddedPrograms {
 public:
  EmbeddedPrograms(const Model& model, int64_t texts) : model_(model), read_(texts, 0), first_failed_(texts) {
    rows_.rows = texts;
    rows_.columns = model.spec().graph.embedded_columns;
    rows_.values.resize(rows_.size());
  }

  const Model& model() const { return model_; }

  /// Candidate i of the groups, one group after another, is text places[i]. For distinct texts by any thread.
  void add(const std::vector<data::Group>& groups, const std::vector<int64_t>& places, Workspace& workspace) {
    plans::PlanBuilder builder(model_.spec().graph.request);
    std::vector<int64_t> all;
    for (const auto& group : groups) {
      all.resize(group.candidates);
      std::iota(all.begin(), all.end(), 0);
      builder.add(group, all);
    }
    auto embedded = model_.executor().embed(std::move(builder).build(), workspace);
    for (size_t i = 0; i < places.size(); ++i) {
      std::copy_n(embedded.row(i), rows_.columns, rows_.row(places[i]));
      read_[places[i]] = 1;
    }
    workspace.give(std::move(embedded.values));
  }

  /// A text that could not be read, by any thread.
  void fail(int64_t place, const char* what) {
    const std::lock_guard lock(mutex_);
    ++failed_;
    if (place >= first_failed_) return;
    first_failed_ = place;
    failure_ = what;
  }

  /// Ends the object.
  ProgramScores score() && {
    ProgramScores result{.scores = std::vector<float>(read_.size(), std::numeric_limits<float>::infinity()),
                         .failed = failed_};
    if (model_.executor().predicts_failures())
      result.failures.assign(read_.size(), std::numeric_limits<float>::quiet_NaN());
    if (failed_ > 0) {
      result.first_failure = fmt::format("{}: {}", first_failed_, failure_);
      result.first_failed_index = first_failed_;
      result.first_reason = failure_;
    }
    std::vector<size_t> places;
    for (size_t i = 0; i < read_.size(); ++i) {
      if (read_[i] == 0) continue;
      if (places.size() != i) std::copy_n(rows_.row(i), rows_.columns, rows_.row(std::ssize(places)));
      places.push_back(i);
    }
    if (places.empty()) return result;
    rows_.rows = places.size();
    const int64_t group_ptr[] = {0, rows_.rows};
    const OneOpenMpThread guard;
    Workspace workspace;
    std::vector<float> failures;
    const auto scores = model_.executor().score(std::move(rows_), group_ptr, workspace, &failures);
    for (size_t i = 0; i < places.size(); ++i) result.scores[places[i]] = scores[i];
    for (size_t i = 0; i < failures.size(); ++i) result.failures[places[i]] = failures[i];
    return result;
  }

 private:
  const Model& model_;
  Matrix rows_;                // [texts, embedded columns]
  std::vector<uint8_t> read_;  // [texts]
  std::mutex mutex_;
  int64_t failed_ = 0, first_failed_ = 0;
  std::string failure_;
};

/// One thread's programs that are embedded together: enough for products of matrices to pay, few enough for their
/// values to stay in a core's caches.
class ProgramPart {
 public:
  explicit ProgramPart(EmbeddedPrograms& embedded) : embedded_(embedded) {}

  /// `operations`: arithmetic operations of the program, 0 where they are not known. Throws DataError for a
  /// program of too many nodes.
  void add(int64_t place, const data::LoopProgram& program, double operations, const data::Hardware& hardware) {
    make_room(program.statements.size() * (1 + data::kArithmetic) + program.accesses.size() + program.loops.size());
    if (!graphs_ || hardware != hardware_) {
      close();
      const auto& spec = embedded_.model().spec();
      graphs_ = data::make_program_graphs(*spec.representation, hardware, spec.feature_count);
      hardware_ = hardware;
    }
    graphs_->add(program, operations);
    ++open_;
    places_.push_back(place);
  }

  /// A program's graph.
  void add(int64_t place, data::GraphBlock graph) {
    make_room(graph.nodes());
    groups_.push_back(group_of(std::move(graph)));
    places_.push_back(place);
  }

  /// Embeds what is there.
  void flush() {
    close();
    if (!groups_.empty()) embedded_.add(groups_, places_, workspace_);
    groups_.clear();
    places_.clear();
    nodes_ = 0;
  }

 private:
  void make_room(int64_t nodes) {
    if (nodes > kMostProgramNodes)
      throw DataError("a program of {} nodes, expected at most {}", nodes, kMostProgramNodes);
    if (nodes_ > 0 && nodes_ + nodes > kPartNodes) flush();
    nodes_ += nodes;
  }
  void close() {
    if (open_ > 0) groups_.push_back(group_of(graphs_->finish()));
    open_ = 0;
  }

  EmbeddedPrograms& embedded_;
  Workspace workspace_;
  std::unique_ptr<data::ProgramGraphs> graphs_;  // made for hardware_
  data::Hardware hardware_;
  std::vector<data::Group> groups_;
  std::vector<int64_t> places_;
  int64_t open_ = 0;   // programs in graphs_
  int64_t nodes_ = 0;  // nodes of all groups
};

constexpr int64_t kPart = 64;  // texts that a thread takes at once

/// Deals texts to the model's threads. `make_reader(part)` gives what reads a text, `reader(place)`, into the part of
/// one thread; what it throws as DataError fails that text alone.
template <class MakeReader>
ProgramScores score_texts(const Model& model, size_t count, MakeReader&& make_reader) {
  const int64_t texts = count;
  EmbeddedPrograms embedded(model, texts);
  parallel_for((texts + kPart - 1) / kPart, model.options().threads, [&]() -> std::function<void(int64_t)> {
    auto programs = std::make_shared<ProgramPart>(embedded);
    return [&embedded, texts, programs, read = make_reader(*programs)](int64_t part) mutable {
      for (int64_t place = part * kPart; place < std::min(texts, (part + 1) * kPart); ++place) {
        try {
          read(place);
        } catch (const DataError& error) {
          embedded.fail(place, error.what());
        }
      }
      programs->flush();
    };
  });
  return std::move(embedded).score();
}

}  // namespace

/// Holds the objects that read records, for reuse of their memory.
struct WorkloadScorer::Reader {
  data::RecordParser parser;
  data::TuningRecord record;
  data::RecordProgram programs;
  data::LoopProgram program;
  std::string known_key;  // last key that was found to belong to this workload; "": none yet
};

/// Readers that no call uses.
struct WorkloadScorer::Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Reader>> free;

  /// Comes back to the pool by itself.
  std::shared_ptr<Reader> take() {
    std::unique_ptr<Reader> reader;
    {
      const std::lock_guard lock(mutex);
      if (!free.empty()) {
        reader = std::move(free.back());
        free.pop_back();
      }
    }
    if (!reader) reader = std::make_unique<Reader>();
    return {reader.release(), [this](Reader* done) { give(std::unique_ptr<Reader>(done)); }};
  }
  void give(std::unique_ptr<Reader> reader) noexcept {
    try {
      const std::lock_guard lock(mutex);
      free.push_back(std::move(reader));
    } catch (...) {
      // No memory to keep it: the next call makes one.
    }
  }
};

WorkloadScorer::WorkloadScorer(std::shared_ptr<const Model> model, std::string_view compute_dag)
    : model_(std::move(model)), pool_(std::make_unique<Pool>()) {
  if (model_->kind() != ModelKind::loops)
    throw WrongKind("found a model of {}, expected one of loop programs to score records", kind_name(model_->kind()));
  try {
    dag_ = std::make_shared<const data::ComputeDag>(data::parse_compute_dag(compute_dag));
    keys_.add(dag_);
  } catch (const DataError& error) {
    throw DataError("compute DAG: {}", error.what());
  }
  operations_ = dag_->flops;
}

WorkloadScorer::~WorkloadScorer() = default;

ProgramScores WorkloadScorer::score(std::span<const std::string_view> records) const {
  const auto& spec = model_->spec();
  const bool of_gpus = data::are_gpu_columns(spec.feature_count);
  std::atomic<size_t> others = 0;  // records of programs that the model knows nothing of
  std::vector<std::string> unknown(records.size());
  std::atomic<bool> any_unknown = false;
  const auto hardware_of = [&](const data::TuningRecord& record, int64_t place) {
    if (data::is_gpu_target(record.target) != of_gpus) {
      ++others;
      throw DataError("target '{:.200}': expected a target for {}, since the model was trained on no other programs",
                      record.target, of_gpus ? "GPUs" : "CPUs");
    }
    if (auto name = spec.machines.unknown(record.target); !name.empty()) {
      unknown[place] = std::move(name);
      any_unknown = true;
    }
    return spec.machines.hardware_of(record.target, record.hardware);
  };
  auto result = score_texts(*model_, records.size(), [&](ProgramPart& part) {
    return [&, reader = pool_->take()](int64_t place) {
      auto& record = reader->record;
      reader->parser.parse(records[place], record, false);
      if (reader->known_key.empty() || record.workload_key != reader->known_key) {
        if (!keys_.find(record.workload_key))
          throw DataError("workload {:.200}, expected {:.200}", record.workload_key, dag_->workload_key);
        reader->known_key = record.workload_key;
      }
      reader->programs.read(dag_, record, reader->program);
      part.add(place, reader->program, operations_, hardware_of(record, place));
    };
  });
  if (others > 0 && others == records.size()) throw WrongKind("{}", result.first_reason);
  if (any_unknown) result.unknown_machines = std::move(unknown);
  return result;
}

ProgramScores score_tir(const Model& model, std::span<const std::string_view> programs) {
  if (model.kind() != ModelKind::loops && model.kind() != ModelKind::trees)
    throw WrongKind("found a model of {}, expected one of tensor programs to score TIR", kind_name(model.kind()));
  struct Reader {
    data::TirReader trees{{.nodes = kMostProgramNodes}};
    data::TreeProgram loops;
    data::LoopProgram program;
  };
  const auto& spec = model.spec();
  const auto unnamed = spec.hardware.value_or(data::Hardware());
  const bool loops = model.kind() == ModelKind::loops;
  return score_texts(model, programs.size(), [&](ProgramPart& part) {
    return [&, reader = std::make_shared<Reader>()](int64_t place) {
      data::ProgramNodes tree;
      const int64_t functions = reader->trees.read(programs[place], "TIR", tree);
      if (functions != 1) throw DataError("{} functions, expected one program a text", functions);
      if (!loops) return part.add(place, data::program_graphs(std::move(tree)));
      reader->loops.read(tree, 0, reader->program);
      const auto& target = reader->trees.target();
      part.add(place, reader->program, 0.0, target.empty() ? unnamed : spec.machines.hardware_of_tir(target));
    };
  });
}

}  // namespace foretime::inference
