// The border: NULL and nonsense for every argument, structs of older and newer callers. The rest: library.test.cpp.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "banter/banter.h"
#include "banter/version.h"

namespace {

std::string message() {
  return banter_last_error_message();
}

/** An engine, a model that will never load, and a character: enough for every argument check. */
class Border : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(banter_engine_create(BANTER_API_VERSION, nullptr, &engine), BANTER_OK) << message();
    banter_model_config config;
    banter_model_config_init(&config, sizeof config);
    config.path = "/absent/model.gguf";
    config.path_len = BANTER_ZERO_TERMINATED;
    ASSERT_EQ(banter_model_load(engine, &config, &model, nullptr), BANTER_OK) << message();
    ASSERT_EQ(banter_npc_create(model, nullptr, &npc), BANTER_OK) << message();
  }
  void TearDown() override {
    banter_npc_destroy(npc);
    banter_model_release(model);
    banter_engine_destroy(engine);
  }
  void expect_invalid(banter_result code, const char* named, int line) {
    EXPECT_EQ(code, BANTER_ERROR_INVALID_ARGUMENT) << "line " << line;
    EXPECT_NE(message().find(named), std::string::npos) << "line " << line << ": " << message();
  }
  banter_engine* engine = nullptr;
  banter_model* model = nullptr;
  banter_npc* npc = nullptr;
  banter_request_id request = 0;
};
#define EXPECT_INVALID(call, named) expect_invalid(call, named, __LINE__)

TEST_F(Border, HandlesOfAnotherKindAreRefused) {
  uint32_t count = 0;
  banter_event event;
  EXPECT_INVALID(banter_poll(nullptr, &event, sizeof event, 1, &count), "NULL");
  EXPECT_INVALID(banter_poll(reinterpret_cast<banter_engine*>(model), &event, sizeof event, 1, &count), "engine");
  EXPECT_INVALID(banter_wait(nullptr, 0), "NULL");
  EXPECT_INVALID(banter_cancel(reinterpret_cast<banter_engine*>(npc), 1), "engine");
  EXPECT_INVALID(banter_npc_say(nullptr, "x", 1, nullptr, &request), "npc");
  EXPECT_INVALID(banter_npc_say(reinterpret_cast<banter_npc*>(engine), "x", 1, nullptr, &request), "npc");
  EXPECT_INVALID(banter_npc_add_turn(nullptr, BANTER_ROLE_USER, "x", 1), "npc");
  EXPECT_INVALID(banter_npc_reset(reinterpret_cast<banter_npc*>(model)), "npc");
  EXPECT_INVALID(banter_npc_create(reinterpret_cast<banter_model*>(engine), nullptr, &npc), "model");
  EXPECT_EQ(npc, nullptr);
  EXPECT_INVALID(banter_model_complete(nullptr, "x", 1, nullptr, &request), "model");
  EXPECT_INVALID(banter_engine_get_statistics(nullptr, nullptr), "engine");
  banter_model_release(nullptr);
  banter_npc_destroy(nullptr);
  banter_npc_destroy(reinterpret_cast<banter_npc*>(model));  // refused: nothing happens
  banter_model_release(reinterpret_cast<banter_model*>(engine));
  banter_engine_destroy(reinterpret_cast<banter_engine*>(model));
  EXPECT_INVALID(banter_poll(engine, &event, sizeof event, 1, nullptr), "out_count");
}

TEST_F(Border, PollChecksItsArray) {
  banter_event events[2];
  uint32_t count = 9;
  EXPECT_EQ(banter_poll(engine, nullptr, 0, 0, &count), BANTER_OK);
  EXPECT_EQ(count, 0u);
  EXPECT_INVALID(banter_poll(engine, nullptr, sizeof events[0], 2, &count), "events");
  EXPECT_INVALID(banter_poll(engine, events, offsetof(banter_event, bytes) - 1, 2, &count), "stride");
  EXPECT_INVALID(banter_poll(engine, events, 0, 2, &count), "stride");
  EXPECT_INVALID(banter_poll(engine, events, SIZE_MAX, 2, &count), "stride");
  // A newer caller's larger event: what we do not know is 0.
  struct Newer {
    banter_event event;
    uint64_t more[4];
  } newer[2];
  std::memset(newer, 0xCC, sizeof newer);
  ASSERT_EQ(banter_wait(engine, 20000), BANTER_OK);
  ASSERT_EQ(banter_poll(engine, &newer[0].event, sizeof newer[0], 1, &count), BANTER_OK);
  ASSERT_EQ(count, 1u);
  for (const uint64_t word : newer[0].more) EXPECT_EQ(word, 0u);
  EXPECT_EQ(newer[1].more[0], 0xCCCCCCCCCCCCCCCCu);
}

