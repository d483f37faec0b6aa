// Births and deaths: cancel, destroy and release at every moment; nothing leaks, nothing hangs, one terminal event each.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "engine/resident.h"
#include "engine/test_host.h"

namespace banter::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/** Slow enough that a prompt takes many steps. */
const std::vector<std::byte>& slow_model() {
  static const std::vector<std::byte> bytes = [] {
    TinyModelOptions options;
    options.embedding = 256;
    options.layers = 4;
    return tiny_model(options);
  }();
  return bytes;
}

TEST(Lifetimes, CancelAtEveryMomentEndsOnceAndTheNextRequestWorks) {
  Host host([](banter_engine_config& c) { c.step_tokens = 32; });
  banter_model* const model = host.load(slow_model());
  banter_npc* const npc = host.npc(model, "P");
  const std::string words(500, 'w');
  const Outcome whole = host.finish(say(npc, words, Ask(100, kGoOn)));
  int cancelled = 0;
  for (int i = 0; i <= 24; ++i) {
    banter_npc_reset(npc);
    const banter_request_id request = say(npc, words + std::to_string(i), Ask(400, kGoOn));
    if (i < 14) {  // queued, then chunk after chunk of the prompt
      std::this_thread::sleep_for(microseconds(static_cast<int>(whole.statistics.ttft_ms * 1000 * i / 13)));
    } else {  // token after token of the reply
      const auto tokens = static_cast<size_t>((i - 14) * 3);
      ASSERT_TRUE(host.pump_until([&] { return host.outcomes[request].tokens.size() > tokens; }));
    }
    const banter_result code = banter_cancel(host.engine, request);
    EXPECT_TRUE(code == BANTER_OK || code == BANTER_ERROR_NOT_FOUND);
    const banter_result twice = banter_cancel(host.engine, request);
    EXPECT_TRUE(twice == BANTER_OK || twice == BANTER_ERROR_NOT_FOUND);
    const Clock::time_point start = Clock::now();
    const Outcome outcome = host.finish(request);
    if (outcome.kind == BANTER_EVENT_CANCELLED) {
      ++cancelled;
      if (!kSanitized) {
        EXPECT_LT(seconds_since(start), 2.0);
      }
    } else {
      EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE);
    }
    host.pump();
    EXPECT_EQ(host.outcomes[request].terminals, 1);
    EXPECT_EQ(banter_cancel(host.engine, request), BANTER_ERROR_NOT_FOUND);
  }
  EXPECT_GT(cancelled, 8);
  // Nothing of all this changed what the character says.
  banter_npc_reset(npc);
  EXPECT_EQ(host.finish(say(npc, words, Ask(100, kGoOn))).tokens, whole.tokens);
}

/** The engine's steps between the return of the cancel and the end of the request; -1: it ended by itself. */
int64_t steps_until_cancelled(Host& host, banter_request_id request) {
  (void)banter_cancel(host.engine, request);
  const uint64_t steps = host.statistics().steps;
  const Outcome outcome = host.finish(request);
  return outcome.kind == BANTER_EVENT_CANCELLED ? static_cast<int64_t>(host.statistics().steps - steps) : -1;
}

TEST(Lifetimes, CancelTakesEffectWithinTheStepInProgress) {
  Host host([](banter_engine_config& c) { c.step_tokens = 8; });
  banter_model* const model = host.load(slow_model());
  int cancelled = 0;
  const auto check = [&](banter_request_id request) {
    const int64_t steps = steps_until_cancelled(host, request);
    if (steps >= 0) ++cancelled;
    EXPECT_LE(steps, 1);
  };
  for (int i = 0; i < 10; ++i) {
    // In its prompt, of more than a hundred steps: nobody else talks, so all steps are its own.
    const uint64_t before = host.statistics().steps;
    const banter_request_id reading = complete(model, std::to_string(i) + std::string(900, 'p'), Ask(4, kGoOn));
    ASSERT_TRUE(host.pump_until([&] { return host.statistics().steps > before + static_cast<uint64_t>(i); }));
    check(reading);
    const banter_request_id talking = complete(model, std::to_string(i), Ask(900, kGoOn));
    ASSERT_TRUE(host.pump_until([&] { return !host.outcomes[talking].tokens.empty(); }));
    check(talking);
  }
  EXPECT_GT(cancelled, 10) << "most ended before they could be cancelled";
}

