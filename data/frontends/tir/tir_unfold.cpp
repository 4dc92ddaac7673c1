#include "data/frontends/tir/tir_unfold.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "data/graphs/schema.h"

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

void TirUnfolder::Identities::reset(int64_t nodes) {
  tree.assign(static_cast<size_t>(nodes), -1);
  id.resize(static_cast<size_t>(nodes));
}

int32_t TirUnfolder::Identities::of(int64_t node, int32_t now) {
  if (!known(node, now)) set(node, now, count++);
  return id[static_cast<size_t>(node)];
}

void TirUnfolder::Identities::set(int64_t node, int32_t now, int32_t value) {
  tree[static_cast<size_t>(node)] = now;
  id[static_cast<size_t>(node)] = value;
}

void TirUnfolder::fail(int64_t node, const std::string& what) const {
  throw DataError(fmt::format("{}: node {} ({}): {}", origin_, node, document_->type(node).key, what));
}

/// The node that a reference names; not necessarily one that makes sense there.
int64_t TirUnfolder::target(int64_t node, const TirField& field, int64_t reference) const {
  if (reference == TirDocument::kMissing)
    fail(node, fmt::format("no field {}; TVM '{}' wrote it, expected v0.8 to v0.14", field.name, document_->version()));
  if (reference < 0 || reference >= document_->size())
    fail(node, fmt::format("{}: {}, expected one of the {} nodes", field.name, reference, document_->size()));
  return reference;
}

std::span<const int64_t> TirUnfolder::list(int64_t node, const TirField& field, int64_t reference) const {
  const int64_t array = target(node, field, reference);
  if (document_->type(array).kind != TirClass::list)
    fail(node, fmt::format("{}: node {} ({}), expected an Array", field.name, array, document_->type(array).key));
  return document_->data(array);
}

std::span<const int64_t> TirUnfolder::dimensions(int64_t node, const TirField& field, int64_t reference) const {
  const auto sizes = list(node, field, reference);
  if (sizes.size() > kMaxDimensions)
    fail(node, fmt::format("{}: {} dimensions, expected at most {}", field.name, sizes.size(), kMaxDimensions));
  return sizes;
}

/// Vectors of one constant are constants too: the predicate of a vectorised Load is one.
bool TirUnfolder::is_constant(int64_t node) const {
  static const uint8_t integer = tir_type_id("IntImm"), broadcast = tir_type_id("Broadcast");
  const auto& type = document_->type(node);
  if (type.node_type == integer) return true;
  if (type.node_type != broadcast) return false;
  const int64_t value = document_->field(node, 0);
  return value >= 0 && value < document_->size() && document_->type(value).node_type == integer;
}

/// `product` times a size; 0, which stands for "no constant", stays 0.
void TirUnfolder::multiply(int64_t node, const TirField& field, int64_t factor, int64_t& product) const {
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

void TirUnfolder::check_buffer(int64_t node, const TirField& field, int64_t reference) {
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

void TirUnfolder::charge(int64_t node, int64_t count) {
  if (count > left_)
    fail(node, fmt::format("the syntax trees of this document have more than {} nodes, expected at most that many",
                           limits_.nodes));
  left_ -= count;
}

void TirUnfolder::add_child(int64_t node, const TirField& field, int64_t reference) {
  const int64_t child = target(node, field, reference);
  const auto& type = document_->type(child);
  if (type.kind != TirClass::tree && type.kind != TirClass::variable && type.kind != TirClass::unknown)
    fail(node, fmt::format("{}: node {} ({}), expected an expression or a statement", field.name, child,
                           type.kind == TirClass::null ? "null" : type.key));
  child_.push_back(static_cast<uint32_t>(child));
  // Each edge of the DAG is there at least once in the tree: lists that many nodes share cannot grow beyond its limit.
  if (static_cast<int64_t>(child_.size()) > limits_.nodes) charge(node, kLargest);
}

void TirUnfolder::add_bound(int64_t node, const TirField& field, int64_t reference) {
  if (!is_constant(target(node, field, reference))) add_child(node, field, reference);
}

/// Checks the fields of one node, sets its extent and its children.
void TirUnfolder::collect(int64_t node) {
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
void TirUnfolder::finish(int64_t node) {
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

void TirUnfolder::measure(int64_t root) {
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

void TirUnfolder::start(const TirDocument& document, const std::string& origin) {
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

/// Gives parameters and their buffers their identities.
void TirUnfolder::declare_parameters(int64_t function) {
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

void TirUnfolder::append(int64_t node, int32_t parent, ProgramNodes& trees) {
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

int64_t TirUnfolder::unfold(int64_t root, ProgramNodes& trees) {
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

}  // namespace foretime::data
