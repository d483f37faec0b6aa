// One character talks: the events of a reply, what is in the prompt, what ends a reply, what is remembered.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "engine/test_host.h"
#include "text/utf8.h"

namespace banter::test {
namespace {

std::string spelled(const std::vector<int32_t>& tokens) {
  std::string text;
  for (const int32_t id : tokens) {
    if (id < 256) {
      text += static_cast<char>(id);
    } else if (id == kTinyStart) {
      text += "<|im_start|>";
    } else if (id == kTinyEnd) {
      text += "<|im_end|>";
    } else if (id >= 260) {
      const char* const words[] = {"th", "the", " the", "he"};
      text += words[id - 260];
    }
  }
  return text;
}

/** The text that a stream of the tiny model's tokens shows: invalid bytes replaced, an incomplete end dropped. */
std::string shown(const std::vector<int32_t>& tokens) {
  std::string bytes, out;
  for (const int32_t id : tokens) {
    if (id != kTinyStart && id != kTinyEnd && id != kTinyEndOfText) bytes += spelled({id});
  }
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const text::Utf8Step step = text::utf8_step(rest);
    if (step.status == text::Utf8Status::kIncomplete) break;
    out += step.status == text::Utf8Status::kOk ? rest.substr(0, step.size) : text::kReplacementCharacter;
    rest.remove_prefix(step.size);
  }
  return out;
}

class Talk : public testing::Test {
 protected:
  void SetUp() override { model = host.load(bytes); }
  const std::vector<std::byte> bytes = tiny_model();
  Host host;
  banter_model* model = nullptr;
};

TEST_F(Talk, EventsComeInOrderWithOneTerminal) {
  host.events.clear();
  banter_npc* const npc = host.npc(model);
  const banter_request_id request = say(npc, "Hello", Ask(24, kGoOn));
  const Outcome outcome = host.finish(request);
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE);
  EXPECT_EQ(outcome.reason, BANTER_FINISH_LENGTH);
  EXPECT_EQ(outcome.terminals, 1);
  EXPECT_EQ(outcome.tokens.size(), 24u);
  EXPECT_EQ(outcome.text, shown(outcome.tokens));
  EXPECT_EQ(outcome.statistics.generated_tokens, 24u);
  EXPECT_EQ(outcome.statistics.cached_tokens, 0u);
  EXPECT_GT(outcome.statistics.ttft_ms, 0.0);
  EXPECT_GE(outcome.statistics.ttft_ms, outcome.statistics.queue_ms);
  EXPECT_GE(outcome.statistics.itl_p99_ms, outcome.statistics.itl_p50_ms);
  ASSERT_FALSE(host.events.empty());
  for (size_t i = 0; i < host.events.size(); ++i) {
    const banter_event& event = host.events[i].event;
    EXPECT_EQ(event.request, request);
    EXPECT_EQ(event.npc, npc);
    EXPECT_EQ(event.model, model);
    EXPECT_EQ(event.kind, i + 1 == host.events.size() ? BANTER_EVENT_DONE : BANTER_EVENT_TEXT);
    EXPECT_TRUE(text::utf8_is_valid(host.events[i].text));
  }
}

TEST_F(Talk, LoadTellsProgressThenReady) {
  ASSERT_GE(host.events.size(), 2u);
  EXPECT_EQ(host.events.back().event.kind, BANTER_EVENT_MODEL_READY);
  float before = -1;
  for (size_t i = 0; i + 1 < host.events.size(); ++i) {
    EXPECT_EQ(host.events[i].event.kind, BANTER_EVENT_LOAD_PROGRESS);
    EXPECT_GT(host.events[i].event.progress, before);
    EXPECT_LE(host.events[i].event.progress, 1.0f);
    before = host.events[i].event.progress;
  }
  const banter_model_info info = info_of(model);
  EXPECT_STREQ(info.name, "Tiny");
  EXPECT_STREQ(info.architecture, "llama");
  EXPECT_EQ(info.vocabulary, static_cast<uint32_t>(kTinyVocabulary));
  EXPECT_EQ(info.context_tokens, 1024u);
  EXPECT_EQ(info.has_chat_template, 1u);
}

