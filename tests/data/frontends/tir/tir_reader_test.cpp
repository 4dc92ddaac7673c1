#include "data/frontends/tir/tir_reader.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "base/error.h"
#include "data/files/file_form.h"
#include "data/frontends/tir/tir_file.h"
#include "data/graphs/validate.h"
#include "tests/support/fuzzing.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

/// What the real files do not hold: node types of other versions, modules, and every kind of bad input.
namespace foretime::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TirText {
 public:
  /// Text, or the number of a node.
  struct Value : std::string {
    Value(const char* text) : std::string(text) {}
    Value(std::string text) : std::string(std::move(text)) {}
    Value(int node) : std::string(std::to_string(node)) {}
  };
  using Attributes = std::vector<std::pair<std::string, Value>>;

  explicit TirText(std::string version = "0.14.0") {
    json_["root"] = 1;
    json_["nodes"].push_back({{"type_key", ""}});
    json_["b64ndarrays"] = nlohmann::json::array();
    json_["attrs"]["tvm_version"] = std::move(version);
  }
  /// Number of the new node.
  int add(const std::string& type, const Attributes& attributes = {}) {
    nlohmann::json node = {{"type_key", type}};
    for (const auto& [name, value] : attributes) node["attrs"][name] = std::string(value);
    json_["nodes"].push_back(node);
    return static_cast<int>(json_["nodes"].size()) - 1;
  }
  int list(const std::vector<int>& data, const std::string& type = "Array") {
    const int node = add(type);
    if (!data.empty()) json_["nodes"][static_cast<size_t>(node)]["data"] = data;
    return node;
  }
  int integer(int64_t value) {
    return add("IntImm", {{"dtype", "int32"}, {"span", "0"}, {"value", std::to_string(value)}});
  }
  int variable() { return add("tir.Var", {{"dtype", "int32"}, {"name", "0"}, {"span", "0"}}); }
  int binary(const std::string& type, int a, int b) { return add(type, {{"a", a}, {"b", b}}); }
  int op(const std::string& repr) {
    const int node = add("Op");
    json_["nodes"][static_cast<size_t>(node)]["repr_str"] = repr;
    return node;
  }
  int buffer(int data, const std::vector<int>& sizes) {
    std::vector<int> shape;
    for (const int size : sizes) shape.push_back(integer(size));
    return add("tir.Buffer", {{"data", data}, {"shape", list(shape)}});
  }
  int evaluate(int value) { return add("tir.Evaluate", {{"value", value}}); }
  int loop(int extent, int body, int kind = 0, int min = -1) {
    return add("tir.For", {{"loop_var", variable()},
                           {"min", min < 0 ? integer(0) : min},
                           {"extent", extent},
                           {"kind", std::to_string(kind)},
                           {"body", body}});
  }
  int function(int body, const std::vector<int>& parameters = {}, const std::vector<int>& buffer_map = {}) {
    return add(
        "tir.PrimFunc",
        {{"params", list(parameters)}, {"buffer_map", list(buffer_map, "Map")}, {"body", body}, {"ret_type", "0"}});
  }
  TirText& root(int node) {
    json_["root"] = node;
    return *this;
  }
  void set(int node, const std::string& attribute, const Value& value) {
    json_["nodes"][static_cast<size_t>(node)]["attrs"][attribute] = std::string(value);
  }
  nlohmann::json& json() { return json_; }
  std::string text() const { return json_.dump(); }

 private:
  nlohmann::json json_;
};

std::vector<std::string> names(const ProgramNodes& trees) {
  std::vector<std::string> names;
  for (const uint8_t type : trees.type) names.emplace_back(tir_type_names()[type]);
  return names;
}

ProgramNodes read(const TirText& text, TirReader reader = TirReader()) {
  ProgramNodes trees;
  reader.read(text.text(), "text", trees);
  return trees;
}

std::string error_of(const TirText& text, const TirLimits& limits = {}) {
  TirReader reader(limits);
  ProgramNodes trees;
  trees.type = {1};
  trees.parent = {-1};
  auto message = testing::message_of<DataError>([&] { reader.read(text.text(), "text", trees); });
  EXPECT_EQ(trees.nodes(), 1u) << "a refused text left nodes behind";
  EXPECT_EQ(trees.graph_ptr.size(), 1u);
  return message;
}

