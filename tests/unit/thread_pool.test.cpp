#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace banter {
namespace {

std::unique_ptr<ThreadPool> make_pool(int32_t threads) {
  auto pool = ThreadPool::create({.threads = threads});
  EXPECT_TRUE(pool);
  return std::move(*pool);
}

TEST(ThreadPool, RunsEveryUnitOnceAndShowsItsWrites) {
  for (const int32_t threads : {1, 2, 3, 8}) {
    const auto pool = make_pool(threads);
    EXPECT_EQ(threads, pool->threads());
    for (const int32_t units : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<int> count(static_cast<size_t>(units), 0);  // plain ints: the thread sanitizer watches them
      std::atomic<bool> bad_thread{false};
      pool->for_each(units, [&](int32_t unit, int32_t thread) {
        ++count[static_cast<size_t>(unit)];
        if (thread < 0 || thread >= threads) bad_thread = true;
      });
      for (const int n : count) ASSERT_EQ(1, n);
      EXPECT_FALSE(bad_thread);
    }
  }
}

TEST(ThreadPool, ThousandsOfShortJobsInARow) {
  const auto pool = make_pool(4);
  int64_t total = 0;
  for (int job = 0; job < 20000; ++job) {
    int64_t parts[5] = {};
    const int32_t units = 1 + job % 5;
    pool->for_each(units, [&](int32_t unit, int32_t) { parts[unit] = job + unit; });
    for (const int64_t part : parts) total += part;
  }
  int64_t expected = 0;
  for (int64_t job = 0; job < 20000; ++job) {
    const int64_t units = 1 + job % 5;
    expected += units * job + units * (units - 1) / 2;
  }
  EXPECT_EQ(expected, total);
}

TEST(ThreadPool, WorkersSleepAndWakeAgain) {
  const auto pool = make_pool(3);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far beyond the time that threads poll
    std::atomic<int> sum{0};
    pool->for_each(16, [&](int32_t unit, int32_t) { sum += unit; });
    ASSERT_EQ(120, sum.load());
  }
}

TEST(ThreadPool, SeveralThreadsReallyTakePart) {
  const auto pool = make_pool(2);
  // Each unit waits until the other has begun, which needs two threads at once.
  std::atomic<int> begun{0};
  std::atomic<bool> timed_out{false};
  pool->for_each(2, [&](int32_t, int32_t) {
    begun.fetch_add(1);
    const auto start = std::chrono::steady_clock::now();
    while (begun.load() < 2) {
      if (std::chrono::steady_clock::now() - start > std::chrono::seconds(20)) {
        timed_out = true;
        return;
      }
      std::this_thread::yield();
    }
  });
  EXPECT_FALSE(timed_out);
}

/** A worker that is held up sits out, and the jobs after it go on without it; later it takes part again. */
TEST(ThreadPool, AWorkerThatStallsIsNotWaitedForAgainAtOnce) {
  const auto pool = make_pool(2);
  std::atomic<bool> worker_ran{false};
  const auto stalling_job = [&] {
    worker_ran = false;
    pool->for_each(2, [&](int32_t, int32_t thread) {
      if (thread != 0) {
        worker_ran = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return;
      }
      const auto start = std::chrono::steady_clock::now();
      while (!worker_ran && std::chrono::steady_clock::now() - start < std::chrono::seconds(20))
        std::this_thread::yield();
    });
  };
  stalling_job();
  ASSERT_TRUE(worker_ran);
  int with_worker = 0;
  int first_with_worker = -1;
  for (int job = 0; job < 4000; ++job) {
    std::atomic<bool> took_part{false};
    pool->for_each(4, [&](int32_t, int32_t thread) {
      if (thread != 0) took_part = true;
      std::this_thread::sleep_for(std::chrono::microseconds(job < 32 ? 0 : 50));
    });
    if (took_part) {
      ++with_worker;
      if (first_with_worker < 0) first_with_worker = job;
    }
    if (with_worker > 0 && job > 64) break;
  }
  EXPECT_GE(first_with_worker, 32);
  EXPECT_GT(with_worker, 0);
}

TEST(ThreadPool, RefusesSenselessThreadCounts) {
  for (const int32_t threads : {0, -1, 257}) {
    const auto pool = ThreadPool::create({.threads = threads});
    ASSERT_FALSE(pool);
    EXPECT_EQ(BANTER_ERROR_INVALID_ARGUMENT, pool.error().code);
  }
}

TEST(ThreadPool, ManyPoolsComeAndGo) {
  for (int i = 0; i < 100; ++i) {
    const auto pool = make_pool(3);
    if (i % 2 == 0) pool->for_each(3, [](int32_t, int32_t) {});
  }
}

/** Workers that are late for a short job meet the pool's end. */
TEST(ThreadPool, EndsRightAfterAJobWhoeverIsLate) {
  std::atomic<int> units{0};
  constexpr int kPools = 1500;
  for (int i = 0; i < kPools; ++i) {
    const auto pool = make_pool(6);
    for (int job = 0; job < 3; ++job) pool->for_each(6, [&](int32_t, int32_t) { units.fetch_add(1); });
  }
  EXPECT_EQ(units, kPools * 3 * 6);
}

TEST(ThreadPool, DefaultCountIsWithinTheMachine) {
  const int32_t count = default_thread_count();
  EXPECT_GE(count, 1);
  EXPECT_LE(count, static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency())));
}

}  // namespace
}  // namespace banter
