// A game, for tests: an engine, a pump that records every event, and shorthands. Uses the C ABI only.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "banter/banter.h"
#include "engine/tiny_model.h"

namespace banter::test {

/** An event with everything that it borrows copied. */
struct Recorded {
  banter_event event{};
  std::string text;
  std::vector<int32_t> tokens;
  banter_request_statistics statistics{};
};

inline bool is_terminal(banter_event_kind kind) {
  return kind == BANTER_EVENT_MODEL_READY || kind == BANTER_EVENT_DONE || kind == BANTER_EVENT_CANCELLED ||
         kind == BANTER_EVENT_FAILED || kind == BANTER_EVENT_SNAPSHOT;
}

/** What became of one request. */
struct Outcome {
  banter_event_kind kind = 0;  // 0: no terminal event
  banter_result code = BANTER_OK;
  banter_finish_reason reason = BANTER_FINISH_NONE;
  std::string text, thought, message;
  std::vector<int32_t> tokens, prompt;
  banter_request_statistics statistics{};
  uint32_t dropped_turns = 0, dropped_tokens = 0;
  std::vector<std::byte> bytes;
  int terminals = 0;
};

/** Whether this process is to show the CUDA backend (tests/gpu): what an engine decides to compute on the processor then fails the
 *  test, since it would show nothing. */
inline bool card_is_expected() {
  const char* const library = std::getenv("BANTER_CUDA_LIBRARY");
  return library != nullptr && *library != '\0';
}

inline banter_model_info info_of(banter_model* model) {
  banter_model_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(banter_model_get_info(model, &info), BANTER_OK) << banter_last_error_message();
  return info;
}
inline bool is_on_card(banter_model* model) {
  return std::strncmp(info_of(model).backend, "cuda", 4) == 0;
}

class Host {
 public:
  explicit Host(const std::function<void(banter_engine_config&)>& change = nullptr) {
    banter_engine_config config;
    banter_engine_config_init(&config, sizeof config);
    config.thread_count = 1;
    config.flags = BANTER_ENGINE_NORMAL_PRIORITY;
    if (change) change(config);
    wants_card_ = card_is_expected() && config.backend == BANTER_BACKEND_AUTO;
    EXPECT_EQ(banter_engine_create(BANTER_API_VERSION, &config, &engine), BANTER_OK) << banter_last_error_message();
  }
  ~Host() { banter_engine_destroy(engine); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /** Loads from memory that must stay, without waiting. */
  banter_request_id start_load(const std::vector<std::byte>& bytes, banter_model** model,
                               const std::function<void(banter_model_config&)>& change = nullptr) {
    banter_model_config config;
    banter_model_config_init(&config, sizeof config);
    config.memory = bytes.data();
    config.memory_bytes = bytes.size();
    if (change) change(config);
    banter_request_id request = 0;
    EXPECT_EQ(banter_model_load(engine, &config, model, &request), BANTER_OK) << banter_last_error_message();
    return request;
  }
  banter_model* load(const std::vector<std::byte>& bytes,
                     const std::function<void(banter_model_config&)>& change = nullptr) {
    banter_model* model = nullptr;
    const Outcome outcome = finish(start_load(bytes, &model, change));
    EXPECT_EQ(outcome.kind, BANTER_EVENT_MODEL_READY) << outcome.message;
    EXPECT_TRUE(!wants_card_ || is_on_card(model)) << info_of(model).backend_reason;
    return model;
  }
  banter_npc* npc(banter_model* model, const char* persona = "You are Mira.",
                  const std::function<void(banter_npc_config&)>& change = nullptr) {
    banter_npc_config config;
    banter_npc_config_init(&config, sizeof config);
    config.persona = persona;
    config.persona_len = BANTER_ZERO_TERMINATED;
    if (change) change(config);
    banter_npc* npc = nullptr;
    EXPECT_EQ(banter_npc_create(model, &config, &npc), BANTER_OK) << banter_last_error_message();
    return npc;
  }

  /** Polls until nothing waits; returns the number of events. */
  size_t pump() {
    size_t taken = 0;
    banter_event events[32];
    uint32_t count = 0;
    do {
      EXPECT_EQ(banter_poll(engine, events, sizeof events[0], 32, &count), BANTER_OK);
      for (uint32_t i = 0; i < count; ++i) record(events[i]);
      taken += count;
    } while (count > 0);
    return taken;
  }
  /** Pumps until the request has ended, at most `seconds`. */
  Outcome finish(banter_request_id request, double seconds = 60) {
    pump_until([&] { return outcomes[request].kind != 0; }, seconds);
    EXPECT_NE(outcomes[request].kind, 0) << "request did not end";
    return outcomes[request];
  }
  bool pump_until(const std::function<bool()>& done, double seconds = 60) {
    if (card_is_expected()) seconds *= 20;  // it may be the emulated one
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      pump();
      if (done()) return true;
      if (std::chrono::steady_clock::now() > end) return false;
      banter_wait(engine, 20);
    }
  }
  banter_engine_statistics statistics() {
    banter_engine_statistics figures{};
    figures.struct_size = sizeof figures;
    EXPECT_EQ(banter_engine_get_statistics(engine, &figures), BANTER_OK);
    return figures;
  }

  banter_engine* engine = nullptr;
  std::vector<Recorded> events;
  std::map<banter_request_id, Outcome> outcomes;
  bool keep_events = true;