/// v0.8: loads and stores name the variable of their buffer; predicates that always hold are no children.
TEST(TirReader, LoadAndStoreOfOldVersions) {
  TirText text("0.8.0");
  const int a = text.variable(), handle = text.variable(), index = text.variable();
  const int buffer = text.buffer(a, {4, 8});
  const int always = text.integer(1);
  const int broadcast = text.add("tir.Broadcast", {{"value", always}, {"lanes", "8"}});
  const int load = text.add("tir.Load", {{"buffer_var", a}, {"index", index}, {"predicate", broadcast}});
  const int local = text.variable();
  const int condition = text.binary("tir.LT", index, text.integer(3));
  const int store =
      text.add("tir.Store", {{"buffer_var", local}, {"value", load}, {"index", index}, {"predicate", condition}});
  const int allocate = text.add("tir.Allocate", {{"buffer_var", local},
                                                 {"extents", text.list({text.integer(2), text.integer(8)})},
                                                 {"condition", always},
                                                 {"body", store}});
  text.root(text.function(allocate, {handle}, {handle, buffer}));
  const auto trees = read(text);
  EXPECT_THAT(names(trees), ElementsAre("PrimFunc", "Allocate", "Store", "Var", "Load", "Var", "LT", "Var", "IntImm"));
  EXPECT_THAT(trees.parent, ElementsAre(-1, 0, 1, 2, 2, 4, 2, 6, 6));
  EXPECT_EQ(trees.extent[1], 16);
  EXPECT_EQ(trees.variable[1], 2);  // after the parameter and its buffer's variable
  EXPECT_EQ(trees.buffer[2], 1);
  EXPECT_EQ(trees.buffer_elements[2], 16);
  EXPECT_EQ(trees.buffer[4], 0);  // the parameter's buffer
  EXPECT_EQ(trees.buffer_elements[4], 32);
}

/// v0.10 and later; blocks, reductions, calls.
TEST(TirReader, OtherStatements) {
  TirText text("0.10.0");
  const int x = text.variable();
  const int call = text.add("tir.Call", {{"op", text.op("tir.exp")}, {"args", text.list({x})}});
  const int function_call = text.add("tir.Call", {{"op", text.add("GlobalVar")}, {"args", text.list({})}});
  const int init = text.evaluate(call), body = text.evaluate(function_call);
  const int block = text.add("tir.Block", {{"init", init}, {"body", body}});
  const int bare_block = text.add("tir.Block", {{"init", "0"}, {"body", body}});
  const auto realize = [&](int inner) {
    return text.add("tir.BlockRealize",
                    {{"iter_values", text.list({x})}, {"predicate", text.integer(1)}, {"block", inner}});
  };
  const int sequence = text.add("tir.SeqStmt", {{"seq", text.list({realize(block), realize(bare_block)})}});
  const int buffer = text.buffer(text.variable(), {3, 5});
  const int declare = text.add("tir.DeclBuffer", {{"buffer", buffer}, {"body", sequence}});
  const int constant = text.add(
      "tir.AllocateConst",
      {{"buffer_var", text.variable()}, {"extents", text.list({text.integer(7)})}, {"data", "0"}, {"body", declare}});
  text.root(constant);
  const auto trees = read(text);
  EXPECT_THAT(names(trees),
              ElementsAre("AllocateConst", "DeclBuffer", "SeqStmt", "BlockRealize", "Var", "Block", "Evaluate", "Call",
                          "Var", "Evaluate", "Call", "BlockRealize", "Var", "Block", "Evaluate", "Call"));
  EXPECT_EQ(trees.extent[0], 7);
  EXPECT_EQ(trees.buffer[1], 0);
  EXPECT_EQ(trees.buffer_elements[1], 15);
  EXPECT_EQ(trees.call_op[7], call_op_index("tir.exp"));
  EXPECT_EQ(trees.call_op[10], call_op_index("other"));
}

/// Bounds that are no constants are children, and their node has no extent.
TEST(TirReader, SymbolicBounds) {
  TirText text;
  const int n = text.variable();
  text.root(text.loop(text.binary("tir.Mul", n, text.integer(2)), text.evaluate(n), 4, n));
  const auto trees = read(text);
  EXPECT_THAT(names(trees), ElementsAre("For", "Var", "Mul", "Var", "IntImm", "Evaluate", "Var"));
  EXPECT_EQ(trees.extent[0], 0);
  EXPECT_EQ(trees.loop_kind[0], 4);
}

