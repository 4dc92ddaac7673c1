#include "sharding/dataset_index.h"

#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::sharding {
namespace {

class SizeLists : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) { return folder_.write("sizes.csv", text); }

  std::string refusal(const std::string& text) {
    const auto message = testing::message_of<DataError>([&] { read_size_list(write(text), configs::Settings()); });
    EXPECT_NE(message.find("sizes.csv"), std::string::npos);
    return message;
  }

  const testing::Scratch folder_;
};

TEST_F(SizeLists, ReadAllColumnsInAnyOrder) {
  const auto list =
      read_size_list(write("candidates, name,edges,nodes,configurable\r\n500,big,70,50,7\r\n\r\n16,small,3,4,0\r\n"),
                     configs::Settings());
  ASSERT_EQ(list.dataset.entries.size(), 2u);
  EXPECT_FALSE(list.assumed_candidates || list.assumed_configurable);
  const auto& header = list.dataset.entries[0].header;
  EXPECT_EQ(header.name, "big");
  EXPECT_EQ(header.nodes, 50);
  EXPECT_EQ(header.edges, 70);
  EXPECT_EQ(header.configurable, 7);
  EXPECT_EQ(header.candidates, 500);
  EXPECT_EQ(list.dataset.entries[1].role, Role::train);
  EXPECT_GT(list.dataset.entries[1].sample_cost, 0);
}

TEST_F(SizeLists, AssumeWhatIsMissing) {
  const auto list = read_size_list(write("nodes,edges\n1000,1500\n"), configs::Settings(), {0.1, 77});
  EXPECT_TRUE(list.assumed_candidates && list.assumed_configurable);
  EXPECT_EQ(list.dataset.entries[0].header.configurable, 100);
  EXPECT_EQ(list.dataset.entries[0].header.candidates, 77);
}

TEST_F(SizeLists, RefuseWhatTheyCannotRead) {
  EXPECT_MESSAGE(refusal(""));
  EXPECT_MESSAGE(refusal("nodes\n5\n"));
  EXPECT_MESSAGE(refusal("nodes,edges,colour\n5,6,7\n"), "'colour'");
  EXPECT_MESSAGE(refusal("nodes,edges,nodes\n5,6,7\n"));
  EXPECT_MESSAGE(refusal("nodes,edges\n5,6\n5\n"), "sizes.csv:3");
  EXPECT_MESSAGE(refusal("nodes,edges\n-5,6\n"), "line 2");
  EXPECT_MESSAGE(refusal("nodes,edges\n5,x\n"));
  EXPECT_MESSAGE(refusal("nodes,edges\n5,6.5\n"), "'6.5'");
  EXPECT_MESSAGE(refusal("nodes,edges\n99999999999999999999,6\n"), "'9999");
  EXPECT_MESSAGE(refusal("nodes,edges,configurable\n5,6,7\n"), "'7'");
  EXPECT_MESSAGE(refusal("nodes,edges\n"));
  EXPECT_THROW(read_size_list(folder_.path() / "none.csv", configs::Settings()), DataError);
}

}  // namespace
}  // namespace foretime::sharding
