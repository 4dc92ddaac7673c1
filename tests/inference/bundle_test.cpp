#include "inference/bundle/bundle.h"

#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/frontends/loops/loop_graph.h"
#include "data/graphs/schema.h"
#include "inference/files/safetensors_file.h"
#include "tests/inference/small_models.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::inference::testing {
namespace {

using foretime::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

/// What reading a bundle says whose manifest was changed.
std::string after(const std::function<void(Json&)>& change, Bundle bundle = layout_bundle()) {
  change(bundle.manifest);
  return message_of<BundleError>([&] { parse_bundle(unchecked_bytes(bundle), "a.foretime"); });
}

void expect_equal(const Bundle& a, const Bundle& b) {
  EXPECT_EQ(a.manifest, b.manifest);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, weight] : a.weights) {
    ASSERT_TRUE(b.weights.contains(name)) << name;
    EXPECT_EQ(weight.shape, b.weights.at(name).shape) << name;
    EXPECT_EQ(weight.values, b.weights.at(name).values) << name;
  }
}

TEST(Bundle, ReadsWhatItWrote) {
  const foretime::testing::Scratch scratch;
  for (const auto& bundle : {layout_bundle({.compares = true, .tied = true, .prune_hops = 2}), tile_bundle(),
                             loops_bundle(true, true), loops_bundle(false), trees_bundle()}) {
    const auto bytes = serialize_bundle(bundle);
    const auto read = parse_bundle(bytes, "memory");
    expect_equal(bundle, read);
    EXPECT_EQ(serialize_bundle(read), bytes);
    const auto file = scratch.path() / "a.foretime";
    write_bundle(file, bundle);
    expect_equal(bundle, read_bundle(file));
    EXPECT_FALSE(std::filesystem::exists(scratch.path() / "a.foretime.new"));
  }
}

TEST(Bundle, HasTensorsOfAnyShapeThatTheFormDoesNotName) {
  auto bundle = trees_bundle();
  bundle.weights["steps"] = {{}, {3.0F}};
  bundle.weights["cube"] = {{2, 1, 2}, {1, 2, 3, std::numeric_limits<float>::infinity()}};
  bundle.weights["none"] = {{0, 4}, {}};
  expect_equal(bundle, parse_bundle(serialize_bundle(bundle), "memory"));
}

TEST(Bundle, SpecIsWhatTheManifestSays) {
  const auto spec = read_scoring_spec(loops_bundle(true, true));
  EXPECT_EQ(spec.kind, data::CandidateKind::program);
  EXPECT_EQ(spec.representation, configs::Representation::loops);
  EXPECT_TRUE(spec.graph.statements);
  ASSERT_TRUE(spec.hardware.has_value());
  EXPECT_EQ(spec.hardware->vector_bytes, 32);
  EXPECT_EQ(spec.hardware->cores, 8);
  EXPECT_EQ(spec.unit, data::RuntimeUnit::seconds);
  EXPECT_EQ(read_scoring_spec(tile_bundle()).unit, data::RuntimeUnit::normalized);
  EXPECT_EQ(read_scoring_spec(layout_bundle({.prune_hops = 3})).prune_hops, 3);
  EXPECT_EQ(read_scoring_spec(layout_bundle()).unit, data::RuntimeUnit::nanoseconds);
  EXPECT_FALSE(read_scoring_spec(trees_bundle()).hardware.has_value());
}

