#include "data/frontends/tir/tir_document.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include <fmt/format.h>
#include <simdjson.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

using enum TirRole;

/// All types: those of the tree first, then what their nodes refer to. A statement that puts something somewhere names
/// the place first.
std::vector<TirType> all_types() {
  using Fields = std::vector<TirField>;
  const Fields let = {{"var", variable}, {"value", child}, {"body", child}}, value = {{"value", child}};
  std::vector<TirType> types = {
      {"tir.PrimFunc", {{"params", reference}, {"buffer_map", reference}, {"body", child}}},
      {"tir.LetStmt", let},
      {"tir.AttrStmt", {{"value", child}, {"body", child}}},
      {"tir.IfThenElse", {{"condition", child}, {"then_case", child}, {"else_case", optional_child}}},
      {"tir.For", {{"loop_var", variable}, {"kind", loop_kind}, {"min", bound}, {"extent", extent}, {"body", child}}},
      {"tir.While", {{"condition", child}, {"body", child}}},
      {"tir.Allocate", {{"buffer_var", variable}, {"extents", extents}, {"condition", condition}, {"body", child}}},
      {"tir.AllocateConst", {{"buffer_var", variable}, {"extents", extents}, {"body", child}}},
      {"tir.DeclBuffer", {{"buffer", buffer}, {"body", child}}},
      {"tir.BufferStore", {{"buffer", buffer}, {"indices", children}, {"value", child}}},
      {"tir.BufferRealize", {{"buffer", buffer}, {"bounds", ranges}, {"condition", condition}, {"body", child}}},
      {"tir.AssertStmt", {{"condition", child}, {"message", child}, {"body", child}}},
      {"tir.ProducerStore", {{"producer", buffer}, {"indices", children}, {"value", child}}},
      {"tir.ProducerRealize", {{"producer", buffer}, {"bounds", ranges}, {"condition", condition}, {"body", child}}},
      {"tir.Prefetch", {{"buffer", buffer}, {"bounds", ranges}}},
      {"tir.SeqStmt", {{"seq", children}}},
      {"tir.Evaluate", value},
      {"tir.Block", {{"init", optional_child}, {"body", child}}},
      {"tir.BlockRealize", {{"iter_values", children}, {"predicate", condition}, {"block", child}}},
      {"tir.Store", {{"buffer_var", buffer_var}, {"index", child}, {"value", child}, {"predicate", condition}}},
      {"tir.Var", {}, TirClass::variable},
      {"tir.SizeVar", {}, TirClass::variable},
      {"tir.BufferLoad", {{"buffer", buffer}, {"indices", children}}},
      {"tir.ProducerLoad", {{"producer", buffer}, {"indices", children}}},
      {"tir.Load", {{"buffer_var", buffer_var}, {"index", child}, {"predicate", condition}}},
      {"tir.Let", let},
      {"tir.Call", {{"op", call_op}, {"args", children}}},
      {"tir.Reduce", {{"source", children}, {"init", children}, {"condition", condition}}},
      {"tir.Cast", value},
      {"tir.Not", {{"a", child}}},
      {"tir.Select", {{"condition", child}, {"true_value", child}, {"false_value", child}}},
      {"tir.Ramp", {{"base", child}, {"stride", child}}},
      {"tir.Broadcast", value},
      {"tir.Shuffle", {{"vectors", children}, {"indices", children}}},
      {"IntImm", {{"value", number}}},
      {"FloatImm", {{"value", real}}},
      {"tir.StringImm", {}},
      {"tir.Any", {}},
      {"", {}, TirClass::null},
      {"Array", {}, TirClass::list},
      {"Map", {}, TirClass::map},
      {"Op", {}, TirClass::op},
      {"IRModule", {{"functions", reference}}, TirClass::auxiliary},
      {"Range", {{"min", reference}, {"extent", reference}}, TirClass::auxiliary},
      {"Tensor", {{"shape", reference}}, TirClass::auxiliary},
      {"tir.Buffer", {{"data", reference}, {"shape", reference}}, TirClass::auxiliary},
  };
  for (const auto key : split_words<17>("tir.Add tir.Sub tir.Mul tir.Div tir.Mod tir.FloorDiv tir.FloorMod tir.Min "
                                        "tir.Max tir.EQ tir.NE tir.LT tir.LE tir.GT tir.GE tir.And tir.Or"))
    types.push_back({key, {{"a", child}, {"b", child}}});
  for (TirType& type : types) type.node_type = tir_type_id(type.key.substr(type.key.starts_with("tir.") ? 4 : 0));
  return types;
}

