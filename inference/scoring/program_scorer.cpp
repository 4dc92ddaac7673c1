#include "inference/scoring/program_scorer.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/threads.h"
#include "data/frontends/ansor/records/record_json.h"
#include "data/frontends/loops/nest_program.h"
#include "data/frontends/loops/tree_program.h"
#include "data/frontends/tir/tir_reader.h"
#include "inference/scoring/program_parts.h"

namespace foretime::inference {
namespace {

constexpr int64_t kPart = 64;  // texts that a thread takes at once

/// Deals texts to the model's threads. `make_reader(part)` gives what reads a text, `reader(place)`, into the part of
/// one thread; what it throws as DataError fails that text alone.
template <class MakeReader>
ProgramScores score_texts(const Model& model, size_t count, MakeReader&& make_reader) {
  const auto texts = static_cast<int64_t>(count);
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

/// What reads records, with memory that it keeps.
struct WorkloadScorer::Reader {
  data::ScheduleParser parser;
  data::TuningRecord record;
  data::RecordProgram programs;
  data::LoopProgram program;
  std::string known_key;  // of this workload, as was found before; "": none yet
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
    throw WrongKind(fmt::format("a model of {}, expected one of loop programs for records", kind_name(model_->kind())));
  try {
    dag_ = std::make_shared<const data::ComputeDag>(data::parse_compute_dag(compute_dag));
    keys_.add(dag_);
  } catch (const DataError& error) {
    throw DataError(fmt::format("compute DAG: {}", error.what()));
  }
  operations_ = data::operations_of(*dag_);
}

WorkloadScorer::~WorkloadScorer() = default;

ProgramScores WorkloadScorer::score(std::span<const std::string_view> records) const {
  return score_texts(*model_, records.size(), [&](ProgramPart& part) {
    return [&, reader = pool_->take()](int64_t place) {
      auto& record = reader->record;
      reader->parser.parse(records[static_cast<size_t>(place)], record);
      if (reader->known_key.empty() || record.workload_key != reader->known_key) {
        if (!keys_.find(record.workload_key))
          throw DataError(fmt::format("workload {:.200}, expected {:.200}", record.workload_key, dag_->workload_key));
        reader->known_key = record.workload_key;
      }
      reader->programs.read(dag_, record, reader->program);
      part.add(place, reader->program, operations_, data::hardware_of_target(record.target, record.hardware.cores));
    };
  });
}

ProgramScores score_tir(const Model& model, std::span<const std::string_view> programs) {
  if (model.kind() != ModelKind::loops && model.kind() != ModelKind::trees)
    throw WrongKind(fmt::format("a model of {}, expected one of tensor programs for TIR", kind_name(model.kind())));
  struct Reader {
    data::TirReader trees{{.nodes = kMostProgramNodes}};
    data::TreeProgram loops;
    data::LoopProgram program;
  };
  const auto hardware = model.spec().hardware.value_or(data::Hardware());
  const bool loops = model.kind() == ModelKind::loops;
  return score_texts(model, programs.size(), [&](ProgramPart& part) {
    return [&, reader = std::make_shared<Reader>()](int64_t place) {
      data::ProgramNodes tree;
      const int64_t functions = reader->trees.read(programs[static_cast<size_t>(place)], "TIR", tree);
      if (functions != 1) throw DataError(fmt::format("{} functions, expected one program a text", functions));
      if (!loops) return part.add(place, data::program_graphs(std::move(tree)));
      reader->loops.read(tree, 0, reader->program);
      part.add(place, reader->program, 0.0, hardware);
    };
  });
}

}  // namespace foretime::inference
