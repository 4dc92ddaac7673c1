#include "data/frontends/tir/tir_unfolder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"

namespace foretime::data {
namespace {

constexpr int64_t kMaxLoopKind = 4;
constexpr size_t kMaxUnknownKinds = 256;

}  // namespace

void TirUnfolder::start(const TirDocument& document, const std::string& origin) {
  nodes_.document = &document;
  nodes_.origin = origin;
  nodes_left_ = limits_.nodes;
  const size_t nodes = document.size();
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

int64_t TirUnfolder::unfold(int64_t root, ProgramNodes& trees) {
  variables_.count = buffers_.count = 0;
  measure(root);
  const size_t at = root;
  count_against_limit(root, size_[at]);
  if (height_[at] > limits_.depth)
    nodes_.fail(root, fmt::format("its syntax tree has {} levels, expected at most {}", height_[at], limits_.depth));
  if (nodes_.document->type(root).key == "tir.PrimFunc") declare_parameters(root);
  const size_t first = trees.nodes();
  std::vector<std::pair<uint32_t, int32_t>> open = {
      {static_cast<uint32_t>(root), -1}};  // a node and its parent's place
  while (!open.empty()) {
    const auto [node, parent] = open.back();
    open.pop_back();
    const int32_t place = trees.nodes() - first;
    append(node, parent, trees);
    const auto [begin, count] = children_[node];
    for (uint32_t c = count; c-- > 0;) open.emplace_back(child_[begin + c], place);
  }
  trees.graph_ptr.push_back(trees.nodes());
  ++tree_;
  return height_[at];
}

void TirUnfolder::check_buffer(int64_t node, const TirField& field, int64_t reference) {
  const int64_t buffer = nodes_.target(node, field, reference);
  const auto& type = nodes_.document->type(buffer);
  const size_t shape = tir_field(type, "shape");
  if (shape == type.fields.size())
    nodes_.fail(node, fmt::format("{}: node {} ({}), expected a buffer", field.name, buffer, type.key));
  auto& elements = elements_[buffer];
  if (elements >= 0) return;
  int64_t product = 1;
  for (const int64_t size : nodes_.dimensions(buffer, type.fields[shape], nodes_.document->field(buffer, shape)))
    nodes_.multiply(buffer, type.fields[shape], size, product);
  elements = product;
}

void TirUnfolder::count_against_limit(int64_t node, int64_t count) {
  if (count > nodes_left_)
    nodes_.fail(node,
                fmt::format("the syntax trees of this document have more than {} nodes, expected at most that many",
                            limits_.nodes));
  nodes_left_ -= count;
}

void TirUnfolder::add_child(int64_t node, const TirField& field, int64_t reference) {
  const int64_t child = nodes_.target(node, field, reference);
  const auto& type = nodes_.document->type(child);
  if (type.kind != TirClass::tree && type.kind != TirClass::variable && type.kind != TirClass::unknown)
    nodes_.fail(node, fmt::format("{}: node {} ({}), expected an expression or a statement", field.name, child,
                                  type.kind == TirClass::null ? "null" : type.key));
  child_.push_back(child);
  // Each edge of the DAG is there at least once in the tree: lists that many nodes share cannot grow beyond its
  // limit.
  if (std::ssize(child_) > limits_.nodes) count_against_limit(node, TirNodes::kLargest);
}

void TirUnfolder::add_bound(int64_t node, const TirField& field, int64_t reference) {
  if (!nodes_.is_constant(nodes_.target(node, field, reference))) add_child(node, field, reference);
}

void TirUnfolder::collect(int64_t node) {
  const auto& type = nodes_.document->type(node);
  const size_t at = node;
  const uint32_t first = child_.size();
  for (size_t f = 0; f < type.fields.size(); ++f) {
    const TirField& field = type.fields[f];
    const int64_t value = nodes_.document->field(node, f);
    switch (field.role) {
      case TirRole::child: add_child(node, field, value); break;
      case TirRole::optional_child:
        if (nodes_.document->type(nodes_.target(node, field, value)).kind != TirClass::null)
          add_child(node, field, value);
        break;
      case TirRole::children:
        for (const int64_t child : nodes_.list(node, field, value)) add_child(node, field, child);
        break;
      case TirRole::condition:
      case TirRole::bound: add_bound(node, field, value); break;
      case TirRole::extent:
        extent_[at] = 1;
        nodes_.multiply(node, field, value, extent_[at]);
        add_bound(node, field, value);
        break;
      case TirRole::extents:
        extent_[at] = 1;
        for (const int64_t size : nodes_.dimensions(node, field, value)) {
          nodes_.multiply(node, field, size, extent_[at]);
          add_bound(node, field, size);
        }
        break;
      case TirRole::ranges:
        extent_[at] = 1;
        for (const int64_t entry : nodes_.dimensions(node, field, value)) {
          const int64_t range = nodes_.target(node, field, entry);
          if (nodes_.document->type(range).key != "Range")
            nodes_.fail(node, fmt::format("{}: node {} ({}), expected a Range", field.name, range,
                                          nodes_.document->type(range).key));
          const auto& parts = nodes_.document->type(range).fields;
          add_bound(range, parts[0], nodes_.document->field(range, 0));
          nodes_.multiply(range, parts[1], nodes_.document->field(range, 1), extent_[at]);
          add_bound(range, parts[1], nodes_.document->field(range, 1));
        }
        break;
      case TirRole::variable:
      case TirRole::buffer_var:
        if (nodes_.document->type(nodes_.target(node, field, value)).kind != TirClass::variable)
          nodes_.fail(node, fmt::format("{}: node {} ({}), expected a variable", field.name, value,
                                        nodes_.document->type(value).key));
        break;
      case TirRole::buffer: check_buffer(node, field, value); break;
      case TirRole::loop_kind:
        if (value < 0 || value > kMaxLoopKind)
          nodes_.fail(node, fmt::format("kind: {}, expected 0 … {}", value, kMaxLoopKind));
        break;
      case TirRole::number:
      case TirRole::real:
        if (value == TirDocument::kMissing)
          nodes_.fail(node, fmt::format("no field {}, expected a number", field.name));
        break;
      case TirRole::call_op: nodes_.target(node, field, value); break;
      case TirRole::reference: break;
    }
  }
  children_[at] = {first, static_cast<uint32_t>(child_.size()) - first};
}

void TirUnfolder::finish(int64_t node) {
  const size_t at = node;
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
    state_[node] = State::open;
    open.emplace_back(node, 0);
  };
  if (state_[root] == State::fresh) enter(root);
  while (!open.empty()) {
    const uint32_t node = open.back().first;
    if (open.back().second == children_[node].second) {
      finish(node);
      open.pop_back();
      continue;
    }
    const uint32_t child = child_[children_[node].first + open.back().second++];
    if (state_[child] == State::open) nodes_.fail(node, fmt::format("a cycle through node {}, expected none", child));
    if (state_[child] == State::fresh) enter(child);
  }
}

void TirUnfolder::declare_parameters(int64_t function) {
  const auto& type = nodes_.document->type(function);
  const auto parameters = nodes_.list(function, type.fields[0], nodes_.document->field(function, 0));
  const int64_t map = nodes_.target(function, type.fields[1], nodes_.document->field(function, 1));
  if (nodes_.document->type(map).kind != TirClass::map || nodes_.document->has_string_keys(map))
    nodes_.fail(function, fmt::format("buffer_map: node {} ({}), expected a Map from variables to buffers", map,
                                      nodes_.document->type(map).key));
  const auto entries = nodes_.document->data(map);
  count_against_limit(function, parameters.size() + entries.size());
  for (const int64_t parameter : parameters) variables_.of(nodes_.target(function, type.fields[0], parameter), tree_);
  for (size_t i = 0; i + 1 < entries.size(); i += 2) {
    const int64_t buffer = entries[i + 1];
    check_buffer(function, type.fields[1], buffer);
    const auto& buffer_type = nodes_.document->type(buffer);
    const size_t data = tir_field(buffer_type, "data");
    if (data == buffer_type.fields.size()) nodes_.fail(buffer, "expected a tir.Buffer");
    const int64_t variable = nodes_.target(buffer, buffer_type.fields[data], nodes_.document->field(buffer, data));
    buffers_.set(variable, tree_, buffers_.of(buffer, tree_));
    variables_.of(variable, tree_);
    variable_elements_[variable] = elements_[buffer];
  }
}

void TirUnfolder::append(int64_t node, int32_t parent, ProgramNodes& trees) {
  const auto& type = nodes_.document->type(node);
  trees.type.push_back(type.node_type);
  trees.parent.push_back(parent);
  trees.extent.push_back(extent_[node]);
  int8_t loop_kind = -1;
  double value = std::numeric_limits<double>::quiet_NaN();
  int32_t variable = -1, buffer = -1;
  int64_t buffer_elements = 0;
  uint8_t call_op = 0;
  if (type.kind == TirClass::variable) variable = variables_.of(node, tree_);
  if (type.kind == TirClass::unknown) {
    const std::string key(nodes_.document->text(node));
    ++unknown_[unknown_.size() < kMaxUnknownKinds || unknown_.contains(key) ? key : "(others)"];
  }
  for (size_t f = 0; f < type.fields.size(); ++f) {
    const int64_t field = nodes_.document->field(node, f);
    switch (type.fields[f].role) {
      case TirRole::variable:
        variable = variables_.of(field, tree_);
        variable_elements_[field] = extent_[node];
        break;
      case TirRole::buffer:
        buffer = buffers_.of(field, tree_);
        buffer_elements = elements_[field];
        break;
      case TirRole::buffer_var:
        buffer = buffers_.of(field, tree_);
        if (variables_.known(field, tree_)) buffer_elements = variable_elements_[field];
        break;
      case TirRole::call_op: {
        const bool named = nodes_.document->type(field).kind == TirClass::op;
        call_op = call_op_index(named ? nodes_.document->text(field) : "");
        break;
      }
      case TirRole::loop_kind: loop_kind = field; break;
      case TirRole::number: value = field; break;
      case TirRole::real:
        value = nodes_.document->real(node, f);
        // What is no number has no logarithm: it is as far from all others as an infinite one.
        if (std::isnan(value)) value = std::numeric_limits<double>::infinity();
        break;
      default: break;
    }
  }
  trees.loop_kind.push_back(loop_kind);
  trees.value.push_back(value);
  trees.variable.push_back(variable);
  trees.buffer.push_back(buffer);
  trees.buffer_elements.push_back(buffer_elements);
  trees.call_op.push_back(call_op);
}

}  // namespace foretime::data