TEST_F(Border, TextIsChecked) {
  EXPECT_INVALID(banter_npc_say(npc, nullptr, 5, nullptr, &request), "NULL");
  EXPECT_INVALID(banter_npc_say(npc, "x", 1, nullptr, nullptr), "out_request");
  EXPECT_INVALID(banter_npc_say(npc, "x", SIZE_MAX / 2 + 1, nullptr, &request), "length");
  const char* const broken[] = {"\xFF",         "abc\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                "12345678\x80", "\xE4\xBD"};
  for (const char* text : broken) {
    EXPECT_INVALID(banter_npc_say(npc, text, BANTER_ZERO_TERMINATED, nullptr, &request), "UTF-8");
    EXPECT_INVALID(banter_npc_add_turn(npc, BANTER_ROLE_USER, text, std::strlen(text)), "UTF-8");
    EXPECT_INVALID(banter_model_complete(model, text, std::strlen(text), nullptr, &request), "UTF-8");
  }
  EXPECT_EQ(request, 0u);
  EXPECT_EQ(banter_npc_say(npc, "\xE4\xBD\xA0\xF0\x9F\x98\x80", BANTER_ZERO_TERMINATED, nullptr, &request), BANTER_OK);
  EXPECT_EQ(banter_npc_say(npc, nullptr, 0, nullptr, &request), BANTER_OK);
  EXPECT_INVALID(banter_npc_add_turn(npc, 3, "x", 1), "role");
  EXPECT_INVALID(banter_npc_add_turn(npc, -1, "x", 1), "role");
  EXPECT_INVALID(banter_model_complete_tokens(model, nullptr, 3, nullptr, &request), "tokens");
  const int32_t token = 1;
  EXPECT_INVALID(banter_model_complete_tokens(model, &token, 0, nullptr, &request), "tokens");
  EXPECT_INVALID(banter_model_complete_tokens(model, &token, SIZE_MAX, nullptr, &request), "tokens");
}

TEST_F(Border, RequestConfigsAreChecked) {
  struct Case {
    const char* named;
    std::function<void(banter_request_config&)> spoil;
  };
  static const char* const empty[] = {""};
  static const char* const null[] = {nullptr};
  static const char* const bad[] = {"\xFF"};
  static const std::string long_text(257, 'x');
  static const char* const too_long[] = {long_text.c_str()};
  const Case cases[] = {
      {"struct_size", [](auto& c) { c.struct_size = 3; }},
      {"flags", [](auto& c) { c.flags = BANTER_REQUEST_PARSE_SPECIAL; }},  // completions only
      {"flags", [](auto& c) { c.flags = 1u << 31; }},
      {"reserved0", [](auto& c) { c.reserved0 = 1; }},
      {"priority", [](auto& c) { c.priority = 8; }},
      {"priority", [](auto& c) { c.priority = -2; }},
      {"stop_strings", [](auto& c) { c.stop_string_count = 1; }},
      {"stop_strings", [](auto& c) { c.stop_string_count = 33; }},
      {"stop_strings[0]",
       [](auto& c) {
         c.stop_strings = empty;
         c.stop_string_count = 1;
       }},
      {"stop_strings[0]",
       [](auto& c) {
         c.stop_strings = null;
         c.stop_string_count = 1;
       }},
      {"stop_strings[0]",
       [](auto& c) {
         c.stop_strings = too_long;
         c.stop_string_count = 1;
       }},
      {"stop_strings[0]",
       [](auto& c) {
         c.stop_strings = bad;
         c.stop_string_count = 1;
       }},
      {"banned_strings", [](auto& c) { c.banned_string_count = 65; }},
      {"banned_strings[0]",
       [](auto& c) {
         c.banned_strings = empty;
         c.banned_string_count = 1;
       }},
      {"stop_tokens", [](auto& c) { c.stop_token_count = 1; }},
      {"stop_tokens", [](auto& c) { c.stop_token_count = 65; }},
  };
  for (const Case& c : cases) {
    banter_request_config config;
    banter_request_config_init(&config, sizeof config);
    c.spoil(config);
    EXPECT_INVALID(banter_npc_say(npc, "x", 1, &config, &request), c.named);
    EXPECT_EQ(request, 0u);
  }
}

TEST_F(Border, SamplingConfigsAreChecked) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  static const char* const breakers_with_null[] = {"\n", nullptr};
  static const char* const long_breaker[] = {"12345678901234567890123456789012345678901"};
  static const char* const broken_breaker[] = {"\xC3"};
  struct Case {
    const char* named;
    std::function<void(banter_sampling_config&)> spoil;
  };
  static const int32_t negative = -1, token = 5;
  static const float plus = kInf, nan = kNan, one = 1;
  const Case cases[] = {
      {"struct_size", [](auto& c) { c.struct_size = 1; }},
      {"flags", [](auto& c) { c.flags = 1; }},
      {"temperature", [=](auto& c) { c.temperature = kNan; }},
      {"temperature", [](auto& c) { c.temperature = -0.1f; }},
      {"temperature", [=](auto& c) { c.temperature = kInf; }},
      {"top_k", [](auto& c) { c.top_k = -1; }},
      {"top_p", [](auto& c) { c.top_p = 0; }},
      {"top_p", [](auto& c) { c.top_p = 1.01f; }},
      {"min_p", [](auto& c) { c.min_p = 1; }},
      {"typical_p", [](auto& c) { c.typical_p = 0; }},
      {"repetition_penalty", [](auto& c) { c.repetition_penalty = 0; }},
      {"presence_penalty", [](auto& c) { c.presence_penalty = 11; }},
      {"frequency_penalty", [](auto& c) { c.frequency_penalty = -11; }},
      {"penalty_last_tokens", [](auto& c) { c.penalty_last_tokens = -2; }},
      {"dry_multiplier", [](auto& c) { c.dry_multiplier = -1; }},
      {"dry_base", [](auto& c) { c.dry_base = 0.5f; }},
      {"dry_allowed_length", [](auto& c) { c.dry_allowed_length = 0; }},
      {"dry_breakers", [](auto& c) { c.dry_breaker_count = 1; }},
      {"dry_breakers", [](auto& c) { c.dry_breaker_count = 33; }},
      {"dry_breakers[1]",
       [](auto& c) {
         c.dry_breakers = breakers_with_null;
         c.dry_breaker_count = 2;
       }},
      {"dry_breakers[0]",
       [](auto& c) {
         c.dry_breakers = long_breaker;
         c.dry_breaker_count = 1;
       }},
      {"dry_breakers[0]",
       [](auto& c) {
         c.dry_breakers = broken_breaker;
         c.dry_breaker_count = 1;
       }},
      {"reserved0", [](auto& c) { c.reserved0 = 1; }},
      {"xtc_probability", [](auto& c) { c.xtc_probability = 2; }},
      {"xtc_threshold", [](auto& c) { c.xtc_threshold = -1; }},
      {"mirostat", [](auto& c) { c.mirostat = 1; }},
      {"mirostat_tau", [](auto& c) { c.mirostat_tau = 0; }},
      {"mirostat_eta", [=](auto& c) { c.mirostat_eta = kNan; }},
      {"logit_bias", [](auto& c) { c.logit_bias_count = 1; }},
      {"logit_bias",
       [](auto& c) {
         c.logit_bias_count = 1;
         c.logit_bias_tokens = &token;
         c.logit_bias_values = &plus;
       }},
      {"logit_bias",
       [](auto& c) {
         c.logit_bias_count = 1;
         c.logit_bias_tokens = &token;
         c.logit_bias_values = &nan;
       }},
      {"logit_bias",
       [](auto& c) {
         c.logit_bias_count = 1;
         c.logit_bias_tokens = &negative;
         c.logit_bias_values = &one;
       }},
  };
  for (const Case& c : cases) {
    banter_sampling_config sampling;
    banter_sampling_config_init(&sampling, sizeof sampling);
    c.spoil(sampling);
    banter_request_config config;
    banter_request_config_init(&config, sizeof config);
    config.sampling = &sampling;
    EXPECT_INVALID(banter_npc_say(npc, "x", 1, &config, &request), c.named);
    banter_npc_config npc_config;
    banter_npc_config_init(&npc_config, sizeof npc_config);
    npc_config.sampling = &sampling;
    banter_npc* none = npc;
    EXPECT_INVALID(banter_npc_create(model, &npc_config, &none), c.named);
    EXPECT_EQ(none, nullptr);
  }
}

