#include "data/frontends/tir/tir_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace foretime::data {
namespace {

constexpr int64_t kMaxDimensions = 64;  // of a buffer; TVM itself knows no such limit, its operators stop at 8
constexpr int64_t kMaxLoopKind = 4;
constexpr size_t kMaxUnknownKinds = 256;
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kLargest : product;
}

}  // namespace

/// Unfolds the DAG of a document into syntax trees. The sizes of all subtrees are computed first, on the DAG, so that a
/// tree which is too large is refused before anything is written. Nothing is recursive, cycles are errors.
class TirReader::Unfolder {
 public:
  explicit Unfolder(const TirLimits& limits) : limits_(limits) {}

  /// Starts on a document, which must outlive the calls of `unfold`.
  void start(const TirDocument& document, const std::string& origin) {
    document_ = &document;
    origin_ = origin;
    left_ = limits_.nodes;
    const auto nodes = static_cast<size_t>(document.size());
    state_.assign(nodes, State::fresh);
    size_.resize(nodes);
    extent_.assign(nodes, 0);
    height_.resize(nodes);
    children_.resize(nodes);
    child_.clear();
    elements_.assign(nodes, -1);
    variable_elements_.resize(nodes);
    variables_.reset(document.size());
    buffers_.reset(document.size());
    unknown_.clear();
    tree_ = 0;
  }

  /// Appends the tree below `root`, a node of the document. Identities count from 0 in each tree: variables and buffers
  /// of the function's parameters first (parameters, then each one's buffer with its variable), then as they occur.
  /// Throws DataError, and then has appended nothing. Returns its depth in levels.
  int64_t unfold(int64_t root, ProgramNodes& trees) {
    variables_.count = buffers_.count = 0;
    measure(root);
    const auto at = static_cast<size_t>(root);
    charge(root, size_[at]);
    if (height_[at] > limits_.depth)
      fail(root, fmt::format("its syntax tree has {} levels, expected at most {}", height_[at], limits_.depth));
    if (document_->type(root).key == "tir.PrimFunc") declare_parameters(root);
    const size_t first = trees.nodes();
    std::vector<std::pair<uint32_t, int32_t>> open = {
        {static_cast<uint32_t>(root), -1}};  // a node and its parent's place
    while (!open.empty()) {
      const auto [node, parent] = open.back();
      open.pop_back();
      const auto place = static_cast<int32_t>(trees.nodes() - first);
      append(node, parent, trees);
      const auto [begin, count] = children_[node];
      for (uint32_t c = count; c-- > 0;) open.emplace_back(child_[begin + c], place);
    }
    trees.graph_ptr.push_back(static_cast<int64_t>(trees.nodes()));
    ++tree_;
    return height_[at];
  }

  /// Type keys of the nodes that became Unknown since `start`, with their number in the trees. Those after the first
  /// 256 kinds are counted under "(others)".
  const std::map<std::string, int64_t>& unknown_types() const { return unknown_; }

 private:
  enum class State : uint8_t { fresh, open, done };
  /// Numbers things in the order in which they are first asked for, anew for each tree.
  struct Identities {
    std::vector<int32_t> tree, id;  // [nodes of the document]
    int32_t count = 0;
    void reset(int64_t nodes) {
      tree.assign(static_cast<size_t>(nodes), -1);
      id.resize(static_cast<size_t>(nodes));
    }
    bool known(int64_t node, int32_t now) const { return tree[static_cast<size_t>(node)] == now; }
    int32_t of(int64_t node, int32_t now) {
      if (!known(node, now)) set(node, now, count++);
      return id[static_cast<size_t>(node)];
    }
    void set(int64_t node, int32_t now, int32_t value) {
      tree[static_cast<size_t>(node)] = now;
      id[static_cast<size_t>(node)] = value;
    }
  };

