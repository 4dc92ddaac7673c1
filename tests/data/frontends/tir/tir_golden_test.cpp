/// Real save_json text: against the trees that were made from it by TVM itself, and against the reference
/// implementation.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/dataset/group_files.h"
#include "data/files/file_form.h"
#include "data/files/line_source.h"
#include "data/files/npz_groups.h"
#include "data/files/npz_reader.h"
#include "data/files/packed.h"
#include "data/frontends/tir/tir_file.h"
#include "data/graphs/program_nodes.h"
#include "data/graphs/schema.h"
#include "data/graphs/validate.h"
#include "tests/data/groups.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

namespace fs = std::filesystem;
using testing::data_dir;
using testing::samples_dir;

class TirReference {
 public:
  explicit TirReference(std::string_view text) : json_(nlohmann::json::parse(text)) {}

  data::ProgramNodes tree() {
    const int64_t root = json_.at("root");
    if (type(root) == "tir.PrimFunc") {
      for (const int64_t parameter : data(ref(root, "params"))) variable(parameter);
      const auto map = data(ref(root, "buffer_map"));
      for (size_t i = 1; i < map.size(); i += 2) {
        buffer(map[i]);
        variable(ref(map[i], "data"));
      }
    }
    walk(root, -1);
    nodes_.graph_ptr.push_back(static_cast<int64_t>(nodes_.nodes()));
    return nodes_;
  }

 private:
  const nlohmann::json& node(int64_t i) const { return json_.at("nodes").at(static_cast<size_t>(i)); }
  std::string type(int64_t i) const { return node(i).at("type_key"); }
  std::string attribute(int64_t i, const char* name) const { return node(i).at("attrs").at(name); }
  int64_t ref(int64_t i, const char* name) const { return std::stoll(attribute(i, name)); }
  std::vector<int64_t> data(int64_t i) const { return node(i).value("data", std::vector<int64_t>()); }
  int32_t variable(int64_t i) {
    return variables_.try_emplace(i, static_cast<int32_t>(variables_.size())).first->second;
  }
  int32_t buffer(int64_t i) { return buffers_.try_emplace(i, static_cast<int32_t>(buffers_.size())).first->second; }
  int64_t product(int64_t array) const {
    int64_t product = 1;
    for (const int64_t size : data(array)) product *= type(size) == "IntImm" ? ref(size, "value") : 0;
    return product;
  }
  bool constant(int64_t i) const { return type(i) == "IntImm"; }