TEST(TirReader, Immediates) {
  TirText text;
  const int inf = text.add("FloatImm", {{"value", "-inf"}}), nan = text.add("FloatImm", {{"value", "nan"}});
  const int tiny = text.add("FloatImm", {{"value", "-1.1754943508222875e-38"}});
  text.root(text.binary("tir.Add", inf, text.binary("tir.Add", nan, text.binary("tir.Add", tiny, text.integer(-4)))));
  const auto trees = read(text);
  EXPECT_EQ(trees.value[1], -HUGE_VAL);
  EXPECT_EQ(trees.value[3], HUGE_VAL);  // not a number: nothing that a logarithm can hold
  EXPECT_EQ(trees.value[5], -1.1754943508222875e-38);
  EXPECT_EQ(trees.value[6], -4.0);
  EXPECT_TRUE(std::isnan(trees.value[0]));
}

TEST(TirReader, UnknownTypesAreLeavesAndCounted) {
  TirText text;
  const int strange = text.add("tir.FutureStmt", {{"body", "1"}});
  const int sequence = text.add("tir.SeqStmt", {{"seq", text.list({strange, strange, text.add("relay.Call")})}});
  text.root(text.function(sequence));
  TirReader reader;
  ProgramNodes trees;
  EXPECT_EQ(reader.read(text.text(), "text", trees), 1);
  EXPECT_THAT(names(trees), ElementsAre("PrimFunc", "SeqStmt", "Unknown", "Unknown", "Unknown"));
  EXPECT_THAT(reader.summary().unknown_types, ElementsAre(std::pair{"relay.Call", 1}, std::pair{"tir.FutureStmt", 2}));
}

TEST(TirReader, ModulesHoldATreeForEachFunction) {
  TirText text;
  const int shared = text.evaluate(text.integer(1));
  const int first = text.function(shared), second = text.function(text.loop(text.integer(4), shared));
  const int functions = text.list(
      {text.add("GlobalVar"), first, text.add("GlobalVar"), text.add("relay.Function"), text.add("GlobalVar"), second},
      "Map");
  text.root(text.add("IRModule", {{"functions", functions}}));
  const auto trees = read(text);
  EXPECT_THAT(trees.graph_ptr, ElementsAre(0, 3, 7));
  EXPECT_THAT(trees.parent, ElementsAre(-1, 0, 1, -1, 0, 1, 2));
}

TEST(TirReader, SharedNodesAreUnfolded) {
  TirText text;
  int sum = text.variable();
  for (int i = 0; i < 10; ++i) sum = text.binary("tir.Add", sum, sum);
  text.root(sum);
  EXPECT_EQ(read(text).nodes(), 2047u);
}

/// 2^60 nodes in a text of a few kilobytes.
TEST(TirReader, ExponentialDagIsRefused) {
  TirText text;
  int sum = text.variable();
  for (int i = 0; i < 60; ++i) sum = text.binary("tir.Add", sum, sum);
  text.root(sum);
  EXPECT_MESSAGE(error_of(text));
  // One list that many nodes share is as large, though no tree is.
  TirText wide;
  std::vector<int> leaves(3000, wide.integer(1)), rows;
  const int list = wide.list(leaves);
  for (int i = 0; i < 3000; ++i) rows.push_back(wide.add("tir.SeqStmt", {{"seq", list}}));
  wide.root(wide.add("tir.SeqStmt", {{"seq", wide.list(rows)}}));
  EXPECT_MESSAGE(error_of(wide));
  // All functions of a module count together.
  TirText module;
  int body = module.variable();
  for (int i = 0; i < 9; ++i) body = module.binary("tir.Add", body, body);
  std::vector<int> entries;
  for (int i = 0; i < 10; ++i) entries.insert(entries.end(), {0, module.function(module.evaluate(body))});
  module.root(module.add("IRModule", {{"functions", module.list(entries, "Map")}}));
  EXPECT_EQ(read(module).graphs(), 10);
  EXPECT_MESSAGE(error_of(module, {.nodes = 5000, .depth = 100}));
}

TEST(TirReader, DepthIsBounded) {
  TirText text;
  int chain = text.variable();
  for (int i = 0; i < 5000; ++i) chain = text.add("tir.Not", {{"a", chain}});
  text.root(chain);
  EXPECT_MESSAGE(error_of(text));
}

TEST(TirReader, CyclesAreRefused) {
  TirText text;
  const int inner = text.binary("tir.Add", text.variable(), 0);
  text.set(inner, "b", inner);
  text.root(inner);
  EXPECT_MESSAGE(error_of(text));
  TirText longer;
  const int not_a = longer.add("tir.Not", {{"a", "2"}});
  longer.add("tir.Not", {{"a", not_a}});
  longer.root(not_a);
  EXPECT_MESSAGE(error_of(longer));
}

