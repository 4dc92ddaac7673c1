#include "base/threads.h"

#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

namespace foretime {
namespace {

TEST(Threads, AreThoseAskedForOrAShareOfTheCores) {
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  EXPECT_EQ(threads_to_use(cores + 3), cores + 3);
  EXPECT_EQ(threads_to_use(0, 2 * cores), 1);
  EXPECT_GE(threads_to_use(0), 1);
  EXPECT_LE(threads_to_use(0), cores);
}

TEST(Threads, OfAProcessBoundToOneCoreAreOne) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(threads_to_use(0), 1);
  EXPECT_EQ(threads_to_use(4), 4);
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace foretime
