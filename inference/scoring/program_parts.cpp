#include "inference/scoring/program_parts.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/threads.h"

namespace foretime::inference {
namespace {

constexpr int64_t kPartNodes = 16384;

data::Group group_of(data::GraphBlock graphs) {
  data::Group group;
  group.name = "programs";
  group.kind = data::CandidateKind::program;
  group.candidates = graphs.graphs();
  group.graphs = std::move(graphs);
  return group;
}

}  // namespace

EmbeddedPrograms::EmbeddedPrograms(const Model& model, int64_t texts)
    : model_(model), read_(static_cast<size_t>(texts), 0), first_failed_(texts) {
  rows_.rows = texts;
  rows_.columns = model.spec().graph.embedded_columns;
  rows_.values.resize(static_cast<size_t>(rows_.size()));
}

void EmbeddedPrograms::add(const std::vector<data::Group>& groups, const std::vector<int64_t>& places,
                           inference::Workspace& workspace) {
  plans::PlanBuilder builder(model_.spec().graph.request);
  std::vector<int64_t> all;
  for (const auto& group : groups) {
    all.resize(static_cast<size_t>(group.candidates));
    std::iota(all.begin(), all.end(), 0);
    builder.add(group, all);
  }
  auto embedded = model_.executor().embed(std::move(builder).build(), workspace);
  for (size_t i = 0; i < places.size(); ++i) {
    std::copy_n(embedded.row(static_cast<int64_t>(i)), rows_.columns, rows_.row(places[i]));
    read_[static_cast<size_t>(places[i])] = 1;
  }
  workspace.give(std::move(embedded.values));
}

void EmbeddedPrograms::fail(int64_t place, const char* what) {
  const std::lock_guard lock(mutex_);
  ++failed_;
  if (place >= first_failed_) return;
  first_failed_ = place;
  failure_ = what;
}

ProgramScores EmbeddedPrograms::score() && {
  ProgramScores result{std::vector<float>(read_.size(), std::numeric_limits<float>::infinity()), failed_, {}};
  if (failed_ > 0) result.first_failure = fmt::format("{}: {}", first_failed_, failure_);
  std::vector<size_t> places;
  for (size_t i = 0; i < read_.size(); ++i) {
    if (read_[i] == 0) continue;
    if (places.size() != i)
      std::copy_n(rows_.row(static_cast<int64_t>(i)), rows_.columns, rows_.row(static_cast<int64_t>(places.size())));
    places.push_back(i);
  }
  if (places.empty()) return result;
  rows_.rows = static_cast<int64_t>(places.size());
  const int64_t group_ptr[] = {0, rows_.rows};
  const OneOpenMpThread guard;
  inference::Workspace workspace;
  const auto scores = model_.executor().score(std::move(rows_), group_ptr, workspace);
  for (size_t i = 0; i < places.size(); ++i) result.scores[places[i]] = scores[i];
  return result;
}

void ProgramPart::make_room(int64_t nodes) {
  if (nodes > kMostProgramNodes)
    throw DataError(fmt::format("a program of {} nodes, expected at most {}", nodes, kMostProgramNodes));
  if (nodes_ > 0 && nodes_ + nodes > kPartNodes) flush();
  nodes_ += nodes;
}

void ProgramPart::add(int64_t place, const data::LoopProgram& program, double operations,
                      const data::Hardware& hardware) {
  make_room(static_cast<int64_t>(program.statements.size() * (1 + data::kArithmetic) + program.accesses.size() +
                                 program.loops.size()));
  if (!graphs_ || hardware != hardware_) {
    close();
    graphs_ = data::make_program_graphs(*embedded_.model().spec().representation, hardware);
    hardware_ = hardware;
  }
  graphs_->add(program, operations);
  ++open_;
  places_.push_back(place);
}

void ProgramPart::add(int64_t place, data::GraphBlock graph) {
  make_room(graph.nodes());
  groups_.push_back(group_of(std::move(graph)));
  places_.push_back(place);
}

void ProgramPart::close() {
  if (open_ > 0) groups_.push_back(group_of(graphs_->finish()));
  open_ = 0;
}

void ProgramPart::flush() {
  close();
  if (!groups_.empty()) embedded_.add(groups_, places_, workspace_);
  groups_.clear();
  places_.clear();
  nodes_ = 0;
}

}  // namespace foretime::inference
