// Frame budget, share of the time, pause, deadlines and ageing.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "engine/pacer.h"
#include "engine/scheduler.h"
#include "engine/step_cost.h"
#include "engine/streaming_cost.h"
#include "engine/test_host.h"

namespace banter::test {
namespace {

using engine::Pacer;
using engine::StepCost;
using engine::StreamingCost;
constexpr uint64_t kMs = 1'000'000;

TEST(PacerTest, WithoutLimitsThereIsNone) {
  Pacer pacer;
  EXPECT_EQ(pacer.allowance(5), Pacer::kNoLimit);
  pacer.spend(1000 * kMs);
  EXPECT_EQ(pacer.allowance(6), Pacer::kNoLimit);
}

TEST(PacerTest, AFrameGivesItsBudgetOnce) {
  Pacer pacer;
  uint64_t now = 1000 * kMs;
  pacer.frames(1, now);
  pacer.set_frame_budget(4 * kMs, now);
  EXPECT_EQ(pacer.allowance(now), 4 * kMs);
  pacer.spend(3 * kMs);
  EXPECT_EQ(pacer.allowance(now + 3 * kMs), 1 * kMs);
  pacer.spend(1 * kMs);
  EXPECT_EQ(pacer.allowance(now + 4 * kMs), 0u);
  pacer.frames(1, now + 16 * kMs);
  EXPECT_EQ(pacer.allowance(now + 16 * kMs), 4 * kMs);
  pacer.frames(5, now + 96 * kMs);
  EXPECT_EQ(pacer.allowance(now + 96 * kMs), 4 * kMs) << "nothing is saved for later frames";
}

TEST(PacerTest, ALongStepIsPaidForByLaterFrames) {
  Pacer pacer;
  pacer.frames(1, 0);
  pacer.set_frame_budget(4 * kMs, 0);
  uint64_t computed = 0;
  int steps = 0;
  for (uint64_t frame = 1; frame <= 600; ++frame) {
    const uint64_t now = frame * 16 * kMs;
    pacer.frames(1, now);
    if (pacer.allowance(now) == 0) continue;
    pacer.spend(15 * kMs);
    computed += 15 * kMs;
    ++steps;
  }
  EXPECT_NEAR(static_cast<double>(computed) / 600, 4e6, 0.05e6);
  EXPECT_GT(steps, 150);
}

TEST(PacerTest, ASilentGameIsAssumedToRunAtSixty) {
  Pacer pacer;
  pacer.set_frame_budget(4 * kMs, 0);
  uint64_t now = 500 * kMs, computed = 0;
  pacer.spend(4 * kMs);
  while (now < 10500 * kMs) {
    if (pacer.allowance(now) > 0) {
      pacer.spend(2 * kMs);
      computed += 2 * kMs;
      now += 2 * kMs;
    } else {
      const uint64_t next = pacer.wake_at(now);
      ASSERT_GT(next, now);
      now = next;
    }
  }
  EXPECT_NEAR(static_cast<double>(computed) / (600 * 4e6), 1, 0.1);
}

TEST(PacerTest, TheShareHoldsOnAverage) {
  Pacer pacer;
  uint64_t now = 0, computed = 0;
  pacer.set_share(0.25, now);
  while (now < 10000 * kMs) {
    if (pacer.allowance(now) > 0) {
      pacer.spend(7 * kMs);
      computed += 7 * kMs;
      now += 7 * kMs;
    } else {
      const uint64_t next = pacer.wake_at(now);
      ASSERT_GT(next, now);
      now = next;
    }
  }
  EXPECT_NEAR(static_cast<double>(computed) / static_cast<double>(now), 0.25, 0.01);
}

TEST(PacerTest, TellsWhatItLeavesOfATime) {
  Pacer pacer;
  EXPECT_EQ(pacer.part_of(100 * kMs), Pacer::kNoLimit);
  pacer.set_share(0.25, 0);
  EXPECT_EQ(pacer.part_of(100 * kMs), 25 * kMs);
  pacer.set_frame_budget(2 * kMs, 0);
  EXPECT_NEAR(static_cast<double>(pacer.part_of(100 * kMs)), 12e6, 1e3) << "of the two the stricter one";
  pacer.set_share(1, 0);
  pacer.set_frame_budget(100 * kMs, 0);
  EXPECT_EQ(pacer.part_of(100 * kMs), 100 * kMs) << "no more than there is";
}

TEST(StepCostTest, FindsBaseAndSlope) {
  StepCost cost;
  EXPECT_FALSE(cost.is_known());
  EXPECT_EQ(cost.rows_within(1e6, 1, 256), 256) << "nothing is known: nothing is limited";
  cost.add(1, 11e6);
  EXPECT_NEAR(cost.of(2), 22e6, 1) << "of one size only: proportional, to be on the safe side";
  for (int i = 0; i < 200; ++i) {
    const int rows = i % 3 == 0 ? 100 : 1 + i % 5;
    cost.add(rows, 10e6 + 1e6 * rows);
  }
  EXPECT_NEAR(cost.slope(), 1e6, 1e4);
  EXPECT_NEAR(cost.of(50), 60e6, 1e6);
  EXPECT_NEAR(cost.rows_within(60e6, 1, 256), 50, 1);
  EXPECT_EQ(cost.rows_within(1e6, 1, 256), 1);
  EXPECT_EQ(cost.rows_within(1e12, 1, 256), 256);
}

TEST(StepCostTest, FollowsAChange) {
  StepCost cost;
  for (int i = 0; i < 300; ++i) cost.add(1 + i % 64, 5e6 + 1e5 * (1 + i % 64));
  for (int i = 0; i < 300; ++i) cost.add(1 + i % 64, 10e6 + 4e5 * (1 + i % 64));
  EXPECT_NEAR(cost.of(32), 10e6 + 4e5 * 32, 1e6);
}

/** A step of 4 decoding rows takes 14 ms, and each row of a prompt adds `row` ms. */
int32_t settled(StreamingCost& cost, double row) {
  int32_t rows = 0;
  for (int i = 0; i < 200; ++i) {
    rows = cost.rows(256);
    cost.add(4, rows, 14e6 + row * 1e6 * rows, 1.6 * cost.alone(4));
  }
  for (rows = 0; rows == 0; cost.add(4, 0, 14e6, 0)) rows = cost.rows(256);
  return rows;
}

TEST(StreamingCostTest, SettlesWhereStepsTakeWhatIsWanted) {
  StreamingCost cost;
  EXPECT_EQ(cost.alone(4), 0);
  EXPECT_LE(cost.rows(256), 2) << "nothing is known: few";
  for (int i = 0; i < 50; ++i) cost.add(4, 0, 14e6, 0);
  EXPECT_NEAR(cost.alone(4), 14e6, 1e4);
  EXPECT_NEAR(settled(cost, 1.0), 8, 2);  // 8.4 ms are left
  EXPECT_NEAR(settled(cost, 4.0), 2, 1);
  EXPECT_NEAR(settled(cost, 0.1), 84, 14);
  EXPECT_EQ(settled(cost, 100.0), 1) << "something always goes on";
  EXPECT_LE(cost.rows(1), 1);
}

TEST(StreamingCostTest, GrowsFastWhereThereIsMuchRoom) {
  StreamingCost cost;
  cost.add(1, 0, 100, 0);
  for (int step = 0; step < 8; ++step) cost.add(1, cost.rows(256), 100, 100000);
  EXPECT_EQ(cost.rows(256), 256);
}

TEST(StreamingCostTest, ASteadyStreamLetsOneRowThrough) {
  StreamingCost cost;
  cost.add(1, 0, 100, 0);
  for (int step = 0; step < 20; ++step) cost.add(1, cost.rows(256), 110, 100);
  EXPECT_EQ(cost.rows(256), 1);
}

TEST(StreamingCostTest, LooksNowAndThenWhatTheStreamsTakeAlone) {
  StreamingCost cost;
  for (int i = 0; i < 50; ++i) cost.add(4, 0, 14e6, 0);
  int alone = 0;
  for (int i = 0; i < 200; ++i) {
    const int32_t rows = cost.rows(256);
    cost.add(4, rows, 20e6, 22e6);
    if (rows == 0) ++alone;
  }
  EXPECT_GE(alone, 5);
  EXPECT_LE(alone, 20);
  EXPECT_GT(cost.alone(4), 17e6);
}

class Pacing : public ::testing::Test {
 protected:
  std::vector<std::byte> bytes = tiny_model();
  Host host;
  banter_model* model = host.load(bytes);
};

TEST_F(Pacing, PausedMeansNoTokensAndResumedMeansAllOfThem) {
  banter_npc* const npc = host.npc(model);
  const std::vector<int32_t> expected = host.finish(say(npc, "Hello", Ask(30, kGoOn))).tokens;
  ASSERT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
  banter_npc* const other = host.npc(model);
  const banter_request_id request = say(other, "Hello", Ask(30, kGoOn));
  const banter_request_id cancelled = complete(model, "Hello", Ask(30, kGoOn));
  ASSERT_EQ(banter_cancel(host.engine, cancelled), BANTER_OK);
  EXPECT_EQ(host.finish(cancelled).kind, BANTER_EVENT_CANCELLED) << "cancelled while paused";
  const uint64_t steps = host.statistics().steps;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  host.pump();
  EXPECT_EQ(host.outcomes[request].kind, 0);
  EXPECT_LE(host.statistics().steps, steps + 1);
  ASSERT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
  EXPECT_EQ(host.finish(request).tokens, expected);
}

TEST_F(Pacing, ATinyBudgetSlowsButChangesNoReplyAndEndsEventually) {
  const std::vector<int32_t> expected = host.finish(complete(model, "Once upon a time", Ask(30, kGoOn))).tokens;
  ASSERT_EQ(banter_engine_set_frame_budget(host.engine, 0.05f), BANTER_OK);
  const banter_request_id request = complete(model, "Once upon a time", Ask(30, kGoOn));
  const bool ended = host.pump_until([&] {
    banter_engine_begin_frame(host.engine);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return host.outcomes[request].kind != 0;
  });
  ASSERT_TRUE(ended);
  EXPECT_EQ(host.outcomes[request].tokens, expected);
  // And without a game that tells its frames.
  EXPECT_EQ(host.finish(complete(model, "Once upon a time", Ask(30, kGoOn))).tokens, expected);
  ASSERT_EQ(banter_engine_set_frame_budget(host.engine, 0), BANTER_OK);
  ASSERT_EQ(banter_engine_set_cpu_share(host.engine, 0.2f), BANTER_OK);
  EXPECT_EQ(host.finish(complete(model, "Once upon a time", Ask(30, kGoOn))).tokens, expected);
}

/** Steps that rest between their layers, for minutes: a frame allows nanoseconds. (A card's steps do not.) */
class Resting : public ::testing::Test {
 protected:
  void SetUp() override {
    if (is_on_card(model)) GTEST_SKIP() << "a card's steps do not rest";
    expected = host.finish(complete(model, "Once upon a time", Ask(30, kGoOn))).tokens;
  }
  /** Waits until a step has begun and rests. */
  void until_it_rests() {
    const banter_engine_statistics before = host.statistics();
    banter_engine_statistics now = before;
    ASSERT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
    ASSERT_TRUE(host.pump_until([&] {
      now = host.statistics();
      return now.busy_microseconds > before.busy_microseconds;
    }));
    ASSERT_EQ(now.steps, before.steps) << "it was computed to its end";
  }
  /** From now on; what is asked for then waits for until_it_rests(). */
  void pause_and_limit() {
    ASSERT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
    ASSERT_EQ(banter_engine_set_frame_budget(host.engine, 0.000002f), BANTER_OK);
  }

