#include "history/tensorboard/event_file.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/scratch.h"

/// The bytes are judged by a reader of its own in tests/cli/tensorboard_test.py.
namespace foretime::tensorboard {
namespace {

using EventFileTest = testing::ScratchTest;

TEST(MaskedCrc, IsThatOfRfc3720) {
  const auto unmasked = [](std::string_view bytes) {
    const uint32_t rotated = masked_crc(bytes) - 0xa282ead8;
    return rotated << 15 | rotated >> 17;
  };
  // Examples of RFC 3720, B.4, and the check value of CRC-32C.
  EXPECT_EQ(unmasked(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(unmasked(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(unmasked("123456789"), 0xe3069283U);
}

TEST(EventRecords, ReadBackUpToDamage) {
  const std::string text = record_of("one") + record_of("") + record_of("three");
  EXPECT_EQ(messages_of(text), (std::vector<std::string_view>{"one", "", "three"}));
  for (size_t cut = 0; cut < text.size(); ++cut) {
    const auto found = messages_of(std::string_view(text).substr(0, cut));
    EXPECT_EQ(found.size(), cut < 19 ? 0U : cut < 35 ? 1U : 2U) << cut;
  }
  for (size_t at = 0; at < text.size(); ++at) {
    auto damaged = text;
    damaged[at] ^= 4;
    EXPECT_LT(messages_of(damaged).size(), 3U) << at;
  }
  EXPECT_TRUE(messages_of(std::string(64, '\xff')).empty());
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) { return files().list(folder); }

TEST_F(EventFileTest, OneThatGoesOnHasNoStepTwice) {
  const auto other = scratch_.write("events.out.tfevents.17.other", "not ours");
  {
    EventFile file(folder_, 1);
    EXPECT_TRUE(file.is_new());
    file.text("settings", "a");
    file.begin_hparams({{"a", "1"}}, "loss");
    for (int64_t step = 1; step <= 9; ++step) file.scalars(step, {{"loss", 1.0}});
    file.end_hparams(9);
  }
  ASSERT_EQ(files_in(folder_).size(), 2U);
  const auto before = files_in(folder_)[1];
  const auto bytes = testing::read_text(before);
  EXPECT_EQ(messages_of(bytes).size(), 1U + 2U + 9U + 1U);
  testing::write_text(before, bytes + "torn");
  {
    EventFile file(folder_, 6);
    EXPECT_FALSE(file.is_new());
    file.scalars(6, {{"loss", 2.0}});
  }
  ASSERT_EQ(files_in(folder_).size(), 2U);
  EXPECT_EQ(testing::read_text(other), "not ours");
  const auto after = testing::read_text(files_in(folder_)[1]);
  EXPECT_EQ(messages_of(after).size(), 1U + 2U + 5U + 1U);
  EXPECT_GT(files_in(folder_)[1].filename(), before.filename());
  EventFile anew(folder_, 1);
  EXPECT_TRUE(anew.is_new());
  ASSERT_EQ(files_in(folder_).size(), 2U);
}

TEST_F(EventFileTest, AHistogramOfNothingIsNotWritten) {
  EventFile file(folder_, 1);
  file.histogram(1, "scores", std::vector<double>{NAN, INFINITY});
  file.scalars(1, {});
  const auto text = testing::read_text(files_in(folder_)[0]);
  EXPECT_EQ(messages_of(text).size(), 1U);
  file.histogram(1, "scores", std::vector<double>{2, 2, NAN});
  const auto more = testing::read_text(files_in(folder_)[0]);
  EXPECT_EQ(messages_of(more).size(), 2U);
}

}  // namespace
}  // namespace foretime::tensorboard
