/// Files of node-type vectors: what is written is read, what FastText writes is read, what is damaged is refused.
#include "data/frontends/tir/type_vectors_file.h"

#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kNamesInFile[] = {"For", "Var", "Add"};

class TypeVectorsFile : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    const auto file = scratch_.path() / "types.vec";
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  std::string error(const std::string& text) {
    return foretime::testing::message_of<DataError>([&] { read_type_vectors(write(text), kNamesInFile, 2); });
  }
  foretime::testing::Scratch scratch_;
};

TEST_F(TypeVectorsFile, WhatIsWrittenIsRead) {
  TypeEmbeddings embeddings;
  embeddings.dims = 2;
  embeddings.names.assign(std::begin(kNamesInFile), std::end(kNamesInFile));
  embeddings.vectors = {0.1F, -3.4028235e38F, 1.17549435e-38F, 1.0F / 3, 0, -0.0F};
  const auto file = scratch_.path() / "types.vec";
  write_type_vectors(embeddings, file);
  const auto read = read_type_vectors(file, kNamesInFile, 2);
  EXPECT_EQ(read.vectors, embeddings.vectors);
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
  EXPECT_THAT(error(""), HasSubstr("line 1: '', expected a number of words"));
  EXPECT_THAT(error("1 3\nFor 1 2 3\n"), HasSubstr("line 1: vectors of 3 columns, expected 2"));
  EXPECT_THAT(error("2 2\nFor 1 2\n"), HasSubstr("line 3: the end of the file, expected 2 words"));
  EXPECT_THAT(error("99999999999999999 2\nFor 1 2\n"), HasSubstr("the end of the file"));
  EXPECT_THAT(error("1 2\nFor 1 2\nVar 1 2\n"), HasSubstr("line 3: more than the 1 words"));
  EXPECT_THAT(error("2 2\nFor 1 2\nFor 1 2\n"), HasSubstr("line 3: 'For' for the second time"));
  EXPECT_THAT(error("1 2\nFor 1\n"), HasSubstr("line 2: '', expected a number"));
  EXPECT_THAT(error("1 2\nFor 1 x\n"), HasSubstr("line 2: 'x', expected a number"));
  EXPECT_THAT(error("1 2\nFor 1 2 3\n"), HasSubstr("line 2: '3', expected the end of the line"));
  EXPECT_THAT(error("1 2\nFor 1 nan\n"), HasSubstr("expected a finite number"));
  EXPECT_THAT(error("1 2\nother 1 2\n"), HasSubstr("none of the 3 node types"));
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
