#include "data/frontends/tir/tir_types.h"

#include <algorithm>
#include <unordered_map>

#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

using enum TirRole;

// Functions, statements: where a statement has a place to go to and something to put there, the place comes first.
constexpr TirField kPrimFunc[] = {{"params", reference}, {"buffer_map", reference}, {"body", child}};
constexpr TirField kLet[] = {{"var", variable}, {"value", child}, {"body", child}};
constexpr TirField kAttrStmt[] = {{"value", child}, {"body", child}};
constexpr TirField kIfThenElse[] = {{"condition", child}, {"then_case", child}, {"else_case", optional_child}};
constexpr TirField kFor[] = {
    {"loop_var", variable}, {"kind", loop_kind}, {"min", bound}, {"extent", extent}, {"body", child}};
constexpr TirField kWhile[] = {{"condition", child}, {"body", child}};
constexpr TirField kAllocate[] = {
    {"buffer_var", variable}, {"extents", extents}, {"condition", condition}, {"body", child}};
constexpr TirField kAllocateConst[] = {{"buffer_var", variable}, {"extents", extents}, {"body", child}};
constexpr TirField kDeclBuffer[] = {{"buffer", buffer}, {"body", child}};
constexpr TirField kBufferStore[] = {{"buffer", buffer}, {"indices", children}, {"value", child}};
constexpr TirField kBufferRealize[] = {
    {"buffer", buffer}, {"bounds", ranges}, {"condition", condition}, {"body", child}};
constexpr TirField kAssertStmt[] = {{"condition", child}, {"message", child}, {"body", child}};
constexpr TirField kProducerStore[] = {{"producer", buffer}, {"indices", children}, {"value", child}};
constexpr TirField kProducerRealize[] = {
    {"producer", buffer}, {"bounds", ranges}, {"condition", condition}, {"body", child}};
constexpr TirField kPrefetch[] = {{"buffer", buffer}, {"bounds", ranges}};
constexpr TirField kSeqStmt[] = {{"seq", children}};
constexpr TirField kValue[] = {{"value", child}};
constexpr TirField kBlock[] = {{"init", optional_child}, {"body", child}};
constexpr TirField kBlockRealize[] = {{"iter_values", children}, {"predicate", condition}, {"block", child}};
constexpr TirField kStore[] = {
    {"buffer_var", buffer_var}, {"index", child}, {"value", child}, {"predicate", condition}};
// Expressions.
constexpr TirField kBufferLoad[] = {{"buffer", buffer}, {"indices", children}};
constexpr TirField kProducerLoad[] = {{"producer", buffer}, {"indices", children}};
constexpr TirField kLoad[] = {{"buffer_var", buffer_var}, {"index", child}, {"predicate", condition}};
constexpr TirField kCall[] = {{"op", call_op}, {"args", children}};
constexpr TirField kBinary[] = {{"a", child}, {"b", child}};
constexpr TirField kNot[] = {{"a", child}};
constexpr TirField kReduce[] = {{"source", children}, {"init", children}, {"condition", condition}};
constexpr TirField kSelect[] = {{"condition", child}, {"true_value", child}, {"false_value", child}};
constexpr TirField kRamp[] = {{"base", child}, {"stride", child}};
constexpr TirField kShuffle[] = {{"vectors", children}, {"indices", children}};
constexpr TirField kIntImm[] = {{"value", number}};
constexpr TirField kFloatImm[] = {{"value", real}};
// What nodes refer to.
constexpr TirField kBuffer[] = {{"data", reference}, {"shape", reference}};
constexpr TirField kTensor[] = {{"shape", reference}};
constexpr TirField kRange[] = {{"min", reference}, {"extent", reference}};
constexpr TirField kModule[] = {{"functions", reference}};

struct Row {
  std::string_view key, name;  // name: in tir_type_names(), or none
  TirClass kind;
  std::span<const TirField> fields;
};