TEST_F(Border, ModelAndNpcConfigsAreChecked) {
  static banter_io io;
  static const unsigned char byte = 0;
  struct Case {
    const char* named;
    std::function<void(banter_model_config&)> spoil;
  };
  const Case cases[] = {
      {"path",
       [](auto& c) {
         c.path = nullptr;
         c.path_len = 0;
       }},
      {"path", [](auto& c) { c.path_len = 0; }},
      {"path", [](auto& c) { c.path = "\xFF"; }},
      {"path",
       [](auto& c) {
         c.path = "a\0b";
         c.path_len = 3;
       }},
      {"memory",
       [](auto& c) {
         c.memory = &byte;
         c.memory_bytes = 1;
       }},  // both
      {"memory",
       [](auto& c) {
         c.path = nullptr;
         c.path_len = 0;
         c.memory = &byte;
       }},
      {"memory",
       [](auto& c) {
         c.path = nullptr;
         c.path_len = 0;
         c.memory_bytes = 10;
       }},
      {"banter_io",
       [](auto& c) {
         io = {};
         c.io = &io;
       }},
      {"banter_io",
       [](auto& c) {
         io = {};
         io.struct_size = sizeof io;
         c.io = &io;
       }},
      {"chat_template", [](auto& c) { c.chat_template_len = 4; }},
      {"context_tokens", [](auto& c) { c.context_tokens = 3; }},
      {"context_tokens", [](auto& c) { c.context_tokens = UINT32_MAX; }},
      {"flags", [](auto& c) { c.flags = 1u << 30; }},
      {"struct_size", [](auto& c) { c.struct_size = 7; }},
  };
  for (const Case& c : cases) {
    banter_model_config config;
    banter_model_config_init(&config, sizeof config);
    config.path = "/absent";
    config.path_len = BANTER_ZERO_TERMINATED;
    c.spoil(config);
    banter_model* none = model;
    request = 5;
    EXPECT_INVALID(banter_model_load(engine, &config, &none, &request), c.named);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(request, 0u);
  }
  EXPECT_INVALID(banter_model_load(engine, nullptr, &model, nullptr), "config");
  banter_npc_config config;
  banter_npc_config_init(&config, sizeof config);
  config.flags = 1;
  banter_npc* none = nullptr;
  ASSERT_EQ(banter_npc_create(nullptr, nullptr, &none), BANTER_ERROR_INVALID_ARGUMENT);
}

