// The memory budget changes while characters talk.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/test_host.h"

namespace banter::test {
namespace {

Ask sampled(int i) {
  Ask ask(60, kGoOn);
  ask.sampling.temperature = 0.9f;
  ask.sampling.seed = static_cast<uint64_t>(i);
  ask.config.priority = i % 8;
  return ask;
}

std::string persona(int i) {
  return "The village of Ash lies between two rivers. You are villager number " + std::to_string(i) + ".";
}

std::vector<std::vector<int32_t>> talk(Host& host, banter_model* model, const std::function<void(int)>& meanwhile) {
  std::vector<banter_request_id> requests;
  for (int i = 0; i < 8; ++i) {
    banter_npc* const npc = host.npc(model, persona(i).c_str());
    for (int turn = 0; turn < 3; ++turn) requests.push_back(say(npc, "And then?", sampled(i)));
  }
  std::vector<std::vector<int32_t>> replies;
  int round = 0;
  for (const banter_request_id request : requests) {
    host.pump_until([&] {
      meanwhile(round++);
      return host.outcomes[request].kind != 0;
    });
    const Outcome outcome = host.finish(request);
    EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    EXPECT_EQ(outcome.terminals, 1);
    replies.push_back(outcome.tokens);
  }
  return replies;
}

void context(banter_model_config& c) {
  c.context_tokens = 512;
  c.kv_budget_bytes = 4096 * tiny_bytes_per_token();
}

TEST(Budget, ShrinkingAndGrowingChangesNoReply) {
  for (const uint32_t window : {0u, 48u}) {
    TinyModelOptions options;
    options.window = window;
    const auto bytes = tiny_model(options);
    std::vector<std::vector<int32_t>> expected;
    {
      Host host;
      expected = talk(host, host.load(bytes, context), [](int) {});
    }
    for (const uint64_t swap : {uint64_t{0}, uint64_t{1} << 20}) {
      Host host([&](banter_engine_config& c) { c.swap_budget_bytes = swap; });
      banter_model* const model = host.load(bytes, context);
      const uint64_t weights = host.statistics().weight_bytes;
      const auto replies = talk(host, model, [&](int round) {
        const uint64_t tokens[] = {700, 4096, 520, 1500, 9000, 600};
        ASSERT_EQ(banter_engine_set_budget(host.engine, weights + tokens[round % 6] * tiny_bytes_per_token()),
                  BANTER_OK);
      });
      EXPECT_EQ(replies, expected) << "window " << window << " swap " << swap;
    }
  }
}

TEST(Budget, TheFiguresFollow) {
  const auto bytes = tiny_model();
  Host host;
  banter_model* const model = host.load(bytes, context);
  const banter_engine_statistics before = host.statistics();
  ASSERT_EQ(banter_engine_set_budget(host.engine, before.weight_bytes + before.kv_bytes_total / 2), BANTER_OK);
  EXPECT_TRUE(host.pump_until([&] {
    const uint64_t total = host.statistics().kv_bytes_total;
    return total <= before.kv_bytes_total / 2 && total > before.kv_bytes_total / 3;
  }));
  ASSERT_EQ(banter_engine_set_budget(host.engine, before.weight_bytes + before.kv_bytes_total * 2), BANTER_OK);
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_total > before.kv_bytes_total * 3 / 2; }));
  ASSERT_EQ(banter_engine_set_budget(host.engine, 0), BANTER_OK);
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_total == before.kv_bytes_total; }));
  banter_model_release(model);
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_total == 0; }));
}

TEST(Budget, WhatPoolsHaveGrownByIsANewModelsFirst) {
  const auto bytes = tiny_model();
  Host host;
  host.load(bytes, context);
  const banter_engine_statistics one = host.statistics();
  const uint64_t budget = 2 * (one.weight_bytes + one.kv_bytes_total) + one.kv_bytes_total / 2;
  ASSERT_EQ(banter_engine_set_budget(host.engine, budget), BANTER_OK);
  ASSERT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_total > 2 * one.kv_bytes_total; }));
  host.load(bytes, context);
  EXPECT_TRUE(host.pump_until([&] {
    const banter_engine_statistics s = host.statistics();
    return s.models_loaded == 2 && s.weight_bytes + s.kv_bytes_total <= budget &&
           s.kv_bytes_total > 2 * one.kv_bytes_total;
  }));
}

/** And is given back where that fails, at once or in the middle of its weights. */
TEST(Budget, PoolsGrowAgainWhereALoadFails) {
  const auto bytes = tiny_model();
  Host host;
  banter_model* const model = host.load(bytes, context);
  const banter_engine_statistics one = host.statistics();
  ASSERT_EQ(banter_engine_set_budget(host.engine, one.weight_bytes + 3 * one.kv_bytes_total), BANTER_OK);
  ASSERT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_total > 2 * one.kv_bytes_total; }));
  const uint64_t grown = host.statistics().kv_bytes_total;
  const banter_request_id talking = complete(model, std::string(300, 'x'), Ask(100, kGoOn));
  for (const size_t length : {size_t{0}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    const std::vector<std::byte> broken(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    banter_model* none = nullptr;
    banter_model_config config;
    banter_model_config_init(&config, sizeof config);
    config.memory = broken.data();
    config.memory_bytes = broken.size();
    banter_request_id load = 0;
    if (banter_model_load(host.engine, &config, &none, &load) != BANTER_OK) continue;
    EXPECT_EQ(host.finish(load).kind, BANTER_EVENT_FAILED);
    EXPECT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_total == grown; })) << length;
    banter_model_release(none);
  }
  EXPECT_EQ(host.finish(talking).tokens.size(), 100u);
}

