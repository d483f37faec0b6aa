// The engine on a real model (BANTER_MODEL): characters at once say what they say alone, whatever the chunks and the pool.
#include <gtest/gtest.h>

#include <cstdlib>

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

constexpr uint64_t kSmallPool = 8 << 20;

using Replies = std::vector<std::vector<int32_t>>;

banter_model* load(Host& host, const char* path, uint64_t kv_budget_bytes) {
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.path = path;
  config.path_len = BANTER_ZERO_TERMINATED;
  config.context_tokens = 512;
  config.kv_budget_bytes = kv_budget_bytes;
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
  // Room for little more than one conversation: they wait for each other, and lose their pages in between.
  EXPECT_EQ(talk(path, true, 256, kSmallPool), alone) << "a small pool";
}

}  // namespace
}  // namespace banter::test
