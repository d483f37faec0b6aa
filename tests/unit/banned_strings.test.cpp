// Banned strings: rollback to before them, as an engine would do it.
#include "dialogue/banned_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "dialogue/stop_matcher.h"
#include "sampling/sampler.h"

namespace banter::dialogue {
namespace {

using Outcome = BannedStrings::Outcome;
using TokenId = BannedStrings::TokenId;

BannedStrings make(const std::vector<std::string>& banned, BannedStrings::Options options = {}) {
  auto gate = BannedStrings::create(banned, options);
  EXPECT_TRUE(gate) << gate.error().message;
  return *gate;
}

std::vector<TokenId> copy(std::span<const TokenId> ids) {
  return {ids.begin(), ids.end()};
}

using Ids = std::vector<TokenId>;

TEST(BannedStrings, holds_whole_tokens_and_goes_back_to_the_first) {
  BannedStrings gate = make({"As an AI"});
  EXPECT_EQ(gate.push(10, "Well. "), Outcome::kContinue);
  EXPECT_EQ(copy(gate.released()), Ids{10});
  EXPECT_EQ(gate.push(11, "Hello As"), Outcome::kContinue);
  EXPECT_TRUE(gate.released().empty());
  EXPECT_EQ(gate.push(12, " an"), Outcome::kContinue);
  EXPECT_EQ(gate.held(), 2u);
  EXPECT_EQ(gate.push(13, " AIde"), Outcome::kRollback);
  EXPECT_TRUE(gate.released().empty());
  EXPECT_EQ(gate.rollback().tokens_to_drop, 3);
  EXPECT_EQ(gate.rollback().banned_token, 11);
  EXPECT_EQ(gate.rollback().position, 1);
  EXPECT_EQ(gate.position(), 1);
  EXPECT_EQ(copy(gate.banned_now()), Ids{11});
  EXPECT_EQ(gate.rollbacks(), 1u);
  EXPECT_EQ(gate.push(14, "As "), Outcome::kContinue);
  EXPECT_EQ(gate.push(15, "an AI"), Outcome::kRollback);
  EXPECT_EQ(gate.rollback().tokens_to_drop, 2);
  EXPECT_EQ(copy(gate.banned_now()), (Ids{11, 14}));  // bans of a position add up
  EXPECT_EQ(gate.push(16, "I am Bryn."), Outcome::kContinue);
  EXPECT_EQ(copy(gate.released()), Ids{16});
  EXPECT_TRUE(gate.banned_now().empty());
  EXPECT_EQ(gate.position(), 2);
}

TEST(BannedStrings, a_released_beginning_turned_harmless_is_no_ban) {
  BannedStrings gate = make({"As an AI"});
  EXPECT_EQ(gate.push(1, "As"), Outcome::kContinue);
  EXPECT_EQ(gate.push(2, " a"), Outcome::kContinue);
  EXPECT_EQ(gate.push(3, " smith"), Outcome::kContinue);
  EXPECT_EQ(copy(gate.released()), (Ids{1, 2, 3}));
  EXPECT_EQ(gate.push(4, " As"), Outcome::kContinue);
  gate.finish();
  EXPECT_EQ(copy(gate.released()), Ids{4});
}

TEST(BannedStrings, bans_behind_the_place_gone_back_to_are_forgotten) {
  BannedStrings gate = make({"abc", "bx"});
  EXPECT_EQ(gate.push(1, "a"), Outcome::kContinue);
  EXPECT_EQ(gate.push(2, "b"), Outcome::kContinue);
  EXPECT_EQ(gate.push(3, "x"), Outcome::kRollback);  // to "b"
  EXPECT_EQ(gate.rollback().position, 1);
  EXPECT_EQ(copy(gate.banned_now()), Ids{2});
  EXPECT_EQ(gate.push(4, "bc"), Outcome::kRollback);  // to "a", which had to stay
  EXPECT_EQ(gate.rollback().position, 0);
  EXPECT_EQ(copy(gate.banned_now()), Ids{1});
  EXPECT_EQ(gate.push(5, "ya"), Outcome::kContinue);
  EXPECT_TRUE(gate.banned_now().empty());  // "b" may follow "ya"
}

TEST(BannedStrings, a_token_stays_while_another_text_could_use_it) {
  BannedStrings gate = make({"abX", "bcY"});
  EXPECT_EQ(gate.push(1, "a"), Outcome::kContinue);
  EXPECT_EQ(gate.push(2, "b"), Outcome::kContinue);
  EXPECT_EQ(gate.push(3, "c"), Outcome::kContinue);
  EXPECT_TRUE(gate.released().empty());  // "a" alone cannot begin anything now, but after going back to "b" it can
  EXPECT_EQ(gate.push(4, "Y"), Outcome::kRollback);
  EXPECT_EQ(gate.rollback().position, 1);
  EXPECT_EQ(gate.push(5, "bX"), Outcome::kRollback);
  EXPECT_EQ(gate.rollback().position, 0);
}

TEST(BannedStrings, tokens_without_text_and_split_code_points) {
  BannedStrings gate = make({"你好"});
  EXPECT_EQ(gate.push(1, "\xE4\xBD"), Outcome::kContinue);
  EXPECT_EQ(gate.push(2, ""), Outcome::kContinue);
  EXPECT_EQ(gate.push(3, "\xA0\xE5"), Outcome::kContinue);
  EXPECT_TRUE(gate.released().empty());
  EXPECT_EQ(gate.push(4, "\xA5\xBD"), Outcome::kRollback);
  EXPECT_EQ(gate.rollback().banned_token, 1);
  EXPECT_EQ(gate.rollback().tokens_to_drop, 4);
  EXPECT_EQ(gate.push(5, ""), Outcome::kContinue);
  EXPECT_EQ(copy(gate.released()), Ids{5});
}

TEST(BannedStrings, ignores_case_of_ascii_letters_when_asked) {
  BannedStrings exact = make({"As an AI é"}), folded = make({"As an AI é"}, {.ignore_ascii_case = true});
  EXPECT_EQ(exact.push(1, "as AN ai é"), Outcome::kContinue);
  EXPECT_EQ(folded.push(1, "as AN ai É"), Outcome::kContinue);
  EXPECT_EQ(folded.push(2, "; aS aN aI é"), Outcome::kRollback);
}

TEST(BannedStrings, a_dead_end_goes_one_token_further_back) {
  BannedStrings gate = make({"ab"});
  EXPECT_EQ(gate.push(1, "a"), Outcome::kContinue);
  EXPECT_EQ(gate.push(2, "xa"), Outcome::kContinue);
  EXPECT_EQ(gate.push(3, "b"), Outcome::kRollback);
  EXPECT_EQ(gate.rollback().position, 1);
  EXPECT_EQ(gate.dead_end(), Outcome::kRollback);
  EXPECT_EQ(gate.rollback().position, 0);
  EXPECT_EQ(gate.rollback().tokens_to_drop, 1);
  EXPECT_EQ(copy(gate.banned_now()), Ids{1});
  EXPECT_EQ(gate.dead_end(), Outcome::kExhausted);
  EXPECT_EQ(gate.rollback().tokens_to_drop, 0);
}

TEST(BannedStrings, a_dead_end_of_someone_elses_making_ends_the_reply) {
  BannedStrings gate = make({"ab"});
  EXPECT_EQ(gate.push(1, "a"), Outcome::kContinue);
  EXPECT_EQ(gate.dead_end(), Outcome::kExhausted);
  EXPECT_EQ(copy(gate.released()), Ids{1});
  EXPECT_EQ(gate.rollback().tokens_to_drop, 0);
}

TEST(BannedStrings, the_number_of_rollbacks_is_limited) {
  BannedStrings gate = make({"bad", "da"}, {.max_rollbacks = 2});
  EXPECT_EQ(gate.push(9, "ok b"), Outcome::kContinue);
  EXPECT_EQ(gate.push(1, "ad"), Outcome::kRollback);
  EXPECT_EQ(gate.push(1, "d"), Outcome::kContinue);
  EXPECT_EQ(gate.push(2, "a"), Outcome::kRollback);
  EXPECT_EQ(gate.push(3, "d"), Outcome::kContinue);
  EXPECT_EQ(gate.push(4, "a"), Outcome::kExhausted);
  EXPECT_EQ(gate.rollback().tokens_to_drop, 2);
  EXPECT_TRUE(gate.released().empty());
}

TEST(BannedStrings, refuses_bad_strings_and_options) {
  EXPECT_NE(
      BannedStrings::create(std::vector<std::string>{""}, {}).error().message.find("banned string number 0 is empty"),
      std::string::npos);
  EXPECT_FALSE(BannedStrings::create(std::vector<std::string>{"\xFF"}, {}));
  const auto limit = BannedStrings::create(std::vector<std::string>{"a"}, {.max_rollbacks = 0});
  ASSERT_FALSE(limit);
  EXPECT_NE(limit.error().message.find("max_rollbacks of banned strings is 0"), std::string::npos);
}

TEST(BannedStrings, without_strings_every_token_comes_out_at_once) {
  BannedStrings gate = make({});
  for (TokenId t = 0; t < 5; ++t) {
    EXPECT_EQ(gate.push(t, "text"), Outcome::kContinue);
    EXPECT_EQ(copy(gate.released()), Ids{t});
  }
}

bool contains_any(const std::string& text, const std::vector<std::string>& banned) {
  return std::any_of(banned.begin(), banned.end(),
                     [&](const std::string& b) { return text.find(b) != std::string::npos; });
}

/** A model whose next token is any of the vocabulary, chosen by text so far and draw: deterministic, and ready to say what
 *  is banned. */
struct RandomModel {
  std::vector<std::string> vocabulary;
  uint64_t seed;

