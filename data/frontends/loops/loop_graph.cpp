#include "data/frontends/loops/loop_graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "data/frontends/loops/gpu_columns.h"
#include "data/frontends/loops/tree_program.h"
#include "data/graphs/loop_graph_columns.h"
#include "data/graphs/schema.h"

namespace foretime::data {

static_assert(LoopColumns::count == kLoopGraphColumns && LoopColumns::kMachine == kMachineColumns &&
              LoopColumns::kWithGpu == kGpuGraphColumns);

namespace {

/// Statements by iterations, the most first; in program order where they agree.
std::vector<size_t> heaviest(const LoopProgram& program) {
  std::vector<size_t> order(program.statements.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto iterations = [&](size_t i) { return program.iterations(program.statements[i]); };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return iterations(a) > iterations(b); });
  return order;
}

/// The store, then the loads by the size of their buffers.
std::vector<const ProgramAccess*> by_size(const LoopProgram& program, const ProgramStatement& statement) {
  std::vector<const ProgramAccess*> ordered;
  for (const ProgramAccess& access : program.accesses_of(statement)) ordered.push_back(&access);
  std::stable_sort(ordered.begin() + 1, ordered.end(), [&](const ProgramAccess* a, const ProgramAccess* b) {
    return program.buffers[a->buffer].elements > program.buffers[b->buffer].elements;
  });
  return ordered;
}

/// Each program one node of type PrimFunc without edges: what a predictor on fixed vectors reads.
class CurveGraphs : public ProgramGraphs {
 public:
  void add(const LoopProgram& program, double) override {
    features_.resize(features_.size() + CurveColumns::count, 0.0F);
    float* row = features_.data() + features_.size() - CurveColumns::count;
    ++programs_;
    const auto order = heaviest(program);
    for (int64_t s = 0; s < CurveColumns::kStatements && s < std::ssize(order); ++s) {
      const ProgramStatement& statement = program.statements[order[s]];
      const auto loops = program.loops_of(statement);
      const double all = program.iterations(statement);
      const auto accesses = by_size(program, statement);
      for (int64_t a = 0; a < CurveColumns::kAccesses && a < std::ssize(accesses); ++a) {
        const auto steps = program.strides_of(statement, *accesses[a]);
        const auto raise = [&](int64_t curve, double x, double value) {
          for (int64_t t = 0; t < CurveColumns::kThresholds; ++t) {
            if (x > std::exp2(2.0 * t)) continue;
            float& column = row[CurveColumns::column(s, a, curve, t)];
            column = std::max<float>(column, log_of(value));
          }
        };
        double inside = 1.0;
        for (size_t i = loops.size() + 1; i-- > 0;) {  // from the statement itself, which touches one element, outwards
          const double touch = i == loops.size() ? 1.0 : steps[i].footprint;
          if (i < loops.size()) inside *= loops[i].extent;
          const double reuse = inside / touch;
          raise(0, touch, reuse);
          raise(1, touch, inside);
          raise(2, reuse, all / inside);
        }
      }
    }
  }
  GraphBlock finish() override {
    GraphBlock block;
    block.feature_count = CurveColumns::count;
    block.node_type_count = kTirTypes;
    std::vector<int64_t> graph_ptr(programs_ + 1);
    std::iota(graph_ptr.begin(), graph_ptr.end(), int64_t{0});
    block.graph_ptr = std::move(graph_ptr);
    block.edge_ptr = std::vector<int64_t>(programs_ + 1, 0);
    block.node_features = std::exchange(features_, {});
    block.node_types = std::vector<uint8_t>(programs_, tir_type_id("PrimFunc"));
    programs_ = 0;
    return block;
  }

 private:
  std::vector<float> features_;
  int64_t programs_ = 0;
};

struct NodeTypes {
  uint8_t loop = tir_type_id("For"), statement = tir_type_id("BufferStore"), access = tir_type_id("BufferLoad");
  std::array<uint8_t, kArithmetic> operations = {tir_type_id("Add"), tir_type_id("Mul"),    tir_type_id("Div"),
                                                 tir_type_id("Max"), tir_type_id("Select"), tir_type_id("Call"),
                                                 tir_type_id("Cast")};
};

const NodeTypes& types() {
  static const NodeTypes all;
  return all;
}

int32_t narrow(size_t value) {
  if (!std::in_range<int32_t>(value))
    throw DataError("loop graphs with more than 2^31 - 1 nodes or edges, expected fewer programs in a group");
  return value;
}

/// Iterations of the outermost loops that both statements are in.
double shared_iterations(const LoopProgram& program, const ProgramStatement& a, const ProgramStatement& b) {
  const auto of_a = program.loops_of(a), of_b = program.loops_of(b);
  double iterations = 1.0;
  for (size_t d = 0; d < std::min(of_a.size(), of_b.size()) && of_a[d].id == of_b[d].id; ++d)
    iterations *= of_a[d].extent;
  return iterations;
}

double operations_of(const LoopProgram& program) {
  double operations = 0.0;
  for (const ProgramStatement& statement : program.statements) {
    double counted = 0.0;
    for (const int32_t count : statement.arithmetic) counted += count;
    operations += counted * program.iterations(statement);
  }
  return std::max(1.0, operations);
}

class LoopGraphs : public ProgramGraphs {
 public:
  LoopGraphs(const Hardware& hardware, int64_t columns) : hardware_(hardware), columns_(columns) {}

