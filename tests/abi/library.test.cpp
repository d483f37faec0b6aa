// The library as a whole: names, versions, messages, the function table; and how an engine is created.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "banter/banter.h"
#include "banter/version.h"

extern "C" int banter_header_is_c(void);
int banter_wrapper_works();

namespace {

std::string message() {
  return banter_last_error_message();
}

TEST(Header, IsC) {
  EXPECT_EQ(banter_header_is_c(), 0);
}
TEST(Wrapper, Works) {
  EXPECT_EQ(banter_wrapper_works(), 0);
}

TEST(Library, VersionsAndNames) {
  EXPECT_EQ(banter_api_version(), BANTER_API_VERSION);
  EXPECT_STREQ(banter_version_string(), BANTER_VERSION_STRING);
  EXPECT_STREQ(banter_result_name(BANTER_OK), "BANTER_OK");
  EXPECT_STREQ(banter_result_name(BANTER_ERROR_BUSY), "BANTER_ERROR_BUSY");
  EXPECT_STREQ(banter_result_name(BANTER_ERROR_PROMPT_TOO_LONG), "BANTER_ERROR_PROMPT_TOO_LONG");
  for (const banter_result odd : {-1, 16, 255, 1 << 30, BANTER_DETAIL(BANTER_ERROR_IO, 77)}) {
    EXPECT_STREQ(banter_result_name(odd), "BANTER_ERROR_UNKNOWN");
  }
  // Every code of the header has its name, and the name is the code's.
  std::ifstream header(BANTER_RESULT_HEADER);
  std::set<std::string> names;
  for (std::string line; std::getline(header, line);) {
    const size_t start = line.find("BANTER_ERROR_");
    if (start != 2 || line.find('=') == std::string::npos) continue;
    names.insert(line.substr(start, line.find(' ', start) - start));
  }
  ASSERT_GT(names.size(), 20u);
  std::set<std::string> known;
  for (int code = 0; code < 4096; ++code) known.insert(banter_result_name(code));
  for (const std::string& name : names) EXPECT_EQ(known.count(name), 1u) << name;
}

TEST(Library, TheFunctionTableIsComplete) {
  const banter_api* const api = banter_get_api(BANTER_API_VERSION);
  ASSERT_NE(api, nullptr);
  EXPECT_EQ(api->struct_size, sizeof(banter_api));
  EXPECT_EQ(api->version, BANTER_API_VERSION);
  EXPECT_EQ(banter_get_api(BANTER_API_VERSION + 0x10000), nullptr);
  EXPECT_NE(banter_get_api(BANTER_API_VERSION + 1), nullptr);
  const auto* const entries = reinterpret_cast<void* const*>(&api->api_version);
  std::set<const void*> distinct;
  constexpr size_t kFunctions = (sizeof(banter_api) - offsetof(banter_api, api_version)) / sizeof(void*);
  for (size_t i = 0; i < kFunctions; ++i) {
    EXPECT_NE(entries[i], nullptr) << i;
    EXPECT_TRUE(distinct.insert(entries[i]).second) << i;
  }
  EXPECT_EQ(api->npc_say, banter_npc_say);
  EXPECT_EQ(api->npc_reset, banter_npc_reset);
  // As many as the header declares, banter_get_api() itself aside.
  std::ifstream header(BANTER_MAIN_HEADER);
  size_t declared = 0;
  for (std::string line; std::getline(header, line);) declared += line.rfind("BANTER_API ", 0) == 0;
  EXPECT_EQ(kFunctions, declared - 1);
}

TEST(Library, InitFunctionsTakeNullAndFillTheSize) {
  banter_engine_config_init(nullptr, sizeof(banter_engine_config));
  banter_model_config_init(nullptr, sizeof(banter_model_config));
  banter_npc_config_init(nullptr, sizeof(banter_npc_config));
  banter_sampling_config_init(nullptr, sizeof(banter_sampling_config));
  banter_request_config_init(nullptr, sizeof(banter_request_config));
  banter_save_config_init(nullptr, sizeof(banter_save_config));
  banter_load_config_init(nullptr, sizeof(banter_load_config));
  banter_sampling_config sampling;
  std::memset(&sampling, 0xAB, sizeof sampling);
  banter_sampling_config_init(&sampling, sizeof sampling);
  EXPECT_EQ(sampling.struct_size, sizeof sampling);
  EXPECT_FLOAT_EQ(sampling.temperature, 0.7f);
  EXPECT_EQ(sampling.penalty_last_tokens, 64);
  banter_request_config request;
  std::memset(&request, 0xAB, sizeof request);
  banter_request_config_init(&request, sizeof request);
  EXPECT_EQ(request.struct_size, sizeof request);
  EXPECT_EQ(request.priority, BANTER_PRIORITY_DEFAULT);
  EXPECT_EQ(request.flags, 0u);
}

TEST(Library, MessagesBelongToThreadsAndStay) {
  EXPECT_EQ(banter_cancel(nullptr, 1), BANTER_ERROR_INVALID_ARGUMENT);
  const std::string mine = message();
  EXPECT_FALSE(mine.empty());
  EXPECT_EQ(banter_api_version(), BANTER_API_VERSION);
  EXPECT_EQ(message(), mine);
}

TEST(EngineCreate, RefusesWhatItMust) {
  banter_engine* engine = nullptr;
  EXPECT_EQ(banter_engine_create(BANTER_API_VERSION, nullptr, nullptr), BANTER_ERROR_INVALID_ARGUMENT);
  engine = reinterpret_cast<banter_engine*>(&engine);
  EXPECT_EQ(banter_engine_create(BANTER_API_VERSION + 0x10000, nullptr, &engine), BANTER_ERROR_VERSION);
  EXPECT_EQ(engine, nullptr);
  struct Case {
    const char* named;
    std::function<void(banter_engine_config&)> spoil;
    banter_result code = BANTER_ERROR_INVALID_ARGUMENT;
  };
  const Case cases[] = {
      {"flags", [](auto& c) { c.flags = 1u << 30; }},
      {"backend", [](auto& c) { c.backend = 99; }, BANTER_ERROR_UNSUPPORTED},
      {"backend", [](auto& c) { c.backend = -1; }, BANTER_ERROR_UNSUPPORTED},
      {"thread_count", [](auto& c) { c.thread_count = -1; }},
      {"thread_count", [](auto& c) { c.thread_count = 100000; }},
      {"max_requests", [](auto& c) { c.max_requests = 65537; }},
      {"max_events", [](auto& c) { c.max_events = 15; }},
      {"max_events", [](auto& c) { c.max_events = UINT32_MAX; }},
      {"text_buffer_bytes", [](auto& c) { c.text_buffer_bytes = 1; }},
      {"text_buffer_bytes", [](auto& c) { c.text_buffer_bytes = UINT64_MAX; }},
      {"step_tokens", [](auto& c) { c.step_tokens = 4097; }},
      {"step_tokens", [](auto& c) { c.step_tokens = -5; }},
      {"stream_slowdown", [](auto& c) { c.stream_slowdown = 0.5f; }},
      {"stream_slowdown", [](auto& c) { c.stream_slowdown = 1001; }},
      {"stream_slowdown", [](auto& c) { c.stream_slowdown = -1; }},
      {"stream_slowdown", [](auto& c) { c.stream_slowdown = std::nanf(""); }},
      {"reserved1", [](auto& c) { c.reserved1 = 1; }},
      {"backend", [](auto& c) { c.backend = BANTER_BACKEND_CUDA + 1; }, BANTER_ERROR_UNSUPPORTED},
      {"cuda_device", [](auto& c) { c.cuda_device = -2; }},
      {"cuda_library_path", [](auto& c) { c.cuda_library_path = "\xFF"; }},
      {"alloc", [](auto& c) { c.alloc = [](size_t, size_t, void*) -> void* { return nullptr; }; }},
      {"free", [](auto& c) { c.free = [](void*, size_t, size_t, void*) {}; }},
      {"struct_size", [](auto& c) { c.struct_size = 0; }},
      {"struct_size", [](auto& c) { c.struct_size = UINT32_MAX; }},
  };
  for (const Case& c : cases) {
    banter_engine_config config;
    banter_engine_config_init(&config, sizeof config);
    c.spoil(config);
    EXPECT_EQ(banter_engine_create(BANTER_API_VERSION, &config, &engine), c.code) << c.named;
    EXPECT_EQ(engine, nullptr);
    EXPECT_NE(message().find(c.named), std::string::npos) << message();
  }
  banter_engine_destroy(nullptr);
}

TEST(EngineCreate, StructsOfOlderAndNewerCallers) {
  banter_engine* engine = nullptr;
  // Older: fields behind its size are not read.
  banter_engine_config config;
  banter_engine_config_init(&config, sizeof config);
  std::memset(reinterpret_cast<char*>(&config) + 24, 0xEE, sizeof config - 24);
  for (const uint32_t size : {8u, 16u, 24u}) {
    config.struct_size = size;
    EXPECT_EQ(banter_engine_create(BANTER_API_VERSION, &config, &engine), BANTER_OK) << size << message();
    banter_engine_destroy(engine);
  }
  // Newer: unknown fields must be 0.
  struct Newer {
    banter_engine_config config;
    unsigned char tail[40];
  } newer;
  std::memset(&newer, 0, sizeof newer);
  banter_engine_config_init(&newer.config, sizeof newer.config);
  newer.config.struct_size = sizeof newer;
  EXPECT_EQ(banter_engine_create(BANTER_API_VERSION, &newer.config, &engine), BANTER_OK);
  banter_engine_destroy(engine);
  newer.tail[39] = 1;
  EXPECT_EQ(banter_engine_create(BANTER_API_VERSION, &newer.config, &engine), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(message().find("does not know"), std::string::npos) << message();
}

}  // namespace
