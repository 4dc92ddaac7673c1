/// The table of types against what TVM's sources say: the fields that VisitAttrs of each class names, v0.8 to v0.14.
#include "data/frontends/tir/tir_document.h"

#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

const std::map<std::string, std::string> kFieldsInTvm = {
    {"tir.PrimFunc", "params body ret_type buffer_map preflattened_buffer_map attrs span _checked_type_"},
    {"tir.LetStmt", "var value body span"},
    {"tir.AttrStmt", "node attr_key value body span"},
    {"tir.IfThenElse", "condition then_case else_case span"},
    {"tir.For", "loop_var min extent kind body thread_binding annotations span"},
    {"tir.While", "condition body span"},
    {"tir.Allocate", "buffer_var dtype extents condition body annotations span"},
    {"tir.AllocateConst", "buffer_var data irmod_storage_idx dtype extents body annotations span"},
    {"tir.DeclBuffer", "buffer body span"},
    {"tir.BufferStore", "buffer value indices span"},
    {"tir.BufferRealize", "buffer bounds condition body span"},
    {"tir.AssertStmt", "condition message body span"},
    {"tir.ProducerStore", "producer value indices span"},
    {"tir.ProducerRealize", "producer bounds condition body storage_scope span"},
    {"tir.Prefetch", "buffer bounds span"},
    {"tir.SeqStmt", "seq span"},
    {"tir.Evaluate", "value span"},
    {"tir.Block", "iter_vars reads writes name_hint body init alloc_buffers match_buffers annotations"},
    {"tir.BlockRealize", "iter_values predicate block"},
    {"tir.Var", "dtype name type_annotation span"},
    {"tir.SizeVar", "dtype name type_annotation span"},
    {"tir.BufferLoad", "dtype buffer indices span"},
    {"tir.ProducerLoad", "dtype producer indices span"},
    {"tir.Let", "dtype var value body span"},
    {"tir.Call", "dtype op args span"},
    {"tir.Reduce", "dtype combiner source init axis condition value_index span"},
    {"tir.Cast", "dtype value span"},
    {"tir.Not", "dtype a span"},
    {"tir.Select", "dtype condition true_value false_value span"},
    {"tir.Ramp", "dtype base stride lanes span"},
    {"tir.Broadcast", "dtype value lanes span"},
    {"tir.Shuffle", "dtype vectors indices span"},
    {"IntImm", "dtype value span"},
    {"FloatImm", "dtype value span"},
    {"tir.StringImm", "dtype value span"},
    {"tir.Any", "dtype span"},
    {"tir.Load", "dtype buffer_var index predicate span"},
    {"tir.Store", "buffer_var value index predicate span"},
    {"tir.Buffer",
     "data dtype shape strides axis_separators elem_offset name data_alignment offset_factor buffer_type span"},
    {"Tensor", "shape dtype op value_index"},
    {"Range", "min extent span"},
    {"IRModule", "functions type_definitions global_var_map_ global_type_var_map_ source_map attrs"},
};
constexpr const char* kBinaryInTvm = "dtype a b span";

std::set<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST(TirTypes, EveryTypeHasFieldsThatTvmKnows) {
  std::set<std::string> seen;
  for (int64_t t = 0; t + 1 < kTirTypes; ++t) {  // the last one is Unknown
    const std::string name(tir_type_names()[static_cast<size_t>(t)]);
    const std::string key = name == "IntImm" || name == "FloatImm" ? name : "tir." + name;
    const TirType& type = tir_type(key);
    EXPECT_EQ(type.node_type, t) << key;
    EXPECT_TRUE(type.kind == TirClass::tree || type.kind == TirClass::variable) << key;
    const auto found = kFieldsInTvm.find(key);
    const auto known = words(found == kFieldsInTvm.end() ? kBinaryInTvm : found->second);
    for (const auto& field : type.fields)
      EXPECT_TRUE(known.contains(std::string(field.name))) << key << "." << field.name;
    seen.insert(key);
  }
  EXPECT_EQ(seen.size(), 55u);
  for (const char* key : {"tir.Buffer", "Tensor", "Range", "IRModule"}) {
    for (const auto& field : tir_type(key).fields)
      EXPECT_TRUE(words(kFieldsInTvm.at(key)).contains(std::string(field.name))) << key << "." << field.name;
  }
}

/// What of a type is an expression or a statement must be a child, or a node would lose a part of its tree.
TEST(TirTypes, NoChildIsForgotten) {
  const auto no_children = words(
      "dtype span ret_type preflattened_buffer_map attrs _checked_type_ node attr_key annotations "
      "thread_binding irmod_storage_idx data storage_scope iter_vars reads writes name_hint alloc_buffers "
      "match_buffers name type_annotation combiner axis value_index lanes");
  for (const auto& [key, fields] : kFieldsInTvm) {
    const TirType& type = tir_type(key);
    if (type.kind != TirClass::tree || key == "tir.StringImm") continue;
    for (const auto& field : words(fields)) {
      if (no_children.contains(field)) continue;
      EXPECT_LT(tir_field(type, field), type.fields.size()) << key << "." << field << " is not in the table";
    }
  }
}

TEST(TirTypes, OthersAreUnknown) {
  EXPECT_EQ(tir_type("tir.FutureStmt").kind, TirClass::unknown);
  EXPECT_EQ(tir_type("tir.FutureStmt").node_type, tir_type_id("Unknown"));
  EXPECT_EQ(tir_type("").kind, TirClass::null);
}

}  // namespace
}  // namespace foretime::data