TEST(Lifetimes, CancelOfQueuedAndOfLoad) {
  Host host;
  banter_model* model = nullptr;
  const banter_request_id load = host.start_load(slow_model(), &model);
  banter_npc* const npc = host.npc(model, "P");
  const banter_request_id first = say(npc, "One", Ask(4, kGoOn)), second = say(npc, "Two", Ask(4, kGoOn));
  EXPECT_EQ(banter_cancel(host.engine, second), BANTER_OK);
  EXPECT_EQ(host.finish(second).kind, BANTER_EVENT_CANCELLED);
  EXPECT_EQ(host.finish(load).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_EQ(host.finish(first).kind, BANTER_EVENT_DONE);

  bool seen_cancel = false;
  for (int delay_us = 0; delay_us < 20000; delay_us += 1500) {
    banter_model* other = nullptr;
    const banter_request_id other_load = host.start_load(slow_model(), &other);
    banter_npc* const waiting = host.npc(other, "P");
    const banter_request_id said = say(waiting, "Hi", Ask(4, kGoOn));
    std::this_thread::sleep_for(microseconds(delay_us));
    (void)banter_cancel(host.engine, other_load);
    const Outcome outcome = host.finish(other_load);
    if (outcome.kind == BANTER_EVENT_CANCELLED) {
      seen_cancel = true;
      const Outcome failed = host.finish(said);
      EXPECT_EQ(failed.kind, BANTER_EVENT_FAILED);
      EXPECT_EQ(failed.code, BANTER_ERROR_STATE);
    } else {
      EXPECT_EQ(host.finish(said).kind, BANTER_EVENT_DONE);
    }
    banter_npc_destroy(waiting);
    banter_model_release(other);
  }
  EXPECT_TRUE(seen_cancel);
}

/** What is going on when the engine is destroyed. */
void destroy_after(int delay_us, bool loaded) {
  auto host = std::make_unique<Host>();
  banter_model* model = nullptr;
  const banter_request_id load = host->start_load(slow_model(), &model);
  if (loaded) host->finish(load);
  banter_npc* const npc = host->npc(model, "P");
  for (int i = 0; i < 3; ++i) say(npc, std::string(300, 'a'), Ask(50, kGoOn));
  complete(model, std::string(500, 'b'), Ask(50, kGoOn));
  std::this_thread::sleep_for(microseconds(delay_us));
  const Clock::time_point start = Clock::now();
  host.reset();
  if (!kSanitized) {
    EXPECT_LT(seconds_since(start), 3.0);
  }
}

TEST(Lifetimes, DestroyWhileLoading) {
  for (int delay_us = 0; delay_us < 16000; delay_us += 700) destroy_after(delay_us, false);
}

TEST(Lifetimes, DestroyInPrefillAndDecode) {
  for (int delay_us = 0; delay_us < 60000; delay_us += 4000) destroy_after(delay_us, true);
}

TEST(Lifetimes, ReleaseOfAModelEndsItsRequestsAndKeepsItsCharactersHandles) {
  Host host;
  for (int delay_us = 0; delay_us < 30000; delay_us += 3000) {
    banter_model* model = nullptr;
    const banter_request_id load = host.start_load(slow_model(), &model);
    banter_npc* const npc = host.npc(model, "P");
    std::vector<banter_request_id> requests = {say(npc, "One", Ask(200, kGoOn)), say(npc, "Two", Ask(200, kGoOn)),
                                               complete(model, "Three", Ask(200, kGoOn))};
    std::this_thread::sleep_for(microseconds(delay_us));
    banter_model_release(model);
    const Outcome loading = host.finish(load);
    EXPECT_TRUE(loading.kind == BANTER_EVENT_CANCELLED || loading.kind == BANTER_EVENT_MODEL_READY);
    for (const banter_request_id request : requests) {
      const Outcome outcome = host.finish(request);
      EXPECT_TRUE(outcome.kind == BANTER_EVENT_CANCELLED || outcome.kind == BANTER_EVENT_DONE) << outcome.message;
      EXPECT_EQ(outcome.terminals, 1);
    }
    const Outcome late = host.finish(say(npc, "Four", Ask(4)));
    EXPECT_EQ(late.kind, BANTER_EVENT_FAILED);
    EXPECT_EQ(late.code, BANTER_ERROR_STATE);
    EXPECT_EQ(banter_npc_add_turn(npc, BANTER_ROLE_USER, "x", 1), BANTER_OK);
    banter_npc_destroy(npc);
  }
  ASSERT_TRUE(host.pump_until([&] { return host.statistics().models_loaded == 0; }));
  EXPECT_EQ(host.statistics().weight_bytes, 0u);
  EXPECT_EQ(host.statistics().kv_bytes_total, 0u);
}

TEST(Lifetimes, ACharactersDeathEndsItsRequests) {
  Host host;
  banter_model* const model = host.load(slow_model());
  for (int delay_us = 0; delay_us < 30000; delay_us += 2000) {
    banter_npc* const npc = host.npc(model, "P");
    const banter_request_id first = say(npc, "One", Ask(300, kGoOn)), second = say(npc, "Two", Ask(300, kGoOn));
    banter_npc_add_turn(npc, BANTER_ROLE_USER, "x", 1);
    std::this_thread::sleep_for(microseconds(delay_us));
    banter_npc_destroy(npc);
    EXPECT_EQ(host.finish(first).kind, BANTER_EVENT_CANCELLED);
    EXPECT_EQ(host.finish(second).kind, BANTER_EVENT_CANCELLED);
    EXPECT_EQ(host.events.back().event.npc, npc);  // the old handle, to compare with
  }
  ASSERT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_used == 0; }));
}

