// What happens when a conversation outgrows its context: turns go, are summed up, the reply slides on, or nothing goes.
#include <gtest/gtest.h>

#include "dialogue/conversation.h"
#include "engine/test_host.h"

namespace banter::test {
namespace {

using dialogue::ContextPolicy;
using dialogue::Conversation;
using dialogue::Prompt;
using dialogue::Role;

TEST(Summaries, AskForTheOldOneAndWhatWentSince) {
  Conversation conversation("P", {}, ContextPolicy::kSummarize);
  EXPECT_FALSE(conversation.wants_summary());
  conversation.add(Role::kUser, "My name is Ada.", SIZE_MAX);
  conversation.add(Role::kAssistant, "Welcome, Ada.", SIZE_MAX);
  conversation.add(Role::kUser, "And now?", SIZE_MAX);
  Prompt prompt;
  prompt.dropped_turns = 2;
  conversation.commit(prompt, {}, "Now we rest.");
  ASSERT_TRUE(conversation.wants_summary());
  const std::string request = conversation.summary_request(4096, 80);
  EXPECT_NE(request.find("User: My name is Ada."), std::string::npos);
  EXPECT_NE(request.find("Answer: Welcome, Ada."), std::string::npos);
  EXPECT_EQ(request.find("And now?"), std::string::npos);
  conversation.set_summary("  Ada came. \n");
  EXPECT_EQ(conversation.summary(), "Ada came.");
  EXPECT_FALSE(conversation.wants_summary());
  prompt.dropped_turns = 1;
  conversation.commit(prompt, "More?", "Yes.");
  EXPECT_NE(conversation.summary_request(4096, 80).find("Before that: Ada came."), std::string::npos);
  conversation.set_summary("");
  EXPECT_EQ(conversation.summary(), "Ada came.") << "a failed summary loses nothing";
  conversation.reset();
  EXPECT_EQ(conversation.summary(), "");
}

TEST(Turns, AreBoundedWithoutAnyTextToo) {
  Conversation conversation("P", {}, ContextPolicy::kTrim);
  for (int i = 0; i < 100'000; ++i) conversation.add(Role::kUser, i % 2 == 0 ? "" : "x", 65536);
  EXPECT_LE(conversation.turns().size(), 1024u);
  EXPECT_GE(conversation.turns().size(), 1000u);
}

TEST(Summaries, KeepTheNewestOfWhatDoesNotFit) {
  Conversation conversation("P", {}, ContextPolicy::kSummarize);
  for (int i = 0; i < 40; ++i)
    conversation.add(Role::kUser, "turn" + std::to_string(i) + std::string(90, '.'), SIZE_MAX);
  Prompt prompt;
  prompt.dropped_turns = 39;
  conversation.commit(prompt, {}, "x");
  const std::string request = conversation.summary_request(1500, 80);
  EXPECT_LE(request.size(), 1600u);
  EXPECT_NE(request.find("turn38"), std::string::npos);
  EXPECT_EQ(request.find("turn0."), std::string::npos);
}

TEST(Summaries, HaveSomethingToSumUpHoweverLittleRoomThereIs) {
  Conversation conversation("P", {}, ContextPolicy::kSummarize);
  conversation.add(Role::kUser, "I am Ada. " + std::string(5000, 'x'), SIZE_MAX);
  conversation.add(Role::kUser, "And now?", SIZE_MAX);
  Prompt prompt;
  prompt.dropped_turns = 1;
  conversation.commit(prompt, {}, "x");
  const std::string request = conversation.summary_request(64, 80);
  EXPECT_NE(request.find("User: I am Ada."), std::string::npos);
  EXPECT_LT(request.size(), 1000u);
}

class Context : public ::testing::Test {
 protected:
  banter_npc* npc(banter_context_policy policy, uint32_t tokens = 512) {
    return host.npc(model, "You are Mira, who keeps the inn.", [&](banter_npc_config& c) {
      c.context_policy = policy;
      c.context_tokens = tokens;
      c.reply_reserve_tokens = 64;
    });
  }
  /** Talks until turns go. */
  Outcome until_trimmed(banter_npc* npc) {
    Outcome outcome;
    for (int i = 0; i < 12; ++i) {
      outcome = host.finish(say(npc, "Question " + std::to_string(i) + std::string(60, '.'), Ask(40, kGoOn)));
      if (outcome.kind != BANTER_EVENT_DONE || outcome.dropped_turns > 0) break;
    }
    return outcome;
  }
  std::vector<std::byte> bytes = tiny_model();
  Host host;
  banter_model* model = host.load(bytes);
};

TEST_F(Context, TrimTellsWhatWent) {
  const Outcome outcome = until_trimmed(npc(BANTER_CONTEXT_TRIM));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE);
  EXPECT_GT(outcome.dropped_turns, 0u);
  EXPECT_GT(outcome.dropped_tokens, 0u);
}

TEST_F(Context, StopRefusesAndLosesNothing) {
  banter_npc* const stubborn = npc(BANTER_CONTEXT_STOP);
  const Outcome outcome = until_trimmed(stubborn);
  EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(outcome.code, BANTER_ERROR_CONTEXT_FULL);
  EXPECT_EQ(outcome.dropped_turns, 0u);
  EXPECT_EQ(host.finish(say(stubborn, "Again" + std::string(60, '.'))).code, BANTER_ERROR_CONTEXT_FULL);
  ASSERT_EQ(banter_npc_reset(stubborn), BANTER_OK);
  EXPECT_EQ(host.finish(say(stubborn, "Afresh")).kind, BANTER_EVENT_DONE);
}

TEST_F(Context, ASummaryStandsBehindThePersonaOfTheNextPrompt) {
  banter_npc* const teller = npc(BANTER_CONTEXT_SUMMARIZE);
  const Outcome trimmed = until_trimmed(teller);
  ASSERT_EQ(trimmed.kind, BANTER_EVENT_DONE);
  ASSERT_GT(trimmed.dropped_turns, 0u);
  const Outcome next = host.finish(say(teller, "And?", Ask(10, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  std::string prompt;
  for (const int32_t id : next.prompt) {
    const char* const words[] = {"th", "the", " the", "he"};
    if (id < 256) prompt += static_cast<char>(id);
    if (id >= 260) prompt += words[id - 260];
  }
  const size_t persona = prompt.find("keeps the inn."), summary = prompt.find("What happened before: ");
  ASSERT_NE(persona, std::string::npos) << prompt;
  ASSERT_NE(summary, std::string::npos) << prompt;
  EXPECT_LT(persona, summary);
}

TEST_F(Context, ASummaryLeavesRoomForTheTalkInASmallContext) {
  for (const uint32_t tokens : {160u, 200u, 256u}) {
    banter_npc* const teller = npc(BANTER_CONTEXT_SUMMARIZE, tokens);
    uint32_t dropped = 0;
    for (int i = 0; i < 12; ++i) {
      const Outcome outcome = host.finish(say(teller, "And then?", Ask(20, kGoOn)));
      ASSERT_EQ(outcome.kind, BANTER_EVENT_DONE) << tokens << ": " << outcome.message;
      dropped += outcome.dropped_turns;
    }
    EXPECT_GT(dropped, 0u);
  }
}

TEST_F(Context, ASummaryGoesBeforeWhatIsSaidHasNoRoom) {
  const auto answer = [&](banter_npc* npc, size_t length) {
    return host.finish(say(npc, std::string(length, '.'), Ask(4, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  };
  size_t longest = 1;
  while (answer(npc(BANTER_CONTEXT_STOP, 256), longest + 1).kind == BANTER_EVENT_DONE) ++longest;
  ASSERT_LT(longest, 256u);
  banter_npc* const teller = npc(BANTER_CONTEXT_SUMMARIZE, 256);
  ASSERT_GT(until_trimmed(teller).dropped_turns, 0u);
  const size_t with_summary = answer(teller, 1).prompt.size();
  ASSERT_GT(with_summary, answer(npc(BANTER_CONTEXT_TRIM, 256), 1).prompt.size()) << "there is no summary";
  EXPECT_EQ(answer(teller, longest).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(answer(teller, longest + 1).code, BANTER_ERROR_PROMPT_TOO_LONG);
}

TEST_F(Context, SummariesMakeNoEventsAndChangeNoReplyWhenAskedAtOnce) {
  std::vector<std::vector<int32_t>> replies[2];
  for (const bool at_once : {false, true}) {
    banter_npc* const teller = npc(BANTER_CONTEXT_SUMMARIZE);
    std::vector<banter_request_id> requests;
    for (int i = 0; i < 12; ++i) {
      requests.push_back(say(teller, "Question " + std::to_string(i) + std::string(60, '.'), Ask(40, kGoOn)));
      if (!at_once) {
        host.finish(requests.back());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
    for (const banter_request_id request : requests) replies[at_once].push_back(host.finish(request).tokens);
  }
  EXPECT_EQ(replies[0], replies[1]);
  for (const auto& [request, outcome] : host.outcomes) EXPECT_EQ(outcome.terminals, 1) << request;
}

TEST_F(Context, ACharacterMayGoWhileItsSummaryIsWritten) {
  for (int i = 0; i < 10; ++i) {
    banter_npc* const teller = npc(BANTER_CONTEXT_SUMMARIZE);
    until_trimmed(teller);
    if (i % 2 == 0) {
      const banter_request_id waiting = say(teller, "And?");
      banter_npc_destroy(teller);
      EXPECT_NE(host.finish(waiting).kind, 0);
    } else {
      banter_npc_destroy(teller);
    }
  }
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_used == 0; }, 10));
  banter_npc* const last = npc(BANTER_CONTEXT_SUMMARIZE);
  until_trimmed(last);
  banter_model_release(model);
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().models_loaded == 0; }, 10));
}

TEST_F(Context, ASlidingReplyGoesOnPastTheContext) {
  banter_npc* const endless = npc(BANTER_CONTEXT_SLIDE, 256);
  const Outcome outcome = host.finish(say(endless, "Tell me everything", Ask(900, kGoOn)));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
  EXPECT_EQ(outcome.reason, BANTER_FINISH_LENGTH);
  EXPECT_EQ(outcome.tokens.size(), 900u);
  EXPECT_GT(outcome.dropped_tokens, 500u);
  // And the conversation goes on as any other.
  EXPECT_EQ(host.finish(say(endless, "More?", Ask(20, kGoOn))).kind, BANTER_EVENT_DONE);
  // Without a limit it ends when it has filled a context by itself.
  const Outcome unlimited = host.finish(say(npc(BANTER_CONTEXT_SLIDE, 256), "Go", Ask(0, kGoOn)));
  EXPECT_EQ(unlimited.reason, BANTER_FINISH_CONTEXT);
  EXPECT_GE(unlimited.tokens.size(), 256u);
}

TEST_F(Context, ASlidingReplyDoesNotDependOnHowItIsComputed) {
  std::vector<std::vector<int32_t>> replies;
  for (int run = 0; run < 3; ++run) {
    Host other([&](banter_engine_config& c) { c.step_tokens = run == 1 ? 7 : 256; });
    banter_model* const m = other.load(bytes, [&](banter_model_config& c) {
      if (run == 2) c.speculation = BANTER_SPECULATION_NGRAM;
    });
    banter_npc* const endless = other.npc(m, "You are Mira.", [](banter_npc_config& c) {
      c.context_policy = BANTER_CONTEXT_SLIDE;
      c.context_tokens = 200;
    });
    Ask ask(500, kGoOn);
    ask.bans = {"zq", "e"};
    replies.push_back(other.finish(say(endless, "Tell me everything", ask)).tokens);
  }
  EXPECT_EQ(replies[0], replies[1]);
  EXPECT_EQ(replies[0], replies[2]);
}

}  // namespace
}  // namespace banter::test