TEST(TirReader, BadFieldsAreNamed) {
  const auto with = [](const char* attribute, const char* value) {
    TirText text;
    const int loop = text.loop(text.integer(4), text.evaluate(text.integer(0)));
    text.set(loop, attribute, value);
    text.root(loop);
    return error_of(text);
  };
  EXPECT_MESSAGE(with("body", "99"), "(tir.For): body: 99");
  EXPECT_THAT(with("body", "-1"), HasSubstr("body: -1"));
  EXPECT_MESSAGE(with("body", "0"), "body");
  EXPECT_MESSAGE(with("body", "two"), "body");
  EXPECT_MESSAGE(with("body", "99999999999999999999"));
  EXPECT_THAT(with("kind", "5"), HasSubstr("kind: 5, expected 0 … 4"));
  EXPECT_MESSAGE(with("loop_var", "1"));
  TirText old("0.7.0");
  const int loop = old.loop(old.integer(4), old.evaluate(old.integer(0)));
  old.json()["nodes"][static_cast<size_t>(loop)]["attrs"].erase("kind");
  old.root(loop);
  EXPECT_THAT(error_of(old), HasSubstr("kind"));
  TirText negative;
  negative.root(negative.loop(negative.integer(-3), negative.evaluate(negative.integer(0))));
  EXPECT_MESSAGE(error_of(negative));
  TirText shape;
  const int store = shape.add("tir.BufferLoad", {{"buffer", shape.buffer(shape.variable(), std::vector<int>(65, 1))},
                                                 {"indices", shape.list({})}});
  shape.root(store);
  EXPECT_MESSAGE(error_of(shape));
  TirText no_module;
  no_module.root(no_module.list({}));
  EXPECT_MESSAGE(error_of(no_module));
}

TEST(TirReader, SizesSaturate) {
  TirText text;
  const int big = 1 << 30;
  text.root(text.add("tir.BufferLoad",
                     {{"buffer", text.buffer(text.variable(), {big, big, big, big})}, {"indices", text.list({})}}));
  EXPECT_EQ(read(text).buffer_elements[0], std::numeric_limits<int64_t>::max());
}

TEST(TirReader, TextsThatAreNone) {
  TirReader reader;
  ProgramNodes trees;
  for (const char* text :
       {"", "[]", "7", "{\"root\": 0}", "{\"root\": \"0\", \"nodes\": []}", "{\"root\": 0, \"nodes\": []}",
        "{\"root\": 0, \"nodes\": [7]}", "{\"root\": 0, \"nodes\": [{}]}",
        "{\"root\": 0, \"nodes\": [{\"type_key\": 1}]}",
        "{\"root\": 0, \"nodes\": [{\"type_key\": \"tir.Add\", \"attrs\": {\"a\": 1}}]}",
        "{\"root\": 0, \"nodes\": [{\"type_key\": \"Array\", \"data\": [1.5]}]}",
        "{\"root\": 0, \"nodes\": [{\"type_key\": \"Array\"", "{\"root\": 0, \"nodes\": [{\"type_key\": \"\xff\"}]}"}) {
    EXPECT_THROW(reader.read(text, "text", trees), DataError) << text;
  }
  EXPECT_EQ(trees.nodes(), 0u);
  // The reader goes on as if nothing had been.
  TirText good;
  good.root(good.evaluate(good.integer(2)));
  EXPECT_EQ(reader.read(good.text(), "text", trees), 1);
}

TEST(TirReader, NamesInBase64) {
  // A length of 3 in eight bytes, then "abc".
  EXPECT_EQ(decode_tir_repr("AwAAAAAAAABhYmM=", "text"), "abc");
  EXPECT_THROW(decode_tir_repr("BAAAAAAAAABhYmM=", "text"), DataError);
  EXPECT_THROW(decode_tir_repr("A", "text"), DataError);
  EXPECT_THROW(decode_tir_repr("A*==", "text"), DataError);
}