  [[noreturn]] void fail(int64_t node, const std::string& what) const {
    throw DataError("{}: node {} ({}): {}", origin_, node, document_->type(node).key, what);
  }
  /// The node that a reference names; not necessarily one that makes sense there.
  int64_t target(int64_t node, const TirField& field, int64_t reference) const {
    if (reference == TirDocument::kMissing)
      fail(node,
           fmt::format("no field {}; TVM '{}' wrote it, expected v0.8 to v0.14", field.name, document_->version()));
    if (reference < 0 || reference >= document_->size())
      fail(node, fmt::format("{}: {}, expected one of the {} nodes", field.name, reference, document_->size()));
    return reference;
  }
  std::span<const int64_t> list(int64_t node, const TirField& field, int64_t reference) const {
    const int64_t array = target(node, field, reference);
    if (document_->type(array).kind != TirClass::list)
      fail(node, fmt::format("{}: node {} ({}), expected an Array", field.name, array, document_->type(array).key));
    return document_->data(array);
  }
  std::span<const int64_t> dimensions(int64_t node, const TirField& field, int64_t reference) const {
    const auto sizes = list(node, field, reference);
    if (sizes.size() > kMaxDimensions)
      fail(node, fmt::format("{}: {} dimensions, expected at most {}", field.name, sizes.size(), kMaxDimensions));
    return sizes;
  }
  /// Vectors of one constant are constants too: the predicate of a vectorised Load is one.
  bool is_constant(int64_t node) const {
    static const uint8_t integer = tir_type_id("IntImm"), broadcast = tir_type_id("Broadcast");
    const auto& type = document_->type(node);
    if (type.node_type == integer) return true;
    if (type.node_type != broadcast) return false;
    const int64_t value = document_->field(node, 0);
    return value >= 0 && value < document_->size() && document_->type(value).node_type == integer;
  }
  /// `product` times a size; 0, which stands for "no constant", stays 0.
  void multiply(int64_t node, const TirField& field, int64_t factor, int64_t& product) const {
    static const uint8_t integer = tir_type_id("IntImm");
    const int64_t size = target(node, field, factor);
    if (document_->type(size).node_type != integer) {
      product = 0;
      return;
    }
    const int64_t value = document_->field(size, 0);
    if (value < 0) fail(node, fmt::format("{}: a size of {}, expected 0 or more", field.name, value));
    product = saturating_product(product, value);
  }
  void check_buffer(int64_t node, const TirField& field, int64_t reference) {
    const int64_t buffer = target(node, field, reference);
    const auto& type = document_->type(buffer);
    const size_t shape = tir_field(type, "shape");
    if (shape == type.fields.size())
      fail(node, fmt::format("{}: node {} ({}), expected a buffer", field.name, buffer, type.key));
    auto& elements = elements_[static_cast<size_t>(buffer)];
    if (elements >= 0) return;
    int64_t product = 1;
    for (const int64_t size : dimensions(buffer, type.fields[shape], document_->field(buffer, shape)))
      multiply(buffer, type.fields[shape], size, product);
    elements = product;
  }
  void charge(int64_t node, int64_t count) {
    if (count > left_)
      fail(node, fmt::format("the syntax trees of this document have more than {} nodes, expected at most that many",
                             limits_.nodes));
    left_ -= count;
  }

