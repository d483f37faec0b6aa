// The engine's parts alone: free lists, text chains, the command queue, the scheduler, the histogram.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "engine/command_queue.h"
#include "engine/event_queue.h"
#include "engine/free_list.h"
#include "engine/latency.h"
#include "engine/scheduler.h"
#include "engine/signal.h"
#include "engine/slots.h"
#include "engine/text_pool.h"

namespace banter::engine {
namespace {

TEST(FreeList, TakesEachIndexOnce) {
  FreeList list;
  ASSERT_TRUE(list.create({}, 5));
  std::set<uint32_t> taken;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(taken.insert(list.acquire()).second);
  EXPECT_EQ(list.acquire(), FreeList::kNone);
  for (const uint32_t i : taken) list.release(i);
  const uint32_t chain = list.acquire_chain(5);
  ASSERT_NE(chain, FreeList::kNone);
  std::set<uint32_t> linked;
  for (uint32_t i = chain; i != FreeList::kNone; i = list.next(i)) linked.insert(i);
  EXPECT_EQ(linked, taken);
  EXPECT_EQ(list.acquire_chain(1), FreeList::kNone);
}

TEST(FreeList, ChainsAreAllOrNothing) {
  FreeList list;
  ASSERT_TRUE(list.create({}, 8));
  EXPECT_EQ(list.acquire_chain(9), FreeList::kNone);
  EXPECT_NE(list.acquire_chain(6), FreeList::kNone);
  EXPECT_EQ(list.acquire_chain(3), FreeList::kNone);
  EXPECT_NE(list.acquire_chain(2), FreeList::kNone);
}

TEST(FreeList, ManyThreadsNeverShareAnIndex) {
  FreeList list;
  constexpr uint32_t kCount = 64;
  ASSERT_TRUE(list.create({}, kCount));
  std::array<std::atomic<int>, kCount> owners{};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20000; ++i) {
        const uint32_t chain = list.acquire_chain(static_cast<uint32_t>(1 + (i + t) % 9));
        if (chain == FreeList::kNone) continue;
        uint32_t last = chain, length = 0;
        for (uint32_t at = chain; at != FreeList::kNone; at = list.next(at)) {
          ASSERT_EQ(owners[at].exchange(1), 0);
          last = at;
          ++length;
        }
        ASSERT_EQ(length, static_cast<uint32_t>(1 + (i + t) % 9));
        for (uint32_t at = chain; at != FreeList::kNone; at = list.next(at)) owners[at] = 0;
        list.release_chain(chain, last);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(list.acquire_chain(kCount), FreeList::kNone);  // none was lost
}

TEST(TextPool, CarriesTextOverBlockBorders) {
  TextPool pool;
  ASSERT_TRUE(pool.create({}, 8 * TextPool::kBlockBytes));
  EXPECT_EQ(pool.capacity_bytes(), 8 * TextPool::kBlockBytes);
  for (const size_t size :
       {size_t{1}, TextPool::kBlockBytes, TextPool::kBlockBytes + 1, 7 * TextPool::kBlockBytes - 5}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + 7);
    const uint32_t chain = pool.acquire(size + sizeof(uint64_t));
    ASSERT_NE(chain, TextPool::kNone);
    ChainCursor writer(pool, chain);
    writer.write(text.data(), size);
    writer.write_value(uint64_t{0x1122334455667788});
    ChainCursor reader(pool, chain);
    std::string back(size, '\0');
    reader.read(back.data(), size);
    EXPECT_EQ(back, text);
    EXPECT_EQ(reader.read_value<uint64_t>(), 0x1122334455667788u);
    pool.release(chain);
  }
  EXPECT_EQ(pool.acquire(9 * TextPool::kBlockBytes), TextPool::kNone);
}

TEST(SlotTable, CancelReachesOnlyTheLivingGeneration) {
  SlotTable slots;
  ASSERT_TRUE(slots.create({}, 1));
  const uint32_t index = slots.acquire();
  ASSERT_EQ(index, 0u);
  EXPECT_EQ(slots.acquire(), SlotTable::kNone);
  const banter_request_id first = slots.id(index);
  EXPECT_NE(first, 0u);
  EXPECT_TRUE(slots.cancel(first));
  EXPECT_TRUE(slots.cancel(first));
  EXPECT_TRUE(slots[index].cancel_requested());
  slots.release(index);
  EXPECT_FALSE(slots.cancel(first));
  ASSERT_EQ(slots.acquire(), 0u);
  EXPECT_FALSE(slots[index].cancel_requested());
  EXPECT_NE(slots.id(index), first);
  EXPECT_FALSE(slots.cancel(first));
  slots[index].state.fetch_or(RequestSlot::kEnded);
  EXPECT_FALSE(slots.cancel(slots.id(index)));
  EXPECT_FALSE(slots.cancel(0));
  EXPECT_FALSE(slots.cancel(~banter_request_id{0}));
}

TEST(CommandQueue, KeepsTheOrderOfOneThreadOverAllProducers) {
  CommandQueue queue;
  ASSERT_TRUE(queue.create({}, 4096));
  // Hold leases, so that the same thread is given other producers.
  std::vector<std::unique_ptr<CommandQueue::Lease>> held;
  for (uint32_t i = 0; i < 1000; ++i) {
    if (i % 7 == 0 && held.size() + 1 < CommandQueue::kProducers) {
      held.push_back(std::make_unique<CommandQueue::Lease>());
      ASSERT_TRUE(queue.claim(*held.back()));
    } else if (i % 11 == 0 && !held.empty()) {
      held.erase(held.begin());
    }
    CommandQueue::Lease lease;
    ASSERT_TRUE(queue.claim(lease));
    ASSERT_TRUE(queue.post(lease, {Command::kRequest, i}));
  }
  queue.collect();
  for (uint32_t i = 0; i < 1000; ++i) {
    const auto command = queue.take(UINT64_MAX);
    ASSERT_TRUE(command);
    EXPECT_EQ(command->index, i);
  }
  EXPECT_FALSE(queue.take(UINT64_MAX));
}

TEST(CommandQueue, BarriersSplitTheStream) {
  CommandQueue queue;
  ASSERT_TRUE(queue.create({}, 16));
  const auto post = [&](uint32_t index) {
    CommandQueue::Lease lease;
    ASSERT_TRUE(queue.claim(lease));
    ASSERT_TRUE(queue.post(lease, {Command::kTurn, index}));
  };
  post(1);
  const uint64_t barrier = queue.barrier();
  post(2);
  queue.collect();
  EXPECT_FALSE(queue.reached(barrier));
  EXPECT_EQ(queue.take(barrier)->index, 1u);
  EXPECT_FALSE(queue.take(barrier));
  EXPECT_TRUE(queue.reached(barrier));
  EXPECT_EQ(queue.take(UINT64_MAX)->index, 2u);
}

TEST(CommandQueue, AllProducersBusyIsToldAndFullUseNeverFails) {
  CommandQueue queue;
  constexpr uint32_t kCapacity = 600;
  ASSERT_TRUE(queue.create({}, kCapacity));
  {
    std::vector<std::unique_ptr<CommandQueue::Lease>> held;
    for (uint32_t i = 0; i < CommandQueue::kProducers; ++i) {
      held.push_back(std::make_unique<CommandQueue::Lease>());
      ASSERT_TRUE(queue.claim(*held.back()));
    }
    CommandQueue::Lease lease;
    EXPECT_FALSE(queue.claim(lease));
  }
  // Each producer in turn carries the whole capacity, many times over.
  for (uint32_t round = 0; round < 3 * CommandQueue::kProducers; ++round) {
    std::vector<std::unique_ptr<CommandQueue::Lease>> held;
    for (uint32_t i = 0; i < round % CommandQueue::kProducers; ++i) {
      held.push_back(std::make_unique<CommandQueue::Lease>());
      ASSERT_TRUE(queue.claim(*held.back()));
    }
    for (uint32_t i = 0; i < kCapacity; ++i) {
      CommandQueue::Lease lease;
      ASSERT_TRUE(queue.claim(lease));
      ASSERT_TRUE(queue.post(lease, {Command::kRequest, i})) << "round " << round << " command " << i;
    }
    queue.collect();
    for (uint32_t i = 0; i < kCapacity; ++i) ASSERT_EQ(queue.take(UINT64_MAX)->index, i);
  }
}

TEST(CommandQueue, ManyThreadsLoseNothing) {
  CommandQueue queue;
  constexpr uint32_t kCapacity = 256;
  ASSERT_TRUE(queue.create({}, kCapacity));
  FreeList slots;
  ASSERT_TRUE(slots.create({}, kCapacity));
  constexpr int kThreads = 3, kEach = 4000;
  std::array<std::atomic<int>, kCapacity> writers{};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach;) {
        CommandQueue::Lease lease;
        if (!queue.claim(lease)) continue;
        const uint32_t slot = slots.acquire();
        if (slot == FreeList::kNone) continue;
        writers[slot].store(t * kEach + i, std::memory_order_relaxed);
        ASSERT_TRUE(queue.post(lease, {Command::kRequest, slot}));
        ++i;
      }
    });
  }
  std::vector<int> next(kThreads, 0);
  for (int taken = 0; taken < kThreads * kEach;) {
    queue.collect();
    while (const auto command = queue.take(UINT64_MAX)) {
      const int what = writers[command->index].load(std::memory_order_relaxed);
      ASSERT_EQ(what % kEach, next[static_cast<size_t>(what / kEach)]++);
      slots.release(command->index);
      ++taken;
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(EventQueue, HoldsAllBlocksAndAllTerminalEventsInOrder) {
  constexpr uint32_t kEvents = 300, kSlots = 100;
  SlotTable slots;
  ASSERT_TRUE(slots.create({}, kSlots));
  EventQueue queue;
  ASSERT_TRUE(queue.create({}, kEvents, slots));
  std::vector<banter_event> events(50);
  for (uint32_t round = 0; round < 12; ++round) {
    std::vector<banter_request_id> expected;
    for (uint32_t i = 0; i < kEvents; ++i) {
      EventBlock* const block = queue.allocate();
      ASSERT_NE(block, nullptr) << "round " << round << " event " << i;
      block->kind = BANTER_EVENT_TEXT;
      block->request = round * 1000 + i;
      expected.push_back(block->request);
      queue.push(block);
    }
    EXPECT_EQ(queue.allocate(), nullptr);
    for (uint32_t i = 0; i < kSlots; ++i) {
      const uint32_t slot = slots.acquire();
      ASSERT_NE(slot, SlotTable::kNone);
      slots[slot].terminal = BANTER_EVENT_DONE;
      expected.push_back(slots.id(slot));
      queue.push_terminal(slot);
    }
    EXPECT_TRUE(queue.wait(0));
    size_t taken = 0;
    uint32_t freed = 0, wakes = 0;
    for (uint32_t last = 1; last > 0;) {
      const auto polled =
          queue.poll(reinterpret_cast<std::byte*>(events.data()), sizeof events[0], 50, [&](uint32_t) { ++freed; });
      ASSERT_EQ(polled.code, BANTER_OK);
      last = polled.count;
      wakes += polled.wake_engine;
      for (uint32_t i = 0; i < polled.count; ++i) {
        ASSERT_LT(taken, expected.size());
        ASSERT_EQ(events[i].request, expected[taken++]);
      }
    }
    EXPECT_EQ(taken, expected.size());
    EXPECT_EQ(freed, kSlots);
    EXPECT_EQ(wakes, 1u);  // the engine waited for room
    EXPECT_FALSE(queue.wait(0));
  }
}

TEST(Signal, PostsBetweenResetAndWaitAreNotLost) {
  Signal signal;
  std::atomic<int> posted{0}, seen{0};
  std::thread sleeper([&] {
    while (seen < 2000) {
      signal.reset();
      seen = posted.load();
      if (seen < 2000) signal.wait();
    }
  });
  for (int i = 0; i < 2000; ++i) {
    ++posted;
    signal.post();
    if (i % 50 == 0) std::this_thread::yield();
  }
  sleeper.join();
  EXPECT_EQ(seen, 2000);
}

Candidate decode(uint64_t arrival, int32_t priority = 4, uint64_t served = 0) {
  return {priority, arrival, 1, true, served, 0};
}
Candidate prefill(uint64_t arrival, int32_t pending, int32_t priority = 4) {
  return {priority, arrival, pending, false, 0, 0};
}
std::vector<int32_t> plan(std::vector<Candidate> candidates, StepLimits limits) {
  std::vector<Candidate*> scratch;
  plan_step(candidates, limits, scratch);
  std::vector<int32_t> rows;
  for (const Candidate& c : candidates) rows.push_back(c.rows);
  return rows;
}

TEST(Scheduler, DecodeFirstThenPrefillByPriorityThenArrival) {
  const StepLimits limits{64, 64, 16, 0};
  EXPECT_EQ(plan({prefill(1, 100), decode(2), decode(3)}, limits), (std::vector<int32_t>{62, 1, 1}));
  EXPECT_EQ(plan({prefill(1, 50), prefill(2, 50)}, limits), (std::vector<int32_t>{50, 14}));
  EXPECT_EQ(plan({prefill(1, 50), prefill(2, 50, 7)}, limits), (std::vector<int32_t>{14, 50}));
}

TEST(Scheduler, PrefillIsCutWhileSomebodyStreams) {
  const StepLimits limits{256, 16, 16, 0};
  EXPECT_EQ(plan({prefill(1, 100), decode(2)}, limits), (std::vector<int32_t>{16, 1}));
  EXPECT_EQ(plan({prefill(1, 100)}, limits), (std::vector<int32_t>{100}));
}

TEST(Scheduler, PrefillIsNeverStarved) {
  std::vector<Candidate> candidates;
  for (uint64_t i = 0; i < 20; ++i) candidates.push_back(decode(i));
  candidates.push_back(prefill(99, 40));
  const std::vector<int32_t> rows = plan(candidates, {16, 16, 64, 0});
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end() - 1, 0), 12);
  EXPECT_EQ(rows.back(), 4);
  int32_t prefilled = 0;
  for (uint64_t step = 0; step < 2; ++step) {
    const auto one = plan({decode(1), prefill(2, 5)}, {1, 1, 1, step});
    EXPECT_EQ(one[0] + one[1], 1);
    prefilled += one[1];
  }
  EXPECT_EQ(prefilled, 1);
  // One logit row: the last row of a prompt needs it as much as a decoder does.
  int32_t finished = 0;
  for (uint64_t step = 0; step < 2; ++step) finished += plan({decode(1), prefill(2, 1)}, {8, 8, 1, step})[1];
  EXPECT_EQ(finished, 1);
}