  const std::vector<std::byte> bytes = tiny_model();
  Host host{[](banter_engine_config& c) { c.step_tokens = 4; }};
  banter_model* const model = host.load(bytes);
  std::vector<int32_t> expected;
};

TEST_F(Resting, TheStepGoesOnWhenTheLimitGoes) {
  pause_and_limit();
  const banter_request_id request = complete(model, "Once upon a time", Ask(30, kGoOn));
  until_it_rests();
  ASSERT_EQ(banter_engine_set_frame_budget(host.engine, 0), BANTER_OK);
  EXPECT_EQ(host.finish(request, 20).tokens, expected);
}

TEST_F(Resting, CancelledRequestsDoNotWaitForTheStep) {
  pause_and_limit();
  const banter_request_id request = complete(model, "Once upon a time", Ask(30, kGoOn));
  until_it_rests();
  ASSERT_EQ(banter_cancel(host.engine, request), BANTER_OK);
  EXPECT_EQ(host.finish(request, 20).kind, BANTER_EVENT_CANCELLED);
  // What was computed of the step is as if it had not been.
  ASSERT_EQ(banter_engine_set_frame_budget(host.engine, 0), BANTER_OK);
  EXPECT_EQ(host.finish(complete(model, "Once upon a time", Ask(30, kGoOn))).tokens, expected);
}

TEST_F(Resting, OthersGoOnWhereTheyWereWhenAStepIsGivenUp) {
  pause_and_limit();
  const banter_request_id stays = complete(model, "Once upon a time", Ask(30, kGoOn));
  const banter_request_id goes = complete(model, "Twice", Ask(30, kGoOn));
  until_it_rests();
  ASSERT_EQ(banter_cancel(host.engine, goes), BANTER_OK);
  EXPECT_EQ(host.finish(goes, 20).kind, BANTER_EVENT_CANCELLED);
  ASSERT_EQ(banter_engine_set_frame_budget(host.engine, 0), BANTER_OK);
  EXPECT_EQ(host.finish(stays).tokens, expected);
}

TEST_F(Resting, ACharacterThatGoesDoesNotWaitForTheStep) {
  pause_and_limit();
  banter_npc* const npc = host.npc(model);
  const banter_request_id request = say(npc, "Once upon a time", Ask(30, kGoOn));
  until_it_rests();
  banter_npc_destroy(npc);
  EXPECT_EQ(host.finish(request, 20).kind, BANTER_EVENT_CANCELLED);
}

TEST_F(Resting, ADeadlineEndsWhatWaitsForTheStep) {
  pause_and_limit();
  Ask first(30, kGoOn), late(10, kGoOn);
  first.config.priority = 7;
  late.config.deadline_ms = 400;
  const uint64_t before = host.statistics().requests_submitted;
  complete(model, "Once upon a time", first);
  const banter_request_id request = complete(model, "Too late", late);
  // The engine has heard of both before the step begins.
  ASSERT_TRUE(host.pump_until([&] { return host.statistics().requests_submitted >= before + 2; }));
  until_it_rests();
  const Outcome outcome = host.finish(request, 20);
  EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(outcome.code, BANTER_ERROR_DEADLINE);
}

TEST_F(Resting, ARecordingDoesNotWaitForTheStep) {
  pause_and_limit();
  complete(model, "Once upon a time", Ask(30, kGoOn));
  until_it_rests();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(banter_engine_trace_start(host.engine, 100), BANTER_OK);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(Resting, TheEngineEndsInTheMiddleOfTheStep) {
  pause_and_limit();
  complete(model, "Once upon a time", Ask(30, kGoOn));
  until_it_rests();
  const auto start = std::chrono::steady_clock::now();
  banter_engine_destroy(std::exchange(host.engine, nullptr));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(Pacing, AShareOfTheTimeIsKept) {
  ASSERT_EQ(banter_engine_set_cpu_share(host.engine, 0.1f), BANTER_OK);
  const uint64_t before = host.statistics().busy_microseconds;
  const auto start = std::chrono::steady_clock::now();
  const banter_request_id request = complete(model, "Once upon a time", Ask(100000, kGoOn));
  const auto passed = [&] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  host.pump_until([&] { return passed() > 1200; });
  const double busy = static_cast<double>(host.statistics().busy_microseconds - before) / 1000;
  // A tenth, what had been saved (10 ms), and a layer that another program interrupted.
  EXPECT_LT(busy, 0.1 * passed() + 150);
  EXPECT_GT(busy, 0);
  (void)banter_cancel(host.engine, request);  // it may have ended
  EXPECT_NE(host.finish(request).kind, BANTER_EVENT_FAILED);
}

/** How many steps a long prompt shares with a reply that streams, with `slowdown`. */
uint64_t shared_steps(float slowdown) {
  TinyModelOptions options;
  options.context = 16384;  // the reply outlasts the prompt, however late this thread asks
  const auto bytes = tiny_model(options);
  Host host([&](banter_engine_config& c) { c.stream_slowdown = slowdown; });
  banter_model* const model = host.load(bytes, [](banter_model_config& c) { c.context_tokens = 16384; });
  const banter_request_id stream = complete(model, "Once", Ask(15000, kGoOn));
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().decode_steps > 60; }));
  EXPECT_EQ(host.finish(complete(model, std::string(200, 'y'), Ask(1, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(host.outcomes[stream].kind, 0) << "the reply must outlast the prompt";
  EXPECT_EQ(banter_cancel(host.engine, stream), BANTER_OK);
  return host.statistics().mixed_steps;
}

TEST_F(Pacing, AStreamThatMayStallLetsPromptsThroughInFewSteps) {
  // 200 tokens with a stream beside them: two to four in a step with the default, soon all that are left with 1000. (That
  // 1 allows fewest is StreamingCost's to show: here a disturbed machine would decide.)
  EXPECT_LT(shared_steps(1000), 30u);
}

TEST_F(Pacing, RefusesWhatIsNoBudget) {
  EXPECT_EQ(banter_engine_set_frame_budget(host.engine, -1), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_set_frame_budget(host.engine, NAN), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_set_frame_budget(nullptr, 1), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_set_cpu_share(host.engine, 0), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_set_cpu_share(host.engine, 1.01f), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_set_paused(host.engine, 2), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_begin_frame(nullptr), BANTER_ERROR_INVALID_ARGUMENT);
}

TEST_F(Pacing, ADeadlineEndsOnlyWhatHasNotBegun) {
  ASSERT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
  Ask late(10, kGoOn);
  late.config.deadline_ms = 20;
  const banter_request_id request = complete(model, "Too late", late);
  const Outcome outcome = host.finish(request, 5);
  EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(outcome.code, BANTER_ERROR_DEADLINE);
  EXPECT_EQ(outcome.terminals, 1);
  // Two turns of one character: the second waits for the first, longer than it may.
  banter_npc* const npc = host.npc(model);
  const banter_request_id first = say(npc, "One", Ask(10, kGoOn));
  const banter_request_id second = say(npc, "Two", late);
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  ASSERT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
  EXPECT_EQ(host.finish(first).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(host.finish(second).code, BANTER_ERROR_DEADLINE);
  Ask in_time(10, kGoOn);
  in_time.config.deadline_ms = 60000;
  EXPECT_EQ(host.finish(say(npc, "Three", in_time)).kind, BANTER_EVENT_DONE);
}

TEST_F(Pacing, ADeadlineHoldsForWhatWaitsBehindAReply) {
  banter_npc* const npc = host.npc(model);
  Ask late(10, kGoOn), later(10, kGoOn);
  late.config.deadline_ms = 20;
  later.config.deadline_ms = 60000;
  ASSERT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
  const banter_request_id first = say(npc, "One", Ask(10, kGoOn)), second = say(npc, "Two", late),
                          third = say(npc, "Three", later);
  EXPECT_EQ(host.finish(second, 5).code, BANTER_ERROR_DEADLINE);
  EXPECT_EQ(host.outcomes[first].kind, 0) << "still paused";
  ASSERT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
  EXPECT_EQ(host.finish(first).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(host.finish(third).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(host.outcomes[second].terminals, 1);
}

TEST(Ordering, PriorityThenDeadlineThenArrival) {
  engine::Candidate a, b;
  a.priority = 5, b.priority = 4;
  a.arrival = 2, b.arrival = 1;
  EXPECT_TRUE(a.before(b));
  b.priority = 5;
  EXPECT_TRUE(b.before(a));
  a.deadline_ns = 100;
  EXPECT_TRUE(a.before(b));
  b.deadline_ns = 50;
  EXPECT_TRUE(b.before(a));
}

/** A crowd of important players without end must not starve what is unimportant. */
TEST(Ageing, BackgroundChatterFinishesEventually) {
  const auto bytes = tiny_model();
  Host host([](banter_engine_config& c) { c.step_tokens = 4; });
  banter_model* const model = host.load(bytes);
  Ask background(2, kGoOn);
  background.config.priority = 6;
  const std::string long_prompt(400, 'x');
  // Paused until the first players have asked too: otherwise the chatter may be over before they come.
  ASSERT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
  const banter_request_id chatter = complete(model, long_prompt, background);
  std::vector<banter_request_id> players;
  uint64_t asked = 0;
  const bool ended = host.pump_until(
      [&] {
        players.erase(std::remove_if(players.begin(), players.end(),
                                     [&](banter_request_id id) { return host.outcomes[id].kind != 0; }),
                      players.end());
        while (players.size() < 12) {
          Ask urgent(2, kGoOn);
          urgent.config.priority = 7;
          players.push_back(complete(model, std::to_string(++asked) + std::string(300, 'y'), urgent));
        }
        banter_engine_set_paused(host.engine, 0);
        return host.outcomes[chatter].kind != 0;
      },
      90);
  EXPECT_TRUE(ended);
  EXPECT_GT(asked, 12u);
}

}  // namespace
}  // namespace banter::test
