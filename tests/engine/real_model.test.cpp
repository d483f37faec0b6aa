// The engine on a real model (BANTER_MODEL): characters at once say what they say alone, whatever the chunks and the pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "engine/test_host.h"

namespace banter::test {
namespace {

struct Line {
  const char* persona;
  const char* words[2];
};
constexpr Line kLines[] = {
    {"You are Mira, the cheerful innkeeper of the Gilded Goose. A room costs 3 silver. Answer in one short sentence.",
     {"Good evening! Do you have a room?", "What does it cost?"}},
    {"You are Borin, a gruff dwarven blacksmith. You mend swords for 5 silver. Answer in one short sentence.",
     {"Can you mend my sword?", "How long will it take?"}},
    {"You are Lian, a travelling tea merchant from the east. Answer in one short sentence.",
     {"你好！你卖什么茶？", "Which do you like best?"}},
};

constexpr int32_t kContext = 1024;

using Replies = std::vector<std::vector<int32_t>>;

banter_model_config config_of(const char* path) {
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.path = path;
  config.path_len = BANTER_ZERO_TERMINATED;
  config.context_tokens = kContext;
  return config;
}

/** Room for little more than one conversation. */
uint64_t small_pool(const char* path, banter_kv_type kv_type = BANTER_KV_AUTO) {
  banter_model_config config = config_of(path);
  config.kv_type = kv_type;
  banter_model_needs needs{};
  needs.struct_size = sizeof needs;
  EXPECT_EQ(banter_model_measure(&config, &needs), BANTER_OK) << banter_last_error_message();
  return needs.kv_bytes + needs.kv_bytes / 3;
}

banter_model* load(Host& host, const char* path, uint64_t kv_budget_bytes,
                   const std::function<void(banter_model_config&)>& change = nullptr) {
  banter_model_config config = config_of(path);
  config.kv_budget_bytes = kv_budget_bytes;
  if (change) change(config);
  banter_model* model = nullptr;
  banter_request_id request = 0;
  EXPECT_EQ(banter_model_load(host.engine, &config, &model, &request), BANTER_OK);
  EXPECT_EQ(host.finish(request, 300).kind, BANTER_EVENT_MODEL_READY) << host.outcomes[request].message;
  return model;
}

Ask ask_for(size_t who, int turn) {
  Ask ask(12);
  ask.sampling.temperature = turn == 0 ? 0.0f : 0.8f;
  ask.sampling.seed = who;
  return ask;
}

Replies talk(const char* path, bool at_once, int32_t step_tokens, uint64_t kv_budget_bytes) {
  Host host([&](banter_engine_config& c) {
    c.step_tokens = step_tokens;
    c.thread_count = 2;
  });
  banter_model* const model = load(host, path, kv_budget_bytes);
  std::vector<banter_request_id> requests;
  for (size_t who = 0; who < std::size(kLines); ++who) {
    banter_npc* const npc = host.npc(model, kLines[who].persona);
    for (int turn = 0; turn < 2; ++turn) {
      requests.push_back(say(npc, kLines[who].words[turn], ask_for(who, turn)));
      if (!at_once) host.finish(requests.back(), 300);
    }
  }
  Replies replies;
  for (const banter_request_id request : requests) {
    const Outcome outcome = host.finish(request, 300);
    EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    replies.push_back(outcome.tokens);
    std::printf("  %s\n", outcome.text.c_str());
  }
  return replies;
}

TEST(RealModel, CharactersAtOnceSayWhatTheySayAlone) {
  const char* const path = std::getenv("BANTER_MODEL");
  if (path == nullptr) GTEST_SKIP() << "BANTER_MODEL names no model file.";
  const Replies alone = talk(path, false, 256, 0);
  EXPECT_EQ(talk(path, true, 256, 0), alone);
  EXPECT_EQ(talk(path, true, 24, 0), alone) << "small steps";
  EXPECT_EQ(talk(path, true, 256, small_pool(path)), alone) << "a small pool";
}

// ---------------------------------------------------------------- the matrix: nothing but prompt and seed matters

constexpr const char* kSubjects[] = {"What is the news from the road?",
                                     "Tell me about the old mill.",
                                     "Who rules this land?",
                                     "你好，你是谁？",
                                     "How much for a room, and is there stew?",
                                     "I lost my ring by the river. Have you seen it?",
                                     "List three herbs.",
                                     "Why is the sky red tonight?",
                                     "Sing me a short song.",
                                     "What did the smith say about the dragon?",
                                     "Count to ten.",
                                     "Where can I buy a horse?",
                                     "请用中文介绍一下这个村子。",
                                     "Do you trust the mayor?",
                                     "Describe your house.",
                                     "What would you do with a hundred gold pieces?",
                                     "Are the wolves back?",
                                     "Give me advice for a long journey.",
                                     "What is 17 plus 25?",
                                     "Say goodbye to me as if we never meet again."};

enum class Pool { kAmple, kSmall, kTiny };

struct Setting {
  const char* name;
  size_t at_once = 9;  // requests that run together
  int32_t step_tokens = 256;
  int32_t threads = 2;
  Pool pool = Pool::kAmple;
  bool preempts = false;  // somebody must lose pages to another, or nothing is tested
  uint32_t flags = 0;
  banter_speculation speculation = BANTER_SPECULATION_NONE;
  int times = 1;  // the last time counts: what came before has filled the cache of prefixes
  uint64_t swap_bytes = 0;
  banter_kv_type kv_type = BANTER_KV_AUTO;
  bool slides = false;  // replies that go on past the end of a short context
};

const Setting kSettings[] = {
    {.name = "among 2 others", .at_once = 3},
    {.name = "among 8 others"},
    {.name = "among 31 others", .at_once = 32},
    {.name = "steps of 16", .step_tokens = 16},
    {.name = "steps of 64", .step_tokens = 64},
    {.name = "steps of 512", .at_once = 32, .step_tokens = 512},
    {.name = "one thread", .threads = 1},
    {.name = "no prefix sharing", .flags = BANTER_MODEL_NO_PREFIX_SHARING},
    {.name = "a hot cache of prefixes", .times = 2},
    {.name = "a small pool", .at_once = 32, .pool = Pool::kSmall, .preempts = true},
    {.name = "a small pool and swapping",
     .at_once = 32,
     .pool = Pool::kSmall,
     .preempts = true,
     .swap_bytes = uint64_t{1} << 28},
    {.name = "speculation", .speculation = BANTER_SPECULATION_NGRAM},
    {.name = "speculation with steps of 16 in a small pool",
     .at_once = 32,
     .step_tokens = 16,
     .pool = Pool::kSmall,
     .speculation = BANTER_SPECULATION_NGRAM},
    {.name = "int8 pages among 8 others", .kv_type = BANTER_KV_INT8},
    {.name = "int8 pages with steps of 16 in a small pool with swapping",
     .at_once = 32,
     .step_tokens = 16,
     .pool = Pool::kSmall,
     .swap_bytes = uint64_t{1} << 28,
     .kv_type = BANTER_KV_INT8},
    {.name = "sliding replies", .slides = true},
    {.name = "sliding replies with steps of 16 in a tiny pool",
     .at_once = 8,
     .step_tokens = 16,
     .pool = Pool::kTiny,
     .slides = true},
};

/** Longer than most of the steps below, so that they cut it; and it repeats names, so that guesses find something. */
std::string lore() {
  std::string text;
  for (int i = 0; i < 6; ++i)
    text +=
        "Ambermill lies between a dark forest and a slow river; Mira keeps the inn of Ambermill, Borin its smithy. "
        "In year " +
        std::to_string(i + 1) + " of the long winter the wolves came to Ambermill from the dark forest. ";
  return text;
}

banter_request_id ask_subject(Host& host, banter_model* model, const Setting& setting, size_t which, int32_t priority) {
  static const char* const kTrades[] = {"a cheerful innkeeper", "a gruff blacksmith", "a shy herbalist",
                                        "a proud guard"};
  const size_t who = which / 2;
  std::string persona = std::string("You are ") + kTrades[who % std::size(kTrades)] + " in the village of Ambermill.";
  if (!setting.slides) persona += " Answer in one or two short sentences. " + lore();
  Ask ask(setting.slides ? 140 : 24, setting.slides ? kGoOn : 0);
  ask.sampling.temperature = which % 2 == 0 ? 0.0f : 0.9f;
  ask.sampling.seed = which;
  ask.config.priority = priority;
  banter_npc* const npc = host.npc(model, persona.c_str(), [&](banter_npc_config& c) {
    if (!setting.slides) return;
    c.context_policy = BANTER_CONTEXT_SLIDE;
    c.context_tokens = 144;
    c.reply_reserve_tokens = 64;
  });
  return say(npc, kSubjects[who], ask);
}

uint64_t pool_bytes(const char* path, const Setting& setting) {
  if (setting.pool == Pool::kAmple) return 0;
  return small_pool(path, setting.kv_type) / (setting.pool == Pool::kTiny ? 4 : 1);
}

/** Every subject (few where replies are long) twice, greedy and sampled, in an order and in company that `seed` chooses. */
Replies run_setting(const char* path, const Setting& setting, uint64_t seed) {
  Host host([&](banter_engine_config& c) {
    c.step_tokens = setting.step_tokens;
    c.thread_count = setting.threads;
    c.swap_budget_bytes = setting.swap_bytes;
  });
  banter_model* const model = load(host, path, pool_bytes(path, setting), [&](banter_model_config& c) {
    c.flags = setting.flags;
    c.speculation = setting.speculation;
    c.kv_type = setting.kv_type;
  });
  const size_t count = setting.slides ? 8 : 2 * std::size(kSubjects);
  Replies replies(count);
  std::mt19937_64 random(seed);
  uint32_t slid = 0;
  for (int time = 0; time < setting.times; ++time) {
    std::vector<size_t> order(count);
    for (size_t i = 0; i < count; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::pair<size_t, banter_request_id>> running;
    for (size_t next = 0; next < count || !running.empty();) {
      while (next < count && running.size() < setting.at_once) {
        const auto priority = static_cast<int32_t>(random() % 8);
        running.emplace_back(order[next], ask_subject(host, model, setting, order[next], priority));
        ++next;
        if (random() % 2 == 0) host.pump_until([] { return true; });
      }
      const auto [which, request] = running.front();
      running.erase(running.begin());
      const Outcome outcome = host.finish(request, 600);
      EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
      replies[which] = outcome.tokens;
      slid += outcome.dropped_tokens > 0 ? 1 : 0;
    }
  }
  const banter_engine_statistics figures = host.statistics();
  if (setting.preempts) {
    EXPECT_GT(figures.preemptions, 0u);
  }
  EXPECT_EQ(figures.kv_pages_swapped > 0, setting.swap_bytes > 0);
  EXPECT_EQ(slid, setting.slides ? count : 0);
  std::printf("  %s: %llu preemptions, %llu of %llu pages swapped, %u replies slid\n", setting.name,
              static_cast<unsigned long long>(figures.preemptions),
              static_cast<unsigned long long>(figures.kv_pages_swapped),
              static_cast<unsigned long long>(figures.kv_pages_total), slid);
  return replies;
}

/** What is said alone, with pages of the same kind: computed once. */
const Replies& alone(const char* path, const Setting& setting) {
  static std::map<std::pair<banter_kv_type, bool>, Replies> known;
  const auto [at, is_new] = known.try_emplace({setting.kv_type, setting.slides});
  if (is_new) {
    const Setting one = {.name = "alone", .at_once = 1, .kv_type = setting.kv_type, .slides = setting.slides};
    at->second = run_setting(path, one, 1);
  }
  return at->second;
}

/** BANTER_CPU_ISA chooses the instruction set; run it once for each. */
class RealModelMatrix : public testing::TestWithParam<size_t> {};

TEST_P(RealModelMatrix, OnlyPromptAndSeedDecideWhatIsSaid) {
  const char* const path = std::getenv("BANTER_MODEL");
  if (path == nullptr) GTEST_SKIP() << "BANTER_MODEL names no model file.";
  const Setting& setting = kSettings[GetParam()];
  const Replies& expected = alone(path, setting);
  const Replies replies = run_setting(path, setting, 2 + GetParam());
  size_t same = 0;
  for (size_t i = 0; i < expected.size(); ++i) same += replies[i] == expected[i] ? 1 : 0;
  std::printf("  %s: %zu of %zu the same\n", setting.name, same, expected.size());
  EXPECT_EQ(same, expected.size());
}

INSTANTIATE_TEST_SUITE_P(Settings, RealModelMatrix, testing::Range(size_t{0}, std::size(kSettings)),
                         [](const testing::TestParamInfo<size_t>& info) {
                           std::string name = kSettings[info.param].name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace banter::test