  TokenId next(const std::vector<TokenId>& reply, std::span<const TokenId> banned, uint64_t draw) const {
    uint64_t hash = seed;
    for (const TokenId id : reply) hash = hash * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(id) + 1;
    std::vector<TokenId> left;
    for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.size()); ++id)
      if (std::find(banned.begin(), banned.end(), id) == banned.end()) left.push_back(id);
    return left.empty() ? -1 : left[sampling::philox(hash, draw)[0] % left.size()];
  }
};

struct ReplyRun {
  std::string shown;
  int rollbacks = 0;
  int dead_ends = 0;
  bool exhausted = false;
  int32_t stop = -1;
};

/** The loop of the header, with every promise checked at every step. */
void run_reply(const RandomModel& model, const std::vector<std::string>& banned, const std::vector<std::string>& stops,
               BannedStrings::Options options, ReplyRun& run) {
  BannedStrings gate = make(banned, options);
  StopMatcher stop = *StopMatcher::create(stops);
  std::vector<TokenId> reply, out;
  const auto text_of = [&](std::span<const TokenId> ids) {
    std::string text;
    for (const TokenId id : ids) text += model.vocabulary[static_cast<size_t>(id)];
    return text;
  };
  const auto pass_on = [&] {
    for (const TokenId id : gate.released()) {
      out.push_back(id);
      if (stop.push(model.vocabulary[static_cast<size_t>(id)], run.shown)) return true;
    }
    return false;
  };
  while (reply.size() < 60) {
    ASSERT_EQ(gate.position(), static_cast<int64_t>(reply.size()));
    const TokenId token = model.next(reply, gate.banned_now(),
                                     sampling::draw_position(static_cast<uint64_t>(gate.position()), gate.rollbacks()));
    Outcome outcome;
    if (token < 0) {
      outcome = gate.dead_end();
      ++run.dead_ends;
    } else {
      reply.push_back(token);
      outcome = gate.push(token, model.vocabulary[static_cast<size_t>(token)]);
      ASSERT_EQ(outcome != Outcome::kContinue, contains_any(text_of(reply), banned)) << text_of(reply);
    }
    if (outcome != Outcome::kContinue) {
      const auto& r = gate.rollback();
      const size_t kept = reply.size() - static_cast<size_t>(r.tokens_to_drop);
      ASSERT_EQ(static_cast<int64_t>(kept), r.position);
      ASSERT_LE(out.size(), kept) << "a token was taken back after it had come out";
      if (outcome == Outcome::kRollback) {
        ASSERT_EQ(reply[kept], r.banned_token);
        ASSERT_NE(std::find(gate.banned_now().begin(), gate.banned_now().end(), r.banned_token),
                  gate.banned_now().end());
      }
      if (token >= 0) {
        // The string that is complete begins in the token gone back to.
        const std::string whole = text_of(reply);
        const std::string tail = whole.substr(text_of(std::span(reply).first(kept)).size());
        ASSERT_TRUE(contains_any(tail, banned));
        ASSERT_FALSE(contains_any(whole.substr(text_of(std::span(reply).first(kept + 1)).size()), banned));
      }
      reply.resize(kept);
      ++run.rollbacks;
    }
    if (pass_on()) {
      run.stop = stop.matched();
      break;
    }
    ASSERT_TRUE(std::equal(out.begin(), out.end(), reply.begin())) << "what came out is the beginning of the reply";
    if (outcome == Outcome::kExhausted) {
      run.exhausted = true;
      break;
    }
  }
  if (run.stop < 0) {
    gate.finish();
    if (pass_on()) run.stop = stop.matched();
    if (run.stop < 0) {
      ASSERT_EQ(out, reply) << "nothing lost";
    }
  }
  stop.finish(run.shown);
  const std::string text = text_of(reply);
  ASSERT_FALSE(contains_any(text, banned)) << text;
  if (run.stop < 0) {
    ASSERT_EQ(run.shown, text);
  }
  ASSERT_EQ(text.compare(0, run.shown.size(), run.shown), 0);
}

