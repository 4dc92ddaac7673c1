#include "data/files/packed.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/checksum.h"
#include "base/error.h"
#include "data/files/inflate.h"
#include "data/files/packed_file.h"
#include "tests/data/groups.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::data {
namespace {

using testing::expect_same;
using ::testing::HasSubstr;
using testing::make_group;
using testing::message_of;

uint64_t checksum_of_text(std::string_view text) { return checksum_of(std::span(text)); }

TEST(Checksum, HasThePublishedValues) {
  EXPECT_EQ(checksum_of_text(""), 0xEF46DB3751D8E999U);
  EXPECT_EQ(checksum_of_text("a"), 0xD24EC4F1A98C6E5BU);
  EXPECT_EQ(checksum_of_text("abc"), 0x44BC2CF5AD770999U);
  EXPECT_EQ(checksum_of_text("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1U);
}

TEST(Checksum, DoesNotDependOnThePieces) {
  std::mt19937 random(3);
  for (const size_t length : {0U, 1U, 31U, 32U, 33U, 64U, 1000U}) {
    std::vector<uint8_t> bytes(length);
    for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
    for (int round = 0; round < 20; ++round) {
      Checksum pieces(round);
      for (auto rest = std::as_bytes(std::span<const uint8_t>(bytes)); !rest.empty();) {
        const size_t now = std::min<size_t>(rest.size(), random() % 50);
        pieces.add(rest.first(now));
        rest = rest.subspan(now);
      }
      EXPECT_EQ(pieces.value(), checksum_of(std::span<const uint8_t>(bytes), round)) << length;
    }
  }
}

class Packed : public testing::ScratchTest {
 protected:
  std::filesystem::path file_ = folder_ / "collection.foretime";

  std::vector<Group> write(CandidateKind kind, int count = 3) {
    std::vector<Group> groups;
    PackedWriter writer(file_, "a note");
    for (int i = 0; i < count; ++i) {
      groups.push_back(make_group(kind, "group " + std::to_string(i), static_cast<uint32_t>(i)));
      writer.add(groups.back());
    }
    writer.finish();
    return groups;
  }
};

TEST_F(Packed, GivesBackWhatWasPacked) {
  for (const auto kind : {CandidateKind::layout, CandidateKind::tile, CandidateKind::program}) {
    const auto groups = write(kind);
    EXPECT_TRUE(is_packed(file_));
    const auto headers = packed_headers(file_);
    ASSERT_EQ(headers.size(), groups.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      EXPECT_EQ(headers[i].name, groups[i].name);
      EXPECT_EQ(headers[i].kind, kind);
      EXPECT_EQ(headers[i].file, file_);
      EXPECT_EQ(headers[i].member, static_cast<int64_t>(i));
      EXPECT_EQ(static_cast<const GroupSizes&>(headers[i]), sizes_of(groups[i]));
      expect_same(load_packed(headers[i]), groups[i]);
    }
    EXPECT_NE(headers[0].fingerprint, headers[1].fingerprint);
    EXPECT_EQ(verify_packed(file_), 3);
  }
}

TEST_F(Packed, KeepsSummariesAndPlansBesideTheGroups) {
  for (const auto kind : {CandidateKind::layout, CandidateKind::tile, CandidateKind::program}) {
    const auto groups = write(kind);
    const auto headers = packed_headers(file_);
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto found = load_packed_summary(headers[i]), expected = summarize(groups[i]);
      expect_same("runtimes", found.runtimes, groups[i].runtimes);
      expect_same("flops", found.flops, groups[i].flops);
      EXPECT_TRUE(std::ranges::equal(found.configurations, configuration_hashes(groups[i])));
      EXPECT_EQ(found.features.rows, groups[i].graphs.nodes());
      EXPECT_EQ(found.tile_features.rows, kind == CandidateKind::tile ? 5 : 0);
      for (const auto part : {&GroupSummary::features, &GroupSummary::log_features, &GroupSummary::tile_features,
                              &GroupSummary::log_tile_features}) {
        for (const auto field : {&ColumnStatistics::sums, &ColumnStatistics::squares, &ColumnStatistics::minima,
                                 &ColumnStatistics::maxima}) {
          EXPECT_TRUE(std::ranges::equal(found.*part.*field, expected.*part.*field));
        }
      }
      EXPECT_EQ(packed_note(headers[i]), "a note");
    }
  }
}

/// What is damaged is noticed where it is used, and nowhere else.
TEST_F(Packed, ChecksPartsWhereTheyAreUsed) {
  write(CandidateKind::layout, 2);
  const auto headers = packed_headers(file_);
  const auto bytes = testing::read_text(file_);
  packed::Preamble preamble;
  std::memcpy(&preamble, bytes.data(), sizeof preamble);
  packed::GroupRecord record;
  std::memcpy(&record, bytes.data() + preamble.directory_offset, sizeof record);
  const auto damaged = [&](packed::Section section) {
    auto changed = bytes;
    changed[record.sections[section].offset] ^= 1;
    testing::write_text(file_, changed);
    EXPECT_EQ(packed_headers(file_).size(), 2U);
    EXPECT_EQ(message_of([&] { load_packed(headers[1]); }), "no exception");
    EXPECT_NE(message_of([&] { verify_packed(file_); }), "no exception");
    return std::array{message_of([&] { load_packed(headers[0]); }) != "no exception",
                      message_of([&] { load_packed_summary(headers[0]); }) != "no exception",
                      message_of([&] { packed_note(headers[0]); }) != "no exception"};
  };
  EXPECT_EQ(damaged(packed::kLayoutCodes), (std::array{true, false, false}));
  EXPECT_EQ(damaged(packed::kRuntimes), (std::array{true, true, false}));
  EXPECT_EQ(damaged(packed::kConfigurations), (std::array{false, true, false}));
  EXPECT_EQ(damaged(packed::kNote), (std::array{false, false, true}));
}

TEST_F(Packed, TakesNothingAfterAGroupThatFailed) {
  PackedWriter writer(file_);
  writer.add(make_group(CandidateKind::layout, "one", 1));
  const auto broken = [](const LayoutSink& sink) -> Group {
    sink.node_features(std::array{1.0F, 2.0F, 3.0F}, 3);
    throw DataError("broken off");
  };
  EXPECT_EQ(message_of([&] { writer.add_streamed("two", broken); }), "broken off");
  EXPECT_THAT(message_of([&] { writer.add(make_group(CandidateKind::layout, "three", 1)); }), HasSubstr("failed"));
  EXPECT_THAT(message_of([&] { writer.finish(); }), HasSubstr("failed"));
}

TEST_F(Packed, NoticesWhatAStreamLeftOut) {
  PackedWriter writer(file_);
  const Group group = make_group(CandidateKind::layout, "one", 1);
  const auto short_of_codes = [&](const LayoutSink& sink) {
    sink.node_features(group.graphs.node_features.span(), 3);
    sink.codes(group.layout.codes.subspan(0, 8), 2);
    return group;
  };
  EXPECT_MESSAGE(message_of([&] { writer.add_streamed("one", short_of_codes); }));
}

TEST_F(Packed, ArraysOutliveTheFile) {
  const auto groups = write(CandidateKind::layout, 1);
  Array<uint8_t> codes = load_packed(packed_headers(file_)[0]).layout.codes;
  std::filesystem::remove(file_);
  expect_same("codes", codes, groups[0].layout.codes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(codes.data()) % 64, 0U);
}

TEST_F(Packed, IsTheSameBytesForTheSameGroups) {
  write(CandidateKind::program);
  const auto first = testing::read_text(file_);
  write(CandidateKind::program);
  EXPECT_EQ(testing::read_text(file_), first);
}

TEST_F(Packed, KeepsTheSourcesFingerprint) {
  PackedWriter writer(file_);
  writer.add(make_group(CandidateKind::tile, "one", 1), 77);
  writer.finish();
  EXPECT_EQ(packed_headers(file_)[0].fingerprint, 77U);
}

TEST_F(Packed, AppearsOnlyWhenFinished) {
  write(CandidateKind::layout);
  const auto before = testing::read_text(file_);
  {
    PackedWriter writer(file_);
    writer.add(make_group(CandidateKind::tile, "one", 1));
  }
  EXPECT_EQ(testing::read_text(file_), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "the file aside is gone";
}

TEST_F(Packed, RefusesGroupsThatDoNotBelong) {
  PackedWriter writer(file_);
  EXPECT_THAT(message_of([&] { writer.finish(); }), HasSubstr("no groups"));
  writer.add(make_group(CandidateKind::tile, "one", 1));
  EXPECT_MESSAGE(message_of([&] { writer.add(make_group(CandidateKind::tile, "one", 2)); }), "one");
  EXPECT_THAT(message_of([&] { writer.add(make_group(CandidateKind::layout, "two", 2)); }),
              HasSubstr("kind layout, expected tile"));
  Group wrong = make_group(CandidateKind::layout, "wrong", 3);
  wrong.layout.codes = std::vector<uint8_t>{0, 0, 3, 1, 1, 0, 2, 1, 0, 1};
  EXPECT_MESSAGE(message_of([&] { writer.add(wrong); }), "wrong");
  EXPECT_MESSAGE(message_of([&] { PackedWriter nowhere(folder_ / "missing" / "file.foretime"); }));
}

/// Bytes that no checksum covers: those between sections.
size_t padding_bytes(const std::string& bytes) {
  packed::Preamble preamble;
  std::memcpy(&preamble, bytes.data(), sizeof preamble);
  size_t covered = sizeof preamble + preamble.directory_bytes;
  for (uint64_t g = 0; g < preamble.group_count; ++g) {
    packed::GroupRecord record;
    std::memcpy(&record, bytes.data() + preamble.directory_offset + g * sizeof record, sizeof record);
    for (const auto& section : record.sections) covered += section.bytes;
  }
  return bytes.size() - covered;
}

/// Each byte in turn is changed: the collection is refused, or (in the padding) reads as before.
TEST_F(Packed, NoticesEveryFlippedByte) {
  for (const auto kind : {CandidateKind::layout, CandidateKind::program}) {
    const auto groups = write(kind, 2);
    const auto bytes = testing::read_text(file_);
    const auto headers = packed_headers(file_);
    std::fstream out(file_, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](size_t at, char value) {
      out.seekp(static_cast<std::streamoff>(at));
      out.put(value).flush();
    };
    size_t unnoticed = 0;
    for (size_t at = 0; at < bytes.size(); ++at) {
      put(at, static_cast<char>(bytes[at] ^ (1 << (at % 8))));
      if (message_of([&] { verify_packed(file_); }) == "no exception") {
        ++unnoticed;
        for (size_t i = 0; i < groups.size(); ++i) expect_same(load_packed(headers[i]), groups[i]);
      }
      put(at, bytes[at]);
    }
    EXPECT_EQ(unnoticed, padding_bytes(bytes));
  }
}

TEST_F(Packed, NoticesEveryTruncation) {
  write(CandidateKind::program, 2);
  const auto bytes = testing::read_text(file_);
  const auto headers = packed_headers(file_);
  for (size_t length = 0; length < bytes.size(); length += length < 70 ? 1 : 13) {
    testing::write_text(file_, bytes.substr(0, length));
    EXPECT_NE(message_of([&] { packed_headers(file_); }), "no exception") << length;
    EXPECT_NE(message_of([&] { load_packed(headers[1]); }), "no exception") << length;
  }
  auto longer = bytes;
  longer.push_back(0);
  testing::write_text(file_, longer);
  EXPECT_THAT(message_of([&] { packed_headers(file_); }),
              HasSubstr(std::to_string(bytes.size() + 1) + " bytes, expected"));
}

/// Values that a wrong writer could have sealed with right checksums.
TEST_F(Packed, ChecksWhatItsChecksumsVouchFor) {
  using namespace packed;
  write(CandidateKind::layout, 1);
  const auto bytes = testing::read_text(file_);
  const auto sealed = [&](auto change) {
    auto damaged = bytes;
    Preamble preamble;
    GroupRecord record;
    std::memcpy(&preamble, damaged.data(), sizeof preamble);
    char* at = damaged.data() + preamble.directory_offset;
    std::memcpy(&record, at, sizeof record);
    change(record, damaged);
    for (auto& section : record.sections) {
      const bool inside = section.offset <= damaged.size() && section.bytes <= damaged.size() - section.offset;
      if (inside) section.checksum = checksum_of(std::span<const char>(damaged).subspan(section.offset, section.bytes));
    }
    record.checksum = checksum_of(std::as_bytes(std::span(&record, 1)).first(offsetof(GroupRecord, checksum)));
    std::memcpy(at, &record, sizeof record);
    preamble.directory_checksum =
        checksum_of(std::span<const char>(damaged).subspan(preamble.directory_offset, preamble.directory_bytes));
    preamble.checksum = checksum_of(std::as_bytes(std::span(&preamble, 1)).first(offsetof(Preamble, checksum)));
    std::memcpy(damaged.data(), &preamble, sizeof preamble);
    testing::write_text(file_, damaged);
    return message_of([&] { verify_packed(file_); });
  };
  EXPECT_EQ(sealed([](GroupRecord&, std::string&) {}), "no exception");
  EXPECT_THAT(sealed([](GroupRecord& r, auto&) { r.sections[kRuntimes].offset += 8; }), HasSubstr("multiple of 64"));
  EXPECT_MESSAGE(sealed([](GroupRecord& r, auto&) { r.sections[kRuntimes].bytes = ~0ULL; }));
  EXPECT_MESSAGE(sealed([](GroupRecord& r, auto&) { r.sizes.candidates += 1; }));
  EXPECT_MESSAGE(sealed([](GroupRecord& r, auto&) { r.sizes.nodes = -1; }));
  EXPECT_MESSAGE(sealed([](GroupRecord& r, auto&) { r.sizes.nodes = int64_t{1} << 62; }));
  EXPECT_THAT(sealed([](GroupRecord& r, auto&) { r.sizes.feature_count = int64_t{1} << 60; }), HasSubstr("overflows"));
  EXPECT_THAT(sealed([](GroupRecord& r, auto&) { r.kind = 9; }), HasSubstr("kind 9"));
  EXPECT_MESSAGE(sealed([](GroupRecord& r, auto&) { r.kind = 1; }));
  EXPECT_THAT(sealed([](GroupRecord& r, auto&) { r.name_bytes = 1U << 30; }), HasSubstr("name outside"));
  const auto set_byte = [](packed::Section section, uint64_t at, char value) {
    return [=](GroupRecord& r, std::string& b) { b[r.sections[section].offset + at] = value; };
  };
  EXPECT_MESSAGE(sealed(set_byte(kConfigurations, 3, 77)));
  EXPECT_MESSAGE(sealed(set_byte(kLayoutCodes, 2, 3)));
  EXPECT_MESSAGE(sealed(set_byte(kEdgeSource, 0, 127)));
  EXPECT_THAT(sealed(set_byte(kNodeTypes, 0, 7)), HasSubstr("7, expected below 7"));
  EXPECT_THAT(sealed(set_byte(kLayoutNodes, 4, 0)), HasSubstr("0 after 0"));
  EXPECT_MESSAGE(sealed(set_byte(kLayoutRowPtr, 8, 0)));
  EXPECT_THAT(sealed(set_byte(kGraphPtr, 0, 1)), HasSubstr("graph_ptr"));
  EXPECT_THAT(sealed(set_byte(kRuntimes, 7, '\xff')), HasSubstr("runtimes: "));
}

TEST_F(Packed, SaysWhatIsNotAPackedFile) {
  EXPECT_FALSE(is_packed(file_));
  EXPECT_MESSAGE(message_of([&] { packed_headers(file_); }));
  testing::write_text(file_, std::string(100, 'x'));
  EXPECT_FALSE(is_packed(file_));
  EXPECT_MESSAGE(message_of([&] { packed_headers(file_); }));
  EXPECT_MESSAGE(message_of([&] { packed_headers(folder_); }));
  write(CandidateKind::tile, 1);
  auto bytes = testing::read_text(file_);
  bytes[12] = 9;
  testing::write_text(file_, bytes);
  EXPECT_TRUE(is_packed(file_));
  EXPECT_MESSAGE(message_of([&] { packed_headers(file_); }));
}

TEST_F(Packed, KnowsThatTheFileChangedSinceItWasListed) {
  write(CandidateKind::tile, 2);
  auto headers = packed_headers(file_);
  PackedWriter writer(file_);
  writer.add(make_group(CandidateKind::tile, "group 0", 99));
  writer.finish();
  EXPECT_MESSAGE(message_of([&] { load_packed(headers[0]); }));
  EXPECT_THAT(message_of([&] { load_packed(headers[1]); }), HasSubstr("group: 1, expected 0 … 0"));
}

using Bytes = std::vector<std::byte>;

/// Bytes with runs, repeats and noise, so that all kinds of blocks occur.
Bytes example(size_t length, std::mt19937& random) {
  Bytes bytes;
  while (bytes.size() < length) {
    const size_t run = 1 + random() % 400, kind = random() % 3, back = 1 + random() % 40000;
    const auto value = static_cast<std::byte>(random());
    for (size_t i = 0; i < run; ++i) {
      if (kind == 0) bytes.push_back(value);
      if (kind == 1) bytes.push_back(static_cast<std::byte>(random()));
      if (kind == 2) bytes.push_back(back < bytes.size() ? bytes[bytes.size() - back] : value);
    }
  }
  bytes.resize(length);
  return bytes;
}

Bytes deflated(const Bytes& bytes, int level, Inflater::Format format = Inflater::Format::deflate) {
  z_stream stream{};
  deflateInit2(&stream, level, Z_DEFLATED, format == Inflater::Format::gzip ? MAX_WBITS + 16 : -MAX_WBITS, 8,
               Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, bytes.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct Result {
  Bytes bytes;
  bool ended = false, damaged = false;
  size_t left = 0;  // bytes of the input
};

Result inflated(const Bytes& in, size_t in_piece, size_t out_piece, size_t limit,
                Inflater::Format format = Inflater::Format::deflate) {
  Inflater inflater(format);
  Result result;
  std::span<const std::byte> rest(in);
  Bytes out(out_piece);
  while (!result.ended && !result.damaged && result.bytes.size() <= limit) {
    const auto given = rest.first(std::min(rest.size(), in_piece));
    const auto step = inflater.inflate(given, out);
    EXPECT_LE(step.consumed, given.size());
    rest = rest.subspan(std::min(step.consumed, given.size()));
    result.bytes.insert(result.bytes.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(step.produced));
    result.ended = step.ended;
    result.damaged = step.damaged;
    if (step.consumed == 0 && step.produced == 0 && !step.ended) break;
  }
  result.left = rest.size();
  return result;
}

TEST(Inflater, GivesBackWhatZlibDeflated) {
  std::mt19937 random(5);
  for (const size_t length : {0U, 1U, 100U, 70000U, 400000U}) {
    const Bytes bytes = example(length, random);
    for (const int level : {0, 1, 6, 9}) {
      const Bytes in = deflated(bytes, level);
      for (const auto& [in_piece, out_piece] :
           std::vector<std::pair<size_t, size_t>>{{1U << 20, 1U << 20}, {1000, 777}, {17, 4096}}) {
        const auto result = inflated(in, in_piece, out_piece, length);
        EXPECT_TRUE(result.ended);
        EXPECT_TRUE(result.bytes == bytes) << length << ' ' << level << ' ' << in_piece;
      }
    }
  }
}

TEST(Inflater, ChecksGzipAndStopsAtItsEnd) {
  std::mt19937 random(8);
  for (const size_t length : {0U, 5U, 70000U}) {
    const Bytes bytes = example(length, random);
    Bytes in = deflated(bytes, 6, Inflater::Format::gzip);
    const size_t end = in.size();
    in.resize(end + 40, std::byte{0x1f});
    for (const size_t piece : {size_t{1} << 20, size_t{100}, size_t{7}, size_t{1}}) {
      const auto result = inflated(in, piece, 4096, length, Inflater::Format::gzip);
      EXPECT_TRUE(result.ended && !result.damaged && result.bytes == bytes) << length << ' ' << piece;
      EXPECT_EQ(result.left, in.size() - end) << length << ' ' << piece;
    }
    for (const size_t byte : {end - 1, end - 5, size_t{0}, size_t{2}}) {
      Bytes changed = in;
      changed[byte] ^= std::byte{4};
      EXPECT_TRUE(inflated(changed, 512, 4096, length, Inflater::Format::gzip).damaged) << length << ' ' << byte;
    }
  }
}

TEST(Inflater, SurvivesDamage) {
  std::mt19937 random(6);
  const Bytes bytes = example(20000, random), in = deflated(bytes, 6);
  for (int round = 0; round < 300; ++round) {
    Bytes changed = in;
    changed[random() % changed.size()] ^= static_cast<std::byte>(1U << (random() % 8));
    if (round % 3 == 0) changed.resize(random() % changed.size());
    const auto result = inflated(changed, 512, 512, 1 << 20);
    EXPECT_FALSE(result.ended && !result.damaged && result.bytes == bytes && changed.size() < in.size());
  }
}

/// Where ISA-L meets a distance to before the first byte, it may count one byte more than there was.
TEST(Inflater, DamageConsumesNoMoreThanWasGiven) {
  std::mt19937 random(9);
  for (int round = 0; round < 10'000; ++round) {
    Bytes bytes(random() % 300), out(1 + random() % 40);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random() % 3 > 0 ? 'a' + random() % 3 : random());
    Bytes in = deflated(bytes, 6);
    in[random() % in.size()] ^= static_cast<std::byte>(1U << random() % 8);
    Inflater inflater;
    std::span<const std::byte> rest(in);
    for (Inflater::Step step; !step.ended && !step.damaged && !rest.empty(); rest = rest.subspan(step.consumed)) {
      const auto given = rest.first(std::min<size_t>(rest.size(), 10 + random() % 10));
      step = inflater.inflate(given, std::span(out).first(1 + random() % out.size()));
      ASSERT_LE(step.consumed, given.size());
    }
  }
}

TEST(Inflater, ComputesTheChecksumOfZip) {
  std::mt19937 random(7);
  const Bytes bytes = example(5000, random);
  const std::span<const std::byte> all(bytes);
  EXPECT_EQ(crc32_of(all, 0), ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), 5000));
  EXPECT_EQ(crc32_of(all.subspan(123), crc32_of(all.first(123), 0)), crc32_of(all, 0));
}

}  // namespace
}  // namespace foretime::data
