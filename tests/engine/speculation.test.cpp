// Guessing ahead changes how fast a reply comes, never what it says.
#include <gtest/gtest.h>

#include "engine/acceptance.h"
#include "engine/draft_cache.h"
#include "engine/kv_allocator.h"
#include "engine/speculator.h"
#include "engine/test_host.h"
#include "ops/reference.h"

namespace banter::test {
namespace {

using engine::Acceptance;
using engine::find_repetition;
using Tokens = std::vector<int32_t>;

Tokens repetition(const Tokens& tokens, int32_t most) {
  Tokens out;
  find_repetition(tokens, most, out);
  return out;
}

TEST(Repetition, ProposesWhatFollowedTheLongestAndLatestMatch) {
  EXPECT_EQ(repetition({1, 2, 3, 4, 5, 1, 2}, 3), (Tokens{3, 4, 5}));
  EXPECT_EQ(repetition({1, 2, 3, 9, 1, 2, 4, 9, 1, 2}, 2), (Tokens{4, 9})) << "the latest";
  EXPECT_EQ(repetition({7, 1, 2, 3, 9, 8, 1, 2, 4, 9, 7, 1, 2}, 1), (Tokens{3})) << "the longest";
  EXPECT_EQ(repetition({5, 5, 5, 5}, 8), (Tokens{5}));
  EXPECT_EQ(repetition({1, 2, 1, 2, 1, 2}, 4), (Tokens{1, 2}));
}

TEST(Repetition, ProposesNothingWithoutAMatchOfTwo) {
  EXPECT_TRUE(repetition({}, 4).empty());
  EXPECT_TRUE(repetition({1}, 4).empty());
  EXPECT_TRUE(repetition({1, 1}, 4).empty());
  EXPECT_TRUE(repetition({1, 2, 3, 4}, 4).empty());
  EXPECT_TRUE(repetition({1, 2, 9, 8, 2}, 4).empty());
  EXPECT_TRUE(repetition({1, 2, 3, 1, 2}, 0).empty());
}

TEST(AcceptanceTest, LearnsWhatIsWorthwhile) {
  Acceptance good, bad;
  for (int i = 0; i < 50; ++i) {
    good.learn(4, 4);
    bad.learn(4, 0);
  }
  // Rows are nearly free beside one reply's step: guess far. Rows cost as much as everything else: do not.
  EXPECT_EQ(good.worthwhile(20, 1, 1, 8), 8);
  EXPECT_LE(bad.worthwhile(20, 1, 1, 8), 2);
  EXPECT_EQ(good.worthwhile(20, 1, 20, 8), 0);
  EXPECT_EQ(good.worthwhile(40, 40, 1, 8), 0) << "forty replies at once: a guess must be as good as a token";
  EXPECT_EQ(good.worthwhile(20, 1, 1, 0), 0);
  for (int i = 0; i < 200; ++i) bad.learn(1, 1);
  EXPECT_GT(bad.worthwhile(20, 1, 1, 8), 4) << "what repeats later is found";
}

struct Case {
  const char* name;
  std::function<void(Ask&)> change;
};

std::vector<Case> cases() {
  return {
      {"greedy", [](Ask&) {}},
      {"sampled",
       [](Ask& a) {
         a.sampling.temperature = 0.9f;
         a.sampling.seed = 7;
       }},
      {"cold",
       [](Ask& a) {
         a.sampling.temperature = 0.3f;
         a.sampling.top_k = 3;
         a.sampling.seed = 9;
       }},
      {"penalties",
       [](Ask& a) {
         a.sampling.repetition_penalty = 1.3f;
         a.sampling.presence_penalty = 0.5f;
       }},
      {"dry", [](Ask& a) { a.sampling.dry_multiplier = 0.8f; }},
      {"mirostat",
       [](Ask& a) {
         a.sampling.temperature = 0.8f;
         a.sampling.mirostat = 2;
         a.sampling.seed = 3;
       }},
      {"bans",
       [](Ask& a) {
         a.bans = {"e", "th", "aa"};
         a.sampling.temperature = 0.7f;
       }},
      {"stops",
       [](Ask& a) {
         a.stops = {"xyz", "q"};
         a.sampling.temperature = 1.2f;
         a.sampling.seed = 5;
       }},
      {"short", [](Ask& a) { a.config.max_tokens = 3; }},
      {"to the context's end", [](Ask& a) { a.config.max_tokens = 0; }},
  };
}

struct Reply {
  Tokens tokens;
  std::string text;
  banter_finish_reason reason;
  bool operator==(const Reply&) const = default;
};

/** All cases at once, twice per character. */
std::vector<Reply> talk(Host& host, banter_model* model) {
  std::vector<banter_request_id> requests;
  int i = 0;
  for (const Case& c : cases()) {
    banter_npc* const npc = host.npc(model, ("You are number " + std::to_string(i++)).c_str());
    for (int turn = 0; turn < 2; ++turn) {
      Ask ask(60, kGoOn);
      c.change(ask);
      requests.push_back(say(npc, "abcabcabc?", ask));
    }
  }
  std::vector<Reply> replies;
  for (const banter_request_id request : requests) {
    const Outcome outcome = host.finish(request);
    EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    EXPECT_EQ(outcome.terminals, 1);
    replies.push_back({outcome.tokens, outcome.text, outcome.reason});
  }
  return replies;
}

void context(banter_model_config& c) {
  c.context_tokens = 256;
}

TEST(Speculation, RepliesAreTheSame) {
  for (const uint32_t window : {0u, 48u}) {
    TinyModelOptions options;
    options.window = window;
    const auto bytes = tiny_model(options);
    std::vector<Reply> expected;
    {
      Host host;
      expected = talk(host, host.load(bytes, context));
    }
    {
      Host host;
      EXPECT_EQ(talk(host, host.load(bytes,
                                     [](banter_model_config& c) {
                                       context(c);
                                       c.speculation = BANTER_SPECULATION_NGRAM;
                                     })),
                expected);
    }
    for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {  // the model itself, and a stranger
      TinyModelOptions small = options;
      small.seed = seed;
      small.layers = seed == 1 ? options.layers : 1;
      const auto draft_bytes = tiny_model(small);
      Host host;
      banter_model* const draft = host.load(draft_bytes, context);
      banter_model* const model = host.load(bytes, [&](banter_model_config& c) {
        context(c);
        c.speculation = BANTER_SPECULATION_DRAFT;
        c.draft_model = draft;
      });
      EXPECT_EQ(talk(host, model), expected) << "draft " << seed;
    }
  }
}

/** The draft's own steps hold fewer rows than there are replies, and prompts that are longer than a step. */
TEST(Speculation, SmallStepsOnlyMeanFewerGuesses) {
  const auto bytes = tiny_model();
  std::vector<Reply> expected;
  {
    Host host;
    expected = talk(host, host.load(bytes, context));
  }
  for (const int32_t step : {1, 2, 5, 40}) {
    Host host([&](banter_engine_config& c) { c.step_tokens = step; });
    banter_model* const draft = host.load(bytes, context);
    banter_model* const model = host.load(bytes, [&](banter_model_config& c) {
      context(c);
      c.speculation = BANTER_SPECULATION_DRAFT;
      c.draft_model = draft;
    });
    EXPECT_EQ(talk(host, model), expected) << step;
  }
}

TEST(Speculation, AFullPoolOnlyMeansFewerGuesses) {
  const auto bytes = tiny_model();
  std::vector<Reply> expected;
  {
    Host host;
    expected = talk(host, host.load(bytes, context));
  }
  for (const bool by_draft : {false, true}) {
    Host host;
    banter_model* draft = nullptr;
    const auto small = [](banter_model_config& c) {
      context(c);
      c.kv_budget_bytes = 300 * tiny_bytes_per_token();
    };
    if (by_draft) draft = host.load(bytes, small);
    banter_model* const model = host.load(bytes, [&](banter_model_config& c) {
      small(c);
      c.speculation = by_draft ? BANTER_SPECULATION_DRAFT : BANTER_SPECULATION_NGRAM;
      c.draft_model = draft;
    });
    EXPECT_EQ(talk(host, model), expected);
  }
}

/** A draft model that talks itself, in a pool that its characters fill alone. */
TEST(Speculation, TheDraftModelsOwnCharactersComeFirst) {
  const auto bytes = tiny_model();
  std::vector<Reply> expected;
  {
    Host host;
    expected = talk(host, host.load(bytes, context));
  }
  for (const uint64_t tokens : {uint64_t{300}, uint64_t{600}}) {
    Host host;
    banter_model* const draft = host.load(bytes, [&](banter_model_config& c) {
      context(c);
      c.kv_budget_bytes = tokens * tiny_bytes_per_token();
    });
    banter_model* const model = host.load(bytes, [&](banter_model_config& c) {
      context(c);
      c.speculation = BANTER_SPECULATION_DRAFT;
      c.draft_model = draft;
    });
    std::vector<banter_request_id> long_replies;
    for (int i = 0; i < 3; ++i) long_replies.push_back(complete(model, "abcabcabc", Ask(200, kGoOn)));
    EXPECT_EQ(talk(host, draft), expected) << tokens;
    EXPECT_EQ(talk(host, model), expected) << tokens;
    for (const banter_request_id request : long_replies) {
      EXPECT_EQ(host.finish(request).tokens.size(), 200u);
      EXPECT_EQ(host.outcomes[request].tokens, host.outcomes[long_replies[0]].tokens);
    }
  }
}

class DraftCaches : public testing::Test {
 protected:
  void SetUp() override {
    threads = std::move(*ThreadPool::create({.threads = 1}));
    backend = std::move(*ops::create_reference_backend(*threads));
    const kv::GroupSpec group = {ops::KvType::kF16, 1, 1, 16, 0, 0};
    pool = std::move(*kv::PagePool::create(*backend, {group}, 6 * 32 * 64));  // 6 pages of 32 tokens
    ASSERT_EQ(pool->total_pages(), 6);
    index = std::move(*kv::PrefixIndex::create(*pool, 0));
  }
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<kv::PagePool> pool;
  std::unique_ptr<kv::PrefixIndex> index;
  engine::DraftCacheList drafts;
};

TEST_F(DraftCaches, GoInTheOrderOfTheirLastUse) {
  engine::DraftCache a(drafts, *pool, 64), b(drafts, *pool, 64);
  std::optional<engine::DraftCache> c;
  c.emplace(drafts, *pool, 64);
  for (engine::DraftCache* cache : {&a, &b, &*c}) {
    ASSERT_TRUE(cache->use().reserve(40));
    cache->use().advance(40);
  }
  (void)a.use();  // b is the oldest now
  EXPECT_EQ(pool->free_pages(), 0);
  EXPECT_TRUE(drafts.drop_oldest());
  EXPECT_EQ(b.use().length(), 0);
  EXPECT_EQ(c->use().length(), 40);
  c.reset();
  EXPECT_TRUE(drafts.drop_oldest());
  EXPECT_EQ(a.use().length(), 0);
  EXPECT_FALSE(drafts.drop_oldest()) << "all are empty";
  EXPECT_EQ(pool->free_pages(), 6);
}

TEST_F(DraftCaches, MakeRoomForTheModelsOwn) {
  engine::DraftCache old(drafts, *pool, 128), recent(drafts, *pool, 128);
  for (engine::DraftCache* cache : {&old, &recent}) {
    ASSERT_TRUE(cache->use().reserve(96));
    cache->use().advance(96);
  }
  ASSERT_EQ(pool->free_pages(), 0);
  engine::KvAllocator allocator(*pool, *index, drafts, 32);
  engine::Generation generation;
  generation.tokens.assign(70, 1);
  generation.own_cache.emplace(*pool, 192);
  generation.cache = &*generation.own_cache;
  engine::Candidate candidate;
  const engine::Ranked ranked[] = {{&candidate, &generation}};
  allocator.begin_step();
  ASSERT_TRUE(allocator.admit(ranked, 0, 1));
  ASSERT_TRUE(allocator.reserve(ranked, 0, 70));
  EXPECT_EQ(old.use().length(), 0);
  EXPECT_EQ(recent.use().length(), 96) << "no more than is needed";
  generation.cache->advance(70);
  ASSERT_TRUE(allocator.reserve(ranked, 0, 100));
  EXPECT_EQ(recent.use().length(), 0);
}

TEST(Speculation, TheDraftModelMayGoAtAnyTime) {
  const auto bytes = tiny_model();
  Host host;
  banter_model* const plain = host.load(bytes, context);
  const Tokens expected = host.finish(complete(plain, "Once upon a time", Ask(120, kGoOn))).tokens;
  banter_model* draft = nullptr;
  host.start_load(bytes, &draft, context);  // not ready yet
  banter_model* const model = host.load(bytes, [&](banter_model_config& c) {
    context(c);
    c.speculation = BANTER_SPECULATION_DRAFT;
    c.draft_model = draft;
  });
  const banter_request_id request = complete(model, "Once upon a time", Ask(120, kGoOn));
  host.pump_until([&] { return !host.outcomes[request].text.empty(); });
  banter_model_release(draft);
  EXPECT_EQ(host.finish(request).tokens, expected);
  EXPECT_EQ(host.finish(complete(model, "Once upon a time", Ask(120, kGoOn))).tokens, expected);
}

TEST(Speculation, ADraftOfAnotherVocabularyIsRefusedWithAReason) {
  std::string log;
  const auto bytes = tiny_model();
  TinyModelOptions options;
  options.has_chatml_tokens = false;
  const auto other = tiny_model(options);
  Host host([&](banter_engine_config& c) {
    c.log = [](banter_log_level, const char* message, void* to) { *static_cast<std::string*>(to) += message; };
    c.log_user_data = &log;
  });
  banter_model* const draft = host.load(other, context);
  banter_model* const model = host.load(bytes, [&](banter_model_config& c) {
    context(c);
    c.speculation = BANTER_SPECULATION_DRAFT;
    c.draft_model = draft;
  });
  EXPECT_EQ(host.finish(complete(model, "Hello", Ask(10, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_NE(log.find("No speculation"), std::string::npos) << log;
}

TEST(Speculation, WrongConfigurationsAreRefused) {
  const auto bytes = tiny_model();
  Host host, elsewhere;
  banter_model* const foreign = elsewhere.load(bytes);
  const auto code = [&](banter_speculation speculation, banter_model* draft) {
    banter_model_config config;
    banter_model_config_init(&config, sizeof config);
    config.memory = bytes.data();
    config.memory_bytes = bytes.size();
    config.speculation = speculation;
    config.draft_model = draft;
    banter_model* model = nullptr;
    return banter_model_load(host.engine, &config, &model, nullptr);
  };
  EXPECT_EQ(code(3, nullptr), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(BANTER_SPECULATION_DRAFT, nullptr), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(BANTER_SPECULATION_NGRAM, foreign), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(BANTER_SPECULATION_DRAFT, foreign), BANTER_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace banter::test