TEST(BannedStrings, no_reply_of_a_random_model_ever_contains_one) {
  std::mt19937 bits(4711);
  const auto random_string = [&](size_t longest) {
    std::string text(1 + bits() % longest, ' ');
    for (char& c : text) c = "aabbc"[bits() % 5];
    return text;
  };
  int rollbacks = 0, dead_ends = 0, exhausted = 0, stopped = 0, finished = 0;
  for (int round = 0; round < 2000; ++round) {
    RandomModel model{.vocabulary = std::vector<std::string>(1 + bits() % 8), .seed = bits()};
    for (std::string& token : model.vocabulary) token = bits() % 10 == 0 ? "" : random_string(3);
    std::vector<std::string> banned(1 + bits() % 4), stops(bits() % 2);
    for (std::string& b : banned) b = random_string(5);
    for (std::string& s : stops) s = random_string(4) + "c";
    ReplyRun run;
    run_reply(model, banned, stops, {.max_rollbacks = 100}, run);
    if (HasFatalFailure()) {
      for (const auto& t : model.vocabulary) ADD_FAILURE() << "token \"" << t << '"';
      for (const auto& b : banned) ADD_FAILURE() << "banned \"" << b << '"';
      return;
    }
    rollbacks += run.rollbacks;
    dead_ends += run.dead_ends;
    exhausted += run.exhausted;
    stopped += run.stop >= 0;
    finished += !run.exhausted && run.stop < 0;
    ReplyRun again;
    run_reply(model, banned, stops, {.max_rollbacks = 100}, again);
    ASSERT_EQ(run.shown, again.shown);
  }
  // Every way to end was taken often.
  EXPECT_GT(rollbacks, 5000);
  EXPECT_GT(dead_ends, 100);
  EXPECT_GT(exhausted, 100);
  EXPECT_GT(stopped, 100);
  EXPECT_GT(finished, 1000);
}

}  // namespace
}  // namespace banter::dialogue
