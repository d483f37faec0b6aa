// Several models in one engine: whose turn it is.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/test_host.h"

namespace banter::test {
namespace {

constexpr uint32_t kGoOn = BANTER_REQUEST_IGNORE_END;

class Models : public ::testing::Test {
 protected:
  static Ask ask(uint32_t tokens, int32_t priority) {
    Ask ask(tokens, kGoOn);
    ask.config.priority = priority;
    return ask;
  }
  /** Both begin at once; how many tokens the second had when the first ended. */
  size_t race(int32_t first_priority, int32_t second_priority) {
    EXPECT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
    const banter_request_id a = complete(first, "Once upon a time", ask(400, first_priority));
    const banter_request_id b = complete(second, "Once upon a time", ask(400, second_priority));
    EXPECT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
    EXPECT_EQ(host.finish(a).tokens.size(), 400u);
    EXPECT_EQ(host.finish(b).tokens.size(), 400u);
    size_t tokens = 0;
    for (const Recorded& heard : host.events) {
      if (heard.event.request == a && is_terminal(heard.event.kind)) break;
      if (heard.event.request == b) tokens += heard.tokens.size();
    }
    return tokens;
  }
  /** Of the steps recorded: most rows of prompts in one, and how many have some. */
  std::pair<uint64_t, uint64_t> most_rows_in_trace() {
    std::string text;
    const auto append = [](const char* piece, size_t length, void* to) -> int {
      static_cast<std::string*>(to)->append(piece, length);
      return 0;
    };
    EXPECT_EQ(banter_engine_trace_stop(host.engine, append, &text), BANTER_OK) << banter_last_error_message();
    const nlohmann::json trace = nlohmann::json::parse(text);
    uint64_t most = 0, steps = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      most = std::max(most, event["args"]["prefill_rows"].get<uint64_t>());
      if (event["args"]["prefill_rows"] > 0) ++steps;
    }
    return {most, steps};
  }

  const std::vector<std::byte> first_bytes = tiny_model({.context = 4096}),
                               second_bytes = tiny_model({.context = 4096, .seed = 2});
  Host host;
  banter_model* const first = host.load(first_bytes);
  banter_model* const second = host.load(second_bytes);
};

TEST_F(Models, EquallyImportantOnesTakeTurns) {
  race(4, 4);  // the first steps are slower
  const size_t tokens = race(4, 4);
  EXPECT_GT(tokens, 250u);
}

TEST_F(Models, TheLessImportantOneGetsAPartOfTheTime) {
  race(4, 4);
  const size_t tokens = race(7, 0);
  EXPECT_GT(tokens, 20u);
  EXPECT_LT(tokens, 230u);
}

TEST_F(Models, TheLessImportantOneCatchesUpWithWaiting) {
  // More words than are said within the two seconds for which a level lasts.
  const banter_request_id background = complete(second, "Once upon a time", ask(300, 3));
  for (int i = 0; host.outcomes[background].kind == 0 && i < 1000; ++i) {
    EXPECT_EQ(host.finish(complete(first, "Once", ask(200, 4))).kind, BANTER_EVENT_DONE);
  }
  EXPECT_EQ(host.outcomes[background].kind, BANTER_EVENT_DONE);
}

TEST_F(Models, APromptOfOneLeavesTheRepliesOfTheOtherAlone) {
  const auto prompt = [](char c) { return std::string(1500, c); };
  // What steps cost is known from here on.
  host.finish(complete(first, "Once upon a time", ask(60, 4)));
  ASSERT_EQ(banter_engine_trace_start(host.engine, 1 << 16), BANTER_OK);
  host.finish(complete(second, prompt('a'), ask(8, 4)));
  EXPECT_EQ(most_rows_in_trace().first, 256u) << "nobody streams";

  const banter_request_id stream = complete(first, "Once upon a time", ask(3000, 4));
  ASSERT_TRUE(host.pump_until([&] { return host.outcomes[stream].tokens.size() > 20; }));
  ASSERT_EQ(banter_engine_trace_start(host.engine, 1 << 16), BANTER_OK);
  const banter_request_id late = complete(second, prompt('b'), ask(2, 4));
  EXPECT_EQ(host.finish(late).kind, BANTER_EVENT_DONE);
  const auto [most, steps] = most_rows_in_trace();
  ASSERT_EQ(host.outcomes[stream].kind, 0) << "it ended too early for this test";
  EXPECT_LT(most, 128u);
  EXPECT_GT(steps, 1500u / 128);
  EXPECT_EQ(banter_cancel(host.engine, stream), BANTER_OK);
  EXPECT_EQ(host.finish(stream).kind, BANTER_EVENT_CANCELLED);
}

TEST_F(Models, RepliesAreTheSameHoweverTheyTakeTurns) {
  const std::vector<int32_t> alone = host.finish(complete(second, "The inn", ask(100, 4))).tokens;
  for (const int32_t priority : {0, 4, 7}) {
    const banter_request_id other = complete(first, "Once upon a time", ask(300, 4));
    EXPECT_EQ(host.finish(complete(second, "The inn", ask(100, priority))).tokens, alone);
    host.finish(other);
  }
}

}  // namespace
}  // namespace banter::test