TEST(Lifetimes, TenThousandCharactersLeaveNothing) {
  Host host;
  host.keep_events = false;
  const auto bytes = tiny_model();
  banter_model* const model = host.load(bytes);
  size_t settled = 0;
  const int rounds = kSanitized ? 2000 : 10000;
  for (int i = 0; i < rounds; ++i) {
    banter_npc* const npc = host.npc(model, "A persona that takes some room in memory, as personas do.");
    if (i % 20 == 0) {
      const banter_request_id request = say(npc, "Hi", Ask(2, kGoOn));
      if (i % 40 == 0) host.finish(request);
    }
    banter_npc_destroy(npc);
    if (i % 20 == 0) host.pump();
    host.outcomes.clear();
    if (i == rounds / 10) settled = resident_bytes();
  }
  ASSERT_TRUE(host.pump_until([&] { return host.statistics().requests_active == 0; }));
  EXPECT_EQ(host.finish(complete(model, "x", Ask(2, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_used == 0; }));
  if (!kSanitized) {
    EXPECT_LT(resident_bytes(), settled + (4 << 20));
  }
}

TEST(Lifetimes, AHundredLoadsLeaveNothing) {
  Host host;
  host.keep_events = false;
  const auto bytes = tiny_model();
  size_t settled = 0;
  const int rounds = kSanitized ? 20 : 100;
  for (int i = 0; i < rounds; ++i) {
    banter_model* const model = host.load(bytes);
    banter_npc* const npc = host.npc(model, "P");
    EXPECT_EQ(host.finish(say(npc, "Hi", Ask(2, kGoOn))).kind, BANTER_EVENT_DONE);
    banter_npc_destroy(npc);
    banter_model_release(model);
    ASSERT_TRUE(host.pump_until([&] { return host.statistics().models_loaded == 0; }));
    host.outcomes.clear();
    if (i == rounds / 5) settled = resident_bytes();
  }
  if (!kSanitized) {
    EXPECT_LT(resident_bytes(), settled + (8 << 20));
  }
}

TEST(Lifetimes, EnginesComeAndGo) {
  const auto bytes = tiny_model();
  for (int i = 0; i < 20; ++i) {
    Host host([](banter_engine_config& c) { c.thread_count = 2; });
    banter_model* const model = host.load(bytes);
    EXPECT_EQ(host.finish(complete(model, "x", Ask(2, kGoOn))).kind, BANTER_EVENT_DONE);
  }
}

TEST(Lifetimes, AnIdleEngineTakesNoTime) {
  const auto bytes = tiny_model();
  Host host([](banter_engine_config& c) { c.thread_count = 2; });
  banter_model* const model = host.load(bytes);
  host.finish(complete(model, "x", Ask(4, kGoOn)));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  getrusage(RUSAGE_SELF, &after);
  const auto us = [](const rusage& r) {
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e6 + static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
  };
  // The driver of a card has threads of its own, which look around now and then.
  const bool lenient = kSanitized || is_on_card(model);
  EXPECT_LT(us(after) - us(before), lenient ? 50000 : 5000);  // of a second
  EXPECT_LE(after.ru_nvcsw - before.ru_nvcsw, lenient ? 100 : 10);
}

}  // namespace
}  // namespace banter::test
