// Conversations kept in every KV format, through the C ABI: replies that depend on nobody else, also beyond windows, after
// preemption and after a reply was cut.
#include <gtest/gtest.h>

#include <string>

#include "engine/test_host.h"

namespace banter::test {
namespace {

struct Named {
  const char* name;
  banter_kv_type type;
};
constexpr Named kTypes[] = {{"f16", BANTER_KV_F16},
                            {"bf16", BANTER_KV_BF16},
                            {"f32", BANTER_KV_F32},
                            {"int8", BANTER_KV_INT8},
                            {"int4", BANTER_KV_INT4}};

using Replies = std::vector<std::vector<int32_t>>;

constexpr int kCast = 3;
std::string persona(int i) {
  return "You are number " + std::to_string(i) + std::string(static_cast<size_t>(150 + 40 * i), '.');
}
Ask sampled(int i) {
  Ask ask(60, kGoOn);
  ask.sampling.temperature = 0.9f;
  ask.sampling.seed = static_cast<uint64_t>(i) + 7;
  ask.config.priority = i;
  return ask;
}

/** Three turns of everyone, some 500 tokens each; one by one or all at once. */
Replies talk(Host& host, banter_model* model, bool together) {
  std::vector<banter_request_id> requests;
  Replies replies;
  for (int i = 0; i < kCast; ++i) {
    banter_npc* const npc = host.npc(model, persona(i).c_str());
    for (int turn = 0; turn < 3; ++turn) {
      requests.push_back(say(npc, "Question " + std::to_string(turn), sampled(i)));
      if (!together) host.finish(requests.back());
    }
  }
  for (const banter_request_id request : requests) {
    const Outcome outcome = host.finish(request);
    EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    replies.push_back(outcome.tokens);
  }
  return replies;
}

TEST(KvTypes, RepliesAreThoseOfSoloRuns) {
  for (const uint32_t window : {0u, 350u}) {
    TinyModelOptions options;
    options.window = window;
    const auto bytes = tiny_model(options);
    for (const Named& kv : kTypes) {
      if (!is_served(kv.type)) continue;
      const auto choose = [&](banter_model_config& c) { c.kv_type = kv.type; };
      Replies expected;
      uint64_t page_bytes = 0;
      {
        Host host;
        banter_model* const model = host.load(bytes, choose);
        ASSERT_NE(model, nullptr);
        expected = talk(host, model, false);
        const banter_model_info info = info_of(model);
        EXPECT_STREQ(info.kv_type, kv.name);
        page_bytes = info.kv_pool_bytes;
      }
      {
        Host host([](banter_engine_config& c) { c.thread_count = 2; });
        EXPECT_EQ(talk(host, host.load(bytes, choose), true), expected) << kv.name << " window " << window;
      }
      {
        // A fifth of the default pool of eight full conversations: they preempt each other.
        Host host([](banter_engine_config& c) { c.step_tokens = 19; });
        banter_model* const model = host.load(bytes, [&](banter_model_config& c) {
          c.kv_type = kv.type;
          c.kv_budget_bytes = page_bytes / 5;
        });
        EXPECT_EQ(talk(host, model, true), expected) << kv.name << " window " << window << " in a small pool";
      }
    }
  }
}

TEST(KvTypes, MeasuringTellsWhatALoadTakes) {
  const auto bytes = tiny_model();
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.memory = bytes.data();
  config.memory_bytes = bytes.size();
  for (const Named& kv : kTypes) {
    if (!is_served(kv.type)) continue;
    banter_model_needs needs{};
    needs.struct_size = sizeof needs;
    config.kv_type = kv.type;
    ASSERT_EQ(banter_model_measure(&config, &needs), BANTER_OK) << banter_last_error_message();
    Host host;
    const banter_model_info info = info_of(host.load(bytes, [&](auto& c) { c.kv_type = kv.type; }));
    EXPECT_EQ(needs.kv_type, kv.type);
    EXPECT_EQ(needs.kv_bytes_per_token, info.kv_bytes_per_token) << kv.name;
    EXPECT_EQ(needs.context_tokens, info.context_tokens);
    EXPECT_EQ(needs.file_bytes, bytes.size());
    EXPECT_LT(needs.weight_bytes, needs.file_bytes);
    EXPECT_GT(needs.parameters, 0u);
    EXPECT_GT(needs.step_buffer_bytes, 0u);
    // A pool of so many bytes holds one whole conversation, and one of a tenth less does not.
    const auto context_with = [&](uint64_t budget) {
      Host small;
      banter_model_info about{};
      about.struct_size = sizeof about;
      banter_model* const model = small.load(bytes, [&](auto& c) {
        c.kv_type = kv.type;
        c.kv_budget_bytes = budget;
      });
      EXPECT_EQ(banter_model_get_info(model, &about), BANTER_OK);
      return about.context_tokens;
    };
    // The pool is made of slabs of about a thirty-second, and takes no more than its budget.
    EXPECT_EQ(context_with(needs.kv_bytes + needs.kv_bytes / 16), needs.context_tokens) << kv.name;
    EXPECT_LT(context_with(needs.kv_bytes - needs.kv_bytes / 10), needs.context_tokens) << kv.name;
    // Half the context, half the bytes, as far as nothing is kept twice.
    const uint64_t whole = needs.kv_bytes;
    config.context_tokens = needs.context_tokens / 2;
    ASSERT_EQ(banter_model_measure(&config, &needs), BANTER_OK);
    EXPECT_EQ(needs.context_tokens, config.context_tokens);
    EXPECT_LT(needs.kv_bytes, whole);
    config.context_tokens = 1 << 20;
    EXPECT_EQ(banter_model_measure(&config, &needs), BANTER_ERROR_INVALID_ARGUMENT);
    config.context_tokens = 0;
  }
}

TEST(KvTypes, MeasuringRefusesWhatALoadWouldRefuse) {
  const auto bytes = tiny_model();
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.memory = bytes.data();
  banter_model_needs needs{};
  needs.struct_size = sizeof needs;
  for (const size_t size : {size_t{3}, size_t{40}, bytes.size() / 2}) {
    config.memory_bytes = size;
    const banter_result code = banter_model_measure(&config, &needs);
    EXPECT_TRUE(code == BANTER_ERROR_NOT_A_MODEL || code == BANTER_ERROR_FILE_TRUNCATED) << size << ": " << code;
    EXPECT_EQ(needs.weight_bytes, 0u);
  }
}

TEST(KvTypes, ACutReplyGoesOnAsIfItHadNotBeen) {
  const auto bytes = tiny_model();
  for (const Named& kv : kTypes) {
    if (!is_served(kv.type)) continue;
    Host host;
    banter_model* const model = host.load(bytes, [&](banter_model_config& c) { c.kv_type = kv.type; });
    banter_npc* const npc = host.npc(model, persona(0).c_str());
    const Outcome whole = host.finish(say(npc, "Tell me.", Ask(80, kGoOn)));
    ASSERT_GE(whole.text.size(), 60u);
    // The same reply, stopped at letters from its middle; tokens behind the stop were computed and are taken back.
    banter_npc* const cut = host.npc(model, persona(0).c_str());
    const auto is_letter = [&](size_t i) { return whole.text[i] > ' ' && whole.text[i] < 127; };
    size_t at = 20;
    while (at + 2 < whole.text.size() && !(is_letter(at) && is_letter(at + 1))) ++at;
    ASSERT_LT(at + 2, whole.text.size());
    const std::string stop = whole.text.substr(at, 2);
    Ask ask(80, kGoOn);
    ask.stops = {stop.c_str()};
    const Outcome stopped = host.finish(say(cut, "Tell me.", ask));
    ASSERT_EQ(stopped.reason, BANTER_FINISH_STOP_STRING) << kv.name;
    EXPECT_EQ(whole.text.find(stopped.text), 0u) << kv.name;
    const Outcome next = host.finish(say(cut, "And then?", Ask(30, kGoOn)));
    // A character that is told the same conversation computes everything anew.
    banter_npc* const told = host.npc(model, persona(0).c_str());
    ASSERT_EQ(banter_npc_add_turn(told, BANTER_ROLE_USER, "Tell me.", BANTER_ZERO_TERMINATED), BANTER_OK);
    ASSERT_EQ(banter_npc_add_turn(told, BANTER_ROLE_ASSISTANT, stopped.text.c_str(), stopped.text.size()), BANTER_OK);
    const Outcome fresh = host.finish(say(told, "And then?", Ask(30, kGoOn)));
    EXPECT_EQ(next.tokens, fresh.tokens) << kv.name;
  }
}

TEST(KvTypes, QuantisedConversationsTakeLessMemory) {
  TinyModelOptions options;
  options.embedding = 128;
  const auto bytes = tiny_model(options);
  Host host;
  const auto per_token = [&](banter_kv_type type) {
    banter_model* const model = host.load(bytes, [&](banter_model_config& c) { c.kv_type = type; });
    return info_of(model).kv_bytes_per_token;
  };
  // 2 layers, K and V of 4 heads of 16 dimensions; heads so small fill half a group of int8.
  EXPECT_EQ(per_token(BANTER_KV_F16), 2u * 2 * 4 * 32);
  EXPECT_EQ(per_token(BANTER_KV_BF16), 2u * 2 * 4 * 32);
  if (is_served(BANTER_KV_F32)) {
    EXPECT_EQ(per_token(BANTER_KV_F32), 2u * 2 * 4 * 64);
  }
  EXPECT_EQ(per_token(BANTER_KV_INT8), 2u * 2 * 4 * 18);
  EXPECT_EQ(per_token(BANTER_KV_INT4), 2u * 2 * 4 * 10);
  EXPECT_EQ(per_token(BANTER_KV_AUTO), 2u * 2 * 4 * (is_served(BANTER_KV_F32) ? 64 : 32));  // all weights are F32
}

TEST(KvTypes, UnknownTypesAreRefused) {
  const auto bytes = tiny_model();
  Host host;
  for (const banter_kv_type type : {-1, 6, 1000}) {
    banter_model_config config;
    banter_model_config_init(&config, sizeof config);
    config.memory = bytes.data();
    config.memory_bytes = bytes.size();
    config.kv_type = type;
    banter_model* model = nullptr;
    banter_request_id request = 0;
    EXPECT_EQ(banter_model_load(host.engine, &config, &model, &request), BANTER_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(banter_last_error_message()).find("kv_type"), std::string::npos);
  }
}

/** Biases that stay where they are can be taken off the keys; biases that turn away from their mean cannot. */
TEST(KvTypes, Int4WarnsOfModelsThatItHarms) {
  struct Case {
    float bias, rope_base;
    banter_kv_type type;
    bool warns;
  };
  const Case cases[] = {{0, 1e4f, BANTER_KV_INT4, false},  {300, 1e8f, BANTER_KV_INT4, false},
                        {100, 1e4f, BANTER_KV_INT4, true}, {100, 1e4f, BANTER_KV_INT8, false},
                        {100, 1e4f, BANTER_KV_F16, false}, {5, 1e4f, BANTER_KV_INT4, false}};
  for (const Case& c : cases) {
    std::string log;
    Host host([&](banter_engine_config& config) {
      config.log = [](banter_log_level level, const char* message, void* to) {
        if (level >= BANTER_LOG_WARNING) *static_cast<std::string*>(to) += message;
      };
      config.log_user_data = &log;
    });
    const auto bytes = tiny_model({.rope_base = c.rope_base, .key_bias = c.bias});
    banter_model* const model = host.load(bytes, [&](banter_model_config& config) { config.kv_type = c.type; });
    const banter_model_info info = info_of(model);
    EXPECT_EQ(std::string(info.warning), log);
    EXPECT_EQ(log.find("INT4 KV pages harm this model") != std::string::npos, c.warns) << c.bias << " " << log;
    EXPECT_EQ(host.finish(say(host.npc(model), "Hello", Ask(4, kGoOn))).kind, BANTER_EVENT_DONE);
  }
}

}  // namespace
}  // namespace banter::test