  void add_child(int64_t node, const TirField& field, int64_t reference) {
    const int64_t child = target(node, field, reference);
    const auto& type = document_->type(child);
    if (type.kind != TirClass::tree && type.kind != TirClass::variable && type.kind != TirClass::unknown)
      fail(node, fmt::format("{}: node {} ({}), expected an expression or a statement", field.name, child,
                             type.kind == TirClass::null ? "null" : type.key));
    child_.push_back(static_cast<uint32_t>(child));
    // Each edge of the DAG is there at least once in the tree: lists that many nodes share cannot grow beyond its
    // limit.
    if (static_cast<int64_t>(child_.size()) > limits_.nodes) charge(node, kLargest);
  }
  void add_bound(int64_t node, const TirField& field, int64_t reference) {
    if (!is_constant(target(node, field, reference))) add_child(node, field, reference);
  }
  /// Checks the fields of one node, sets its extent and its children.
  void collect(int64_t node) {
    const auto& type = document_->type(node);
    const auto at = static_cast<size_t>(node);
    const auto first = static_cast<uint32_t>(child_.size());
    for (size_t f = 0; f < type.fields.size(); ++f) {
      const TirField& field = type.fields[f];
      const int64_t value = document_->field(node, f);
      switch (field.role) {
        case TirRole::child:
          add_child(node, field, value);
          break;
        case TirRole::optional_child:
          if (document_->type(target(node, field, value)).kind != TirClass::null) add_child(node, field, value);
          break;
        case TirRole::children:
          for (const int64_t child : list(node, field, value)) add_child(node, field, child);
          break;
        case TirRole::condition:
        case TirRole::bound:
          add_bound(node, field, value);
          break;
        case TirRole::extent:
          extent_[at] = 1;
          multiply(node, field, value, extent_[at]);
          add_bound(node, field, value);
          break;
        case TirRole::extents:
          extent_[at] = 1;
          for (const int64_t size : dimensions(node, field, value)) {
            multiply(node, field, size, extent_[at]);
            add_bound(node, field, size);
          }
          break;
        case TirRole::ranges:
          extent_[at] = 1;
          for (const int64_t entry : dimensions(node, field, value)) {
            const int64_t range = target(node, field, entry);
            if (document_->type(range).key != "Range")
              fail(node,
                   fmt::format("{}: node {} ({}), expected a Range", field.name, range, document_->type(range).key));
            const auto& parts = document_->type(range).fields;
            add_bound(range, parts[0], document_->field(range, 0));
            multiply(range, parts[1], document_->field(range, 1), extent_[at]);
            add_bound(range, parts[1], document_->field(range, 1));
          }
          break;
        case TirRole::variable:
        case TirRole::buffer_var:
          if (document_->type(target(node, field, value)).kind != TirClass::variable)
            fail(node,
                 fmt::format("{}: node {} ({}), expected a variable", field.name, value, document_->type(value).key));
          break;
        case TirRole::buffer:
          check_buffer(node, field, value);
          break;
        case TirRole::loop_kind:
          if (value < 0 || value > kMaxLoopKind)
            fail(node, fmt::format("kind: {}, expected 0 … {}", value, kMaxLoopKind));
          break;
        case TirRole::number:
        case TirRole::real:
          if (value == TirDocument::kMissing) fail(node, fmt::format("no field {}, expected a number", field.name));
          break;
        case TirRole::call_op:
          target(node, field, value);
          break;
        case TirRole::reference:
          break;
      }
    }
    children_[at] = {first, static_cast<uint32_t>(child_.size()) - first};
  }
  /// Sums up a node whose children are done.
  void finish(int64_t node) {
    const auto at = static_cast<size_t>(node);
    int64_t size = 1;
    int32_t height = 0;
    for (uint32_t c = 0; c < children_[at].second; ++c) {
      const uint32_t child = child_[children_[at].first + c];
      size = std::min(limits_.nodes + 1, size + size_[child]);
      height = std::max(height, height_[child]);
    }
    size_[at] = size;
    height_[at] = height + 1;
    state_[at] = State::done;
  }
  void measure(int64_t root) {
    std::vector<std::pair<uint32_t, uint32_t>> open;  // a node, and how many of its children were looked at
    const auto enter = [&](int64_t node) {
      collect(node);
      state_[static_cast<size_t>(node)] = State::open;
      open.emplace_back(static_cast<uint32_t>(node), 0);
    };
    if (state_[static_cast<size_t>(root)] == State::fresh) enter(root);
    while (!open.empty()) {
      const uint32_t node = open.back().first;
      if (open.back().second == children_[node].second) {
        finish(node);
        open.pop_back();
        continue;
      }
      const uint32_t child = child_[children_[node].first + open.back().second++];
      if (state_[child] == State::open) fail(node, fmt::format("node {} lies below itself", child));
      if (state_[child] == State::fresh) enter(child);
    }
  }
  /// Gives parameters and their buffers their identities.
  void declare_parameters(int64_t function) {
    const auto& type = document_->type(function);
    const auto parameters = list(function, type.fields[0], document_->field(function, 0));
    const int64_t map = target(function, type.fields[1], document_->field(function, 1));
    if (document_->type(map).kind != TirClass::map || document_->has_string_keys(map))
      fail(function, fmt::format("buffer_map: node {} ({}), expected a Map from variables to buffers", map,
                                 document_->type(map).key));
    const auto entries = document_->data(map);
    charge(function, static_cast<int64_t>(parameters.size() + entries.size()));
    for (const int64_t parameter : parameters) variables_.of(target(function, type.fields[0], parameter), tree_);
    for (size_t i = 0; i + 1 < entries.size(); i += 2) {
      const int64_t buffer = entries[i + 1];
      check_buffer(function, type.fields[1], buffer);
      const auto& buffer_type = document_->type(buffer);
      const size_t data = tir_field(buffer_type, "data");
      if (data == buffer_type.fields.size()) fail(buffer, "expected a tir.Buffer");
      const int64_t variable = target(buffer, buffer_type.fields[data], document_->field(buffer, data));
      buffers_.set(variable, tree_, buffers_.of(buffer, tree_));
      variables_.of(variable, tree_);
      variable_elements_[static_cast<size_t>(variable)] = elements_[static_cast<size_t>(buffer)];
    }
  }
  void append(int64_t node, int32_t parent, ProgramNodes& trees) {
    const auto& type = document_->type(node);
    trees.type.push_back(type.node_type);
    trees.parent.push_back(parent);
    trees.extent.push_back(extent_[static_cast<size_t>(node)]);
    int8_t loop_kind = -1;
    double value = std::numeric_limits<double>::quiet_NaN();
    int32_t variable = -1, buffer = -1;
    int64_t buffer_elements = 0;
    uint8_t call_op = 0;
    if (type.kind == TirClass::variable) variable = variables_.of(node, tree_);
    if (type.kind == TirClass::unknown) {
      const std::string key(document_->text(node));
      ++unknown_[unknown_.size() < kMaxUnknownKinds || unknown_.contains(key) ? key : "(others)"];
    }
    for (size_t f = 0; f < type.fields.size(); ++f) {
      const int64_t field = document_->field(node, f);
      switch (type.fields[f].role) {
        case TirRole::variable:
          variable = variables_.of(field, tree_);
          variable_elements_[static_cast<size_t>(field)] = extent_[static_cast<size_t>(node)];
          break;
        case TirRole::buffer:
          buffer = buffers_.of(field, tree_);
          buffer_elements = elements_[static_cast<size_t>(field)];
          break;
        case TirRole::buffer_var:
          buffer = buffers_.of(field, tree_);
          if (variables_.known(field, tree_)) buffer_elements = variable_elements_[static_cast<size_t>(field)];
          break;
        case TirRole::call_op: {
          const bool named = document_->type(field).kind == TirClass::op;
          call_op = static_cast<uint8_t>(call_op_index(named ? document_->text(field) : ""));
          break;
        }
        case TirRole::loop_kind:
          loop_kind = static_cast<int8_t>(field);
          break;
        case TirRole::number:
          value = static_cast<double>(field);
          break;
        case TirRole::real:
          value = document_->real(node, f);
          // What is no number has no logarithm: it is as far from all others as an infinite one.
          if (std::isnan(value)) value = std::numeric_limits<double>::infinity();
          break;
        default:
          break;
      }
    }
    trees.loop_kind.push_back(loop_kind);
    trees.value.push_back(value);
    trees.variable.push_back(variable);
    trees.buffer.push_back(buffer);
    trees.buffer_elements.push_back(buffer_elements);
    trees.call_op.push_back(call_op);
  }