TEST_F(Border, NpcConfigsAreChecked) {
  banter_npc* none = npc;
  banter_npc_config config;
  banter_npc_config_init(&config, sizeof config);
  config.flags = 1;
  EXPECT_INVALID(banter_npc_create(model, &config, &none), "flags");
  banter_npc_config_init(&config, sizeof config);
  config.context_tokens = 5;
  EXPECT_INVALID(banter_npc_create(model, &config, &none), "context_tokens");
  banter_npc_config_init(&config, sizeof config);
  config.persona_len = 5;
  EXPECT_INVALID(banter_npc_create(model, &config, &none), "persona");
  banter_npc_config_init(&config, sizeof config);
  config.persona = "\xFE";
  config.persona_len = 1;
  EXPECT_INVALID(banter_npc_create(model, &config, &none), "persona");
  EXPECT_EQ(none, nullptr);
  EXPECT_INVALID(banter_npc_create(model, nullptr, nullptr), "out_npc");
}

TEST_F(Border, OutStructsKeepTheCallersSize) {
  struct {
    banter_engine_statistics figures;
    uint64_t behind;
  } older;
  std::memset(&older, 0xCC, sizeof older);
  older.figures.struct_size = 16;
  EXPECT_EQ(banter_engine_get_statistics(engine, &older.figures), BANTER_OK);
  EXPECT_EQ(older.figures.struct_size, 16u);
  EXPECT_EQ(older.figures.prefill_tokens, 0xCCCCCCCCCCCCCCCCu);
  older.figures.struct_size = sizeof older;
  EXPECT_EQ(banter_engine_get_statistics(engine, &older.figures), BANTER_OK);
  EXPECT_EQ(older.behind, 0xCCCCCCCCCCCCCCCCu);
  older.figures.struct_size = 0;
  EXPECT_INVALID(banter_engine_get_statistics(engine, &older.figures), "struct_size");
  EXPECT_INVALID(banter_engine_get_statistics(engine, nullptr), "out_statistics");
  EXPECT_INVALID(banter_model_get_info(model, nullptr), "out_info");
  banter_model_info info;
  info.struct_size = sizeof info;
  EXPECT_EQ(banter_model_get_info(model, &info), BANTER_ERROR_STATE);
}