TEST(TirReader, LaterFormsAreRefusedByTheirVersion) {
  // As src/ffi/extra/serialization.cc of tvm-ffi writes a text, and as src/node/serialization.cc of TVM 0.21 does.
  const std::string newest = R"({"root_index": 2, "nodes": [{"type": "None"}, {"type": "ffi.Array", "data": []},
      {"type": "tirx.PrimFunc", "data": {"params": 1}}], "metadata": {"tvm_version": "0.26.0"}})";
  const std::string unnamed = R"({"root_index": 0, "nodes": [{"type": "None"}]})";
  const std::string older = R"({"root": 1, "nodes": [{"type_key": ""}, {"type_key": "ffi.Array"}],
      "attrs": {"tvm_version": "0.21.dev0"}})";
  TirReader reader;
  ProgramNodes trees;
  const std::map<std::string, std::string> texts = {
      {newest, "TVM 0.26.0"}, {unnamed, "TVM 0.22 or later"}, {older, "TVM 0.21.dev0"}};
  for (const auto& [text, version] : texts) {
    const auto message = testing::message_of<DataError>([&] { reader.read(text, "text", trees); });
    EXPECT_THAT(message, HasSubstr("text: " + version + " wrote it"));
    EXPECT_MESSAGE(message);
  }
  testing::Scratch scratch;
  const auto file = scratch.path() / "program.json";
  std::ofstream(file) << newest << "\n";
  EXPECT_EQ(form_of(file), FileForm::save_json) << "and so is not taken for tuning records";
}

TEST(TirFile, OneTextOrLines) {
  testing::Scratch scratch;
  TirText text;
  text.root(text.function(text.evaluate(text.integer(2))));
  const auto whole = scratch.path() / "program.json";
  std::ofstream(whole) << text.json().dump(2) << "\n";
  EXPECT_EQ(form_of(whole), FileForm::save_json);
  const auto report = inspect_tir(whole);
  EXPECT_EQ(report.records, 1);
  EXPECT_EQ(report.members.at("").trees, 1);
  const auto groups = read_tir_groups({whole}, "");
  EXPECT_EQ(groups.at(0).candidate_ids.at(0), "program.json");
  EXPECT_FALSE(groups.at(0).labelled());

  const auto lines = scratch.path() / "lines.jsonl";
  std::ofstream(lines) << text.text() << "\n\n{\"line\": 7, \"workload_key\": [\"f\", 1], \"runtime\": 0.5, \"tir\": "
                       << nlohmann::json(text.text()).dump() << "}\n{\"id\": \"none\"}\nno json\n";
  EXPECT_EQ(form_of(lines), FileForm::save_json);
  const auto mixed = inspect_tir(lines);
  EXPECT_EQ(mixed.records, 2);
  EXPECT_EQ(mixed.labelled, 1);
  EXPECT_EQ(mixed.failures, 2);
  EXPECT_MESSAGE(mixed.first_failures.at(0), "lines.jsonl:4");
  EXPECT_THAT(to_text(mixed), HasSubstr("could not be read: 2"));
  EXPECT_THAT(to_json(mixed), HasSubstr("\"failures\": 2"));
}

TEST(TirFile, ProgramsOfAWorkloadHaveOneTarget) {
  testing::Scratch scratch;
  TirText text;
  text.root(text.function(text.evaluate(text.integer(2))));
  const auto file = scratch.path() / "programs.jsonl";
  const auto write = [&](const std::vector<std::string>& targets) {
    std::ofstream out(file);
    for (const auto& target : targets) {
      text.json()["attrs"]["target"] = target;
      out << nlohmann::json{{"workload", "w"}, {"program", text.text()}} << "\n";
    }
  };
  write({"llvm -mcpu=znver4", "llvm -mcpu=znver4"});
  EXPECT_EQ(read_tir_groups({file}, "").at(0).candidates, 2);
  write({"llvm -mcpu=znver4", "llvm"});
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { read_tir_groups({file}, ""); }), "programs.jsonl: line 2", "llvm",
                 "w");
}

TEST(TirFile, DamagedGzip) {
  testing::Scratch scratch;
  TirText text;
  for (int i = 0; i < 500; ++i) text.integer(i * i * 31);
  text.root(text.evaluate(text.integer(2)));
  const auto file = scratch.path() / "program.jsonl.gz";
  {
    const gzFile out = gzopen(file.c_str(), "wb");
    for (int i = 0; i < 20; ++i) {
      const nlohmann::json line = {{"id", std::to_string(i * 7919)}, {"tir", text.text()}};
      const std::string bytes = line.dump() + "\n";
      gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
    }
    gzclose(out);
  }
  EXPECT_EQ(inspect_tir(file).records, 20);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  EXPECT_THROW(
      {
        TirFile cut(file);
        TirRecord record;
        while (cut.next(record)) {
        }
      },
      DataError);
  EXPECT_THROW(read_tir_groups({file}, ""), DataError);
  EXPECT_EQ(form_of(scratch.path() / "missing"), FileForm::unknown);
  EXPECT_THROW(TirFile(scratch.path() / "missing"), DataError);
}

}  // namespace