  /// Adds a graph. If `operations` is 0, counts those of the program's statements. The block may have at most 2^31 - 1
  /// nodes and edges.
  void add(const LoopProgram& program, double operations) override {
    find_places(program, operations > 0.0 ? operations : operations_of(program));
    if (are_gpu_columns(columns_)) {
      if (!program.is_gpu())
        throw DataError(
            "a program without loops over blocks or threads, expected a program for GPUs, as the node features are");
      gpu_ = GpuShape(program, hardware_.gpu);
    }
    writers_.assign(program.buffers.size(), -1);
    size_t before = 0;
    for (size_t s = 0; s < program.statements.size(); ++s) {
      const size_t node = types_.size();
      add_statement(program, places_[s]);
      if (s > 0) add_edge(before, node);
      before = node;
    }
    if (program.statements.empty()) add_node(types().statement)[LoopColumns::statement] = 1.0F;  // costs nothing
    graph_ptr_.push_back(types_.size());
    edge_ptr_.push_back(sources_.size());
    narrow(types_.size());
    narrow(sources_.size());
  }
  GraphBlock finish() override {
    GraphBlock block;
    block.feature_count = columns_;
    block.node_type_count = kTirTypes;
    block.graph_ptr = std::exchange(graph_ptr_, {0});
    block.edge_ptr = std::exchange(edge_ptr_, {0});
    block.node_features = replaced(features_);
    block.node_types = replaced(types_);
    block.edge_source = replaced(sources_);
    block.edge_target = replaced(targets_);
    return block;
  }

 private:
  /// Takes the values, and leaves an empty vector with room for as many: blocks of a series are of about one size, and
  /// growing from nothing by doubling touches twice the memory, at the price of as many page faults.
  template <class T>
  static std::vector<T> replaced(std::vector<T>& values) {
    std::vector<T> empty;
    empty.reserve(values.size());
    return std::exchange(values, std::move(empty));
  }
  float* add_node(uint8_t type) {
    types_.push_back(type);
    features_.resize(features_.size() + columns_, 0.0F);
    return features_.data() + features_.size() - columns_;
  }
  void add_edge(size_t source, size_t target) {
    sources_.push_back(source);
    targets_.push_back(target);
  }
  void add_statement(const LoopProgram& program, const StatementPlace& place) {
    const ProgramStatement& statement = program.statements[place.index];
    const StatementShape shape(program, statement, hardware_);
    const size_t node = types_.size();
    float* row = add_node(types().statement);
    set_statement_columns(shape, place, hardware_, row);
    set_machine_columns(shape, hardware_, row);
    if (are_gpu_columns(columns_)) set_gpu_statement_columns(shape, program, gpu_, hardware_, row);
    const size_t first_loop = types_.size();
    for (size_t d = shape.loop_count(); d-- > 0;) {
      const size_t here = types_.size();
      set_loop_columns(shape, d, hardware_, add_node(types().loop));
      add_edge(here, node);
      if (here > first_loop) add_edge(here - 1, here);
    }
    add_accesses(program, shape, node, first_loop);
    for (size_t i = 0; i < kArithmetic; ++i) {
      if (statement.arithmetic[i] == 0) continue;
      const size_t here = types_.size();
      set_operation_columns(statement.arithmetic[i], add_node(types().operations[i]));
      add_edge(here, node);
    }
    writers_[program.accesses[statement.first_access].buffer] = narrow(node);
  }
  void add_accesses(const LoopProgram& program, const StatementShape& shape, size_t node, size_t first_loop) {
    const auto accesses = program.accesses_of(shape.statement);
    for (size_t a = 0; a < accesses.size(); ++a) {
      const size_t here = types_.size();
      float* row = add_node(types().access);
      set_access_columns(shape, a, program, row);
      if (are_gpu_columns(columns_)) set_gpu_access_columns(shape, a, program, gpu_, row);
      add_edge(here, node);
      for (size_t d = 0; d < shape.loop_count(); ++d)
        if (shape.steps(a)[d].distinct > 1.0) add_edge(here, first_loop + shape.loop_count() - 1 - d);
      const int32_t writer = writers_[accesses[a].buffer];
      if (writer >= 0 && (a > 0 || shape.statement.update)) add_edge(writer, here);
    }
  }
  void find_places(const LoopProgram& program, double operations) {
    const auto& statements = program.statements;
    places_.assign(statements.size(), {});
    double iterations = 0.0;
    for (const ProgramStatement& statement : statements) iterations += program.iterations(statement);
    std::set<int32_t> started;  // parallel loops
    for (size_t i = 0; i < statements.size(); ++i) {
      StatementPlace& place = places_[i];
      place = {.index = i, .statements = statements.size(), .iterations_of_all = iterations, .operations = operations};
      if (i > 0) place.shared_before = shared_iterations(program, statements[i], statements[i - 1]);
      if (i + 1 < statements.size()) place.shared_after = shared_iterations(program, statements[i], statements[i + 1]);
      if (program.is_gpu()) place.starts_threads = i == 0 || statements[i].kernel != statements[i - 1].kernel;
      for (const ProgramLoop& loop : program.loops_of(statements[i])) {
        if (loop.kind != LoopKind::parallel) continue;
        place.starts_threads = started.insert(loop.id).second;
        break;
      }
    }
  }

