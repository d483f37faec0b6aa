// Many characters at once: replies do not depend on who else talks, and full queues and pools only make things wait.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/test_host.h"
#include "text/utf8.h"

namespace banter::test {
namespace {

constexpr int kCast = 8;

std::string persona(int i) {
  return "You are character " + std::to_string(i) + std::string(static_cast<size_t>(i) * 7, '.');
}
std::string question(int i, int turn) {
  return "Question " + std::to_string(turn) + " for you, number " + std::to_string(i) + "?";
}
Ask sampled(int i, uint32_t tokens = 40) {
  Ask ask(tokens, kGoOn);
  ask.sampling.temperature = 0.9f;
  ask.sampling.seed = static_cast<uint64_t>(i) + 100;
  ask.sampling.repetition_penalty = 1.1f;
  ask.config.priority = i % 3;
  return ask;
}

using Replies = std::vector<std::vector<int32_t>>;

/** Two turns of everyone, one character after the other. */
Replies alone(const std::vector<std::byte>& bytes) {
  Host host;
  banter_model* const model = host.load(bytes);
  Replies replies;
  for (int i = 0; i < kCast; ++i) {
    banter_npc* const npc = host.npc(model, persona(i).c_str());
    for (int turn = 0; turn < 2; ++turn) replies.push_back(host.finish(say(npc, question(i, turn), sampled(i))).tokens);
    banter_npc_destroy(npc);
  }
  return replies;
}

/** The same, everyone at once. */
Replies together(Host& host, banter_model* model) {
  std::vector<banter_request_id> requests;
  for (int i = 0; i < kCast; ++i) {
    banter_npc* const npc = host.npc(model, persona(i).c_str());
    for (int turn = 0; turn < 2; ++turn) requests.push_back(say(npc, question(i, turn), sampled(i)));
  }
  Replies replies;
  for (const banter_request_id request : requests) {
    const Outcome outcome = host.finish(request);
    EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    replies.push_back(outcome.tokens);
  }
  return replies;
}

TEST(Many, RepliesAreThoseOfSoloRuns) {
  for (const uint32_t window : {0u, 48u}) {
    TinyModelOptions options;
    options.window = window;
    const auto bytes = tiny_model(options);
    const Replies expected = alone(bytes);
    {
      Host host;
      EXPECT_EQ(together(host, host.load(bytes)), expected) << "window " << window;
    }
    for (const int32_t step : {1, 3, 17}) {
      Host host([&](banter_engine_config& c) { c.step_tokens = step; });
      EXPECT_EQ(together(host, host.load(bytes)), expected) << "step_tokens " << step;
    }
    {
      Host host([](banter_engine_config& c) { c.thread_count = 3; });
      EXPECT_EQ(together(host, host.load(bytes)), expected) << "three threads";
    }
  }
}

TEST(Many, ASmallPoolOnlyMakesThemWait) {
  const auto bytes = tiny_model();
  const Replies expected = alone(bytes);
  const uint64_t budget = 320 * tiny_bytes_per_token() * 3 / 2;  // one and a half of the longest conversations
  Host host;
  banter_model* const model = host.load(bytes, [&](banter_model_config& c) {
    c.context_tokens = 320;
    c.kv_budget_bytes = budget;
  });
  EXPECT_EQ(together(host, model), expected);
  const banter_engine_statistics figures = host.statistics();
  EXPECT_LE(figures.kv_bytes_used, figures.kv_bytes_total);
  EXPECT_LE(figures.kv_bytes_total, budget);
}

TEST(Many, APoolSmallerThanTheContextSaysSo) {
  const auto bytes = tiny_model();
  Host host;
  banter_model* const model =
      host.load(bytes, [](banter_model_config& c) { c.kv_budget_bytes = 100 * tiny_bytes_per_token(); });
  const banter_model_info info = info_of(model);
  EXPECT_LE(info.context_tokens, 100u);
  EXPECT_GE(info.context_tokens, 64u);
  const Outcome outcome = host.finish(say(host.npc(model, "P"), "Hi", Ask(0, kGoOn)));
  EXPECT_EQ(outcome.reason, BANTER_FINISH_CONTEXT);

  banter_model* none = nullptr;
  const Outcome refused =
      host.finish(host.start_load(bytes, &none, [](banter_model_config& c) { c.kv_budget_bytes = 100; }));
  EXPECT_EQ(refused.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(refused.code, BANTER_ERROR_BUDGET_EXCEEDED) << refused.message;
}

TEST(Many, TheMemoryBudgetIsKept) {
  const auto bytes = tiny_model();
  Host host([&](banter_engine_config& c) { c.memory_budget_bytes = bytes.size() * 3 / 2; });
  banter_model* const model = host.load(bytes, [](banter_model_config& c) { c.kv_budget_bytes = 64 << 10; });
  ASSERT_NE(model, nullptr);
  banter_model* second = nullptr;
  const Outcome refused =
      host.finish(host.start_load(bytes, &second, [](banter_model_config& c) { c.kv_budget_bytes = 64 << 10; }));
  EXPECT_EQ(refused.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(refused.code, BANTER_ERROR_BUDGET_EXCEEDED) << refused.message;
  banter_model_release(model);
  banter_model_release(second);
  ASSERT_TRUE(host.pump_until([&] { return host.statistics().models_loaded == 0; }));
  EXPECT_NE(host.load(bytes, [](banter_model_config& c) { c.kv_budget_bytes = 64 << 10; }), nullptr);
}

/** The requests that have ended, in this order, from the host's event number `from` on. */
std::vector<banter_request_id> ends_since(const Host& host, size_t from) {
  std::vector<banter_request_id> ends;
  for (size_t i = from; i < host.events.size(); ++i) {
    const banter_event& event = host.events[i].event;
    if (is_terminal(event.kind)) ends.push_back(event.request);
  }
  return ends;
}

TEST(Many, HigherPriorityGoesFirst) {
  TinyModelOptions options;
  options.embedding = 128;
  options.layers = 4;
  const auto bytes = tiny_model(options);
  Host host([](banter_engine_config& c) { c.step_tokens = 16; });
  banter_model* const model = host.load(bytes);
  Ask low(4, kGoOn), high(4, kGoOn);
  low.config.priority = 0;
  high.config.priority = 7;
  std::vector<banter_request_id> background;
  ASSERT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
  const size_t begun = host.events.size();
  for (int i = 0; i < 6; ++i) background.push_back(complete(model, std::string(600, 'b'), low));
  const banter_request_id player = complete(model, std::string(600, 'p'), high);
  ASSERT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
  for (const banter_request_id request : background) EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(ends_since(host, begun).front(), player);
}

/** A character's own murmur, and a turn added meanwhile, must not keep back what the player says to it. */
TEST(Many, WhoeverWaitsForAReplyLendsItUrgency) {
  const auto bytes = tiny_model({.context = 4096, .layers = 4, .embedding = 128});
  Host host([](banter_engine_config& c) { c.step_tokens = 16; });
  banter_model* const model = host.load(bytes);
  banter_npc* const npc = host.npc(model, "P");
  Ask low(8, kGoOn), middle(4, kGoOn), high(4, kGoOn);
  low.config.priority = 0;
  middle.config.priority = 5;
  high.config.priority = 7;
  ASSERT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
  std::vector<banter_request_id> crowd;
  const size_t begun = host.events.size();
  for (int i = 0; i < 6; ++i) crowd.push_back(complete(model, std::string(2000, static_cast<char>('b' + i)), middle));
  const banter_request_id murmur = say(npc, "Hm", low);
  EXPECT_EQ(banter_npc_add_turn(npc, BANTER_ROLE_USER, "Somebody comes in.", BANTER_ZERO_TERMINATED), BANTER_OK);
  const banter_request_id player = say(npc, "Hello", high);
  ASSERT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
  for (const banter_request_id request : crowd) EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_DONE);
  const std::vector<banter_request_id> ends = ends_since(host, begun);
  EXPECT_EQ(ends[0], murmur);
  EXPECT_EQ(ends[1], player);
}

TEST(Many, FullQueuesAreBusyAndThenWorkAgain) {
  const auto bytes = tiny_model();
  Host host([](banter_engine_config& c) {
    c.max_requests = 4;
    c.text_buffer_bytes = 4096;
  });
  banter_model* const model = host.load(bytes);
  banter_npc* const npc = host.npc(model, "P");
  std::vector<banter_request_id> requests;
  Ask ask(4, kGoOn);
  banter_request_id request = 0;
  for (int i = 0; i < 4; ++i) {
    banter_result code;
    do code = banter_npc_say(npc, "Hi", 2, ask.get(), &request);  // the load's own slot is free after a poll
    while (code == BANTER_ERROR_BUSY && (host.pump(), true));
    requests.push_back(request);
  }
  EXPECT_EQ(banter_npc_say(npc, "Hi", 2, ask.get(), &request), BANTER_ERROR_BUSY);
  EXPECT_EQ(request, 0u);
  EXPECT_NE(std::string(banter_last_error_message()).find("max_requests"), std::string::npos);
  banter_model* another = nullptr;
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.memory = bytes.data();
  config.memory_bytes = bytes.size();
  EXPECT_EQ(banter_model_load(host.engine, &config, &another, nullptr), BANTER_ERROR_BUSY);
  EXPECT_EQ(another, nullptr);
  for (const banter_request_id r : requests) EXPECT_EQ(host.finish(r).kind, BANTER_EVENT_DONE);
  host.pump();
  EXPECT_EQ(host.finish(say(npc, "Hi", ask)).kind, BANTER_EVENT_DONE);

  const std::string longer_than_the_buffer(5000, 'x');
  EXPECT_EQ(banter_npc_say(npc, longer_than_the_buffer.data(), longer_than_the_buffer.size(), ask.get(), &request),
            BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(banter_last_error_message()).find("text_buffer_bytes"), std::string::npos);
}

TEST(Many, TurnsWaitForTheirRequestAndAreBounded) {
  TinyModelOptions options;
  options.embedding = 256;
  const auto bytes = tiny_model(options);
  Host host;
  banter_model* const model = host.load(bytes);
  banter_npc* const npc = host.npc(model, "P");
  const banter_request_id request = say(npc, "Hi", Ask(900, kGoOn));
  int accepted = 0;
  banter_result code = BANTER_OK;
  while (accepted < 100000 && (code = banter_npc_add_turn(npc, BANTER_ROLE_USER, "x", 1)) == BANTER_OK) ++accepted;
  EXPECT_EQ(code, BANTER_ERROR_BUSY);
  EXPECT_GE(accepted, 256);
  banter_cancel(host.engine, request);
  host.finish(request);
  EXPECT_EQ(host.finish(say(npc, "Hi", Ask(4, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(banter_npc_add_turn(npc, BANTER_ROLE_USER, "x", 1), BANTER_OK);
}

TEST(Many, AFullEventQueueLosesNothing) {
  const auto bytes = tiny_model();
  Replies expected;
  std::vector<std::string> expected_text;
  {
    Host host;
    banter_model* const model = host.load(bytes);
    for (int i = 0; i < 6; ++i) {
      const Outcome outcome = host.finish(complete(model, question(i, 0), sampled(i, 300)));
      expected.push_back(outcome.tokens);
      expected_text.push_back(outcome.text);
    }
  }
  Host host([](banter_engine_config& c) { c.max_events = 16; });
  banter_model* const model = host.load(bytes);
  std::vector<banter_request_id> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(complete(model, question(i, 0), sampled(i, 300)));
  const banter_request_id cancelled = complete(model, "cancelled while events are full", Ask(900, kGoOn));
  // Nobody polls: the queue fills, the engine stops when there is no room, and spins for nothing.
  ASSERT_EQ(banter_wait(host.engine, 10000), BANTER_OK);
  const auto delayed = [&] { return host.statistics().events_delayed; };
  for (int i = 0; i < 500 && delayed() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GT(delayed(), 0u);
  ASSERT_EQ(banter_cancel(host.engine, cancelled), BANTER_OK);
  for (int i = 0; i < 6; ++i) {
    const Outcome outcome = host.finish(requests[static_cast<size_t>(i)]);
    EXPECT_EQ(outcome.tokens, expected[static_cast<size_t>(i)]) << i;
    EXPECT_EQ(outcome.text, expected_text[static_cast<size_t>(i)]) << i;
    EXPECT_EQ(outcome.terminals, 1);
  }
  EXPECT_EQ(host.finish(cancelled).kind, BANTER_EVENT_CANCELLED);
  for (const Recorded& recorded : host.events) EXPECT_TRUE(text::utf8_is_valid(recorded.text));
}

TEST(Many, StaleIdsAreNotFound) {
  const auto bytes = tiny_model();
  Host host([](banter_engine_config& c) { c.max_requests = 2; });
  banter_model* const model = host.load(bytes);
  std::vector<banter_request_id> old;
  for (int i = 0; i < 20; ++i) {
    const banter_request_id request = complete(model, "x", Ask(2, kGoOn));
    EXPECT_EQ(std::count(old.begin(), old.end(), request), 0);
    for (const banter_request_id stale : old) EXPECT_EQ(banter_cancel(host.engine, stale), BANTER_ERROR_NOT_FOUND);
    EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_DONE);
    EXPECT_EQ(banter_cancel(host.engine, request), BANTER_ERROR_NOT_FOUND);
    host.pump();
    old.push_back(request);
  }
  for (const banter_request_id odd :
       {banter_request_id{0}, ~banter_request_id{0}, banter_request_id{1} << 20, banter_request_id{12345}}) {
    EXPECT_EQ(banter_cancel(host.engine, odd), BANTER_ERROR_NOT_FOUND);
  }
}

TEST(Many, TwoEnginesAndSeveralModelsShareNothing) {
  TinyModelOptions other;
  other.seed = 2;
  const auto bytes = tiny_model(), other_bytes = tiny_model(other);
  Host a, b;
  banter_model* const model_a = a.load(bytes);
  banter_model* const other_a = a.load(other_bytes);
  banter_model* const model_b = b.load(bytes);
  const banter_request_id ra = complete(model_a, "Hello", Ask(30, kGoOn)),
                          rb = complete(model_b, "Hello", Ask(30, kGoOn));
  const banter_request_id ro = complete(other_a, "Hello", Ask(30, kGoOn));
  EXPECT_EQ(a.finish(ra).tokens, b.finish(rb).tokens);
  EXPECT_NE(a.finish(ro).tokens, a.finish(ra).tokens);
  banter_model_release(model_a);
  EXPECT_EQ(a.finish(complete(other_a, "x", Ask(3, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(b.finish(complete(model_b, "x", Ask(3, kGoOn))).kind, BANTER_EVENT_DONE);
}

TEST(Many, TalkGoesOnWhileAnotherModelLoads) {
  TinyModelOptions options;
  options.embedding = 512;
  options.layers = 6;
  const auto bytes = tiny_model(), big = tiny_model(options);
  Host host;
  banter_model* const model = host.load(bytes);
  const banter_request_id talking = complete(model, "x", Ask(900, kGoOn));
  ASSERT_TRUE(host.pump_until([&] { return host.outcomes[talking].tokens.size() > 2; }));
  banter_model* second = nullptr;
  const banter_request_id loading = host.start_load(big, &second);
  const size_t before = host.outcomes[talking].tokens.size();
  EXPECT_EQ(host.finish(loading).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_GT(host.outcomes[talking].tokens.size(), before);
  EXPECT_EQ(host.finish(talking).kind, BANTER_EVENT_DONE);
}

/** A poll may take every event there is room for; who then sleeps until the next one holds what the engine waits for. */
TEST(Many, WhoHoldsAllEventsDoesNotSleepForEver) {
  const auto bytes = tiny_model();
  Host host([](banter_engine_config& c) { c.max_events = 16; });
  banter_model* const model = host.load(bytes);
  const banter_request_id request = complete(model, "Once upon a time", Ask(400, kGoOn));
  bool ended = false;
  while (!ended) {
    ASSERT_EQ(banter_wait(host.engine, 20000), BANTER_OK) << "nobody woke the host";
    // Until events have piled up so that the engine finds no room for another; near the end there are not so many.
    const uint64_t before = host.statistics().events_delayed;
    for (int ms = 0; ms < 200 && host.statistics().events_delayed == before; ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    banter_event events[32];
    uint32_t count = 0;
    ASSERT_EQ(banter_poll(host.engine, events, sizeof events[0], 32, &count), BANTER_OK);
    for (uint32_t i = 0; i < count; ++i) ended = ended || (events[i].request == request && is_terminal(events[i].kind));
  }
  EXPECT_GT(host.statistics().events_delayed, 0u) << "there was always room: nothing was tested";
}

}  // namespace
}  // namespace banter::test
