/// NPY headers and elements, and the layout coder against its reference implementation on rows made for it.
#include "data/files/npy.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/files/npz_reader.h"
#include "data/graphs/layout_coder.h"
#include "data/graphs/schema.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/npz_writer.h"
#include "tests/support/scratch.h"

namespace foretime::data {
namespace {

using ::testing::ElementsAre;
using testing::format_npy_header;
using ::testing::HasSubstr;
using testing::NpzCompression;
using testing::NpzWriter;

std::string header_of(const std::string& dict, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  return text + dict;
}

std::string failure(const std::string& header) {
  return testing::message_of<DataError>([&] { parse_npy_header(header, "here"); });
}

TEST(NpyHeader, AllVersionsAndSpellings) {
  for (const char version : {1, 2, 3}) {
    const std::string dict = "{\"shape\" : (3 , 4L), 'fortran_order':True,'descr': '>i4'}  \n";
    const auto header = parse_npy_header(header_of(dict, version), "here");
    EXPECT_THAT(header.shape, ElementsAre(3, 4));
    EXPECT_TRUE(header.fortran_order);
    EXPECT_EQ(header.type.str(), ">i4");
    EXPECT_EQ(header.payload_bytes(), 48);
    EXPECT_EQ(header.header_bytes, static_cast<int64_t>(dict.size()) + (version == 1 ? 10 : 12));
  }
  EXPECT_TRUE(parse_npy_header(header_of("{'descr': '|b1', 'fortran_order': False, 'shape': (), }"), "").shape.empty());
}

TEST(NpyHeader, WriterAndParserAgree) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{}, {5}, {0, 3}, {2, 3, 4}}) {
    const std::string text = format_npy_header({NpyKind::unsigned_integer, 2, false}, true, shape);
    EXPECT_EQ(text.size() % 64, 0u);
    const auto header = parse_npy_header(text, "here");
    EXPECT_EQ(header.shape, shape);
    EXPECT_EQ(header.type.str(), "<u2");
  }
}

TEST(NpyHeader, MalformedOnesSaySo) {
  EXPECT_MESSAGE(failure("\x93NUMPX\x01..........."));
  EXPECT_THAT(failure(header_of("{'descr': '<f4'}", 4)), HasSubstr("NPY version 4"));
  EXPECT_THAT(failure(header_of(std::string(2 << 20, ' '), 2)), HasSubstr("at most 1048576"));
  const std::vector<std::string> cases = {
      "{'descr': '<f4', 'fortran_order': False, }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
      "{'descr': '<f4",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '<f16', 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '<U99999999999999999999', 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (x,)}",
      "{'descr': '<U0', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"};
  for (const auto& dict : cases) EXPECT_MESSAGE(failure(header_of(dict))) << dict;
}

class NpzFile : public testing::ScratchTest {
 protected:
  const std::filesystem::path path_ = folder_ / "arrays.npz";
};