TEST_F(Border, MeasuringAModelChecksWhatALoadChecks) {
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  banter_model_needs needs{};
  needs.struct_size = sizeof needs;
  EXPECT_INVALID(banter_model_measure(nullptr, &needs), "banter_model_config");
  EXPECT_INVALID(banter_model_measure(&config, nullptr), "out_needs");
  EXPECT_INVALID(banter_model_measure(&config, &needs), "path");
  config.path = "/absent/model.gguf";
  config.path_len = BANTER_ZERO_TERMINATED;
  config.context_tokens = 3;
  EXPECT_INVALID(banter_model_measure(&config, &needs), "context_tokens");
  config.context_tokens = 0;
  EXPECT_EQ(banter_model_measure(&config, &needs), BANTER_ERROR_FILE_NOT_FOUND);
  EXPECT_NE(message().find("/absent/model.gguf"), std::string::npos) << message();
  EXPECT_EQ(needs.file_bytes, 0u);
}

TEST(Validate, RefusedCallsAreLoggedWhereAsked) {
  banter_engine_config config;
  banter_engine_config_init(&config, sizeof config);
  std::vector<std::string> lines;
  config.flags = BANTER_ENGINE_VALIDATE;
  config.log_user_data = &lines;
  config.log = [](banter_log_level level, const char* line, void* user_data) {
    if (level >= BANTER_LOG_WARNING) static_cast<std::vector<std::string>*>(user_data)->push_back(line);
  };
  banter_engine* engine = nullptr;
  ASSERT_EQ(banter_engine_create(BANTER_API_VERSION, &config, &engine), BANTER_OK);
  EXPECT_EQ(banter_poll(engine, nullptr, 0, 3, nullptr), BANTER_ERROR_INVALID_ARGUMENT);
  uint32_t count = 0;
  EXPECT_EQ(banter_poll(engine, nullptr, 0, 3, &count), BANTER_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].rfind("banter_poll: ", 0), 0u) << lines[0];
  EXPECT_NE(lines[1].find("events"), std::string::npos) << lines[1];
  banter_engine_destroy(engine);
}

TEST(Configs, AreFilledToTheCallersSizeAndNoFurther) {
  // A caller compiled with an older header has a smaller struct, with something else behind it.
  struct {
    banter_request_config config;
    unsigned char behind[16];
  } memory;
  std::memset(&memory, 0xAB, sizeof memory);
  constexpr size_t kOlder = offsetof(banter_request_config, deadline_ms);
  banter_request_config_init(&memory.config, kOlder);
  EXPECT_EQ(memory.config.struct_size, kOlder);
  EXPECT_EQ(memory.config.priority, BANTER_PRIORITY_DEFAULT);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&memory);
  for (size_t i = kOlder; i < sizeof memory; ++i) ASSERT_EQ(bytes[i], 0xAB) << i;
  // A newer one has a larger struct: what is not known here is 0.
  std::memset(&memory, 0xAB, sizeof memory);
  banter_request_config_init(&memory.config, sizeof memory);
  EXPECT_EQ(memory.config.struct_size, sizeof memory);
  for (const unsigned char byte : memory.behind) EXPECT_EQ(byte, 0);
}

}  // namespace