namespace dom = simdjson::dom;

/// The text is copied beside its parsed form; JSON of this size would be a program of a million statements.
constexpr size_t kMaxTextBytes = size_t{1} << 28;

[[noreturn]] void fail(std::string_view origin, const std::string& what) { throw DataError("{}: {}", origin, what); }

/// Throws DataError for a text of TVM 0.21 or later. 0.21 names containers "ffi.Array" and writes null for 0; from
/// 0.22, `root_index` and `metadata` replace `root` and `attrs`, and a node's members are in `data`
/// (src/ffi/extra/serialization.cc of tvm-ffi).
void refuse_later_forms(dom::element document, std::string_view origin) {
  constexpr int64_t kNewestMinor = 20;
  std::string_view version;
  dom::element root;
  const bool renamed = document["root_index"].get(root) == simdjson::SUCCESS;
  if (document[renamed ? "metadata" : "attrs"]["tvm_version"].get(version) != simdjson::SUCCESS) version = "";
  auto digits = version.substr(std::min<size_t>(version.size(), 2));
  const auto minor = take_number<int64_t>(digits).value_or(0);
  if (!renamed && (!version.starts_with("0.") || minor <= kNewestMinor)) return;
  fail(origin, fmt::format("TVM {} wrote it. From 0.21 on, tvm.ir.save_json has another form, "
                           "which Foretime does not read: expected that of TVM 0.8 to 0.20, "
                           "or what foretime.tir_program writes with any TVM",
                           version.empty() ? "0.22 or later" : version));
}

}  // namespace

const TirType& tir_type(std::string_view key) {
  static const TirType unknown = {"", {}, TirClass::unknown, tir_type_id("")};
  static const std::unordered_map<std::string_view, TirType> table = [] {
    std::unordered_map<std::string_view, TirType> by_key;
    for (TirType& type : all_types()) by_key[type.key] = type;
    return by_key;
  }();
  const auto found = table.find(key);
  return found == table.end() ? unknown : found->second;
}

size_t tir_field(const TirType& type, std::string_view name) {
  const auto found = std::ranges::find_if(type.fields, [name](const TirField& field) { return field.name == name; });
  return found - type.fields.begin();
}

/// simdjson's parser, and the members of the node that is being read.
struct TirDocument::Parser {
  dom::parser json;
  std::string_view origin;
  size_t node = 0;
  std::string_view type_key, repr_str, repr_b64;
  dom::object attrs;
  dom::array data;
  bool has_attrs = false, has_data = false, string_keys = false;

  std::string who() const { return fmt::format("{}: node {} ({})", origin, node, type_key); }

  template <class T>
  T get(dom::element element, std::string_view name, std::string_view expected) const {
    T value;
    if (element.get(value) != simdjson::SUCCESS) fail(who(), fmt::format("{}: expected {}", name, expected));
    return value;
  }

  void read_members(dom::element element) {
    type_key = repr_str = repr_b64 = {};
    has_attrs = has_data = string_keys = false;
    bool has_key = false;
    for (const auto& [name, value] : get<dom::object>(element, "the node", "an object")) {
      if (name == "type_key") {
        type_key = get<std::string_view>(value, name, "a string");
        has_key = true;
      } else if (name == "attrs") {
        attrs = get<dom::object>(value, name, "an object");
        has_attrs = true;
      } else if (name == "data") {
        data = get<dom::array>(value, name, "a list of node numbers");
        has_data = true;
      } else if (name == "keys") {
        string_keys = get<dom::array>(value, name, "a list of strings").size() > 0;
      } else if (name == "repr_str") {
        repr_str = get<std::string_view>(value, name, "a string");
      } else if (name == "repr_b64") {
        repr_b64 = get<std::string_view>(value, name, "a string");
      }
    }
    if (!has_key) fail(who(), "no type_key");
  }