  void walk(int64_t i, int32_t parent) {
    const std::string key = type(i);
    const auto me = static_cast<int32_t>(nodes_.nodes());
    const std::string name = key.starts_with("tir.") ? key.substr(4) : key;
    nodes_.type.push_back(data::tir_type_id(name));
    nodes_.parent.push_back(parent);
    nodes_.extent.push_back(0);
    nodes_.loop_kind.push_back(-1);
    nodes_.value.push_back(std::numeric_limits<double>::quiet_NaN());
    nodes_.variable.push_back(-1);
    nodes_.buffer.push_back(-1);
    nodes_.buffer_elements.push_back(0);
    nodes_.call_op.push_back(0);
    const auto child = [&](const char* field) { walk(ref(i, field), me); };
    const auto children = [&](const char* field) {
      for (const int64_t c : data(ref(i, field))) walk(c, me);
    };
    const auto unless_constant = [&](int64_t c) {
      if (!constant(c)) walk(c, me);
    };
    const auto touch = [&] {
      nodes_.buffer.back() = buffer(ref(i, "buffer"));
      nodes_.buffer_elements.back() = product(ref(ref(i, "buffer"), "shape"));
    };
    if (name == "PrimFunc") {
      child("body");
    } else if (name == "For") {
      nodes_.variable.back() = variable(ref(i, "loop_var"));
      nodes_.loop_kind.back() = static_cast<int8_t>(ref(i, "kind"));
      const int64_t extent = ref(i, "extent");
      if (constant(extent)) nodes_.extent.back() = ref(extent, "value");
      unless_constant(ref(i, "min"));
      unless_constant(extent);
      child("body");
    } else if (name == "Allocate") {
      nodes_.variable.back() = variable(ref(i, "buffer_var"));
      nodes_.extent.back() = product(ref(i, "extents"));
      for (const int64_t c : data(ref(i, "extents"))) unless_constant(c);
      unless_constant(ref(i, "condition"));
      child("body");
    } else if (name == "BufferRealize") {
      touch();
      nodes_.extent.back() = 1;
      for (const int64_t range : data(ref(i, "bounds"))) {
        const int64_t extent = ref(range, "extent");
        nodes_.extent[static_cast<size_t>(me)] *= constant(extent) ? ref(extent, "value") : 0;
        unless_constant(ref(range, "min"));
        unless_constant(extent);
      }
      unless_constant(ref(i, "condition"));
      child("body");
    } else if (name == "LetStmt" || name == "Let") {
      nodes_.variable.back() = variable(ref(i, "var"));
      child("value");
      child("body");
    } else if (name == "AttrStmt") {
      child("value");
      child("body");
    } else if (name == "IfThenElse") {
      child("condition");
      child("then_case");
      if (ref(i, "else_case") != 0) child("else_case");
    } else if (name == "SeqStmt") {
      children("seq");
    } else if (name == "BufferStore") {
      touch();
      children("indices");
      child("value");
    } else if (name == "BufferLoad") {
      touch();
      children("indices");
    } else if (name == "Call") {
      nodes_.call_op.back() = static_cast<uint8_t>(data::call_op_index(node(ref(i, "op")).value("repr_str", "")));
      children("args");
    } else if (name == "Select") {
      child("condition");
      child("true_value");
      child("false_value");
    } else if (name == "Ramp") {
      child("base");
      child("stride");
    } else if (name == "Broadcast" || name == "Cast" || name == "Evaluate") {
      child("value");
    } else if (name == "Var" || name == "SizeVar") {
      nodes_.variable.back() = variable(i);
    } else if (name == "IntImm" || name == "FloatImm") {
      nodes_.value.back() = std::stod(attribute(i, "value"));
    } else if (node(i).contains("attrs") && node(i).at("attrs").contains("b")) {
      child("a");
      child("b");
    }
  }

  nlohmann::json json_;
  data::ProgramNodes nodes_;
  std::map<int64_t, int32_t> variables_, buffers_;
};

/// What differs first between two trees, "" where nothing does.
std::string difference(const data::ProgramNodes& a, const data::ProgramNodes& b) {
  if (a.graph_ptr != b.graph_ptr) return "graph_ptr";
  if (a.type != b.type) return "type";
  if (a.parent != b.parent) return "parent";
  if (a.extent != b.extent) return "extent";
  if (a.loop_kind != b.loop_kind) return "loop_kind";
  if (a.variable != b.variable) return "variable";
  if (a.buffer != b.buffer) return "buffer";
  if (a.buffer_elements != b.buffer_elements) return "buffer_elements";
  for (size_t i = 0; i < a.nodes(); ++i) {
    const bool both_nan = std::isnan(a.value[i]) && std::isnan(b.value[i]);
    if (!both_nan && a.value[i] != b.value[i]) return "value";
    if (a.type[i] == data::tir_type_id("Call") && a.call_op[i] != b.call_op[i]) return "call_op";
  }
  return "";
}

/// Every program before lowering equals the tree of its id, in every member; returns how many.
int64_t compare_with_trees(const fs::path& file, const fs::path& trees) {
  struct Workload {
    ProgramNodes all;
    std::vector<std::string> ids;
  };
  std::map<std::string, Workload> workloads;
  TirReader reader;
  TirFile programs(file);
  TirRecord record;
  int64_t equal = 0;
  while (programs.next(record)) {
    auto& [all, ids] = workloads[record.workload];
    if (ids.empty()) {
      const NpzReader npz(trees / (record.workload + ".npz"));
      all = read_program_nodes(npz);
      ids = npz.read_text("id", {{kAnySize}, "(any,)"});
    }
    ProgramNodes tree;
    EXPECT_EQ(reader.read(choose_text(record, "before_lowering", record.id), record.id, tree), 1);
    const auto found = std::ranges::find(ids, record.id);
    if (found == ids.end()) {
      ADD_FAILURE() << record.id << " is not in " << record.workload << ".npz";
      continue;
    }
    const std::string what = difference(tree, testing::tree_of(all, found - ids.begin()));
    EXPECT_EQ(what, "") << record.id;
    equal += what.empty();
  }
  EXPECT_TRUE(reader.summary().unknown_types.empty());
  return equal;
}