TEST(Scheduler, DecodersTakeTurnsWhenThereAreTooMany) {
  std::vector<uint64_t> served(10, 0);
  std::vector<int> counts(10, 0);
  for (uint64_t step = 1; step <= 30; ++step) {
    std::vector<Candidate> candidates;
    for (uint64_t i = 0; i < 10; ++i) candidates.push_back(decode(i, 4, served[i]));
    const auto rows = plan(candidates, {64, 64, 3, step});
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0), 3);
    for (size_t i = 0; i < 10; ++i) {
      if (rows[i] == 0) continue;
      served[i] = step;
      ++counts[i];
    }
  }
  // 90 places for ten; ties within a step go by arrival, so not quite nine each.
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_GE(*least, 7);
  EXPECT_LE(*most, 10);
}

TEST(Scheduler, RowsNeverExceedTheLimitsAndSomebodyIsAlwaysServed) {
  uint64_t state = 12345;
  const auto random = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (int round = 0; round < 20000; ++round) {
    std::vector<Candidate> candidates;
    const size_t count = 1 + random(12);
    bool any = false;
    for (size_t i = 0; i < count; ++i) {
      Candidate c = random(2) == 0 ? decode(i, static_cast<int32_t>(random(8)), random(5))
                                   : prefill(i, static_cast<int32_t>(1 + random(60)), static_cast<int32_t>(random(8)));
      if (random(6) == 0) c.pending = 0;
      any = any || c.pending > 0;
      candidates.push_back(c);
    }
    const StepLimits limits{static_cast<int32_t>(1 + random(40)), static_cast<int32_t>(1 + random(40)),
                            static_cast<int32_t>(1 + random(6)), random(2)};
    std::vector<Candidate*> scratch;
    plan_step(candidates, limits, scratch);
    int32_t rows = 0, logits = 0;
    for (const Candidate& c : candidates) {
      ASSERT_GE(c.rows, 0);
      ASSERT_LE(c.rows, c.pending);
      rows += c.rows;
      if (c.rows > 0 && c.rows == c.pending) ++logits;
    }
    ASSERT_LE(rows, limits.rows);
    ASSERT_LE(logits, limits.logit_rows);
    if (any) {
      ASSERT_GT(rows, 0) << "round " << round;
    }
  }
}

TEST(LatencyHistogram, QuantilesAreCloseAndTheMeanExact) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.quantile_ms(0.5), 0.0);
  for (uint64_t us = 1; us <= 10000; ++us) histogram.add(us * 1000);
  EXPECT_NEAR(histogram.mean_ms(), 5.0005, 1e-9);
  EXPECT_NEAR(histogram.quantile_ms(0.5), 5.0, 5.0 * 0.045);
  EXPECT_NEAR(histogram.quantile_ms(0.99), 9.9, 9.9 * 0.045);
  histogram.add(UINT64_MAX / 2);  // beyond the last bucket
  EXPECT_GT(histogram.quantile_ms(1.0), 1e6);
}

}  // namespace
}  // namespace banter::engine