  TirLimits limits_;
  const TirDocument* document_ = nullptr;
  std::string origin_;
  int64_t left_ = 0;  // nodes that the document's further trees may have

  // By node of the document; the second part is known once a node is done.
  std::vector<State> state_;
  std::vector<int64_t> size_, extent_;                   // nodes of its tree; ProgramNodes::extent
  std::vector<int32_t> height_;                          // levels of its tree
  std::vector<std::pair<uint32_t, uint32_t>> children_;  // its part of child_
  std::vector<uint32_t> child_;
  std::vector<int64_t> elements_;  // of a buffer; −1 while unknown

  std::map<std::string, int64_t> unknown_;
  int32_t tree_ = 0;
  Identities variables_, buffers_;
  std::vector<int64_t> variable_elements_;  // of the buffer behind a variable, for Load and Store
};

namespace {

constexpr int64_t kOldestMinor = 8, kNewestMinor = 14;

/// The PrimFuncs of an IRModule, or the root itself where it is an expression, a statement or a function.
std::vector<int64_t> tree_roots(const TirDocument& document, const std::string& origin) {
  const int64_t root = document.root();
  const TirType& type = document.type(root);
  if (type.kind == TirClass::tree || type.kind == TirClass::variable) return {root};
  const auto refuse = [&](const std::string& found) {
    throw DataError("{}: {}, expected a tir.PrimFunc or an IRModule that holds some", origin, found);
  };
  if (type.key != "IRModule")
    refuse(
        fmt::format("the root is node {} ({})", root, type.kind == TirClass::unknown ? document.text(root) : type.key));
  const int64_t functions = document.field(root, 0);
  if (functions < 0 || functions >= document.size() || document.type(functions).kind != TirClass::map)
    refuse(fmt::format("node {} (IRModule): functions are no Map", root));
  const auto entries = document.data(functions);
  const size_t stride = document.has_string_keys(functions) ? 1 : 2;
  std::vector<int64_t> roots;
  for (size_t i = stride - 1; i < entries.size(); i += stride) {
    const int64_t function = entries[i];
    if (function < 0 || function >= document.size()) refuse(fmt::format("node {} (Map): {}", functions, function));
    if (document.type(function).key == "tir.PrimFunc") roots.push_back(function);
  }
  if (roots.empty()) refuse(fmt::format("node {} (IRModule): no tir.PrimFunc", root));
  return roots;
}

}  // namespace

