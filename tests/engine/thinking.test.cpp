// Models that think before they speak: events, budgets, the template's switch, what is remembered, what it costs others.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/test_host.h"

namespace banter::test {
namespace {

constexpr uint32_t kReport = BANTER_REQUEST_REPORT_THOUGHT;

/** The template opens the thought itself unless it is told not to, as those of reasoning models do. */
constexpr const char* kOpens =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}";
/** Thinking is the model's own decision. */
constexpr const char* kLeaves =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    "{# <think>\n</think> #}";

std::string spelled(const std::vector<int32_t>& tokens) {
  std::string text;
  const char* const words[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "th",
                               "the",           " the",         "</think>"};
  for (const int32_t id : tokens) text += id < 256 ? std::string(1, static_cast<char>(id)) : words[id - 256];
  return text;
}

TinyModelOptions options(const char* chat_template) {
  TinyModelOptions o;
  o.chat_template = chat_template;
  o.has_thinking_tokens = true;
  return o;
}

class Thinks : public testing::Test {
 protected:
  void load(const char* chat_template) {
    bytes = tiny_model(options(chat_template));
    model = host.load(bytes);
    host.events.clear();
  }
  /** Says 'a' for ever, or what wins otherwise. */
  static Ask ask(uint32_t tokens, uint32_t flags = kGoOn | kReport) {
    Ask a(tokens, flags);
    a.bias('a', 200);
    return a;
  }
  std::vector<std::byte> bytes;
  Host host;
  banter_model* model = nullptr;
};

TEST_F(Thinks, ABudgetEndsTheThoughtAndTheModelSpeaks) {
  load(kOpens);
  banter_npc* const npc = host.npc(model);
  Ask a = ask(20, kGoOn | kReport | BANTER_REQUEST_REPORT_PROMPT);
  a.config.thinking_budget_tokens = 6;
  const Outcome outcome = host.finish(say(npc, "Hi", a));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE);
  EXPECT_EQ(outcome.reason, BANTER_FINISH_LENGTH);
  EXPECT_TRUE(spelled(outcome.prompt).ends_with("<|im_start|>assistant\n<think>\n"));
  EXPECT_EQ(outcome.thought, "aaaaaa\n");
  EXPECT_EQ(outcome.text, std::string(12, 'a'));
  EXPECT_EQ(spelled(outcome.tokens), "aaaaaa\n</think>aaaaaaaaaaaa");  // max_tokens counts everything
  EXPECT_EQ(outcome.statistics.generated_tokens, 20u);
  EXPECT_EQ(outcome.statistics.thought_tokens, 8u);
  bool spoke = false;
  for (const Recorded& r : host.events) {
    spoke = spoke || r.event.kind == BANTER_EVENT_TEXT;
    EXPECT_FALSE(spoke && r.event.kind == BANTER_EVENT_THOUGHT);
  }
  // Only the speech is remembered.
  const Outcome next = host.finish(say(npc, "And?", ask(1, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_NE(spelled(next.prompt).find("assistant\naaaaaaaaaaaa<|im_end|>"), std::string::npos);
}

TEST_F(Thinks, ThoughtsAreToldOnlyWhenAsked) {
  load(kOpens);
  Ask a = ask(20, kGoOn);
  a.config.thinking_budget_tokens = 6;
  const Outcome outcome = host.finish(say(host.npc(model), "Hi", a));
  EXPECT_EQ(outcome.thought, "");
  EXPECT_EQ(outcome.text, std::string(12, 'a'));
  EXPECT_EQ(spelled(outcome.tokens), std::string(12, 'a'));  // nor by their tokens
  EXPECT_EQ(outcome.statistics.generated_tokens, 20u);
  EXPECT_EQ(outcome.statistics.thought_tokens, 8u);
  for (const Recorded& r : host.events) EXPECT_NE(r.event.kind, BANTER_EVENT_THOUGHT);
}

TEST_F(Thinks, AReplyMayEndInsideTheThought) {
  load(kOpens);
  banter_npc* const npc = host.npc(model);
  const Outcome outcome = host.finish(say(npc, "Hi", ask(9)));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE);
  EXPECT_EQ(outcome.reason, BANTER_FINISH_LENGTH);
  EXPECT_EQ(outcome.thought, "aaaaaaaaa");
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(outcome.terminals, 1);
  // The limits count forced tokens: the reply stops in the middle of them.
  Ask a = ask(7);
  a.config.thinking_budget_tokens = 6;
  const Outcome cut = host.finish(say(npc, "Hi", a));
  EXPECT_EQ(spelled(cut.tokens), "aaaaaa\n");
  EXPECT_EQ(cut.text, "");
  EXPECT_EQ(cut.reason, BANTER_FINISH_LENGTH);
}

TEST_F(Thinks, TheSwitchIsTheTemplates) {
  load(kOpens);
  const auto prompt = [&](banter_thinking thinking, Outcome* out = nullptr) {
    Ask a = ask(8, kGoOn | kReport | BANTER_REQUEST_REPORT_PROMPT);
    a.config.thinking = thinking;
    const Outcome outcome = host.finish(say(host.npc(model, ""), "Hi", a));
    if (out != nullptr) *out = outcome;
    return spelled(outcome.prompt);
  };
  const std::string start = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(prompt(BANTER_THINKING_AUTO), start + "<think>\n");
  EXPECT_EQ(prompt(BANTER_THINKING_ON), start + "<think>\n");
  Outcome off;
  EXPECT_EQ(prompt(BANTER_THINKING_OFF, &off), start + "<think>\n\n</think>\n\n");
  EXPECT_EQ(off.text, "aaaaaaaa");
  EXPECT_EQ(off.thought, "");
  load(kLeaves);  // no switch: ignored
  EXPECT_EQ(prompt(BANTER_THINKING_OFF, &off), start);
  EXPECT_EQ(off.text, "aaaaaaaa");
}

TEST_F(Thinks, TheModelsOwnTagsAreSeen) {
  load(kLeaves);
  Ask a(10, kGoOn | kReport);
  a.bias(kTinyThink, 200);
  a.config.thinking_budget_tokens = 3;
  // It opens again as soon as it is made to close.
  const Outcome outcome = host.finish(say(host.npc(model), "Hi", a));
  EXPECT_EQ(spelled(outcome.tokens), "<think><think><think><think>\n</think><think></think><think></think>");
  EXPECT_EQ(outcome.thought, "<think><think><think>\n");
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(outcome.statistics.thought_tokens, 10u);
}

TEST_F(Thinks, AnEndTokenEndsTheReplyInsideAThought) {
  load(kOpens);
  Ask a(10, kReport);
  a.bias(kTinyEnd, 200);
  const Outcome outcome = host.finish(say(host.npc(model), "Hi", a));
  EXPECT_EQ(outcome.reason, BANTER_FINISH_END);
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(outcome.terminals, 1);
}

TEST_F(Thinks, BannedAndStopStringsAreAboutSpeech) {
  load(kOpens);
  Ask a = ask(40);
  a.config.thinking_budget_tokens = 5;
  a.bias('b', 100);  // second choice
  a.bans = {"aaa"};
  Outcome outcome = host.finish(say(host.npc(model), "Hi", a));
  EXPECT_EQ(outcome.thought, "aaaaa\n");
  EXPECT_EQ(outcome.text.find("aaa"), std::string::npos);
  EXPECT_EQ(outcome.text.front(), 'b');  // the string is taken back from its first token on
  EXPECT_EQ(outcome.tokens.size(), 40u);
  Ask stops = ask(40);
  stops.config.thinking_budget_tokens = 5;
  stops.stops = {"aaa"};
  outcome = host.finish(say(host.npc(model), "Hi", stops));
  EXPECT_EQ(outcome.reason, BANTER_FINISH_STOP_STRING);
  EXPECT_EQ(outcome.thought, "aaaaa\n");
  EXPECT_EQ(outcome.text, "");
}

TEST_F(Thinks, CompletionsAreSplitOnlyWhenThinkingIsOn) {
  load(kOpens);
  Ask a = ask(8, kGoOn | kReport | BANTER_REQUEST_PARSE_SPECIAL);
  a.config.thinking_budget_tokens = 2;
  EXPECT_EQ(host.finish(complete(model, "x<think>\n", a)).text, "aaaaaaaa");
  a.config.thinking = BANTER_THINKING_ON;
  const Outcome outcome = host.finish(complete(model, "x<think>\n", a));
  EXPECT_EQ(outcome.thought, "aa\n");
  EXPECT_EQ(outcome.text, "aaaa");
}

TEST_F(Thinks, AForcedEndChangesNobodysWords) {
  // Free choices, so that a difference anywhere shows: alone, then in a crowd and with small steps.
  const auto run = [](int32_t step_tokens, int others, bool sampled) {
    const std::vector<std::byte> file = tiny_model(options(kOpens));
    Host crowd([&](banter_engine_config& c) { c.step_tokens = step_tokens; });
    banter_model* const loaded = crowd.load(file);
    const auto free_ask = [&](uint32_t budget) {
      Ask a(30, kGoOn | kReport);
      if (sampled) a.sampling.temperature = 1, a.sampling.seed = 5;
      a.bias(kTinyThinkEnd, -200).bias(kTinyThink, -200);
      a.config.thinking_budget_tokens = budget;
      return a;
    };
    std::vector<banter_request_id> requests;
    for (int i = 0; i <= others; ++i) {
      requests.push_back(
          say(crowd.npc(loaded), "Hello there " + std::to_string(i), free_ask(7 + 3 * static_cast<uint32_t>(i))));
    }
    const Outcome first = crowd.finish(requests[0]);
    for (const banter_request_id request : requests) EXPECT_EQ(crowd.finish(request).kind, BANTER_EVENT_DONE);
    return first;
  };
  for (const bool sampled : {false, true}) {
    const Outcome alone = run(256, 0, sampled);
    EXPECT_EQ(std::count(alone.tokens.begin(), alone.tokens.end(), kTinyThinkEnd), 1);
    for (const auto& [step, others] : {std::pair{1, 2}, std::pair{3, 0}, std::pair{16, 7}}) {
      EXPECT_EQ(run(step, others, sampled).tokens, alone.tokens) << step << " " << others;
    }
  }
}

TEST_F(Thinks, EventsStayInOrderWhenNobodyPolls) {
  Host slow([](banter_engine_config& c) { c.max_events = 16; });
  const std::vector<std::byte> file = tiny_model(options(kLeaves));
  banter_model* const loaded = slow.load(file);
  Ask a(300, kGoOn | kReport);
  a.bias(kTinyThink, 60).bias(kTinyThinkEnd, 60).bias('a', 60).bias('b', 60);
  a.sampling.temperature = 5;
  a.sampling.top_k = 0, a.sampling.top_p = 1, a.sampling.min_p = 0;
  const banter_request_id request = say(slow.npc(loaded), "Hi", a);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  slow.events.clear();
  const Outcome outcome = slow.finish(request);
  EXPECT_EQ(outcome.tokens.size(), 300u);
  // What the events say one after another is what the tokens say.
  std::string told, expected;
  char kind = 0;
  for (const Recorded& r : slow.events) {
    if (r.text.empty()) continue;
    const char now = r.event.kind == BANTER_EVENT_THOUGHT ? 'T' : 'S';
    if (now != kind) told += now;
    kind = now;
    told += r.text;
  }
  bool thinking = false;
  kind = 0;
  for (const int32_t id : outcome.tokens) {
    if (id == kTinyThinkEnd) thinking = false;
    if (id == kTinyThink && !thinking) {
      thinking = true;
      continue;
    }
    if (id != 'a' && id != 'b' && id != kTinyThink) continue;
    const char now = thinking ? 'T' : 'S';
    if (now != kind) expected += now;
    kind = now;
    expected += spelled({id});
  }
  EXPECT_EQ(told, expected);
  EXPECT_GT(std::count(told.begin(), told.end(), 'T'), 5);
}

TEST_F(Thinks, ACancelledThoughtIsNotRemembered) {
  load(kOpens);
  banter_npc* const npc = host.npc(model);
  const banter_request_id request = say(npc, "First", ask(0));
  ASSERT_TRUE(host.pump_until([&] { return !host.outcomes[request].thought.empty(); }));
  EXPECT_EQ(banter_cancel(host.engine, request), BANTER_OK);
  EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_CANCELLED);
  const Outcome next = host.finish(say(npc, "Second", ask(1, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_EQ(spelled(next.prompt).find("First"), std::string::npos);
}

TEST_F(Thinks, AnUnknownChoiceIsRefused) {
  load(kOpens);
  banter_npc* const npc = host.npc(model);
  for (const banter_thinking thinking : {-1, 3}) {
    Ask a = ask(4);
    a.config.thinking = thinking;
    banter_request_id request = 0;
    EXPECT_EQ(banter_npc_say(npc, "Hi", 2, a.get(), &request), BANTER_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(banter_last_error_message()).find("thinking"), std::string::npos);
  }
}

/** The tokens that end a thought are forced in the middle of what speculation guessed. */
TEST_F(Thinks, SpeculationChangesNothingOfABudget) {
  load(kOpens);
  const auto replies = [&](Host& where, banter_model* speaker) {
    std::vector<Outcome> outcomes;
    for (const uint32_t budget : {1u, 2u, 5u, 6u, 9u, 17u}) {
      for (const float temperature : {0.0f, 0.8f}) {
        for (const float bias : {200.0f, 4.0f}) {
          Ask a(60, kGoOn | kReport);
          a.bias('a', bias).bias('b', bias * 0.99f);
          a.sampling.temperature = temperature;
          a.sampling.seed = budget;
          a.config.thinking_budget_tokens = budget;
          outcomes.push_back(where.finish(say(where.npc(speaker), "ababab", a)));
        }
      }
    }
    return outcomes;
  };
  const std::vector<Outcome> expected = replies(host, model);
  for (const banter_speculation kind : {BANTER_SPECULATION_NGRAM, BANTER_SPECULATION_DRAFT}) {
    Host other;
    banter_model* const draft = kind == BANTER_SPECULATION_DRAFT ? other.load(bytes) : nullptr;
    banter_model* const speaker = other.load(bytes, [&](banter_model_config& c) {
      c.speculation = kind;
      c.draft_model = draft;
    });
    const std::vector<Outcome> guessed = replies(other, speaker);
    ASSERT_EQ(guessed.size(), expected.size());
    uint32_t drafted = 0, accepted = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(guessed[i].tokens, expected[i].tokens) << kind << " " << i;
      EXPECT_EQ(guessed[i].thought, expected[i].thought);
      EXPECT_EQ(guessed[i].text, expected[i].text);
      EXPECT_EQ(guessed[i].reason, expected[i].reason);
      EXPECT_EQ(guessed[i].statistics.thought_tokens, expected[i].statistics.thought_tokens);
      drafted += guessed[i].statistics.drafted_tokens;
      accepted += guessed[i].statistics.accepted_tokens;
    }
    EXPECT_GT(accepted, 0u) << kind;
    EXPECT_GT(drafted, accepted) << kind;  // some guesses were overruled, by the forced tokens at the latest
  }
}

}  // namespace
}  // namespace banter::test
