#include "data/frontends/hlo/module_graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/frontends/hlo/hlo.pb.h"
#include "data/frontends/hlo/node_features.h"
#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

/// Field numbers of hlo.proto.
enum ModuleField : uint32_t { kNameOfModule = 1, kComputations = 3 };
enum ComputationField : uint32_t { kComputationName = 1, kInstructions = 2, kComputationId = 5, kRootId = 6 };
constexpr uint32_t kInstructionId = 35;

int64_t read_id(const HloSource& source, std::string_view instruction) {
  int64_t id = 0;
  WireReader reader(source, instruction);
  for (WireField field; reader.next(field);)
    if (field.is_varint(kInstructionId)) id = field.value;
  return id;
}

void add_computation(const HloSource& source, std::string_view bytes, int64_t most, ModuleOutline& module) {
  auto& computation = module.computations.emplace_back();
  computation.first = module.instructions.size();
  WireReader reader(source, bytes);
  for (WireField field; reader.next(field);) {
    if (field.is_bytes(kComputationName)) computation.name = field.bytes;
    if (field.is_varint(kComputationId)) computation.id = field.value;
    if (field.is_varint(kRootId)) computation.root_id = field.value;
    if (!field.is_bytes(kInstructions)) continue;
    if (std::ssize(module.instructions) == most)
      source.fail(
          fmt::format("module {}: more than {} instructions, which is the limit", printable(module.name), most));
    module.instructions.push_back({field.bytes, read_id(source, field.bytes)});
  }
  computation.last = module.instructions.size();
  if (computation.first == computation.last)
    source.fail(fmt::format("computation {} (id {}): no instructions, expected at least one",
                            printable(computation.name), computation.id));
}

/// Sorts positions by the ids of `items`, which must be distinct.
template <class Items>
std::vector<std::pair<int64_t, int64_t>> by_id(const HloSource& source, const Items& items, const char* what) {
  std::vector<std::pair<int64_t, int64_t>> sorted;
  sorted.reserve(items.size());
  for (const auto& item : items) sorted.emplace_back(item.id, std::ssize(sorted));
  std::ranges::sort(sorted);
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  const auto twice = std::ranges::adjacent_find(sorted, same);
  if (twice != sorted.end())
    source.fail(fmt::format("{} id {}: given to two of them, expected distinct ids", what, twice->first));
  return sorted;
}

int64_t find(const std::vector<std::pair<int64_t, int64_t>>& sorted, int64_t id) {
  const auto found = std::ranges::lower_bound(sorted, std::pair(id, int64_t{0}));
  return found != sorted.end() && found->first == id ? found->second : -1;
}

constexpr size_t kRowsAtOnce = 1024;           // half a megabyte of features
constexpr size_t kInstructionBytes = 4 << 20;  // limit for the fields that are read: a million operands

/// Fields of HloInstructionProto that hlo.proto has here. Others, among them constants of any size, are not copied.
bool is_read(uint32_t field) {
  using Read = hlo::HloInstructionProto;
  static constexpr int kRead[] = {Read::kNameFieldNumber,
                                  Read::kOpcodeFieldNumber,
                                  Read::kShapeFieldNumber,
                                  Read::kParameterNumberFieldNumber,
                                  Read::kDimensionsFieldNumber,
                                  Read::kWindowFieldNumber,
                                  Read::kConvolutionDimensionNumbersFieldNumber,
                                  Read::kSliceDimensionsFieldNumber,
                                  Read::kDynamicSliceSizesFieldNumber,
                                  Read::kPaddingConfigFieldNumber,
                                  Read::kIdFieldNumber,
                                  Read::kOperandIdsFieldNumber,
                                  Read::kCalledComputationIdsFieldNumber,
                                  Read::kFeatureGroupCountFieldNumber,
                                  Read::kBatchGroupCountFieldNumber,
                                  Read::kIsStableFieldNumber};
  return std::ranges::count(kRead, static_cast<int>(field)) > 0;
}

/// TpuGraphs' rule for the computations after which node_splits cuts.
bool ends_split(std::string_view computation) {
  for (const char* part : {"cluster", "while", "cond"})
    if (computation.find(part) != std::string_view::npos) return true;
  return false;
}

class GraphReader {
 public:
  GraphReader(const HloSource& source, const ModuleOutline& module, const HloLimits& limits,
              const FeatureSink& features)
      : source_(source), module_(module), limits_(limits), features_(features) {}

  HloGraph read() {
    HloGraph result;
    result.name = std::string(module_.name);
    result.node_splits = {0};
    for (computation_ = 0; computation_ < module_.computations.size(); ++computation_) {
      const auto& computation = module_.computations[computation_];
      for (node_ = computation.first; node_ < computation.last; ++node_) add_node(result);
      if (ends_split(computation.name)) result.node_splits.push_back(computation.last);
    }
    if (result.node_splits.back() < node_) result.node_splits.push_back(node_);
    flush_features();
    auto& graph = result.graph;
    graph.feature_count = kHloFeatures;
    graph.node_type_count = kHloOpcodes;
    graph.node_types = std::move(opcodes_);
    graph.set_edges(std::move(source_ids_), std::move(target_ids_));
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    source_.fail(fmt::format("computation {}: instruction {} (id {}): {}",
                             printable(module_.computations[computation_].name), printable(instruction_.name()),
                             instruction_.id(), what));
  }

