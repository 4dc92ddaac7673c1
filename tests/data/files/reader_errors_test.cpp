/// Every kind of bad input, each refused with a message that names the file, the member and what was expected.
#include <functional>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset/group_files.h"
#include "data/graphs/schema.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/npz_writer.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::NpzCompression;
using testing::NpzWriter;

class ReaderErrors : public testing::ScratchTest {
 protected:
  /// A small layout file; `change` may replace entries (name → writer call) or erase them.
  using Members = std::map<std::string, std::function<void(NpzWriter&)>>;
  template <class T>
  static std::function<void(NpzWriter&)> array(std::string name, std::vector<int64_t> shape, std::vector<T> values,
                                               bool fortran = false) {
    return [=](NpzWriter& writer) { writer.add(name, shape, values, fortran); };
  }
  fs::path write(const Members& members, NpzCompression compression = NpzCompression::deflated) {
    const fs::path file = folder_ / "graph.npz";
    NpzWriter writer(file, compression);
    for (const auto& [name, add] : members) add(writer);
    writer.close();
    return file;
  }
  static Members hlo() {
    Members members;
    members["node_feat"] = array("node_feat", {3, 140}, std::vector<float>(420, 1.5f));
    members["node_opcode"] = array("node_opcode", {3}, std::vector<uint8_t>{1, 2, 107});
    members["edge_index"] = array("edge_index", {2, 2}, std::vector<int64_t>{1, 2, 0, 1}, true);  // (1, 0), (2, 1)
    return members;
  }
  static Members layout() {
    Members members = hlo();
    std::vector<float> rows(2 * 2 * 18, -1.0f);
    rows[18] = 5.0f;
    members["node_config_feat"] = array("node_config_feat", {2, 2, 18}, rows);
    members["node_config_ids"] = array("node_config_ids", {2}, std::vector<int64_t>{0, 2});
    members["node_splits"] = array("node_splits", {1, 2}, std::vector<int64_t>{0, 3});
    members["config_runtime"] = array("config_runtime", {2}, std::vector<int64_t>{5, 7'000'000'000});
    return members;
  }
  static Members tile() {
    Members members = hlo();
    members["config_feat"] = array("config_feat", {2, 24}, std::vector<float>(48, 2.0f));
    members["config_runtime"] = array("config_runtime", {2}, std::vector<int64_t>{3, 4});
    members["config_runtime_normalizers"] = array("config_runtime_normalizers", {2}, std::vector<int64_t>{2, 8});
    return members;
  }
  static Members program() {
    Members m;
    m["graph_ptr"] = array("graph_ptr", {3}, std::vector<int64_t>{0, 3, 4});
    m["type_names"] = [](NpzWriter& w) { w.add_text("type_names", {"For", "PrimFunc", "Var", "NewType"}); };
    m["node_type"] = array("node_type", {4}, std::vector<uint8_t>{1, 0, 2, 3});
    m["parent"] = array("parent", {4}, std::vector<int32_t>{-1, 0, 1, -1});
    m["extent"] = array("extent", {4}, std::vector<int64_t>{0, 7, 0, 0});
    m["loop_kind"] = array("loop_kind", {4}, std::vector<int8_t>{-1, 2, -1, -1});
    m["value"] = array("value", {4}, std::vector<double>(4, std::nan("")));
    m["variable"] = array("variable", {4}, std::vector<int16_t>{-1, 4, 4, -1});
    m["buffer"] = array("buffer", {4}, std::vector<int16_t>(4, -1));
    m["buffer_elements"] = array("buffer_elements", {4}, std::vector<int64_t>(4, 0));
    m["call_op"] = array("call_op", {4}, std::vector<uint8_t>(4, 0));
    m["call_op_names"] = [](NpzWriter& w) { w.add_text("call_op_names", {""}); };
    m["runtime"] = array("runtime", {2}, std::vector<double>{0.5, 0.25});
    m["id"] = [](NpzWriter& w) { w.add_text("id", {"a", "b"}); };
    return m;
  }
  static Members with(Members members, const std::string& member, const std::function<void(NpzWriter&)>& add) {
    members[member] = add;
    return members;
  }
  Group load(const Members& members, CandidateKind kind) {
    return load_group(list_groups({write(members).string()}, ".", kind).at(0));
  }
  void expect_error(const Members& members, CandidateKind kind, const std::string& member) {
    EXPECT_MESSAGE(testing::message_of<DataError>([&] { load(members, kind); }), "graph.npz", member);
  }
  void expect_layout_error(const std::string& member, const std::function<void(NpzWriter&)>& add) {
    expect_error(with(layout(), member, add), CandidateKind::layout, member);
  }
  void expect_program_error(const std::string& member, const std::function<void(NpzWriter&)>& add) {
    expect_error(with(program(), member, add), CandidateKind::program, member);
  }
  /// The file's bytes, changed in place.
  void damage(const fs::path& file, const std::function<void(std::string&)>& change) {
    std::string bytes = testing::read_text(file);
    change(bytes);
    scratch_.write(file.filename().string(), bytes);
  }
};

TEST_F(ReaderErrors, GoodFilesLoad) {
  const Group group = load(layout(), CandidateKind::layout);
  EXPECT_EQ(group.candidates, 2);
  EXPECT_EQ(group.name, "graph");
  EXPECT_THAT(group.graphs.edge_target.span(), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(group.graphs.edge_source.span(), ::testing::ElementsAre(0, 1));
  EXPECT_THAT(group.layout.row_ptr.span(), ::testing::ElementsAre(0, 1, 3));
  EXPECT_THAT(group.layout.codes.span(), ::testing::ElementsAre(0, 0, 0, 1));
  EXPECT_EQ(group.runtimes[1], 7e9);
  EXPECT_THAT(load(tile(), CandidateKind::tile).runtimes.span(), ::testing::ElementsAre(1.5, 0.5));
}

TEST_F(ReaderErrors, ProgramFeaturesFollowNamesNotNumbers) {
  const Group group = load(program(), CandidateKind::program);
  using C = ProgramColumns;
  const auto at = [&](int64_t node, int64_t column) { return group.graphs.node_features[node * C::count + column]; };
  EXPECT_THAT(group.graphs.node_types.span(), ::testing::ElementsAre(0, 4, 19, 55));
  EXPECT_FLOAT_EQ(at(1, C::extent), 3.0f);
  EXPECT_FLOAT_EQ(at(1, C::loop_kind + 2), 1.0f);
  EXPECT_FLOAT_EQ(at(2, C::variable_extent), 3.0f);
  EXPECT_FLOAT_EQ(at(2, C::variable_distance), 1.0f);
  EXPECT_FLOAT_EQ(at(2, C::depth), 0.2f);
  EXPECT_FLOAT_EQ(at(0, C::children), 1.0f);
  EXPECT_FLOAT_EQ(at(3, C::children), 0.0f);
  EXPECT_THAT(group.graphs.edge_source.span(), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(group.graphs.edge_target.span(), ::testing::ElementsAre(0, 1));
  EXPECT_THAT(group.graphs.edge_ptr.span(), ::testing::ElementsAre(0, 2, 2));
}

TEST_F(ReaderErrors, MissingMembers) {
  for (const auto& [kind, members] :
       {std::pair(CandidateKind::layout, layout()), std::pair(CandidateKind::tile, tile()),
        std::pair(CandidateKind::program, program())}) {
    for (const auto& [name, add] : members) {
      if (name == "node_splits") continue;  // not needed by anything
      Members rest = members;
      rest.erase(name);
      expect_error(rest, kind, name);
    }
  }
}

TEST_F(ReaderErrors, WrongTypesAndShapes) {
  expect_layout_error("node_feat", array("node_feat", {3, 140}, std::vector<int64_t>(420, 1)));
  expect_layout_error("node_opcode", array("node_opcode", {3}, std::vector<float>(3)));
  expect_layout_error("node_feat", array("node_feat", {3, 139}, std::vector<float>(417)));
  expect_layout_error("node_opcode", array("node_opcode", {4}, std::vector<uint8_t>(4)));
  expect_layout_error("node_config_feat", array("node_config_feat", {2, 2, 17}, std::vector<float>(68)));
  expect_layout_error("node_config_feat", array("node_config_feat", {3, 2, 18}, std::vector<float>(108)));
  expect_layout_error("node_splits", array("node_splits", {2, 1}, std::vector<int64_t>{0, 3}));
  expect_layout_error("config_runtime", array("config_runtime", {0}, std::vector<int64_t>{}));
}

TEST_F(ReaderErrors, ValuesOutOfRange) {
  expect_layout_error("edge_index", array("edge_index", {1, 2}, std::vector<int64_t>{3, 0}));
  expect_layout_error("edge_index", array("edge_index", {1, 2}, std::vector<int64_t>{1, -1}));
  expect_layout_error("edge_index", array("edge_index", {1, 2}, std::vector<int64_t>{1, int64_t{1} << 32}));
  expect_layout_error("node_config_ids", array("node_config_ids", {2}, std::vector<int64_t>{0, 3}));
  expect_layout_error("node_config_ids", array("node_config_ids", {2}, std::vector<int64_t>{2, 0}));
  expect_layout_error("node_config_ids", array("node_config_ids", {2}, std::vector<int64_t>{2, 2}));
  expect_layout_error("node_opcode", array("node_opcode", {3}, std::vector<uint8_t>{1, 2, 200}));
  expect_layout_error("node_splits", array("node_splits", {1, 2}, std::vector<int64_t>{0, 4}));
  std::vector<float> features(420, 0.0f);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    features[141] = bad;
    expect_layout_error("node_feat", array("node_feat", {3, 140}, features));
  }
  expect_layout_error("config_runtime", array("config_runtime", {2}, std::vector<int64_t>{5, 0}));
  expect_layout_error("config_runtime", array("config_runtime", {2}, std::vector<int64_t>{5, -1}));
  for (const float bad : {0.5f, 128.0f, -129.0f, std::nanf("")}) {
    std::vector<float> rows(72, 0.0f);
    rows[36 + 18 + 4] = bad;
    expect_layout_error("node_config_feat", array("node_config_feat", {2, 2, 18}, rows));
  }
  Members zeros = layout();
  zeros["config_runtime"] = array("config_runtime", {2}, std::vector<int64_t>{0, 0});
  EXPECT_FALSE(load(zeros, CandidateKind::layout).labelled());
}

TEST_F(ReaderErrors, TooManyDistinctRows) {
  constexpr int64_t kCandidates = 300;
  std::vector<float> rows(kCandidates * 2 * 18, 0.0f);
  for (int64_t c = 0; c < kCandidates; ++c) {
    rows[static_cast<size_t>(c * 36 + 18)] = static_cast<float>(c % 100);
    rows[static_cast<size_t>(c * 36 + 19)] = static_cast<float>(c / 100);
  }
  Members members = layout();
  members["config_runtime"] = array("config_runtime", {kCandidates}, std::vector<int64_t>(kCandidates, 1));
  members["node_config_feat"] = array("node_config_feat", {kCandidates, 2, 18}, rows);
  expect_error(members, CandidateKind::layout, "node_config_feat");
}

TEST_F(ReaderErrors, Tiles) {
  Members members = tile();
  members["config_runtime_normalizers"] = array("config_runtime_normalizers", {2}, std::vector<int64_t>{1, 0});
  expect_error(members, CandidateKind::tile, "config_runtime_normalizers");
  members = tile();
  members["config_runtime"] = array("config_runtime", {2}, std::vector<int64_t>{0, 1});
  expect_error(members, CandidateKind::tile, "config_runtime");
}

TEST_F(ReaderErrors, Programs) {
  expect_program_error("graph_ptr", array("graph_ptr", {3}, std::vector<int64_t>{0, 3, 3}));
  expect_program_error("graph_ptr", array("graph_ptr", {3}, std::vector<int64_t>{1, 3, 4}));
  expect_program_error("parent", array("parent", {4}, std::vector<int32_t>{-1, 0, 2, -1}));
  expect_program_error("parent", array("parent", {4}, std::vector<int32_t>{-1, -1, 1, -1}));
  expect_program_error("parent", array("parent", {4}, std::vector<int32_t>{-1, 0, 1, 0}));
  expect_program_error("node_type", array("node_type", {4}, std::vector<uint8_t>{1, 0, 2, 4}));
  expect_program_error("loop_kind", array("loop_kind", {4}, std::vector<int8_t>{-1, -1, -1, -1}));
  expect_program_error("loop_kind", array("loop_kind", {4}, std::vector<int8_t>{-1, 5, -1, -1}));
  expect_program_error("extent", array("extent", {4}, std::vector<int64_t>{0, -7, 0, 0}));
  expect_program_error("runtime", array("runtime", {2}, std::vector<double>{0.0, 0.0}));
  expect_program_error("runtime", array("runtime", {2}, std::vector<double>{1.0, std::nan("")}));
  Members members = program();
  members["type_names"] = [](NpzWriter& w) { w.add_text("type_names", {"For", "PrimFunc", "IntImm", "Any"}); };
  expect_error(members, CandidateKind::program, "value");
}

TEST_F(ReaderErrors, SizesThatOverflowOrClaimTooMuch) {
  const auto raw = [](const std::string& shape, size_t bytes) {
    return [=](NpzWriter& writer) {
      std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
      dict.resize(118, ' ');
      std::string text = "\x93NUMPY\x01";
      text += std::string(1, '\0') + '\x76' + std::string(1, '\0') + dict;
      writer.add_bytes("node_feat.npy", text + std::string(bytes, '\0'));
    };
  };
  expect_layout_error("node_feat", raw("(4294967296, 4294967296)", 64));
  expect_layout_error("node_feat", raw("(9223372036854775808, 140)", 64));
  expect_layout_error("node_feat", raw("(0, 4294967296, 4294967296)", 0));
  expect_layout_error("node_feat", raw("(-3, 140)", 64));
  expect_layout_error("node_feat", raw("(1000000000, 140)", 64));
  expect_layout_error("node_feat", raw("(3, 140)", 1684));
}

TEST_F(ReaderErrors, DamagedArchives) {
  const auto failure = [&](const fs::path& file) -> std::string {
    return testing::message_of<DataError>(
        [&] { load_group(list_groups({file.string()}, ".", CandidateKind::layout).at(0)); });
  };
  const fs::path whole = write(layout());
  for (const double part : {0.0, 0.1, 0.5, 0.9, 0.99}) {
    write(layout());
    fs::resize_file(whole, static_cast<uintmax_t>(static_cast<double>(fs::file_size(whole)) * part));
    EXPECT_MESSAGE(failure(whole)) << part;
  }
  write(layout(), NpzCompression::stored);
  damage(whole, [](std::string& bytes) { bytes[bytes.find("node_feat.npy") + 200] ^= 1; });
  EXPECT_THAT(failure(whole), AllOf(HasSubstr("node_feat"), HasSubstr("checksum")));
  // The directory's own size of the first member, made 1 TiB less one: bytes 24 to 27 of its entry.
  write(layout());
  damage(whole, [](std::string& bytes) {
    const size_t entry = bytes.find("PK\x01\x02");
    for (size_t i = 24; i < 28; ++i) bytes[entry + i] = '\x7f';
  });
  EXPECT_MESSAGE(failure(whole));
  EXPECT_MESSAGE(failure(folder_ / "absent.npz"));
}

TEST_F(ReaderErrors, DatasetIndex) {
  const auto list = [&](std::vector<std::string> patterns, CandidateKind kind = CandidateKind::layout) {
    return list_groups(patterns, folder_, kind);
  };
  const auto message = [&](std::vector<std::string> patterns,
                           CandidateKind kind = CandidateKind::layout) -> std::string {
    return testing::message_of<DataError>([&] { list(patterns, kind); });
  };
  fs::create_directories(folder_ / "a" / "deep");
  fs::create_directories(folder_ / "b");
  EXPECT_MESSAGE(message({"b"}));
  fs::rename(write(layout()), folder_ / "a" / "deep" / "two.npz");
  fs::rename(write(layout()), folder_ / "a" / "one.npz");
  EXPECT_MESSAGE(message({"a"}, CandidateKind::tile));
  EXPECT_MESSAGE(message({"a/*.npy"}));
  EXPECT_THAT(message({"a/{one,two"}), HasSubstr("without '}'"));
  EXPECT_EQ(list({"a"}).size(), 2u);
  EXPECT_EQ(list({"a"})[0].name, "one");
  EXPECT_EQ(list({"a/*.npz"}).size(), 1u);
  EXPECT_EQ(list({"**/*.npz"}).size(), 2u);
  EXPECT_EQ(list({"a/{one,deep/t?o}.npz", "a"}).size(), 2u);
  fs::copy_file(folder_ / "a" / "one.npz", folder_ / "b" / "one.npz");
  EXPECT_EQ(list({"a", "b"}).size(), 2u);  // equal contents: one group
  Members other = layout();
  other["config_runtime"] = array("config_runtime", {2}, std::vector<int64_t>{5, 8});
  fs::rename(write(other), folder_ / "b" / "one.npz");
  EXPECT_MESSAGE(message({"a", "b"}));
  const auto listed = list({"a/one.npz"});
  fs::copy_file(folder_ / "b" / "one.npz", folder_ / "a" / "one.npz", fs::copy_options::overwrite_existing);
  EXPECT_THROW(load_group(listed[0]), DataError);
}

TEST_F(ReaderErrors, EvaluationIndices) {
  const auto message = [&](const std::string& text) -> std::string {
    scratch_.write("ids.json", text);
    return testing::message_of<DataError>([&] { read_eval_indices(folder_ / "ids.json"); });
  };
  EXPECT_EQ(message(R"({"g": [3, 1]})"), "no exception");
  EXPECT_THAT(read_eval_indices(folder_ / "ids.json").at("g"), ::testing::ElementsAre(3, 1));
  EXPECT_THAT(message("{\"g\": [3,"), HasSubstr("ids.json: "));
  EXPECT_MESSAGE(message("[1]"));
  EXPECT_THAT(message(R"({"g": [1, -1]})"), HasSubstr("graph g: -1"));
  EXPECT_THAT(message(R"({"g": [1.5]})"), HasSubstr("1.5"));
  EXPECT_MESSAGE(message(R"({"g": []})"));
  EXPECT_THROW(read_eval_indices(folder_ / "absent.json"), DataError);
}

}  // namespace
}  // namespace foretime::data