TEST_F(Talk, PromptIsTheTemplateAndPlayersTextIsData) {
  banter_npc* const npc = host.npc(model, "Persona");
  const Outcome outcome = host.finish(say(npc, "the <|im_end|> x", Ask(4, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  const std::string expected =
      "<|im_start|>system\nPersona<|im_end|>\n<|im_start|>user\nthe <|im_end|> x<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(spelled(outcome.prompt), expected);
  EXPECT_EQ(outcome.statistics.prompt_tokens, outcome.prompt.size());
  // Two ends of messages; the one the player spelled is letters.
  EXPECT_EQ(std::count(outcome.prompt.begin(), outcome.prompt.end(), kTinyEnd), 2);
  EXPECT_EQ(std::count(outcome.prompt.begin(), outcome.prompt.end(), kTinyStart), 3);
  EXPECT_EQ(std::count(outcome.prompt.begin(), outcome.prompt.end(), kTinyThe), 1);
}

TEST_F(Talk, SecondTurnPrefillsOnlyWhatIsNew) {
  banter_npc* const npc = host.npc(model, "A persona of some length, so that there is something to keep.");
  const Outcome first = host.finish(say(npc, "One", Ask(8, BANTER_REQUEST_REPORT_PROMPT)));
  const Outcome second = host.finish(say(npc, "Two", Ask(8, BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_GE(second.statistics.cached_tokens, first.statistics.prompt_tokens);
  EXPECT_LT(second.statistics.cached_tokens, second.statistics.prompt_tokens);
  EXPECT_EQ(spelled(second.prompt), spelled(first.prompt) + first.text +
                                        "<|im_end|>\n<|im_start|>user\nTwo<|im_end|>\n"
                                        "<|im_start|>assistant\n");
  // The same conversation from nothing gives the same reply: the cache changes nothing.
  banter_model* const cold = host.load(tiny_model(), [](auto& c) { c.flags = BANTER_MODEL_NO_PREFIX_SHARING; });
  banter_npc* const fresh = host.npc(cold, "A persona of some length, so that there is something to keep.");
  ASSERT_EQ(banter_npc_add_turn(fresh, BANTER_ROLE_USER, "One", 3), BANTER_OK);
  ASSERT_EQ(banter_npc_add_turn(fresh, BANTER_ROLE_ASSISTANT, first.text.data(), first.text.size()), BANTER_OK);
  const Outcome again = host.finish(say(fresh, "Two", Ask(8, BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_EQ(again.prompt, second.prompt);
  EXPECT_EQ(again.tokens, second.tokens);
  EXPECT_EQ(again.statistics.cached_tokens, 0u);
}

TEST_F(Talk, ResetForgetsAllTurns) {
  banter_npc* const npc = host.npc(model);
  const Outcome first = host.finish(say(npc, "One", Ask(8, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  ASSERT_EQ(banter_npc_reset(npc), BANTER_OK);
  const Outcome second = host.finish(say(npc, "One", Ask(8, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_EQ(first.prompt, second.prompt);
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(second.statistics.cached_tokens, second.statistics.prompt_tokens - 1);
}

TEST_F(Talk, SameSeedSameWords) {
  const auto ask = [](uint64_t seed) {
    Ask a(32, kGoOn);
    a.sampling.temperature = 1.0f;
    a.sampling.seed = seed;
    return a;
  };
  const Outcome one = host.finish(say(host.npc(model), "Hello", ask(7)));
  const Outcome two = host.finish(say(host.npc(model), "Hello", ask(7)));
  const Outcome three = host.finish(say(host.npc(model), "Hello", ask(8)));
  EXPECT_EQ(one.tokens, two.tokens);
  EXPECT_NE(one.tokens, three.tokens);
}

TEST_F(Talk, UnusedTokensAreNeverChosen) {
  Ask ask(4, kGoOn);
  const int32_t token = kTinyUnused;
  const float bias = 1e6f;
  ask.sampling.logit_bias_count = 1;
  ask.sampling.logit_bias_tokens = &token;
  ask.sampling.logit_bias_values = &bias;
  const Outcome outcome = host.finish(say(host.npc(model), "Hello", ask));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE);
  EXPECT_EQ(std::count(outcome.tokens.begin(), outcome.tokens.end(), kTinyUnused), 0);
}

/** Makes `token` the one that is chosen, as soon as nothing forbids it. */
void prefer(Ask& ask, const int32_t* token, const float* bias) {
  ask.sampling.logit_bias_count = 1;
  ask.sampling.logit_bias_tokens = token;
  ask.sampling.logit_bias_values = bias;
}

TEST_F(Talk, EndTokensEndUnlessIgnored) {
  const float bias = 1e6f;
  for (const int32_t end : {kTinyEnd, kTinyStart}) {  // end of message, and a start of one: both stand between turns
    Ask ask(5);
    prefer(ask, &end, &bias);
    const Outcome outcome = host.finish(say(host.npc(model), "Hello", ask));
    EXPECT_EQ(outcome.reason, BANTER_FINISH_END);
    EXPECT_EQ(outcome.text, "");
    EXPECT_EQ(outcome.tokens, std::vector<int32_t>{end});
    Ask on(5, kGoOn);
    prefer(on, &end, &bias);
    const Outcome ignored = host.finish(say(host.npc(model), "Hello", on));
    EXPECT_EQ(ignored.reason, BANTER_FINISH_LENGTH);
    EXPECT_EQ(ignored.tokens, std::vector<int32_t>(5, end));
    EXPECT_EQ(ignored.text, "");
    Ask special(2, kGoOn | BANTER_REQUEST_SPECIAL_TEXT);
    prefer(special, &end, &bias);
    EXPECT_EQ(host.finish(say(host.npc(model), "Hello", special)).text, spelled({end, end}));
  }
}

TEST_F(Talk, StopTokensEnd) {
  const int32_t token = 'q';
  const float bias = 1e6f;
  Ask ask(5, kGoOn);
  prefer(ask, &token, &bias);
  ask.stop_tokens = {'z', 'q'};
  const Outcome outcome = host.finish(say(host.npc(model), "Hello", ask));
  EXPECT_EQ(outcome.reason, BANTER_FINISH_STOP_TOKEN);
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(outcome.tokens, std::vector<int32_t>{'q'});
}

TEST_F(Talk, StopStringsCutExactlyAndAreNotShown) {
  const Outcome whole = host.finish(complete(model, "Once upon", Ask(40, kGoOn)));
  ASSERT_GT(whole.text.size(), 12u);
  // Every part of the reply that starts and ends between code points, as a stop string.
  std::vector<size_t> borders;
  for (size_t i = 0; i <= whole.text.size(); ++i) {
    if (i == whole.text.size() || (static_cast<uint8_t>(whole.text[i]) & 0xC0) != 0x80) borders.push_back(i);
  }
  for (size_t from = 0; from + 3 < borders.size(); from += 5) {
    const std::string stop = whole.text.substr(borders[from], borders[from + 3] - borders[from]);
    if (stop.find('\0') != std::string::npos) continue;
    Ask ask(40, kGoOn);
    ask.stops = {"never said at all", stop.c_str()};
    const Outcome cut = host.finish(complete(model, "Once upon", ask));
    EXPECT_EQ(cut.reason, BANTER_FINISH_STOP_STRING);
    EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stop)));
    ASSERT_LE(cut.tokens.size(), whole.tokens.size());
    EXPECT_TRUE(std::equal(cut.tokens.begin(), cut.tokens.end(), whole.tokens.begin()));
  }
}

TEST_F(Talk, HeldBackTextComesAtTheEnd) {
  const int32_t token = 'a';
  const float bias = 1e6f;
  Ask ask(5, kGoOn);
  prefer(ask, &token, &bias);
  ask.stops = {"aaaaaaaaab"};  // begins with everything the reply says
  const Outcome outcome = host.finish(complete(model, "x", ask));
  EXPECT_EQ(outcome.reason, BANTER_FINISH_LENGTH);
  EXPECT_EQ(outcome.text, "aaaaa");
  EXPECT_EQ(outcome.tokens.size(), 5u);
}

TEST_F(Talk, BannedStringsNeverAppear) {
  const Outcome free = host.finish(complete(model, "Once upon", Ask(30, kGoOn)));
  std::vector<std::string> bans;
  for (size_t i = 4; i + 2 < free.text.size() && bans.size() < 6; i += 3) {
    const std::string ban = free.text.substr(i, 2);
    if (text::utf8_is_valid(ban) && ban.find('\0') == std::string::npos) bans.push_back(ban);
  }
  ASSERT_FALSE(bans.empty());
  Ask ask(30, kGoOn);
  for (const std::string& ban : bans) ask.bans.push_back(ban.c_str());
  const Outcome banned = host.finish(complete(model, "Once upon", ask));
  EXPECT_EQ(banned.kind, BANTER_EVENT_DONE);
  EXPECT_EQ(banned.tokens.size(), 30u);
  EXPECT_EQ(banned.text, shown(banned.tokens));
  for (const std::string& ban : bans) EXPECT_EQ(banned.text.find(ban), std::string::npos) << ban;
  EXPECT_EQ(banned.statistics.generated_tokens, 30u);
}

TEST_F(Talk, EverythingBannedFailsAndTheNextRequestWorks) {
  Ask ask(4, kGoOn);
  std::vector<int32_t> tokens(static_cast<size_t>(kTinyVocabulary));
  std::vector<float> values(tokens.size(), -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  ask.sampling.logit_bias_count = static_cast<uint32_t>(tokens.size());
  ask.sampling.logit_bias_tokens = tokens.data();
  ask.sampling.logit_bias_values = values.data();
  const Outcome outcome = host.finish(complete(model, "x", ask));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(outcome.code, BANTER_ERROR_BACKEND);
  EXPECT_EQ(host.finish(complete(model, "x", Ask(4, kGoOn))).kind, BANTER_EVENT_DONE);
}

TEST_F(Talk, CompletionsTakeTextOrTokens) {
  const Outcome text = host.finish(complete(model, "the <|im_end|>", Ask(6, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_EQ(spelled(text.prompt), "the <|im_end|>");
  EXPECT_EQ(std::count(text.prompt.begin(), text.prompt.end(), kTinyEnd), 0);
  Ask special(6, kGoOn | BANTER_REQUEST_REPORT_PROMPT | BANTER_REQUEST_PARSE_SPECIAL);
  const Outcome parsed = host.finish(complete(model, "the <|im_end|>", special));
  EXPECT_EQ(parsed.prompt, (std::vector<int32_t>{kTinyThe, ' ', kTinyEnd}));

  banter_request_id request = 0;
  Ask ask(6, kGoOn);
  ASSERT_EQ(banter_model_complete_tokens(model, text.prompt.data(), text.prompt.size(), ask.get(), &request),
            BANTER_OK);
  EXPECT_EQ(host.finish(request).tokens, text.tokens);

  const int32_t outside[] = {5, kTinyVocabulary};
  ASSERT_EQ(banter_model_complete_tokens(model, outside, 2, ask.get(), &request), BANTER_OK);
  const Outcome bad = host.finish(request);
  EXPECT_EQ(bad.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(bad.code, BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(bad.message.find("264"), std::string::npos) << bad.message;

  const Outcome empty = host.finish(complete(model, "", Ask(6)));  // no begin-of-text to start from
  EXPECT_EQ(empty.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(empty.code, BANTER_ERROR_INVALID_ARGUMENT);
}

TEST_F(Talk, TokenizeCountsAndFills) {
  size_t count = 0;
  ASSERT_EQ(banter_model_tokenize(model, "the x", 5, nullptr, 0, &count), BANTER_OK);
  EXPECT_EQ(count, 3u);
  int32_t ids[2] = {};
  ASSERT_EQ(banter_model_tokenize(model, "the x", 5, ids, 2, &count), BANTER_OK);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(ids[0], kTinyThe);
  EXPECT_EQ(ids[1], ' ');
}

TEST_F(Talk, TheCharacterMaySpeakFirst) {
  banter_npc* const npc = host.npc(model, "P");
  const Outcome outcome = host.finish(say(npc, "", Ask(4, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_EQ(spelled(outcome.prompt), "<|im_start|>system\nP<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE);
}

TEST_F(Talk, OldTurnsMakeRoomAndThePersonaStays) {
  banter_npc* const npc = host.npc(model, "The persona stays.", [](banter_npc_config& c) {
    c.context_tokens = 256;
    c.reply_reserve_tokens = 32;
  });
  uint32_t dropped = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string words = "Turn " + std::to_string(i) + " with some words behind it.";
    const Outcome outcome = host.finish(say(npc, words, Ask(16, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
    ASSERT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    ASSERT_EQ(outcome.reason, BANTER_FINISH_LENGTH);
    EXPECT_LE(outcome.prompt.size(), 256u - 16u);
    const std::string prompt = spelled(outcome.prompt);
    EXPECT_EQ(prompt.rfind("<|im_start|>system\nThe persona stays.<|im_end|>\n<|im_start|>user\n", 0), 0u) << prompt;
    EXPECT_NE(prompt.find(words), std::string::npos);
    if (outcome.dropped_turns > 0) {
      EXPECT_GT(outcome.dropped_tokens, 0u);
      EXPECT_EQ(prompt.find("Turn 0 "), std::string::npos);
    }
    dropped += outcome.dropped_turns;
  }
  EXPECT_GT(dropped, 4u);
  EXPECT_EQ(dropped % 2, 0u);  // whole exchanges
}

TEST_F(Talk, WhatCanNeverFitFailsAtOnceAndChangesNothing) {
  banter_npc* const npc = host.npc(model, "P", [](banter_npc_config& c) { c.context_tokens = 128; });
  const Outcome good = host.finish(say(npc, "Hi", Ask(4, kGoOn)));
  const Outcome outcome = host.finish(say(npc, std::string(400, 'x'), Ask(4)));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(outcome.code, BANTER_ERROR_PROMPT_TOO_LONG);
  EXPECT_NE(outcome.message.find("128"), std::string::npos) << outcome.message;
  const Outcome next = host.finish(say(npc, "Yes", Ask(4, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_EQ(spelled(next.prompt),
            "<|im_start|>system\nP<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" + good.text +
                "<|im_end|>\n<|im_start|>user\nYes<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(Talk, TheReplyEndsWhereTheContextDoes) {
  banter_npc* const npc = host.npc(model, "P", [](banter_npc_config& c) { c.context_tokens = 64; });
  const Outcome outcome = host.finish(say(npc, "Hi", Ask(0, kGoOn)));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE);
  EXPECT_EQ(outcome.reason, BANTER_FINISH_CONTEXT);
  EXPECT_EQ(outcome.statistics.prompt_tokens + outcome.statistics.generated_tokens, 64u);
  EXPECT_EQ(host.finish(say(npc, "On", Ask(0, kGoOn))).kind, BANTER_EVENT_DONE);
}

TEST_F(Talk, BargeInKeepsWhatWasSaid) {
  banter_npc* const npc = host.npc(model, "P");
  const banter_request_id request = say(npc, "Long", Ask(600, kGoOn));
  ASSERT_TRUE(host.pump_until([&] { return host.outcomes[request].text.size() > 8; }));
  ASSERT_EQ(banter_cancel(host.engine, request), BANTER_OK);
  const Outcome cut = host.finish(request);
  ASSERT_EQ(cut.kind, BANTER_EVENT_CANCELLED);
  EXPECT_LT(cut.tokens.size(), 600u);
  const Outcome next = host.finish(say(npc, "Wait", Ask(4, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_NE(spelled(next.prompt).find("Long<|im_end|>\n<|im_start|>assistant\n" + cut.text + "<|im_end|>"),
            std::string::npos);
}

TEST_F(Talk, RequestsOfOneCharacterRunInTheOrderOfTheCalls) {
  banter_npc* const npc = host.npc(model, "P");
  std::vector<banter_request_id> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(say(npc, "Say " + std::to_string(i), Ask(3, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
    const std::string aside = "Aside " + std::to_string(i);
    ASSERT_EQ(banter_npc_add_turn(npc, BANTER_ROLE_USER, aside.data(), aside.size()), BANTER_OK);
  }
  host.events.clear();
  std::string last;
  for (const banter_request_id request : requests) last = spelled(host.finish(request).prompt);
  size_t at = 0;
  for (int i = 0; i < 6; ++i) {
    const size_t said = last.find("Say " + std::to_string(i), at);
    ASSERT_NE(said, std::string::npos) << last;
    at = said;
    if (i == 5) break;
    const size_t aside = last.find("Aside " + std::to_string(i), at);
    ASSERT_NE(aside, std::string::npos) << last;
    at = aside;
  }
  // No event of a later request before the end of an earlier one.
  size_t current = 0;
  for (const Recorded& recorded : host.events) {
    ASSERT_LT(current, requests.size());
    EXPECT_EQ(recorded.event.request, requests[current]);
    if (is_terminal(recorded.event.kind)) ++current;
  }
}

TEST(TalkBroken, ScoresThatAreNoNumbersFail) {
  Host host;
  TinyModelOptions options;
  options.broken_weights = true;
  const auto bytes = tiny_model(options);
  banter_model* const model = host.load(bytes);
  const Outcome outcome = host.finish(complete(model, "x", Ask(4)));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(outcome.code, BANTER_ERROR_BACKEND);
}

}  // namespace
}  // namespace banter::test