TirReader::TirReader(const TirLimits& limits) : unfolder_(std::make_unique<Unfolder>(limits)) {}
TirReader::~TirReader() = default;
TirReader::TirReader(TirReader&&) noexcept = default;
TirReader& TirReader::operator=(TirReader&&) noexcept = default;

bool is_known_tvm_version(std::string_view version) {
  constexpr std::string_view kMajor = "0.";
  if (!version.starts_with(kMajor)) return false;
  int64_t minor = 0;
  std::from_chars(version.data() + kMajor.size(), version.data() + version.size(), minor);
  return minor >= kOldestMinor && minor <= kNewestMinor;
}

int64_t TirReader::read(std::string_view text, const std::string& origin, ProgramNodes& trees) {
  document_.parse(text, origin);
  unfolder_->start(document_, origin);
  const size_t graphs = trees.graph_ptr.size(), nodes = trees.nodes();
  const auto roots = tree_roots(document_, origin);
  int64_t deepest = 0;
  try {
    for (const int64_t root : roots) deepest = std::max(deepest, unfolder_->unfold(root, trees));
  } catch (...) {
    trees.graph_ptr.resize(graphs);
    trees.visit_arrays([&](auto& values) { values.resize(nodes); });
    throw;
  }
  ++summary_.documents;
  ++summary_.versions[document_.version()];
  summary_.dag_nodes += document_.size();
  summary_.deepest_tree = std::max(summary_.deepest_tree, deepest);
  for (const auto& [key, number] : unfolder_->unknown_types()) summary_.unknown_types[key] += number;
  count(trees, static_cast<int64_t>(graphs) - 1);
  return static_cast<int64_t>(roots.size());
}

void TirReader::count(const ProgramNodes& trees, int64_t first_tree) {
  static const uint8_t call = tir_type_id("Call");
  for (auto g = static_cast<size_t>(first_tree); g + 1 < trees.graph_ptr.size(); ++g) {
    ++summary_.trees;
    summary_.largest_tree = std::max(summary_.largest_tree, trees.graph_ptr[g + 1] - trees.graph_ptr[g]);
  }
  for (auto i = static_cast<size_t>(trees.graph_ptr[static_cast<size_t>(first_tree)]); i < trees.nodes(); ++i) {
    ++summary_.tree_nodes;
    ++summary_.node_types[trees.type[i]];
    if (trees.type[i] == call) ++summary_.call_ops[trees.call_op[i]];
  }
}

}  // namespace foretime::data