TEST(Bundle, SchemaNamesEveryColumn) {
  const auto schema = schema_of(data::CandidateKind::layout, {}, 140, 128);
  EXPECT_EQ(schema.at("feature_names").size(), 140u);
  EXPECT_EQ(schema.at("candidate_feature_names").size(), 18u);
  EXPECT_EQ(schema.at("node_type_names").at(26), "convolution");
  EXPECT_EQ(schema_of(data::CandidateKind::tile, {}, 140, 128).at("candidate_feature_names").size(), 24u);
  EXPECT_NE(schema.at("hash"), schema_of(data::CandidateKind::tile, {}, 140, 128).at("hash"));
  for (const auto representation :
       {configs::Representation::ast, configs::Representation::loops, configs::Representation::curve}) {
    const int64_t columns = representation == configs::Representation::ast ? data::ProgramColumns::count
                                                                           : data::program_columns(representation);
    const auto programs = schema_of(data::CandidateKind::program, representation, columns, data::kTirTypes);
    EXPECT_EQ(programs.at("feature_names").size(), static_cast<size_t>(columns));
    EXPECT_EQ(programs.at("node_type_names").at(4), "For");
  }
  EXPECT_TRUE(schema_of(data::CandidateKind::layout, {}, 3, 7).at("feature_names").empty());
}

TEST(Bundle, RefusesAnotherSchema) {
  const auto ours = AllOf(HasSubstr("exported by Foretime 9.9.9"), HasSubstr("this library, Foretime 0.2.0"),
                          HasSubstr("export the run again"));
  const auto changed = [&](const std::function<void(Json&)>& change) {
    return after([&](Json& m) {
      m["foretime_version"] = "9.9.9";
      change(m["schema"]);
    });
  };
  EXPECT_THAT(changed([](Json& s) { s["feature_names"][3] = "other"; }),
              AllOf(HasSubstr("schema.feature_names: \"other\" at place 3, here"), ours));
  EXPECT_THAT(changed([](Json& s) { s["feature_names"].push_back("more"); }),
              AllOf(HasSubstr("schema.feature_names: 141 entries, here 140"), ours));
  EXPECT_THAT(changed([](Json& s) { s["node_type_names"][1] = "absolute"; }),
              AllOf(HasSubstr("schema.node_type_names"), ours));
  EXPECT_THAT(changed([](Json& s) { s["candidate_feature_names"] = 3; }),
              AllOf(HasSubstr("schema.candidate_feature_names"), ours));
  EXPECT_THAT(changed([](Json& s) { s["hash"] = "0"; }), AllOf(HasSubstr("schema.hash"), ours));
  EXPECT_THAT(changed([](Json& s) { s.erase("hash"); }), AllOf(HasSubstr("schema.hash: missing"), ours));
  EXPECT_THAT(changed([](Json& s) { s["unit"] = 1; }), AllOf(HasSubstr("schema.unit: not known here"), ours));
}

TEST(Bundle, RefusesAnotherFormatVersion) {
  EXPECT_THAT(after([](Json& m) { m["format_version"] = 3; }),
              AllOf(HasSubstr("a.foretime: manifest: format_version: 3"), HasSubstr("reads version 2")));
  EXPECT_THAT(after([](Json& m) { m["format_version"] = "2"; }), HasSubstr("format_version"));
  EXPECT_THAT(after([](Json& m) { m.erase("format_version"); }), HasSubstr("manifest: format_version: missing"));
  const auto with = [](const std::map<std::string, std::string>& metadata) {
    return message_of<BundleError>([&] { parse_bundle(inference::serialize_arrays({}, metadata), "a.foretime"); });
  };
  EXPECT_MESSAGE(with({{"format", "foretime-bundle"}, {"format_version", "3"}, {"manifest", "{}"}}),
                 "format_version: '3'");
  EXPECT_MESSAGE(with({}), "a.foretime");
  EXPECT_MESSAGE(with({{"format", "pt"}}));
  EXPECT_MESSAGE(with({{"format", "foretime-bundle"}, {"format_version", "2"}}));
}

TEST(Bundle, RefusesManifestsThatAreNone) {
  const auto with = [](const std::string& manifest) {
    return message_of<BundleError>([&] {
      parse_bundle(inference::serialize_arrays(
                       {}, {{"format", "foretime-bundle"}, {"format_version", "2"}, {"manifest", manifest}}),
                   "a.foretime");
    });
  };
  EXPECT_THAT(with(""), HasSubstr("a.foretime: manifest: not JSON"));
  EXPECT_THAT(with("{"), HasSubstr("manifest: not JSON"));
  EXPECT_THAT(with("{\"a\": 1e999}"), HasSubstr("manifest: not JSON"));
  EXPECT_MESSAGE(with("[]"), "manifest");
  EXPECT_MESSAGE(with(std::string(100000, '[')), "manifest");
  EXPECT_THAT(with("{}"), HasSubstr("manifest: foretime_version: missing"));
}