/** Whenever it is set: before the load is begun, meanwhile, or afterwards. */
TEST(Budget, OneThatIsSetDuringALoadHolds) {
  const auto bytes = tiny_model({.layers = 4, .embedding = 256});
  uint64_t weights = 0, kv = 0;
  {
    Host host;
    host.load(bytes, context);
    weights = host.statistics().weight_bytes;
    kv = host.statistics().kv_bytes_total;
  }
  int refused = 0, ready = 0;
  for (int i = 0; i < 24; ++i) {
    Host host;
    banter_model* model = nullptr;
    const banter_request_id load = host.start_load(bytes, &model, context);
    std::this_thread::sleep_for(std::chrono::microseconds(200 * i));
    const uint64_t budget = i % 2 == 0 ? weights / 2 : weights + kv / 2;
    ASSERT_EQ(banter_engine_set_budget(host.engine, budget), BANTER_OK);
    const Outcome outcome = host.finish(load);
    if (outcome.kind == BANTER_EVENT_FAILED) {
      ++refused;
      EXPECT_EQ(outcome.code, BANTER_ERROR_BUDGET_EXCEEDED) << outcome.message;
    } else {
      ++ready;
      EXPECT_EQ(outcome.kind, BANTER_EVENT_MODEL_READY);
      // Where it had been ready before, its weights stay, with the smallest pool.
      EXPECT_TRUE(host.pump_until([&] {
        const banter_engine_statistics s = host.statistics();
        return s.weight_bytes + s.kv_bytes_total <= budget || (budget < weights && s.kv_bytes_total < kv / 2);
      })) << i;
    }
    banter_model_release(model);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(ready, 0);
}

TEST(Budget, WhatFitsNoMoreEndsWithAReason) {
  const auto bytes = tiny_model();
  Host host([](banter_engine_config& c) { c.step_tokens = 32; });
  banter_model* const model = host.load(bytes, context);
  const uint64_t weights = host.statistics().weight_bytes;
  const banter_request_id talking = complete(model, std::string(300, 'x'), Ask(0, kGoOn));
  ASSERT_TRUE(host.pump_until([&] { return !host.outcomes[talking].text.empty(); }));
  ASSERT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
  const banter_request_id waiting = complete(model, std::string(400, 'y'), Ask(10, kGoOn));
  const banter_request_id small = complete(model, "short", Ask(10, kGoOn));
  // The engine has taken them: they meet the smaller pool with their prompts made.
  ASSERT_TRUE(host.pump_until([&] { return host.statistics().requests_submitted == 4; }));  // with the load
  ASSERT_EQ(banter_engine_set_budget(host.engine, weights + 1), BANTER_OK);
  const Outcome refused = host.finish(waiting);
  EXPECT_EQ(refused.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(refused.code, BANTER_ERROR_KV_POOL_EXHAUSTED) << refused.message;
  EXPECT_EQ(banter_result_class(refused.code), BANTER_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(refused.message.find("KV pool"), std::string::npos) << refused.message;
  const Outcome cut = host.finish(talking);
  EXPECT_EQ(cut.kind, BANTER_EVENT_DONE);
  EXPECT_EQ(cut.code, BANTER_OK);
  EXPECT_EQ(cut.reason, BANTER_FINISH_CONTEXT);
  ASSERT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
  EXPECT_EQ(host.finish(small).kind, BANTER_EVENT_DONE);
  // Whoever comes when the pool is small already is told so by another code: this prompt can never fit.
  EXPECT_EQ(host.finish(complete(model, std::string(400, 'y'), Ask(10, kGoOn))).code, BANTER_ERROR_PROMPT_TOO_LONG);
  ASSERT_EQ(banter_engine_set_budget(host.engine, 0), BANTER_OK);
  EXPECT_EQ(host.finish(complete(model, std::string(400, 'y'), Ask(10, kGoOn))).kind, BANTER_EVENT_DONE);
}

TEST(Budget, ACharacterThatSpokeInASmallPoolFillsALargerOne) {
  const auto bytes = tiny_model();
  Host host;
  banter_model* const model =
      host.load(bytes, [](banter_model_config& c) { c.kv_budget_bytes = 200 * tiny_bytes_per_token(); });
  banter_npc* const npc = host.npc(model, "P");
  EXPECT_EQ(host.finish(say(npc, "Hi", Ask(4, kGoOn))).kind, BANTER_EVENT_DONE);
  ASSERT_EQ(banter_engine_set_budget(host.engine, host.statistics().weight_bytes + 900 * tiny_bytes_per_token()),
            BANTER_OK);
  const Outcome outcome = host.finish(say(npc, std::string(300, 'x'), Ask(200, kGoOn)), 20);
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
  EXPECT_EQ(outcome.tokens.size(), 200u);
}

TEST(Budget, NoEngineIsAnError) {
  EXPECT_EQ(banter_engine_set_budget(nullptr, 1), BANTER_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace banter::test