TEST(TirGolden, SamplesEqualTvmsTrees) {
  EXPECT_EQ(
      compare_with_trees(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz", samples_dir() / "resnet18_conv2d"),
      24);
}

TEST(TirGolden, AllOfResnetEqualsTvmsTrees) {
  FORETIME_NEEDS_DATA();
  EXPECT_EQ(
      compare_with_trees(data_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz", data_dir() / "tir/resnet18_conv2d"),
      144);
}

TEST(TirGolden, EqualsTheReference) {
  TirReader reader;
  TirFile programs(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz");
  TirRecord record;
  int64_t compared = 0;
  while (programs.next(record)) {
    for (const auto& [member, text] : record.texts) {
      ProgramNodes tree;
      reader.read(text, record.id, tree);
      EXPECT_EQ(difference(tree, TirReference(text).tree()), "") << record.id << " " << member;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 48);
}

/// A model that was trained on packed trees sees the same group, whichever way the programs come in.
TEST(TirGolden, GroupsEqualPackedTrees) {
  const auto groups = read_tir_groups({samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz"}, "before_lowering");
  ASSERT_EQ(groups.size(), 12u);
  for (const Group& group : groups) {
    SCOPED_TRACE(group.name);
    validate_group(group, group.name);
    EXPECT_TRUE(group.labelled());
    const auto headers = list_groups({group.name + ".npz"}, samples_dir() / "resnet18_conv2d", CandidateKind::program);
    const Group whole = load_group(headers.at(0));
    const auto hashes = configuration_hashes(group), all_hashes = configuration_hashes(whole);
    for (int64_t c = 0; c < group.candidates; ++c) {
      const auto found = std::ranges::find(whole.candidate_ids, group.candidate_ids[static_cast<size_t>(c)]);
      ASSERT_NE(found, whole.candidate_ids.end());
      const auto graph = static_cast<int64_t>(found - whole.candidate_ids.begin());
      EXPECT_EQ(group.runtimes[c], whole.runtimes[graph]);
      EXPECT_EQ(hashes[static_cast<size_t>(c)], all_hashes[static_cast<size_t>(graph)]);
      const int64_t nodes = group.graphs.graph_ptr[c + 1] - group.graphs.graph_ptr[c];
      ASSERT_EQ(nodes, whole.graphs.graph_ptr[graph + 1] - whole.graphs.graph_ptr[graph]);
      const int64_t features = group.graphs.feature_count;
      EXPECT_TRUE(std::equal(group.graphs.node_features.begin() + group.graphs.graph_ptr[c] * features,
                             group.graphs.node_features.begin() + group.graphs.graph_ptr[c + 1] * features,
                             whole.graphs.node_features.begin() + whole.graphs.graph_ptr[graph] * features));
    }
  }
}

TEST(TirGolden, PackedProgramsAreTheSameGroups) {
  testing::Scratch scratch;
  const auto file = samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz", out = scratch.path() / "tir.foretime";
  EXPECT_EQ(pack_tir(out, {file}, "lowered"), 12);
  EXPECT_EQ(verify_packed(out), 12);
  for (const Group& group : read_tir_groups({file}, "lowered")) {
    const auto headers = packed_headers(out);
    const auto found = std::ranges::find_if(headers, [&](const auto& header) { return header.name == group.name; });
    ASSERT_NE(found, headers.end());
    EXPECT_EQ(configuration_hashes(load_packed(*found)), configuration_hashes(group));
  }
  EXPECT_THROW(pack_tir(out, {file, file}, "lowered"), DataError);
  EXPECT_EQ(verify_packed(out), 12);  // what was there stays
}

TEST(TirGolden, AmbiguousMemberIsNamed) {
  EXPECT_THAT(testing::message_of<DataError>(
                  [&] { read_tir_groups({samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz"}, ""); }),
              ::testing::HasSubstr("before_lowering, lowered"));
}

TEST(TirGolden, InspectionOfTheSamples) {
  const auto report = inspect_tir(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz");
  EXPECT_EQ(report.records, 24);
  EXPECT_EQ(report.workloads, 12);
  EXPECT_EQ(report.labelled, 24);
  EXPECT_EQ(report.failures, 0);
  ASSERT_EQ(report.members.size(), 2u);
  const TirSummary& before = report.members.at("before_lowering");
  EXPECT_EQ(before.trees, 24);
  EXPECT_EQ(before.versions, (std::map<std::string, int64_t>{{"0.14.0", 24}}));
  EXPECT_EQ(before.node_types[tir_type_id("PrimFunc")], 24);
  EXPECT_THAT(to_text(report), ::testing::AllOf(::testing::HasSubstr("24 records of 12 workloads"),
                                                ::testing::HasSubstr("0.14.0 (24)"), ::testing::HasSubstr("Ramp")));
  EXPECT_EQ(form_of(samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz"), FileForm::save_json);
  EXPECT_EQ(form_of(samples_dir() / "resnet18_conv2d/C1.npz"), FileForm::npz);
}

std::multiset<int64_t> loops_of(const ProgramNodes& tree) {
  std::multiset<int64_t> extents;
  for (size_t i = 0; i < tree.nodes(); ++i) {
    if (tree.type[i] == tir_type_id("For")) extents.insert(tree.extent[i]);
  }
  return extents;
}

/// By record: extents of the iterators that TVM's own replay leaves, of all stages that are computed. Loops of one
/// iteration and symbolic extents are left out.
std::map<std::string, std::multiset<int64_t>> golden_loops(const fs::path& file) {
  std::map<std::string, std::multiset<int64_t>> loops;
  LineSource lines(file);
  while (const auto line = lines.next()) {
    const auto json = nlohmann::json::parse(line->text);
    auto& extents = loops[json.at("line").dump()];
    for (const auto& stage : json.at("stages")) {
      if (stage.at("compute_at") == "inlined") continue;
      for (const auto& iterator : stage.at("iters")) {
        const auto& extent = iterator.at("extent");
        if (extent.is_number_integer() && extent > 1) extents.insert(extent.get<int64_t>());
      }
    }
  }
  return loops;
}

/// TenSet's programs, scheduled and lowered: all of them can be read, those compared with the reference implementation
/// are equal, and every iterator of TVM's own replay is a loop of the scheduled tree (which has further ones, that set
/// reductions to 0).
TEST(TirGolden, Tenset) {
  FORETIME_NEEDS_DATA();
  std::map<std::string, TirReader> readers;
  const auto expected_loops = golden_loops(data_dir() / "tenset/golden_states.jsonl.gz");
  TirFile programs(data_dir() / "tenset/tir_json.jsonl.gz");
  TirRecord record;
  int64_t number = 0;
  while (programs.next(record)) {
    for (const auto& [member, text] : record.texts) {
      ProgramNodes tree;
      EXPECT_NO_THROW(readers[member].read(text, record.id, tree)) << record.id << " " << member;
      if (member == "scheduled") {
        const auto loops = loops_of(tree), &expected = expected_loops.at(record.id);
        EXPECT_TRUE(std::includes(loops.begin(), loops.end(), expected.begin(), expected.end())) << record.id;
      }
      if (number % 23 == 0) {
        EXPECT_EQ(difference(tree, TirReference(text).tree()), "") << record.id << " " << member;
      }
    }
    ++number;
  }
  EXPECT_EQ(readers["scheduled"].summary().trees, 694);
  EXPECT_EQ(readers["lowered"].summary().trees, 323);
  for (const auto& [member, reader] : readers) {
    EXPECT_TRUE(reader.summary().unknown_types.empty()) << member;
    GTEST_LOG_(INFO) << member << ": largest tree " << reader.summary().largest_tree << ", deepest "
                     << reader.summary().deepest_tree;
  }
}

}  // namespace
}  // namespace foretime::data