TEST(Bundle, NamesTheKeyThatIsWrong) {
  const auto bundle = layout_bundle();
  for (const auto& [key, value] : bundle.manifest.items()) {
    EXPECT_THAT(after([&](Json& m) { m.erase(key); }), HasSubstr(key)) << key;
    // Nothing may be an array.
    if (key == "hardware") continue;
    EXPECT_NE(after([&](Json& m) { m[key] = Json::array({1}); }), "no exception") << key;
  }
  EXPECT_MESSAGE(after([](Json& m) { m["prune_hops"] = -2; }), "prune_hops");
  EXPECT_MESSAGE(after([](Json& m) { m["prune_hops"] = 1.5; }), "prune_hops");
  EXPECT_THAT(after([](Json& m) { m["prune_hops"] = 18446744073709551615U; }), HasSubstr("prune_hops"));
  EXPECT_MESSAGE(after([](Json& m) { m["runtime_unit"] = "hours"; }), "runtime_unit");
  EXPECT_THAT(after([](Json& m) { m["targets"]["kind"] = "speed"; }), HasSubstr("targets.kind: \"speed\""));
  EXPECT_THAT(after([](Json& m) { m["targets"]["deviation"] = 0.0; }), HasSubstr("targets.deviation: 0"));
  EXPECT_MESSAGE(after([](Json& m) { m["targets"]["mean"] = "0"; }), "targets.mean");
  EXPECT_THAT(after([](Json& m) { m["predicts_runtimes"] = 1; }), HasSubstr("predicts_runtimes: number"));
  EXPECT_THAT(after([](Json& m) { m["hardware"] = Json::object(); }), HasSubstr("hardware.vector_bytes: missing"));
  EXPECT_MESSAGE(after([](Json& m) { m["metrics"]["a"] = "b"; }), "metrics: a");
  EXPECT_THAT(after([](Json& m) { m["training"]["step"] = -1; }), HasSubstr("training.step: -1"));
  EXPECT_THAT(after([](Json& m) { m["schema"]["kind"] = "graph"; }), HasSubstr("schema.kind: \"graph\""));
  EXPECT_THAT(after([](Json& m) { m["schema"]["feature_count"] = 1 << 30; }), HasSubstr("schema.feature_count"));
  EXPECT_THAT(after([](Json& m) { m["schema"]["representation"] = "ast"; }), HasSubstr("schema.representation"));
  EXPECT_THAT(after([](Json& m) { m["graph"]["statements"] = true; }), HasSubstr("graph: statements"));
  EXPECT_THAT(after([](Json& m) { m["compares_candidates"] = false; }, layout_bundle({.compares = true})),
              HasSubstr("compares_candidates: false"));
  EXPECT_THAT(after([](Json& m) {
                m["schema"] = schema_of(data::CandidateKind::program, configs::Representation::ast, 3, 56);
              }),
              HasSubstr("schema.feature_count: 3, expected"));
}