  Hardware hardware_;
  int64_t columns_;
  std::vector<int64_t> graph_ptr_ = {0}, edge_ptr_ = {0};
  std::vector<float> features_;
  std::vector<uint8_t> types_;
  std::vector<int32_t> sources_, targets_;
  std::vector<int32_t> writers_;  // [buffers] node of the last statement that wrote it, or -1
  std::vector<StatementPlace> places_;
  GpuShape gpu_;
};

/// Makes graphs of the loop programs of trees.
class LoopFeaturizer : public Featurizer {
 public:
  LoopFeaturizer(configs::Representation representation, const Hardware& hardware, int64_t columns,
                 const Machines& machines)
      : representation_(representation), hardware_(hardware), columns_(columns), machines_(machines) {}
  std::string name() const override { return word_of(representation_); }
  int64_t feature_count() const override { return columns_; }
  GraphBlock graphs(ProgramNodes trees, std::span<const double> operations, std::string_view target) const override {
    const auto hardware = target.empty() ? hardware_ : machines_.hardware_of_tir(target);
    const auto graphs = make_program_graphs(representation_, hardware, columns_);
    TreeProgram reader;
    LoopProgram program;
    for (int64_t graph = 0; graph < trees.graphs(); ++graph) {
      reader.read(trees, graph, program);
      graphs->add(program, operations.empty() ? 0.0 : operations[graph]);
    }
    return graphs->finish();
  }

 private:
  configs::Representation representation_;
  Hardware hardware_;
  int64_t columns_;
  Machines machines_;
};

}  // namespace

int64_t program_columns(configs::Representation representation) {
  if (representation == configs::Representation::loops) return LoopColumns::count;
  return representation == configs::Representation::curve ? CurveColumns::count : 0;
}

std::unique_ptr<ProgramGraphs> make_program_graphs(configs::Representation representation, const Hardware& hardware,
                                                   int64_t columns) {
  if (representation == configs::Representation::loops)
    return std::make_unique<LoopGraphs>(hardware, columns > 0 ? columns : LoopColumns::count);
  if (representation == configs::Representation::curve) return std::make_unique<CurveGraphs>();
  return nullptr;
}

FeaturizerPtr make_featurizer(configs::Representation representation, const Hardware& hardware, int64_t columns,
                              const Machines& machines) {
  const int64_t all = program_columns(representation);
  if (all == 0) return nullptr;  // the trees as they are
  return std::make_shared<LoopFeaturizer>(representation, hardware, columns > 0 ? columns : all, machines);
}

Hardware hardware_of(const configs::HardwareSettings& settings) {
  return {.vector_bytes = settings.vector_bytes,
          .vector_registers = settings.vector_registers,
          .cores = settings.multiprocessors > 0 ? settings.multiprocessors : settings.cores,
          .l1_bytes = settings.l1_bytes,
          .l2_bytes = settings.l2_bytes,
          .l3_bytes = settings.l3_bytes,
          .multiply_add_gflop_s = settings.multiply_add_gflop_s,
          .all_multiply_add_gflop_s = settings.all_multiply_add_gflop_s,
          .copy_gb_s = settings.copy_gb_s,
          .all_copy_gb_s = settings.all_copy_gb_s,
          .gpu = {.multiprocessors = settings.multiprocessors,
                  .warp_size = settings.warp_size,
                  .threads_per_block = settings.threads_per_block,
                  .shared_bytes_per_block = settings.shared_bytes_per_block,
                  .threads_per_multiprocessor = settings.threads_per_multiprocessor,
                  .blocks_per_multiprocessor = settings.blocks_per_multiprocessor,
                  .registers_per_multiprocessor = settings.registers_per_multiprocessor,
                  .registers_per_thread = settings.registers_per_thread,
                  .shared_bytes_per_multiprocessor = settings.shared_bytes_per_multiprocessor}};
}

}  // namespace foretime::data
