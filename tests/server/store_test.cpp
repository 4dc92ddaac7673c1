#include "server/store.h"

#include <gtest/gtest.h>

namespace foretime::server {
namespace {

std::shared_ptr<const int> number(int value) { return std::make_shared<const int>(value); }

TEST(RecentStore, ForgetsWhatWasUsedLongestAgo) {
  RecentStore<int> store(2, 100);
  store.keep("a", number(1), 1);
  store.keep("b", number(2), 1);
  const auto a = store.find("a");
  store.keep("c", number(3), 1);
  EXPECT_EQ(store.find("b"), nullptr);
  EXPECT_EQ(store.find("a"), a);
  EXPECT_EQ(*store.find("c"), 3);
  EXPECT_EQ(store.find(""), nullptr);
}

TEST(RecentStore, KeepsTheFirstOfAnId) {
  RecentStore<int> store(2, 100);
  store.keep("a", number(1), 1);
  store.keep("a", number(2), 99);
  store.keep("b", number(3), 99);
  EXPECT_EQ(*store.find("a"), 1);
}

TEST(RecentStore, WeighsWhatItKeeps) {
  RecentStore<int> store(10, 100);
  store.keep("a", number(1), 60);
  store.keep("b", number(2), 30);
  const auto used = store.find("a");
  store.keep("c", number(3), 20);  // 110: b goes
  EXPECT_NE(store.find("a"), nullptr);
  EXPECT_EQ(store.find("b"), nullptr);
  store.keep("d", number(4), 200);  // alone, since somebody wants it now
  EXPECT_NE(store.find("d"), nullptr);
  EXPECT_EQ(store.find("a"), nullptr);
  EXPECT_EQ(*used, 1);
}

}  // namespace
}  // namespace foretime::server