constexpr Row kRows[] = {
    {"", "", TirClass::null, {}},
    {"Array", "", TirClass::list, {}},
    {"Map", "", TirClass::map, {}},
    {"Op", "", TirClass::op, {}},
    {"IRModule", "", TirClass::auxiliary, kModule},
    {"Range", "", TirClass::auxiliary, kRange},
    {"Tensor", "", TirClass::auxiliary, kTensor},
    {"tir.Buffer", "", TirClass::auxiliary, kBuffer},
    {"tir.PrimFunc", "PrimFunc", TirClass::tree, kPrimFunc},
    {"tir.LetStmt", "LetStmt", TirClass::tree, kLet},
    {"tir.AttrStmt", "AttrStmt", TirClass::tree, kAttrStmt},
    {"tir.IfThenElse", "IfThenElse", TirClass::tree, kIfThenElse},
    {"tir.For", "For", TirClass::tree, kFor},
    {"tir.While", "While", TirClass::tree, kWhile},
    {"tir.Allocate", "Allocate", TirClass::tree, kAllocate},
    {"tir.AllocateConst", "AllocateConst", TirClass::tree, kAllocateConst},
    {"tir.DeclBuffer", "DeclBuffer", TirClass::tree, kDeclBuffer},
    {"tir.BufferStore", "BufferStore", TirClass::tree, kBufferStore},
    {"tir.BufferRealize", "BufferRealize", TirClass::tree, kBufferRealize},
    {"tir.AssertStmt", "AssertStmt", TirClass::tree, kAssertStmt},
    {"tir.ProducerStore", "ProducerStore", TirClass::tree, kProducerStore},
    {"tir.ProducerRealize", "ProducerRealize", TirClass::tree, kProducerRealize},
    {"tir.Prefetch", "Prefetch", TirClass::tree, kPrefetch},
    {"tir.SeqStmt", "SeqStmt", TirClass::tree, kSeqStmt},
    {"tir.Evaluate", "Evaluate", TirClass::tree, kValue},
    {"tir.Block", "Block", TirClass::tree, kBlock},
    {"tir.BlockRealize", "BlockRealize", TirClass::tree, kBlockRealize},
    {"tir.Var", "Var", TirClass::variable, {}},
    {"tir.SizeVar", "SizeVar", TirClass::variable, {}},
    {"tir.BufferLoad", "BufferLoad", TirClass::tree, kBufferLoad},
    {"tir.ProducerLoad", "ProducerLoad", TirClass::tree, kProducerLoad},
    {"tir.Let", "Let", TirClass::tree, kLet},
    {"tir.Call", "Call", TirClass::tree, kCall},
    {"tir.Add", "Add", TirClass::tree, kBinary},
    {"tir.Sub", "Sub", TirClass::tree, kBinary},
    {"tir.Mul", "Mul", TirClass::tree, kBinary},
    {"tir.Div", "Div", TirClass::tree, kBinary},
    {"tir.Mod", "Mod", TirClass::tree, kBinary},
    {"tir.FloorDiv", "FloorDiv", TirClass::tree, kBinary},
    {"tir.FloorMod", "FloorMod", TirClass::tree, kBinary},
    {"tir.Min", "Min", TirClass::tree, kBinary},
    {"tir.Max", "Max", TirClass::tree, kBinary},
    {"tir.EQ", "EQ", TirClass::tree, kBinary},
    {"tir.NE", "NE", TirClass::tree, kBinary},
    {"tir.LT", "LT", TirClass::tree, kBinary},
    {"tir.LE", "LE", TirClass::tree, kBinary},
    {"tir.GT", "GT", TirClass::tree, kBinary},
    {"tir.GE", "GE", TirClass::tree, kBinary},
    {"tir.And", "And", TirClass::tree, kBinary},
    {"tir.Or", "Or", TirClass::tree, kBinary},
    {"tir.Reduce", "Reduce", TirClass::tree, kReduce},
    {"tir.Cast", "Cast", TirClass::tree, kValue},
    {"tir.Not", "Not", TirClass::tree, kNot},
    {"tir.Select", "Select", TirClass::tree, kSelect},
    {"tir.Ramp", "Ramp", TirClass::tree, kRamp},
    {"tir.Broadcast", "Broadcast", TirClass::tree, kValue},
    {"tir.Shuffle", "Shuffle", TirClass::tree, kShuffle},
    {"IntImm", "IntImm", TirClass::tree, kIntImm},
    {"FloatImm", "FloatImm", TirClass::tree, kFloatImm},
    {"tir.StringImm", "StringImm", TirClass::tree, {}},
    {"tir.Any", "Any", TirClass::tree, {}},
    {"tir.Load", "Load", TirClass::tree, kLoad},
    {"tir.Store", "Store", TirClass::tree, kStore},
};

}  // namespace

const TirType& tir_type(std::string_view key) {
  static const TirType unknown = {"", TirClass::unknown, tir_type_id(""), {}};
  static const std::unordered_map<std::string_view, TirType> table = [] {
    std::unordered_map<std::string_view, TirType> types;
    for (const Row& row : kRows) types[row.key] = {row.key, row.kind, tir_type_id(row.name), row.fields};
    return types;
  }();
  const auto found = table.find(key);
  return found == table.end() ? unknown : found->second;
}

size_t tir_field(const TirType& type, std::string_view name) {
  const auto found = std::find_if(type.fields.begin(), type.fields.end(),
                                  [name](const TirField& field) { return field.name == name; });
  return static_cast<size_t>(found - type.fields.begin());
}

}  // namespace foretime::data
