#include "base/threads.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include "tests/support/message_of.h"

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

TEST(ParallelFor, DoesEachPartOnce) {
  for (const int32_t threads : {1, 2, 7}) {
    for (const int64_t parts : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(parts));
      std::atomic<int> workers{0};
      parallel_for(parts, threads, [&] {
        ++workers;
        return [&](int64_t part) { ++done[static_cast<size_t>(part)]; };
      });
      for (const auto& times : done) EXPECT_EQ(times, 1);
      EXPECT_LE(workers, std::max<int64_t>(1, std::min<int64_t>(threads, parts)));
    }
  }
}

TEST(ParallelFor, ThrowsWhatTheFirstPartThrewAndBeginsNoMore) {
  for (const int32_t threads : {1, 4}) {
    std::atomic<int> begun{0};
    EXPECT_EQ(testing::message_of([&] {
                parallel_for(1000, threads, [&] {
                  return [&](int64_t part) {
                    ++begun;
                    if (part >= 10) throw std::runtime_error(std::to_string(part));
                  };
                });
              }),
              "10");
    EXPECT_LE(begun, 10 + threads);
  }
  EXPECT_THROW(parallel_for(3, 2, []() -> std::function<void(int64_t)> { throw std::runtime_error("worker"); }),
               std::runtime_error);
}

TEST(ParallelFor, OpenMpHasOneThreadInsideAndAsManyAsBeforeOutside) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  parallel_for(8, 2, [] { return [](int64_t) { EXPECT_EQ(omp_get_max_threads(), 1); }; });
  EXPECT_EQ(omp_get_max_threads(), 3);
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace foretime