 private:
  bool wants_card_ = false;
  void record(const banter_event& e) {
    Outcome& outcome = outcomes[e.request];
    if (e.kind == BANTER_EVENT_TEXT) outcome.text.append(e.text, e.text_len);
    if (e.kind == BANTER_EVENT_THOUGHT) outcome.thought.append(e.text, e.text_len);
    if (e.kind == BANTER_EVENT_PROMPT) {
      outcome.prompt.assign(e.tokens, e.tokens + e.token_count);
    } else if (e.token_count > 0) {
      outcome.tokens.insert(outcome.tokens.end(), e.tokens, e.tokens + e.token_count);
    }
    if (e.kind == BANTER_EVENT_CONTEXT_TRIMMED) {
      outcome.dropped_turns += e.dropped_turns;
      outcome.dropped_tokens += e.dropped_tokens;
    }
    EXPECT_NE(e.text, nullptr);
    EXPECT_EQ(e.text[e.text_len], '\0');
    if (is_terminal(e.kind)) {
      ++outcome.terminals;
      outcome.kind = e.kind;
      outcome.code = e.code;
      outcome.reason = e.finish_reason;
      outcome.message.assign(e.text, e.text_len);
      if (e.statistics != nullptr) outcome.statistics = *e.statistics;
      EXPECT_EQ(e.bytes != nullptr, e.kind == BANTER_EVENT_SNAPSHOT);
      const auto* const bytes = static_cast<const std::byte*>(e.bytes);
      if (bytes != nullptr) outcome.bytes.assign(bytes, bytes + e.byte_count);
    }
    if (!keep_events) return;
    Recorded copy;
    copy.event = e;
    copy.text.assign(e.text, e.text_len);
    if (e.token_count > 0) copy.tokens.assign(e.tokens, e.tokens + e.token_count);
    if (e.statistics != nullptr) copy.statistics = *e.statistics;
    events.push_back(std::move(copy));
  }
};

/** Options of a request, with everything it points to. Greedy unless told otherwise. */
struct Ask {
  banter_request_config config{};
  banter_sampling_config sampling{};
  std::vector<const char*> stops, bans;
  std::vector<int32_t> stop_tokens;
  std::vector<int32_t> bias_tokens;
  std::vector<float> bias_values;

  /** Makes the token win (or, with a negative value, lose). */
  Ask& bias(int32_t token, float value) {
    bias_tokens.push_back(token);
    bias_values.push_back(value);
    return *this;
  }
  explicit Ask(uint32_t max_tokens = 16, uint32_t flags = 0) {
    banter_request_config_init(&config, sizeof config);
    banter_sampling_config_init(&sampling, sizeof sampling);
    sampling.temperature = 0;
    config.max_tokens = max_tokens;
    config.flags = flags;
  }
  const banter_request_config* get() {
    if (!bias_tokens.empty()) {
      sampling.logit_bias_count = static_cast<uint32_t>(bias_tokens.size());
      sampling.logit_bias_tokens = bias_tokens.data();
      sampling.logit_bias_values = bias_values.data();
    }
    config.sampling = &sampling;
    config.stop_strings = stops.data();
    config.stop_string_count = static_cast<uint32_t>(stops.size());
    config.banned_strings = bans.data();
    config.banned_string_count = static_cast<uint32_t>(bans.size());
    config.stop_tokens = stop_tokens.data();
    config.stop_token_count = static_cast<uint32_t>(stop_tokens.size());
    return &config;
  }
};

inline banter_request_id say(banter_npc* npc, const std::string& text, Ask ask = Ask()) {
  banter_request_id request = 0;
  EXPECT_EQ(banter_npc_say(npc, text.data(), text.size(), ask.get(), &request), BANTER_OK)
      << banter_last_error_message();
  return request;
}
inline banter_request_id save(banter_npc* npc, uint32_t flags = 0) {
  banter_save_config config;
  banter_save_config_init(&config, sizeof config);
  config.flags = flags;
  banter_request_id request = 0;
  EXPECT_EQ(banter_npc_save(npc, &config, &request), BANTER_OK) << banter_last_error_message();
  return request;
}
inline banter_request_id load(banter_npc* npc, const std::vector<std::byte>& bytes, uint32_t flags = 0) {
  banter_load_config config;
  banter_load_config_init(&config, sizeof config);
  config.flags = flags;
  banter_request_id request = 0;
  EXPECT_EQ(banter_npc_load(npc, bytes.data(), bytes.size(), &config, &request), BANTER_OK)
      << banter_last_error_message();
  return request;
}
inline banter_request_id complete(banter_model* model, const std::string& text, Ask ask = Ask()) {
  banter_request_id request = 0;
  EXPECT_EQ(banter_model_complete(model, text.data(), text.size(), ask.get(), &request), BANTER_OK)
      << banter_last_error_message();
  return request;
}

/** A card's pages are never float32. */
inline bool is_served(banter_kv_type type) {
  return type != BANTER_KV_F32 || !card_is_expected();
}
/** Bytes that a token of a model takes where no format is asked for: its backend decides. */
inline uint64_t bytes_per_token(const std::vector<std::byte>& file) {
  Host host;
  return info_of(host.load(file)).kv_bytes_per_token;
}
inline uint64_t tiny_bytes_per_token() {
  static const uint64_t bytes = bytes_per_token(tiny_model());
  return bytes;
}

inline constexpr uint32_t kGoOn = BANTER_REQUEST_IGNORE_END;

}  // namespace banter::test