// Damaged save_json text: the reader throws DataError, or makes trees that keep every rule. Never a crash, never a
// tree past the limits.

namespace {

constexpr TirLimits kLimits = {.nodes = 20000, .depth = 600};

std::vector<std::string> tir_seeds() {
  std::vector<std::string> texts;
  TirFile file(testing::samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz");
  TirRecord record;
  while (file.next(record) && texts.size() < 8) {
    for (const auto& [member, text] : record.texts) {
      if (text.size() < 200000) texts.push_back(text);
    }
  }
  return texts;
}

/// Whether the text was accepted; the trees must then be what the code behind the reader relies on.
bool accepted(TirReader& reader, const std::string& text) {
  ProgramNodes trees;
  try {
    reader.read(text, "fuzz", trees);
  } catch (const DataError&) {
    EXPECT_EQ(trees.nodes(), 0u);
    return false;
  }
  EXPECT_LE(trees.nodes(), static_cast<size_t>(kLimits.nodes));
  Group group;
  group.name = "fuzz";
  group.kind = CandidateKind::program;
  group.unit = RuntimeUnit::seconds;
  group.candidates = trees.graphs();
  group.candidate_ids.assign(static_cast<size_t>(group.candidates), "one");
  group.runtimes = std::vector<double>(static_cast<size_t>(group.candidates), 0.0);
  group.graphs = program_graphs(std::move(trees));
  EXPECT_NO_THROW(validate_group(group, "fuzz"));
  return true;
}

TEST(TirFuzz, MutatedFields) {
  testing::Draw random(7);
  TirReader reader(kLimits);
  const char* const values[] = {"0", "1", "-1",    "4294967296",          "9223372036854775807",
                                "x", "",  "1e999", "-9223372036854775808"};
  const char* const types[] = {"",           "Array",     "Map",          "tir.For",  "tir.Add",  "tir.Var",
                               "tir.Buffer", "tir.Block", "tir.PrimFunc", "tir.Load", "Range",    "tir.Broadcast",
                               "IRModule",   "Op",        "tir.Call",     "IntImm",   "FloatImm", "tir.Ramp",
                               "nothing",    "tir.Store", "tir.Select"};
  int64_t good = 0, bad = 0;
  for (const std::string& seed : tir_seeds()) {
    const auto original = nlohmann::json::parse(seed);
    for (int round = 0; round < testing::fuzz_rounds(60); ++round) {
      auto json = original;
      auto& nodes = json["nodes"];
      for (size_t changes = 1 + random.below(3); changes > 0; --changes) {
        auto& node = nodes[random.below(nodes.size())];
        const size_t kind = random.below(7);
        const size_t attributes = node.contains("attrs") ? node["attrs"].size() : 0;
        if (kind <= 2 && attributes > 0) {
          auto attribute = node["attrs"].begin();
          std::advance(attribute, static_cast<int64_t>(random.below(attributes)));
          *attribute = kind == 0 ? random.of(values) : std::to_string(random.below(nodes.size()));
        } else if (kind == 3) {
          node["type_key"] = random.of(types);
        } else if (kind == 4 && node.contains("data") && !node["data"].empty()) {
          node["data"][random.below(node["data"].size())] = random.below(nodes.size() + 2);
        } else if (kind == 5 && attributes > 0) {
          node["attrs"].erase(node["attrs"].begin());
        } else if (kind == 6) {
          json["root"] = random.below(nodes.size());
        }
      }
      ++(accepted(reader, json.dump()) ? good : bad);
    }
  }
  EXPECT_GT(good, 20);  // the mutations reach behind the first check
  EXPECT_GT(bad, 20);
}

TEST(TirFuzz, MutatedBytes) {
  testing::Draw random(11);
  TirReader reader(kLimits);
  int64_t good = 0, bad = 0;
  for (const std::string& seed : tir_seeds()) {
    for (int round = 0; round < testing::fuzz_rounds(40); ++round) {
      std::string text = seed;
      if (round % 4 == 0) {
        text.resize(random.below(text.size()));
      } else {
        for (size_t changes = 1 + random.below(4); changes > 0; --changes)
          random.of(text) = round % 4 == 1 ? random.byte() : static_cast<char>('0' + random.below(10));
      }
      ++(accepted(reader, text) ? good : bad);
    }
  }
  EXPECT_GT(bad, 20);
}

}  // namespace
}  // namespace foretime::data