  /// Sets the fields of `type` that are there.
  void read_fields(const TirType& type, std::span<int64_t> fields) const {
    if (!has_attrs) return;
    for (const auto& [name, value] : attrs) {
      const size_t position = tir_field(type, name);
      if (position == type.fields.size()) continue;
      const auto text = get<std::string_view>(value, name, "a number as a string");
      const bool is_real = type.fields[position].role == TirRole::real;
      const auto number = is_real ? std::optional<int64_t>() : parse_number<int64_t>(text);
      const auto real = is_real ? parse_number<double>(text) : std::nullopt;
      if (!number && !real)
        fail(who(), fmt::format("{}: '{}', expected a {}number", name, text, is_real ? "" : "whole "));
      fields[position] = is_real ? std::bit_cast<int64_t>(*real) : *number;
    }
  }
};

TirDocument::TirDocument() : parser_(std::make_unique<Parser>()) {}
TirDocument::~TirDocument() = default;

double TirDocument::real(int64_t node, size_t field) const { return std::bit_cast<double>(this->field(node, field)); }

std::span<const int64_t> TirDocument::data(int64_t node) const {
  const Node& at = nodes_[node];
  return {values_.data() + at.first, at.count};
}

void TirDocument::parse(std::string_view text, const std::string& origin) {
  nodes_.clear();
  values_.clear();
  texts_.clear();
  decoded_.clear();
  version_.clear();
  target_.clear();
  if (text.size() > kMaxTextBytes)
    fail(origin, fmt::format("{} bytes of JSON, expected at most {}", text.size(), kMaxTextBytes));
  dom::element document;
  if (const auto error = parser_->json.parse(text.data(), text.size()).get(document))
    fail(origin, fmt::format("no JSON: {}", simdjson::error_message(error)));
  refuse_later_forms(document, origin);
  dom::array nodes;
  if (document["nodes"].get(nodes) != simdjson::SUCCESS || document["root"].get(root_) != simdjson::SUCCESS)
    fail(origin, "expected an object with root (a number) and nodes (a list), as tvm.ir.save_json writes it");
  std::string_view word;
  if (document["attrs"]["tvm_version"].get(word) == simdjson::SUCCESS) version_ = word;
  if (document["attrs"]["target"].get(word) == simdjson::SUCCESS) target_ = word;
  parser_->origin = origin;
  parser_->node = 0;
  for (const dom::element element : nodes) {
    parser_->read_members(element);
    add_node(*parser_);
    ++parser_->node;
  }
  if (root_ < 0 || root_ >= size()) fail(origin, fmt::format("root: {}, expected one of the {} nodes", root_, size()));
}

void TirDocument::add_node(const Parser& parser) {
  Node node{&tir_type(parser.type_key), static_cast<uint32_t>(values_.size())};
  switch (node.type->kind) {
    case TirClass::unknown:
    case TirClass::op: {
      node.first = texts_.size();
      if (node.type->kind == TirClass::unknown) {
        texts_.push_back(parser.type_key);
      } else if (parser.repr_b64.empty()) {
        texts_.push_back(parser.repr_str);
      } else {
        decoded_.push_back(decode_tir_repr(parser.repr_b64, parser.who()));
        texts_.push_back(decoded_.back());
      }
      break;
    }
    case TirClass::list:
    case TirClass::map: {
      node.string_keys = parser.string_keys;
      if (!parser.has_data) break;
      for (const dom::element element : parser.data)
        values_.push_back(parser.get<int64_t>(element, "data", "a list of node numbers"));
      node.count = std::ssize(values_) - node.first;
      break;
    }
    default: {
      node.count = node.type->fields.size();
      values_.resize(values_.size() + node.count, kMissing);
      parser.read_fields(*node.type, std::span(values_).last(node.count));
    }
  }
  nodes_.push_back(node);
}

std::string decode_tir_repr(std::string_view base64, const std::string& origin) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr size_t kLengthBytes = sizeof(uint64_t);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    if (c == '=' || c == '\n') continue;
    const size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) fail(origin, "repr_b64: a character that is not of base64");
    bits = bits << 6 | digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(bits >> count & 0xff);
  }
  uint64_t length = 0;
  for (size_t i = 0; i < std::min(kLengthBytes, bytes.size()); ++i)
    length |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  if (bytes.size() < kLengthBytes || length != bytes.size() - kLengthBytes)
    fail(origin, fmt::format("repr_b64: {} bytes with a length of {} in front", bytes.size(), length));
  return bytes.substr(kLengthBytes);
}

}  // namespace foretime::data
