#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/loop_program.h"
#include "data/graphs/group.h"
#include "inference/scoring/program_scorer.h"

namespace foretime::inference {

/// Nodes that a program may have: far more than any real one, so that a hostile one takes some memory and no more.
constexpr int64_t kMostProgramNodes = 1 << 17;

/// Programs on their way to scores: what `embed` gave for the texts that could be read.
class EmbeddedPrograms {
 public:
  EmbeddedPrograms(const Model& model, int64_t texts);

  const Model& model() const { return model_; }

  /// Candidate i of the groups, one group after another, is text places[i]. For distinct texts by any thread.
  void add(const std::vector<data::Group>& groups, const std::vector<int64_t>& places, inference::Workspace& workspace);
  /// A text that could not be read, by any thread.
  void fail(int64_t place, const char* what);

  /// Ends the object.
  ProgramScores score() &&;

 private:
  const Model& model_;
  inference::Matrix rows_;     // [texts, embedded columns]
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

  /// `operations`: arithmetic operations of the program, 0 where they are not known. Throws data::DataError for a
  /// program of too many nodes.
  void add(int64_t place, const data::LoopProgram& program, double operations, const data::Hardware& hardware);
  /// A program's graph.
  void add(int64_t place, data::GraphBlock graph);
  /// Embeds what is there.
  void flush();

 private:
  void make_room(int64_t nodes);
  void close();

  EmbeddedPrograms& embedded_;
  inference::Workspace workspace_;
  std::unique_ptr<data::ProgramGraphs> graphs_;  // of hardware_
  data::Hardware hardware_;
  std::vector<data::Group> groups_;
  std::vector<int64_t> places_;
  int64_t open_ = 0;   // programs in graphs_
  int64_t nodes_ = 0;  // of all
};

}  // namespace foretime::inference
