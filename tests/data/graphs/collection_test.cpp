#include "data/graphs/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset/group_files.h"
#include "data/dataset/pack.h"
#include "data/dataset/synth.h"
#include "data/files/eval_indices.h"
#include "data/files/layout_npz.h"
#include "data/files/packed.h"
#include "tests/data/groups.h"

namespace foretime::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Collection, ComesFromThePath) {
  EXPECT_EQ(collection_in("data/npz/layout/xla/random/test/x.npz"), "layout:xla:random");
  EXPECT_EQ(collection_in("/a/layout/nlp/default/valid/y.npz"), "layout:nlp:default");
  EXPECT_EQ(collection_in("npz/tile/xla/test/z.npz"), "tile:xla");
  EXPECT_EQ(collection_in("elsewhere/z.npz"), "");
  for (int64_t i = 0; i < kCollections; ++i) {
    const auto collection = static_cast<Collection>(i);
    EXPECT_EQ(collection_named(to_string(collection)), collection);
  }
  EXPECT_EQ(collection_named("layout:gpu:random"), Collection::none);
}

TEST(Collection, QualifiesNamesOnce) {
  EXPECT_EQ(qualified_name(Collection::layout_xla_random, "g"), "layout:xla:random:g");
  EXPECT_EQ(qualified_name(Collection::layout_xla_random, "layout:xla:random:g"), "layout:xla:random:g");
  EXPECT_EQ(qualified_name(Collection::none, "g"), "g");
  EXPECT_EQ(plain_name("tile:xla:g:h"), "g:h");
  EXPECT_EQ(plain_name("layout:xla:random"), "layout:xla:random");
}

class Collections : public testing::ScratchTest {
 protected:
  std::filesystem::path put(const std::string& folder, const std::string& name, uint64_t seed) {
    std::filesystem::create_directories(folder_ / folder);
    const auto file = folder_ / folder / (name + ".npz");
    write_layout_npz(file, synthesize_layout_group({30, 5, 12, seed}, name));
    return file;
  }
  std::vector<std::string> names(const std::vector<std::string>& patterns) {
    std::vector<std::string> found;
    for (const auto& header : list_groups(patterns, folder_, CandidateKind::layout)) found.push_back(header.name);
    return found;
  }
};

TEST_F(Collections, OneNameInTwoOfThemIsTwoGroups) {
  put("layout/xla/random/train", "a", 1);
  put("layout/xla/default/train", "a", 2);
  put("layout/xla/default/train", "b", 3);
  EXPECT_THAT(names({"layout/xla/default"}), ElementsAre("a", "b"));
  EXPECT_THAT(names({"layout"}), ElementsAre("layout:xla:default:a", "layout:xla:default:b", "layout:xla:random:a"));
  for (const auto& header : list_groups({"layout"}, folder_, CandidateKind::layout)) {
    const auto group = load_group(header);
    EXPECT_EQ(group.name, header.name);
    EXPECT_EQ(group.collection, header.collection);
  }
  put("elsewhere", "a", 4);
  put("elsewhere/too", "a", 5);
  EXPECT_THROW(names({"elsewhere"}), DataError);
}

TEST_F(Collections, ArePackedWithTheirGroups) {
  put("layout/xla/random/train", "a", 1);
  put("layout/xla/default/train", "a", 2);
  const auto headers = list_groups({"layout"}, folder_, CandidateKind::layout);
  PackedWriter writer(folder_ / "all.foretime");
  for (const auto& header : headers) add_file(writer, header);
  writer.finish();
  const auto packed = packed_headers(folder_ / "all.foretime");
  ASSERT_EQ(packed.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(packed[i].name, headers[i].name);
    EXPECT_EQ(packed[i].collection, headers[i].collection);
    testing::expect_same(load_group(packed[i]), load_group(headers[i]));
  }
  // Two packed collections of one name each are qualified when they are listed together.
  for (const auto* part : {"random", "default"}) {
    PackedWriter one(folder_ / (std::string(part) + ".foretime"));
    add_file(one, list_groups({std::string("layout/xla/") + part}, folder_, CandidateKind::layout).at(0));
    one.finish();
  }
  const auto both = list_groups({"random.foretime", "default.foretime"}, folder_, CandidateKind::layout);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(load_group(both[1]).name, "layout:xla:random:a");
}

TEST_F(Collections, HaveOfficialIndicesOfTheirOwn) {
  const auto write = [&](const std::string& file, const std::string& text) {
    write_file(folder_ / file, {text.begin(), text.end()});
  };
  EXPECT_THROW(read_eval_indices(folder_), DataError);
  write("xla_random.json", R"({"a": [1, 2, 1]})");  // one of the published lists repeats ids
  write("nlp_default.json", R"({"a": [3], "b": [4]})");
  const auto all = read_eval_indices(folder_);
  EXPECT_THAT(*find_indices(all, Collection::layout_xla_random, "a"), ElementsAre(1, 2, 1));
  EXPECT_THAT(*find_indices(all, Collection::layout_nlp_default, "layout:nlp:default:a"), ElementsAre(3));
  EXPECT_EQ(find_indices(all, Collection::layout_xla_random, "b"), nullptr);
  const auto one = read_eval_indices(folder_ / "nlp_default.json");
  EXPECT_THAT(*find_indices(one, Collection::layout_nlp_default, "layout:nlp:default:b"), ElementsAre(4));
}

}  // namespace
}  // namespace foretime::data