TEST(Bundle, NamesWhatIsWrongWithTheForm) {
  // Matrices are the plan's, and scores are made without one.
  for (const Json& operation : {Json{{"op", "pool"}, {"x", "embedded"}, {"matrix", "nodes"}},
                                Json{{"op", "csr_max"}, {"x", "embedded"}, {"matrix", "layer.0.relation.0"}},
                                Json{{"op", "csr_sum"}, {"inputs", {"embedded"}}, {"matrices", {"nodes"}}}}) {
    EXPECT_MESSAGE(after([&](Json& m) {
                     auto& score = m["graph"]["score"];
                     score.insert(score.begin(), operation);
                     for (size_t i = 0; i < score.size(); ++i) score[i]["result"] = "v" + std::to_string(i);
                   }),
                   "graph");
  }
  EXPECT_MESSAGE(after([](Json& m) {
                   m["graph"]["request"]["relations"].push_back(
                       {{"direction", "in"}, {"norm", "laplacian_of_two"}, {"self_loop", false}});
                 }),
                 "graph: relations");
  EXPECT_MESSAGE(after([](Json& m) { m["graph"]["embed"][0]["op"] = "explode"; }));
  EXPECT_THAT(after([](Json& m) { m["graph"]["embed"][0]["weight"] = "none"; }), HasSubstr("weight 'none'"));
  EXPECT_THAT(after([](Json& m) { m["graph"]["embed"][0].erase("result"); }), HasSubstr("graph:"));
  EXPECT_THAT(after([](Json& m) { m["graph"]["embed"] = "text"; }), HasSubstr("graph:"));
  EXPECT_THAT(after([](Json& m) { m["graph"]["request"]["layers"] = -1; }), HasSubstr("graph: layers: -1"));
  EXPECT_THAT(after([](Json& m) { m["graph"]["embedded_columns"] = 3; }), HasSubstr("graph: embed"));
}

TEST(Bundle, RefusesTensorsOfAnotherTypeAndNumbersThatAreNone) {
  auto bundle = trees_bundle();
  auto arrays = inference::parse_arrays(unchecked_bytes(bundle), "memory");
  inference::NamedArrays changed;
  for (auto [name, array] : arrays.arrays) {
    if (name == "head") array.type = "I32";
    changed.emplace_back(name, array);
  }
  const auto bytes = inference::serialize_arrays(changed, arrays.metadata);
  EXPECT_MESSAGE(message_of<BundleError>([&] { parse_bundle(bytes, "a.foretime"); }), "a.foretime: tensor head");
  bundle.weights.at("head").values[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_MESSAGE(message_of<BundleError>([&] { serialize_bundle(bundle); }), "tensor head");
  bundle.weights.at("head").values.pop_back();
  EXPECT_MESSAGE(message_of<BundleError>([&] { serialize_bundle(bundle); }), "tensor head");
}

TEST(Bundle, EveryTruncationAndManyChangesAreRefusedOrHarmless) {
  const auto bytes = serialize_bundle(trees_bundle());
  for (size_t length = 0; length < bytes.size(); length += 1 + length / 40)
    EXPECT_NE(message_of<BundleError>([&] { parse_bundle(std::string_view(bytes).substr(0, length), "a"); }),
              "no exception")
        << length;
  EXPECT_NE(message_of<BundleError>([&] { parse_bundle(bytes + "x", "a"); }), "no exception");
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    auto damaged = bytes;
    for (int change = 0; change < 3; ++change) damaged[random() % 3000] = static_cast<char>(random());
    message_of<BundleError>([&] { parse_bundle(damaged, "a"); });  // nothing else is thrown
  }
}

TEST(Bundle, NoOtherFileIsTouchedByWriting) {
  const foretime::testing::Scratch scratch;
  const auto neighbour = scratch.path() / "model.foretime.new";
  std::ofstream(neighbour) << "mine";
  write_bundle(scratch.path() / "model.foretime", trees_bundle());
  std::string text;
  std::getline(std::ifstream(neighbour), text);
  EXPECT_EQ(text, "mine");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 2);
}

TEST(Bundle, FilesThatCannotBeReadOrWrittenAreNamed) {
  const foretime::testing::Scratch scratch;
  EXPECT_THROW(read_bundle(scratch.path() / "none"), FileError);
  EXPECT_MESSAGE(message_of<FileError>([&] { read_bundle(scratch.path()); }));
  EXPECT_THROW(write_bundle(scratch.path() / "no" / "folder", trees_bundle()), FileError);
  std::ofstream(scratch.path() / "empty").flush();
  EXPECT_MESSAGE(message_of<BundleError>([&] { read_bundle(scratch.path() / "empty"); }), "empty");
}

}  // namespace
}  // namespace foretime::inference::testing
