#include "data/files/inflate.h"

#include <algorithm>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

namespace foretime::data {
namespace {

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
    const auto step = inflater.inflate(rest.first(std::min(rest.size(), in_piece)), out);
    rest = rest.subspan(step.consumed);
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

TEST(Inflater, ComputesTheChecksumOfZip) {
  std::mt19937 random(7);
  const Bytes bytes = example(5000, random);
  const std::span<const std::byte> all(bytes);
  EXPECT_EQ(crc32_of(all, 0), ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), 5000));
  EXPECT_EQ(crc32_of(all.subspan(123), crc32_of(all.first(123), 0)), crc32_of(all, 0));
}

}  // namespace
}  // namespace foretime::data
