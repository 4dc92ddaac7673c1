#include "data/frontends/tir/embedding/type_embedding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/dataset/group_files.h"
#include "data/graphs/schema.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

/// Node-type embeddings: walks keep to edges, like contexts make like vectors, and the same seed gives the same
/// numbers.
namespace foretime::data {
namespace {

/// A tree from its types and parents.
Group made_up(std::vector<uint8_t> types, const std::vector<int32_t>& parents) {
  Group group;
  group.name = "made up";
  group.graphs.node_type_count = 8;
  std::vector<int32_t> source, target;
  for (size_t i = 1; i < parents.size(); ++i) {
    source.push_back(static_cast<int32_t>(i));
    target.push_back(parents[i]);
  }
  group.graphs.node_types = std::move(types);
  group.graphs.set_edges(source, target);
  return group;
}

constexpr std::string_view kNames[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

TEST(TypeWalks, KeepToEdges) {
  const Group group = made_up({0, 1, 2, 3, 4, 5}, {-1, 0, 0, 1, 1, 4});
  const std::set<std::pair<int, int>> edges = {{0, 1}, {0, 2}, {1, 3}, {1, 4}, {4, 5}};
  const Group* groups[] = {&group};
  std::array<int64_t, 6> met{};
  int64_t walks = 0;
  walk_node_types(groups, {.walks = 6000, .length = 4, .seed = 3}, [&](std::span<const uint8_t> types) {
    ASSERT_GE(types.size(), 2u);
    ASSERT_LE(types.size(), 4u);
    ++walks;
    const std::set<uint8_t> distinct(types.begin(), types.end());
    EXPECT_EQ(distinct.size(), types.size());  // types are distinct here: a path meets none twice
    for (const uint8_t type : types) ++met[type];
    for (size_t i = 1; i < types.size(); ++i) {
      const int a = std::min(types[i - 1], types[i]), b = std::max(types[i - 1], types[i]);
      EXPECT_TRUE(edges.contains({a, b})) << a << "-" << b;
    }
  });
  EXPECT_EQ(walks, 6000);
  for (const int64_t count : met) EXPECT_GT(count, 1000);
}

/// Cosine of the angle between two types' vectors.
double similarity(const TypeEmbeddings& embeddings, int64_t a, int64_t b) {
  const auto product = [&](int64_t x, int64_t y) {
    return std::inner_product(embeddings.of(x).begin(), embeddings.of(x).end(), embeddings.of(y).begin(), 0.0);
  };
  return product(a, b) / std::sqrt(product(a, a) * product(b, b));
}

/// Types 3 and 4 stand in the same places, 5 in others.
TEST(TypeEmbeddings, LikeContextsGiveLikeVectors) {
  std::vector<uint8_t> types = {0};
  std::vector<int32_t> parents = {-1};
  for (int i = 0; i < 60; ++i) {
    const auto top = static_cast<int32_t>(types.size());
    types.insert(types.end(), {1, static_cast<uint8_t>(i % 2 == 0 ? 3 : 4), 6, 2, 5, 7});
    parents.insert(parents.end(), {0, top, top + 1, 0, top + 3, top + 4});
  }
  const Group group = made_up(types, parents);
  const Group* groups[] = {&group};
  TypeEmbeddingSettings settings;
  settings.subwords = false;
  settings.walks.walks = 3000;
  settings.window = 2;
  const auto embeddings = train_type_embeddings(groups, kNames, settings);
  EXPECT_GT(similarity(embeddings, 3, 4), 0.9);
  EXPECT_GT(similarity(embeddings, 3, 4), similarity(embeddings, 3, 5) + 0.2);
  EXPECT_GT(similarity(embeddings, 3, 4), similarity(embeddings, 4, 7) + 0.2);
}

class RealPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"C1", "C4"}) {
      const auto headers =
          list_groups({std::string(name) + ".npz"}, testing::samples_dir() / "resnet18_conv2d", CandidateKind::program);
      groups_.push_back(load_group(headers.at(0)));
    }
    for (const Group& group : groups_) pointers_.push_back(&group);
  }
  std::vector<Group> groups_;
  std::vector<const Group*> pointers_;
};

TEST_F(RealPrograms, ComparisonsAndDivisionsAreNeighbours) {
  TypeEmbeddingSettings settings;
  settings.subwords = false;  // so that only contexts count, not names
  const auto embeddings = train_type_embeddings(pointers_, tir_type_names(), settings);
  EXPECT_EQ(embeddings.types(), kTirTypes);
  std::vector<double> all;
  for (int64_t a = 0; a < kTirTypes; ++a) {
    for (int64_t b = 0; b < a; ++b) {
      if (embeddings.occurrences[static_cast<size_t>(a)] > 0 && embeddings.occurrences[static_cast<size_t>(b)] > 0)
        all.push_back(similarity(embeddings, a, b));
    }
  }
  std::ranges::sort(all);
  ASSERT_GT(all.size(), 50u);
  const double upper_quarter = all[all.size() * 3 / 4];
  const auto near = [&](const char* a, const char* b) {
    return similarity(embeddings, tir_type_id(a), tir_type_id(b));
  };
  EXPECT_GT(near("LT", "LE"), upper_quarter);
  EXPECT_GT(near("FloorDiv", "FloorMod"), upper_quarter);
  EXPECT_GT(near("LT", "LE"), near("LT", "Allocate"));
  EXPECT_GT(near("FloorDiv", "FloorMod"), near("FloorDiv", "SeqStmt"));
}

