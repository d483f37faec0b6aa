// A reply as it is generated: thought and speech told apart, budgets of thoughts, strings that stop or are banned.
#include "dialogue/reply.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "unit/tokenizer_fixture.h"

namespace banter::dialogue {
namespace {

using test::TokenId;
using text::Tokenizer;

constexpr const char* kThinkingTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}";

/** Bytes, the words, then the control tokens. */
std::unique_ptr<Tokenizer> make_tokenizer(bool tag_tokens, formats::TokenKind tag_kind = formats::TokenKind::kControl) {
  formats::Vocabulary vocabulary = test::byte_level_vocabulary({"<th", "ink", ">\n\n", " an", "As", "</", "x<thi"});
  test::add_token(vocabulary, "<|im_start|>", formats::TokenKind::kControl);
  vocabulary.eos = test::add_token(vocabulary, "<|im_end|>", formats::TokenKind::kControl);
  if (tag_tokens) {
    test::add_token(vocabulary, "<think>", tag_kind);
    test::add_token(vocabulary, "</think>", tag_kind);
  }
  auto made = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

struct Model {
  explicit Model(bool tag_tokens, const std::string& chat_template = kThinkingTemplate,
                 formats::TokenKind tag_kind = formats::TokenKind::kControl)
      : tokenizer(make_tokenizer(tag_tokens, tag_kind)) {
    auto made = ChatFormat::create(*tokenizer, "", chat_template);
    EXPECT_TRUE(made) << made.error().message;
    format = std::move(*made);
  }
  TokenId find(const char* text) const { return tokenizer->find(test::in_byte_alphabet(text)); }
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatFormat> format;
};

struct Said {
  std::string speech, thought;
  std::vector<TokenId> tokens;
  Verdict::Kind end = Verdict::kGoOn;
  uint32_t hidden = 0, rollbacks = 0;
  std::string hidden_map;  // one digit for each token
};

void take(Outgoing& out, Said& said) {
  for (; !out.empty(); out.drop(out.front().size()))
    (out.front_is_thought() ? said.thought : said.speech) += out.front();
  out.compact();
}

ReplyOptions options_for(const Model& model) {
  ReplyOptions options;
  options.tags = &model.format->thinking_tags();
  options.report_thought = true;
  return options;
}

/** Plays the engine: `next(position, banned)` chooses. Ends after `most` tokens. */
template <class Next>
Said generate(const Model& model, const ReplyOptions& options, size_t most, Next&& next) {
  auto reply = Reply::create(*model.tokenizer, model.format.get(), options);
  EXPECT_TRUE(reply) << reply.error().message;
  Said said;
  Outgoing out;
  const auto act = [&](const Verdict& verdict) {
    if (verdict.kind == Verdict::kRollBack || verdict.kind == Verdict::kExhausted) {
      said.tokens.resize(said.tokens.size() - static_cast<size_t>(verdict.tokens));
    }
    if (verdict.kind != Verdict::kGoOn && verdict.kind != Verdict::kRollBack) said.end = verdict.kind;
  };
  while (said.tokens.size() < most && said.end == Verdict::kGoOn) {
    const TokenId id = next(said.tokens.size(), reply->banned_tokens());
    if (id < 0) {
      act(reply->dead_end(out));
      take(out, said);
      continue;
    }
    said.tokens.push_back(id);
    act(reply->push(id, out));
    for (const TokenId forced : reply->forced_tokens()) {
      if (said.tokens.size() >= most || said.end != Verdict::kGoOn) break;
      said.tokens.push_back(forced);
      act(reply->push(forced, out));
    }
    take(out, said);
  }
  reply->finish(out);
  take(out, said);
  said.rollbacks = reply->rollbacks();
  said.hidden = reply->hidden_tokens();
  for (size_t i = 0; i < said.tokens.size(); ++i) said.hidden_map += reply->is_hidden(i) ? '1' : '0';
  EXPECT_EQ(reply->text(), said.speech);
  return said;
}

Said play(const Model& model, const ReplyOptions& options, const std::vector<TokenId>& script) {
  return generate(model, options, script.size(), [&](size_t at, std::span<const TokenId>) { return script[at]; });
}

std::vector<TokenId> bytes_of(const std::string& text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

Said play_text(const Model& model, const ReplyOptions& options, const std::string& text) {
  return play(model, options, bytes_of(text));
}

// ---------------------------------------------------------------- the split

TEST(ReplyThoughts, text_between_tags_is_thought_and_white_space_after_is_dropped) {
  for (const bool tag_tokens : {false, true}) {
    const Model model(tag_tokens);
    const Said said = play_text(model, options_for(model), "<think>\nHm, who?\n</think>\n\nGood day!");
    EXPECT_EQ(said.thought, "\nHm, who?\n");
    EXPECT_EQ(said.speech, "Good day!");
  }
}

TEST(ReplyThoughts, tags_that_are_control_tokens_count_and_are_not_shown) {
  const Model model(true);
  const TokenId open = model.tokenizer->find("<think>"), close = model.tokenizer->find("</think>");
  const std::vector<TokenId> script = {open, 'H', 'm', close, '\n', 'H', 'i'};
  ReplyOptions options = options_for(model);
  Said said = play(model, options, script);
  EXPECT_EQ(said.thought, "Hm");
  EXPECT_EQ(said.speech, "Hi");
  EXPECT_EQ(said.hidden_map, "1111000");
  options.special_text = true;
  said = play(model, options, script);
  EXPECT_EQ(said.speech, "Hi");
  options.report_thought = false;
  EXPECT_EQ(play(model, options, script).thought, "");
}

TEST(ReplyThoughts, a_user_defined_tag_token_counts_too) {
  const Model model(true, kThinkingTemplate, formats::TokenKind::kUserDefined);
  const Said said =
      play(model, options_for(model), {model.tokenizer->find("<think>"), 'H', model.tokenizer->find("</think>"), 'O'});
  EXPECT_EQ(said.thought, "H");
  EXPECT_EQ(said.speech, "O");
}

TEST(ReplyThoughts, tokens_may_hold_parts_of_tags_and_text) {
  const Model model(false);
  const auto all = [&](std::initializer_list<const char*> words) {
    std::vector<TokenId> ids;
    for (const char* word : words) {
      ids.push_back(model.find(word));
      EXPECT_GE(ids.back(), 0) << word;
    }
    return ids;
  };
  const Said said = play(model, options_for(model),
                         all({"As", "x<thi", "n", "k", ">\n\n", "As", "</", "t", "h", "ink", ">\n\n", "As"}));
  EXPECT_EQ(said.thought, "\n\nAs");
  EXPECT_EQ(said.speech, "Asx\n\nAs");  // words stay apart
  EXPECT_EQ(said.hidden_map, "011111111110");
}

TEST(ReplyThoughts, what_only_looks_like_a_tag_is_speech) {
  const Model model(false);
  for (const std::string text : {"a < b", "<thin>", "<<thinker>", "1 <", "<th", "< think>", "</thinker", "</", "x<"}) {
    EXPECT_EQ(play_text(model, options_for(model), text).speech, text);
    EXPECT_EQ(play_text(model, options_for(model), text).thought, "");
  }
}

TEST(ReplyThoughts, thoughts_repeat_but_do_not_nest) {
  const Model model(false);
  Said said = play_text(model, options_for(model), "<think>a<think>b</think>c</think>d");
  EXPECT_EQ(said.thought, "a<think>b");
  EXPECT_EQ(said.speech, "cd");
  said = play_text(model, options_for(model), "<think>a</think> One. <think>b</think> Two.<think></think> Three");
  EXPECT_EQ(said.thought, "ab");
  EXPECT_EQ(said.speech, "One. Two. Three");
  EXPECT_EQ(play_text(model, options_for(model), "\n <think>a</think>\n Hi").speech, "Hi");
  EXPECT_EQ(play_text(model, options_for(model), "\n Hi").speech, "\n Hi");
  EXPECT_EQ(play_text(model, options_for(model), " \n").speech, " \n");
}

TEST(ReplyThoughts, a_reply_may_end_inside_a_thought_and_then_nothing_was_said) {
  const Model model(false);
  std::vector<TokenId> script = bytes_of("<think>Hm</thi");
  Said said = play(model, options_for(model), script);
  EXPECT_EQ(said.thought, "Hm</thi");
  EXPECT_EQ(said.speech, "");
  EXPECT_EQ(said.end, Verdict::kGoOn);
  script.push_back(model.tokenizer->find("<|im_end|>"));
  said = play(model, options_for(model), script);
  EXPECT_EQ(said.end, Verdict::kEnd);
  EXPECT_EQ(said.thought, "Hm</thi");
  EXPECT_EQ(said.speech, "");
}

TEST(ReplyThoughts, a_prompt_may_have_opened_the_thought) {
  const Model model(false);
  ReplyOptions options = options_for(model);
  options.starts_in_thought = true;
  Said said = play_text(model, options, "Hm</think>\n\nHi");
  EXPECT_EQ(said.thought, "Hm");
  EXPECT_EQ(said.speech, "Hi");
  EXPECT_EQ(said.hidden, 10u);
}

TEST(ReplyThoughts, a_model_without_tags_may_still_open_a_reply_with_one_but_talk_about_them_later) {
  const Model model(false, "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
  EXPECT_FALSE(model.format->thinking_tags().known);
  Said said = play_text(model, options_for(model), "\n<think>Hm</think>Hi");
  EXPECT_EQ(said.thought, "Hm");
  EXPECT_EQ(said.speech, "\nHi");
  said = play_text(model, options_for(model), "Use <think> and </think>.");
  EXPECT_EQ(said.thought, "");
  EXPECT_EQ(said.speech, "Use <think> and </think>.");
}

TEST(ReplyThoughts, without_tags_everything_is_speech) {
  const Model model(false);
  EXPECT_EQ(play_text(model, ReplyOptions(), "<think>Hm</think>").speech, "<think>Hm</think>");
}

TEST(ReplyThoughts, code_points_stay_whole_on_both_sides_of_tags) {
  const Model model(false);
  // "é" and "ü" with an incomplete end of each in between.
  const Said said = play_text(model, options_for(model), "<think>h\xC3\xA9\xC3</think>\xC3\xBC\xC3");
  EXPECT_EQ(said.thought, "h\xC3\xA9");
  EXPECT_EQ(said.speech, "\xC3\xBC");
}

// ---------------------------------------------------------------- what ends or changes a reply

TEST(ReplyThoughts, stops_are_about_speech) {
  const Model model(true);
  ReplyOptions options = options_for(model);
  options.stop_strings = {"END"};
  options.stop_tokens = {'!'};
  Said said = play_text(model, options, "<think>END!</think>Hi<think>!</think> END of it");
  EXPECT_EQ(said.thought, "END!!");
  EXPECT_EQ(said.speech, "Hi ");
  EXPECT_EQ(said.end, Verdict::kStopString);
  said = play_text(model, options, "<think>!</think>Hi! there");
  EXPECT_EQ(said.speech, "Hi");
  EXPECT_EQ(said.end, Verdict::kStopToken);
  // Speech on both sides of a thought is one text.
  said = play_text(model, options, "EN<think>hm</think>D. More");
  EXPECT_EQ(said.speech, "");
  EXPECT_EQ(said.end, Verdict::kStopString);
  // A tag as a stop token ends a reply that is to think only.
  options.stop_tokens = {model.tokenizer->find("</think>")};
  said = play(model, options, {model.tokenizer->find("<think>"), 'H', model.tokenizer->find("</think>"), 'x'});
  EXPECT_EQ(said.end, Verdict::kStopToken);
  EXPECT_EQ(said.thought, "H");
}

TEST(ReplyThoughts, a_used_up_budget_ends_the_thought) {
  const Model model(true);
  const TokenId close = model.tokenizer->find("</think>");
  ReplyOptions options = options_for(model);
  options.starts_in_thought = true;
  options.thought_budget = 4;
  Said said = generate(model, options, 12, [](size_t, std::span<const TokenId>) { return 'a'; });
  EXPECT_EQ(said.thought, "aaaa\n");  // the template gives the tag a line of its own
  EXPECT_EQ(said.speech, "aaaaaa");
  ASSERT_EQ(said.tokens.size(), 12u);
  EXPECT_EQ(said.tokens[4], '\n');
  EXPECT_EQ(said.tokens[5], close);
  // At the start of a line no second one.
  said = generate(model, options, 8, [](size_t at, std::span<const TokenId>) { return at == 3 ? '\n' : 'a'; });
  EXPECT_EQ(said.tokens[4], close);
  EXPECT_EQ(said.speech, "aaa");
  // A thought that ends in time is left alone, and so is one without a limit.
  said = generate(model, options, 8, [&](size_t at, std::span<const TokenId>) { return at == 3 ? close : 'a'; });
  EXPECT_EQ(said.thought, "aaa");
  EXPECT_EQ(said.speech, "aaaa");
  options.thought_budget = 0;
  said = generate(model, options, 50, [](size_t, std::span<const TokenId>) { return 'a'; });
  EXPECT_EQ(said.thought.size(), 50u);
}

TEST(ReplyThoughts, a_budget_is_for_all_thoughts_of_a_reply_and_works_without_tag_tokens) {
  const Model model(false);
  ReplyOptions options = options_for(model);
  options.thought_budget = 16;  // "abc</think>" is 11 tokens
  const std::string script = "<think>abc</think>Hi <think>abcdefghij";
  Said said = play_text(model, options, script);
  EXPECT_EQ(said.thought.substr(0, 9), "abcabcde\n");
  EXPECT_EQ(said.tokens.size(), script.size());
  EXPECT_EQ(said.speech, "Hi ");  // the script goes on where the forced tokens end: behind it
}

TEST(ReplyThoughts, a_tag_that_was_begun_when_the_budget_ran_out_does_no_harm) {
  const Model model(false);
  ReplyOptions options = options_for(model);
  options.starts_in_thought = true;
  for (uint32_t budget = 1; budget <= 12; ++budget) {
    options.thought_budget = budget;
    const std::string wish = "Hm</think>";
    const Said said = generate(model, options, 40, [&](size_t at, std::span<const TokenId>) {
      return at < wish.size() ? static_cast<uint8_t>(wish[at]) : 'x';
    });
    std::string all;
    for (const TokenId id : said.tokens) all += model.tokenizer->token_bytes(id, true);
    EXPECT_EQ(said.thought, budget >= 10 ? "Hm" : wish.substr(0, budget) + "\n") << budget;
    EXPECT_EQ(all.find("</think>", said.thought.size()), said.thought.size()) << budget;
  }
}

// ---------------------------------------------------------------- everything at once

/** What the header promises, by plain search in the whole text. */
void reference(std::string text, std::string& speech, std::string& thought) {
  const std::string open = "<think>", close = "</think>";
  bool thinking = false, drop = false;
  const auto say = [&](std::string part) {
    if (drop) part.erase(0, std::min(part.find_first_not_of(" \n\r\t"), part.size()));
    if (!part.empty()) drop = false;
    speech += part;
  };
  const auto blank = [&] { return speech.find_first_not_of(" \n\r\t") == std::string::npos; };
  for (;;) {
    const size_t opens = thinking ? std::string::npos : text.find(open);
    const size_t closes = text.find(close);
    const size_t at = std::min(opens, closes);
    (thinking ? void(thought += text.substr(0, at)) : say(text.substr(0, at)));
    if (at == std::string::npos) break;
    if (opens < closes) {
      thinking = true;
      if (blank()) speech.clear();
    } else {
      thinking = false;
      drop = blank() || std::string(" \n\r\t").find(speech.back()) != std::string::npos;
    }
    text.erase(0, at + (opens < closes ? open : close).size());
  }
}

TEST(ReplyThoughts, random_tokens_split_as_a_plain_search_does_and_never_say_what_is_banned) {
  std::mt19937_64 random(20);
  size_t rollbacks_seen = 0, thoughts_seen = 0;
  for (int round = 0; round < 6000; ++round) {
    const Model& model = *[&] {
      static const Model with(true), without(false);
      return round % 2 == 0 ? &with : &without;
    }();
    std::vector<TokenId> pieces = {'<', '/', 't', 'h', '>', ' ', '\n', 'a', 'b'};
    for (const char* word : {"<th", "ink", ">\n\n", " an", "As", "</", "x<thi"}) pieces.push_back(model.find(word));
    if (round % 2 == 0) {
      pieces.insert(pieces.end(), 2, model.tokenizer->find("<think>"));
      pieces.insert(pieces.end(), 2, model.tokenizer->find("</think>"));
    }
    ReplyOptions options = options_for(model);
    if (round % 3 != 0) options.banned_strings = {"As an", "b<", "a b", "Asa"};
    if (round % 5 == 0) options.banned_strings.push_back("\n\nAs");
    // Words of tags, so that they come about often.
    const std::vector<std::vector<TokenId>> phrases = {
        {model.find("<th"), model.find("ink"), '>'},
        {model.find("</"), 't', 'h', model.find("ink"), model.find(">\n\n")},
        {model.find("x<thi"), 'n', 'k', '>'},
        {model.find("As"), model.find(" an")},
    };
    std::vector<TokenId> planned;
    const auto next = [&](size_t at, std::span<const TokenId> banned) -> TokenId {
      (void)at;
      for (int attempt = 0; attempt < 100; ++attempt) {
        if (planned.empty() && random() % 3 == 0) {
          planned = phrases[random() % phrases.size()];
          std::reverse(planned.begin(), planned.end());
        }
        TokenId id = pieces[random() % pieces.size()];
        if (!planned.empty()) {
          id = planned.back();
          planned.pop_back();
        }
        if (std::find(banned.begin(), banned.end(), id) == banned.end()) return id;
      }
      return -1;
    };
    const Said said = generate(model, options, 5 + random() % 60, next);
    std::string all, speech, thought;
    for (const TokenId id : said.tokens) all += model.tokenizer->token_bytes(id, true);
    reference(all, speech, thought);
    ASSERT_EQ(said.speech, speech) << round << ": " << all;
    ASSERT_EQ(said.thought, thought) << round << ": " << all;
    rollbacks_seen += said.rollbacks;
    thoughts_seen += thought.empty() ? 0 : 1;
    for (const std::string& banned : options.banned_strings) {
      ASSERT_EQ(said.speech.find(banned), std::string::npos) << round << ": " << all;
    }
  }
  EXPECT_GT(rollbacks_seen, 1000u);
  EXPECT_GT(thoughts_seen, 2000u);
}

// ---------------------------------------------------------------- the template

TEST(ThinkingFormat, the_switch_gives_what_the_template_gives) {
  const Model model(true);
  EXPECT_TRUE(model.format->has_thinking_switch());
  EXPECT_TRUE(model.format->thinking_tags().known);
  const std::vector<Turn> turns = {{Role::kUser, "Hi"}};
  const auto written = [&](Thinking thinking) {
    const auto ids = model.format->encode("", turns, thinking);
    EXPECT_TRUE(ids);
    return model.tokenizer->decode(*ids, true);
  };
  const std::string plain = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(written(Thinking::kAuto), plain);
  EXPECT_EQ(written(Thinking::kOn), plain);
  EXPECT_EQ(written(Thinking::kOff), plain + "<think>\n\n</think>\n\n");
  for (const Thinking thinking : {Thinking::kAuto, Thinking::kOn, Thinking::kOff}) {
    EXPECT_FALSE(model.format->opens_thought(*model.format->encode("", turns, thinking)));
  }
}

TEST(ThinkingFormat, a_template_that_opens_the_thought_is_noticed_but_a_player_cannot) {
  const Model opens(true, "{% for m in messages %}{{ m.content }}\n{% endfor %}<|im_start|><think>\n");
  const std::vector<Turn> turns = {{Role::kUser, "Hi"}}, sly = {{Role::kUser, "<think>"}};
  EXPECT_TRUE(opens.format->opens_thought(*opens.format->encode("", turns)));
  EXPECT_FALSE(opens.format->has_thinking_switch());
  // The tag in the prompt of every reply is no border between turns.
  EXPECT_FALSE(opens.format->is_turn_border(opens.tokenizer->find("<think>")));
  const Model echoes(true, "{% for m in messages %}{{ m.content }}\n{% endfor %}");
  EXPECT_FALSE(echoes.format->opens_thought(*echoes.format->encode("", sly)));
  const Model switched(true,
                       "{% for m in messages %}{{ m.content }}\n{% endfor %}<|im_start|>"
                       "{% if thinking %}<think>{% else %}</think>{% endif %}");
  EXPECT_TRUE(switched.format->has_thinking_switch());
  EXPECT_TRUE(switched.format->opens_thought(*switched.format->encode("", turns, Thinking::kOn)));
  EXPECT_FALSE(switched.format->opens_thought(*switched.format->encode("", turns, Thinking::kOff)));
  // That template writes the tag without a line of its own.
  EXPECT_EQ(switched.format->thinking_tags().end_tokens_new_line, switched.format->thinking_tags().end_tokens);
}

TEST(ThinkingFormat, other_models_spell_the_tags_otherwise) {
  const Model model(false, "{% for m in messages %}{{ m.content }}{% endfor %}{# [THINK]..[/THINK] #}");
  const Said said = play_text(model, options_for(model), "[THINK]Hm[/THINK]\nHi");
  EXPECT_EQ(said.thought, "Hm");
  EXPECT_EQ(said.speech, "Hi");
}

}  // namespace
}  // namespace banter::dialogue