TEST_F(NpzFile, RoundTripsEveryType) {
  for (const auto compression : {NpzCompression::stored, NpzCompression::deflated}) {
    NpzWriter writer(path_, compression);
    writer.add("f8", {2, 2}, std::vector<double>{1, 2, 3, 4.5});
    writer.add("fortran", {2, 3, 2}, std::vector<int16_t>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}, true);
    writer.add("u8", {2}, std::vector<uint64_t>{1, std::numeric_limits<uint64_t>::max()});
    writer.add("i1", {3}, std::vector<int8_t>{-1, 0, 1});
    writer.add_bytes("big.npy", format_npy_header({NpyKind::signed_integer, 4, true}, false, {2}) +
                                    std::string("\0\0\1\2\xff\xff\xff\xfe", 8));
    writer.add_bytes("bool.npy", format_npy_header({NpyKind::boolean, 1, false}, false, {2}) + std::string("\0\1", 2));
    writer.add_bytes("text.npy", format_npy_header({NpyKind::text, 8, false}, false, {2}) +
                                     std::string("\xac\x20\0\0a\0\0\0b\0\0\0\0\0\0\0", 16));
    // 1, -2, the largest, the smallest, infinity and none.
    writer.add_bytes("half.npy", format_npy_header({NpyKind::floating, 2, false}, false, {6}) +
                                     std::string("\0\x3c\0\xc0\xff\x7b\1\0\0\x7c\1\x7c", 12));
    writer.close();
    const NpzReader file(path_);
    EXPECT_THAT(file.open("half").read_all<float>(),
                ElementsAre(1, -2, 65504, 0x1p-24F, std::numeric_limits<float>::infinity(), ::testing::IsNan()));
    EXPECT_THAT(file.open("f8").read_all<double>(), ElementsAre(1, 2, 3, 4.5));
    EXPECT_THAT(file.open("f8").read_all<float>(), ElementsAre(1, 2, 3, 4.5f));
    EXPECT_THAT(file.open("fortran").read_all<int64_t>(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    EXPECT_THAT(file.open("i1").read_all<int32_t>(), ElementsAre(-1, 0, 1));
    EXPECT_THAT(file.open("big").read_all<int64_t>(), ElementsAre(258, -2));
    EXPECT_THAT(file.open("bool").read_all<uint8_t>(), ElementsAre(0, 1));
    EXPECT_THAT(file.read_text("text", {{kAnySize}, "(any,)"}), ElementsAre("€a", "b"));
    EXPECT_THROW(file.open("u8").read_all<int64_t>(), DataError);
    EXPECT_THROW(file.open("i1").read_all<uint8_t>(), DataError);
    EXPECT_THROW(file.open("f8").read_all<int64_t>(), DataError);
    EXPECT_THROW(file.open("i1").read_all<float>(), DataError);
    EXPECT_THROW(file.open("text").read_all<float>(), DataError);
  }
}

/// The straight copy (same type) and the converting path must read the same, in whatever pieces.
TEST_F(NpzFile, CopyEqualsConversion) {
  std::vector<float> values(100'003);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f - 1e4f;
  NpzWriter writer(path_);
  writer.add("x", {static_cast<int64_t>(values.size())}, values);
  writer.close();
  const NpzReader file(path_);
  EXPECT_EQ(file.open("x").read_all<float>(), values);
  const auto converted = file.open("x").read_all<double>();
  EXPECT_TRUE(std::equal(values.begin(), values.end(), converted.begin(), converted.end()));
  NpyStream pieces = file.open("x");
  std::vector<float> joined(values.size());
  for (int64_t at = 0; pieces.remaining() > 0;) {
    const int64_t now = std::min<int64_t>(pieces.remaining(), 977);
    pieces.read(joined.data() + at, now);
    at += now;
  }
  pieces.finish();
  EXPECT_EQ(joined, values);
  float extra = 0;
  EXPECT_THROW(pieces.read(&extra, 1), DataError);
}

TEST(LayoutCoder, EqualsAMapOfRows) {
  constexpr int64_t kNodes = 3, kCandidates = 2000;
  std::mt19937 random(7);
  LayoutCoder fast({1, 5, 9}, "fast"), converting({1, 5, 9}, "converting");
  std::vector<std::map<std::vector<int>, int>> slow(kNodes);
  std::vector<int> expected;
  std::vector<uint8_t> codes(kCandidates * kNodes), reference_codes(codes.size());
  for (int64_t c = 0; c < kCandidates; ++c) {
    std::vector<float> rows(kNodes * kLayoutFeatures, 0.0f);
    for (int64_t j = 0; j < kNodes; ++j) {
      float* row = rows.data() + j * kLayoutFeatures;
      const unsigned kind = random() % (j == 0 ? 1 : j == 1 ? 7 : 256);
      for (int64_t k = 0; k < kLayoutFeatures; ++k) row[k] = static_cast<float>((kind >> (k % 8) & 1) * 6) - 1.0f;
      row[17] = random() % 2 == 0 ? 0.0f : -0.0f;  // two encodings of one number
      auto [found, fresh] = slow[static_cast<size_t>(j)].try_emplace(std::vector<int>(row, row + kLayoutFeatures), 0);
      if (fresh) found->second = static_cast<int>(slow[static_cast<size_t>(j)].size()) - 1;
      expected.push_back(found->second);
    }
    fast.add_candidate(rows.data(), &codes[static_cast<size_t>(c * kNodes)]);
    converting.add_candidate(std::vector<double>(rows.begin(), rows.end()).data(),
                             &reference_codes[static_cast<size_t>(c * kNodes)]);
  }
  const auto coded = std::move(fast).finish(kCandidates), reference = std::move(converting).finish(kCandidates);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), codes.begin(), codes.end()));
  EXPECT_EQ(codes, reference_codes);
  EXPECT_TRUE(std::ranges::equal(coded.rows, reference.rows));
  for (size_t j = 0; j < kNodes; ++j) {
    for (const auto& [row, code] : slow[j]) {
      const auto start = (coded.row_ptr[static_cast<int64_t>(j)] + code) * kLayoutFeatures;
      EXPECT_TRUE(std::ranges::equal(row, coded.rows.subspan(start, kLayoutFeatures)));
    }
  }
}

TEST(Schema, NamesFillEveryColumn) {
  EXPECT_EQ(feature_names(CandidateKind::layout).size(), static_cast<size_t>(kHloFeatures));
  EXPECT_EQ(feature_names(CandidateKind::tile)[91], "window_window_reversal_true_count");
  EXPECT_EQ(feature_names(CandidateKind::layout)[93], "convolution_dim_numbers_input_batch_dim");
  EXPECT_EQ(feature_names(CandidateKind::layout)[133], "is_stable");
  EXPECT_EQ(feature_names(CandidateKind::layout)[139], "layout_minor_to_major_5");
  EXPECT_EQ(feature_names(CandidateKind::program).size(), static_cast<size_t>(ProgramColumns::count));
  EXPECT_EQ(feature_names(CandidateKind::program)[ProgramColumns::depth], "depth");
  EXPECT_EQ(feature_names(CandidateKind::program)[ProgramColumns::value], "log_value");
  EXPECT_EQ(candidate_feature_names(CandidateKind::layout).size(), static_cast<size_t>(kLayoutFeatures));
  EXPECT_EQ(candidate_feature_names(CandidateKind::tile).size(), static_cast<size_t>(kTileFeatures));
  for (const auto kind : {CandidateKind::layout, CandidateKind::program}) {
    auto names = feature_names(kind);
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  }
  EXPECT_EQ(tir_type_id("For"), 4);
  EXPECT_EQ(tir_type_id("NoSuchType"), 55);
  EXPECT_EQ(call_op_index("tir.exp"), call_op_index("exp"));
  EXPECT_EQ(call_op_index("tir.no_such_op"), kCallOps - 1);
}

}  // namespace
}  // namespace foretime::data