  void parse() {
    needed_.clear();
    WireReader reader(source_, module_.instructions[node_].bytes);
    const char* wrong = nullptr;
    for (WireField field; wrong == nullptr && reader.next(field);) {
      if (is_read(field.number)) needed_.append(field.whole);
      if (needed_.size() > kInstructionBytes) wrong = "more than 4 MiB of shape, operands and the like";
    }
    if (wrong == nullptr && instruction_.ParseFromString(needed_)) return;
    instruction_.Clear();
    instruction_.set_id(module_.instructions[node_].id);
    fail(wrong != nullptr ? wrong : "no HloInstructionProto; the file is damaged");
  }

  void add_node(HloGraph& result) {
    parse();
    const std::string& name = instruction_.opcode();
    if (name.empty()) fail("no opcode");
    const uint8_t opcode = hlo_opcode_number(name);
    if (has_layout_choice(opcode)) result.layout_nodes.push_back(node_);
    opcodes_.push_back(opcode);
    add_edges();
    if (features_) add_features();
  }

  int64_t operand(int64_t id) const {
    const int64_t node = module_.find_instruction(id);
    if (node < 0) fail(fmt::format("its operand {} is no instruction of the module", id));
    const auto& computation = module_.computations[computation_];
    if (node < computation.first || node >= computation.last)
      fail(fmt::format("its operand {} is an instruction of another computation", id));
    if (node >= node_)
      fail(
          fmt::format("its operand {} does not come before it, "
                      "expected operands before their users as XLA writes them, which a cycle does not allow",
                      id));
    return node;
  }

  int64_t callee_root(int64_t id) const {
    const int64_t callee = module_.find_computation(id);
    if (callee < 0) fail(fmt::format("it calls computation {}, which the module does not have", id));
    if (std::cmp_greater_equal(callee, computation_))
      fail(
          fmt::format("it calls computation {}, which does not come before it, "
                      "expected callees before their callers as XLA writes them, which a cycle does not allow",
                      id));
    return module_.computations[callee].root;
  }

  void add_edges() {
    producers_.clear();
    for (const int64_t id : instruction_.operand_ids()) producers_.push_back(operand(id));
    for (const int64_t id : instruction_.called_computation_ids()) producers_.push_back(callee_root(id));
    std::ranges::sort(producers_);
    producers_.erase(std::unique(producers_.begin(), producers_.end()), producers_.end());
    if (std::ssize(source_ids_) + std::ssize(producers_) > limits_.edges)
      source_.fail(
          fmt::format("module {}: more than {} edges, which is the limit", printable(module_.name), limits_.edges));
    source_ids_.insert(source_ids_.end(), producers_.begin(), producers_.end());
    target_ids_.resize(source_ids_.size(), node_);
  }

  void add_features() {
    rows_.resize(rows_.size() + kHloFeatures);
    const bool is_root = node_ == module_.computations[computation_].root;
    const std::string wrong = node_features(instruction_, is_root, rows_.data() + rows_.size() - kHloFeatures);
    if (!wrong.empty()) fail(wrong);
    if (rows_.size() == kRowsAtOnce * kHloFeatures) flush_features();
  }

  void flush_features() {
    if (!rows_.empty()) features_(rows_, kHloFeatures);
    rows_.clear();
  }

  const HloSource& source_;
  const ModuleOutline& module_;
  const HloLimits& limits_;
  const FeatureSink& features_;
  size_t computation_ = 0;
  int64_t node_ = 0;
  std::string needed_;                    // bytes of the current instruction
  hlo::HloInstructionProto instruction_;  // the same, parsed
  std::vector<int32_t> producers_;        // producers for the current node
  std::vector<float> rows_;               // features that have not gone to the sink
  std::vector<uint8_t> opcodes_;
  std::vector<int32_t> source_ids_, target_ids_;  // ids of the edges' nodes
};

}  // namespace

int64_t ModuleOutline::find_instruction(int64_t id) const { return find(instructions_by_id, id); }
int64_t ModuleOutline::find_computation(int64_t id) const { return find(computations_by_id, id); }

ModuleOutline outline_module(const HloSource& source, std::span<const std::string_view> pieces,
                             const HloLimits& limits) {
  ModuleOutline module;
  const int64_t most = std::min<int64_t>(limits.nodes, std::numeric_limits<int32_t>::max());
  for (const auto piece : pieces) {
    WireReader reader(source, piece);
    for (WireField field; reader.next(field);) {
      if (field.is_bytes(kNameOfModule)) module.name = field.bytes;
      if (field.is_bytes(kComputations)) add_computation(source, field.bytes, most, module);
    }
  }
  if (module.computations.empty())
    source.fail(fmt::format("module {}: no computations, expected at least one", printable(module.name)));
  module.instructions_by_id = by_id(source, module.instructions, "instruction");
  module.computations_by_id = by_id(source, module.computations, "computation");
  for (auto& computation : module.computations) {
    computation.root = module.find_instruction(computation.root_id);
    if (computation.root < computation.first || computation.root >= computation.last)
      source.fail(fmt::format("computation {} (id {}): its root, instruction {}, is not among its instructions",
                              printable(computation.name), computation.id, computation.root_id));
  }
  return module;
}

HloGraph read_module_graph(const HloSource& source, std::span<const std::string_view> pieces, const HloLimits& limits,
                           const FeatureSink& features) {
  const ModuleOutline module = outline_module(source, pieces, limits);
  return GraphReader(source, module, limits, features).read();
}

}  // namespace foretime::data
