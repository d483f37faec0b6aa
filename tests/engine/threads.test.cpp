// Many threads use one engine at once; run under the thread sanitizer too.
#include <gtest/gtest.h>

#include <atomic>

#include "engine/test_host.h"

namespace banter::test {
namespace {

TEST(Threads, SayCancelTurnAndPollAtOnce) {
  const auto bytes = tiny_model();
  Host host([](banter_engine_config& c) {
    c.max_requests = 32;
    c.max_events = 64;
    c.text_buffer_bytes = 16384;
    c.thread_count = 2;
  });
  banter_model* const model = host.load(bytes);
  constexpr int kThreads = 4, kRounds = 60;
  std::atomic<int> submitted{0}, running{kThreads};
  std::atomic<banter_request_id> latest{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      banter_npc* npc = host.npc(model, "P");
      for (int i = 0; i < kRounds; ++i) {
        Ask ask(static_cast<uint32_t>(2 + i % 5), kGoOn);
        banter_request_id request = 0;
        const std::string words(static_cast<size_t>(1 + i * 13 % 900), static_cast<char>('a' + t));
        const banter_result code = i % 3 == 0
                                       ? banter_model_complete(model, words.data(), words.size(), ask.get(), &request)
                                       : banter_npc_say(npc, words.data(), words.size(), ask.get(), &request);
        if (code == BANTER_OK) {
          ++submitted;
          latest.store(request, std::memory_order_relaxed);
        } else {
          EXPECT_EQ(code, BANTER_ERROR_BUSY) << banter_last_error_message();
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        if (i % 4 == 0) (void)banter_cancel(host.engine, latest.load(std::memory_order_relaxed));
        if (i % 7 == 0) (void)banter_npc_add_turn(npc, BANTER_ROLE_USER, "x", 1);
        if (i % 9 == 0) (void)banter_npc_reset(npc);
        if (i % 16 == 15) {
          banter_npc_destroy(npc);
          npc = host.npc(model, "Q");
        }
      }
      banter_npc_destroy(npc);
      --running;
    });
  }
  const auto ended = [&] {
    int count = 0;
    for (const auto& [id, outcome] : host.outcomes) count += outcome.terminals;
    return count;
  };
  // The load is a request too.
  EXPECT_TRUE(host.pump_until([&] { return running == 0 && ended() == submitted + 1; }, 120));
  for (std::thread& thread : threads) thread.join();
  host.pump();
  EXPECT_EQ(ended(), submitted + 1);
  for (const auto& [id, outcome] : host.outcomes) {
    EXPECT_EQ(outcome.terminals, 1);
    EXPECT_TRUE(outcome.kind != BANTER_EVENT_FAILED || outcome.code == BANTER_ERROR_PROMPT_TOO_LONG) << outcome.message;
  }
  EXPECT_EQ(host.statistics().requests_active, 0u);
}

TEST(Threads, LoadsTokenizeAndReleaseAtOnce) {
  const auto bytes = tiny_model();
  Host host;
  constexpr int kThreads = 3;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i) {
        banter_model* model = nullptr;
        host.start_load(bytes, &model);
        size_t count = 0;
        banter_result code;
        while ((code = banter_model_tokenize(model, "the quick", 9, nullptr, 0, &count)) == BANTER_ERROR_STATE) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_EQ(code, BANTER_OK);
        EXPECT_EQ(count, 7u);
        banter_model_release(model);
      }
      --running;
    });
  }
  EXPECT_TRUE(host.pump_until([&] { return running == 0; }, 120));
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().models_loaded == 0; }));
}

TEST(Threads, OnlyOneThreadPollsAtATime) {
  const auto bytes = tiny_model();
  Host host;
  banter_model* const model = host.load(bytes);
  const banter_request_id request = complete(model, "x", Ask(400, kGoOn));
  std::atomic<int> terminals{0}, busy{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (terminals == 0) {
        banter_event events[4];
        uint32_t count = 0;
        const banter_result code = banter_poll(host.engine, events, sizeof events[0], 4, &count);
        if (code == BANTER_ERROR_BUSY) {
          ++busy;
          EXPECT_EQ(count, 0u);
        } else {
          EXPECT_EQ(code, BANTER_OK);
        }
        // The events are not looked at beyond what is copied: another poll may end their life at any moment.
        for (uint32_t i = 0; i < count; ++i) {
          if (events[i].request == request && is_terminal(events[i].kind)) ++terminals;
        }
        std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(terminals, 1);
}

TEST(Threads, WaitWakesForAnEventAndGivesUpInTime) {
  const auto bytes = tiny_model();
  Host host;
  banter_model* const model = host.load(bytes);
  host.pump();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(banter_wait(host.engine, 0), BANTER_ERROR_NOT_FOUND);
  EXPECT_EQ(banter_wait(host.engine, 30), BANTER_ERROR_NOT_FOUND);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(29));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    complete(model, "x", Ask(2, kGoOn));
  });
  EXPECT_EQ(banter_wait(host.engine, UINT32_MAX), BANTER_OK);
  later.join();
}

}  // namespace
}  // namespace banter::test