TEST_F(RealPrograms, SameSeedSameVectors) {
  TypeEmbeddingSettings settings;
  settings.walks.walks = 1000;
  const auto once = train_type_embeddings(pointers_, tir_type_names(), settings);
  EXPECT_EQ(train_type_embeddings(pointers_, tir_type_names(), settings).vectors, once.vectors);
  settings.walks.seed = 1;
  EXPECT_NE(train_type_embeddings(pointers_, tir_type_names(), settings).vectors, once.vectors);
}

TEST_F(RealPrograms, UnmetTypesHaveTheMean) {
  TypeEmbeddingSettings settings;
  settings.walks.walks = 500;
  settings.dims = 5;
  const auto embeddings = train_type_embeddings(pointers_, tir_type_names(), settings);
  const auto unknown = embeddings.of(tir_type_id("Unknown")), loop = embeddings.of(tir_type_id("While"));
  EXPECT_TRUE(std::equal(unknown.begin(), unknown.end(), loop.begin()));
  double mean = 0.0, met = 0.0;
  for (int64_t t = 0; t < kTirTypes; ++t) {
    if (embeddings.occurrences[static_cast<size_t>(t)] == 0) continue;
    mean += static_cast<double>(embeddings.of(t)[0]);
    ++met;
  }
  EXPECT_NEAR(static_cast<double>(unknown[0]), mean / met, 1e-6);
  for (const float value : embeddings.vectors) EXPECT_TRUE(std::isfinite(value));
}

TEST(TypeEmbeddings, RefusesWhatCannotBeLearned) {
  const Group lonely = made_up({1}, {-1}), pair = made_up({1, 2}, {-1, 0});
  const auto error = [](const Group& group, TypeEmbeddingSettings settings, std::span<const std::string_view> names) {
    const Group* groups[] = {&group};
    return testing::message_of<DataError>([&] { train_type_embeddings(groups, names, settings); });
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(error(pair, {.walks = {.walks = 50}}, kNames), "no exception");
  EXPECT_MESSAGE(error(lonely, {}, kNames));
  EXPECT_MESSAGE(error(pair, {}, std::span(kNames).first(3)));
  EXPECT_THAT(error(pair, {.walks = {}, .dims = 0}, kNames), HasSubstr("dims 0"));
  EXPECT_THAT(error(pair, {.walks = {.walks = int64_t{1} << 40}}, kNames), HasSubstr("walks 1099511627776"));
  EXPECT_THROW(train_type_embeddings({}, kNames, {}), DataError);
}

}  // namespace

// Files of node-type vectors: what is written is read, what FastText writes is read, what is damaged is refused.

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kNamesInFile[] = {"For", "Var", "Add"};

class TypeVectorsFile : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) { return scratch_.write("types.vec", text); }
  std::string error(const std::string& text) {
    return testing::message_of<DataError>([&] { read_type_vectors(write(text), kNamesInFile, 2); });
  }
  testing::Scratch scratch_;
};

TEST_F(TypeVectorsFile, NumbersAreReadExactly) {
  const auto read = read_type_vectors(write("3 2\nFor 0.1 -3.4028235e+38\nVar 1.1754944e-38 0.33333334\nAdd 0 -0\n"),
                                      kNamesInFile, 2);
  EXPECT_THAT(read.vectors, ElementsAre(0.1F, -3.4028235e38F, 1.17549435e-38F, 1.0F / 3, 0, -0.0F));
  EXPECT_THAT(read.occurrences, ElementsAre(1, 1, 1));
}

/// As FastText writes it: a word for the end of a line, a space at the end of each.
TEST_F(TypeVectorsFile, OtherWordsAreLeftOutAndMissingOnesHaveTheMean) {
  const auto read = read_type_vectors(write("3 2\n</s> 9 9 \nAdd 3 -1 \nFor 1 2 \n"), kNamesInFile, 2);
  EXPECT_THAT(read.vectors, ElementsAre(1, 2, 2, 0.5, 3, -1));
  EXPECT_THAT(read.occurrences, ElementsAre(1, 0, 1));
}

TEST_F(TypeVectorsFile, RefusesWhatIsNone) {
  EXPECT_EQ(error("1 2\nFor 1 2\n"), "no exception");
  EXPECT_MESSAGE(error(""), "line 1");
  EXPECT_MESSAGE(error("1 3\nFor 1 2 3\n"), "line 1");
  EXPECT_MESSAGE(error("2 2\nFor 1 2\n"), "line 3");
  EXPECT_MESSAGE(error("99999999999999999 2\nFor 1 2\n"));
  EXPECT_MESSAGE(error("1 2\nFor 1 2\nVar 1 2\n"), "line 3");
  EXPECT_MESSAGE(error("2 2\nFor 1 2\nFor 1 2\n"), "line 3");
  EXPECT_MESSAGE(error("1 2\nFor 1\n"), "line 2");
  EXPECT_MESSAGE(error("1 2\nFor 1 x\n"), "line 2");
  EXPECT_MESSAGE(error("1 2\nFor 1 2 3\n"), "line 2");
  EXPECT_MESSAGE(error("1 2\nFor 1 nan\n"));
  EXPECT_MESSAGE(error("1 2\nother 1 2\n"));
  EXPECT_THROW(read_type_vectors(scratch_.path() / "nowhere", kNamesInFile, 2), DataError);
  EXPECT_THROW(read_type_vectors(scratch_.path(), kNamesInFile, 2), DataError);
}

TEST_F(TypeVectorsFile, DamagedBytesAreRefusedOrRead) {
  const std::string whole = "3 2\nVar 0.25 -1e-3\nAdd 3 -1\nFor 1 2\n";
  std::mt19937 random(9);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string text = whole;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    if (random() % 4 == 0) text.resize(random() % text.size());
    if (error(text).empty()) continue;
    ++refused;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace foretime::data
