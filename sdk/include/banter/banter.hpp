/** @file banter.hpp
 *  A thin C++17 wrapper over the C ABI: handles with owners, strings as views, events in a range-for or a visitor.
 *
 *      banter::Engine engine;
 *      if (engine.create() != BANTER_OK) return report(banter_last_error_message());
 *      banter::Model model;
 *      model.load(engine, "mira.gguf");
 *      banter::Npc mira;
 *      mira.create(model, "You are Mira, the innkeeper.");
 *      banter_request_id reply = 0;
 *      mira.say("Good evening!", reply);
 *      each frame:  for (const banter_event& event : engine.poll(events)) …
 *
 *  Nothing here throws or allocates (but what the C calls allocate), and nothing is compiled into the library: it may be
 *  used with any compiler. Every function returns the C call's result; thread safety is that of the C call. Objects must
 *  go in the order npc, model, engine, as members and locals declared in the order engine, model, npc do. */
#ifndef BANTER_HPP
#define BANTER_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "banter/banter.h"

namespace banter {

/** Owns a C handle. Move-only. */
template <class Handle, void(BANTER_CALL* Destroy)(Handle*)>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle* handle) noexcept : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    if (this != &other) reset(std::exchange(other.handle_, nullptr));
    return *this;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { reset(); }

  /** The C handle, borrowed. */
  Handle* get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  /** Destroys what is owned and owns `handle` instead. */
  void reset(Handle* handle = nullptr) noexcept {
    Handle* const old = std::exchange(handle_, handle);
    if (old != nullptr) Destroy(old);
  }
  /** Gives ownership away. */
  Handle* release() noexcept { return std::exchange(handle_, nullptr); }

 private:
  Handle* handle_ = nullptr;
};

/** Events of one poll, in the caller's array. Borrowed as banter_poll() says. */
class Events {
 public:
  Events(const banter_event* events, uint32_t count, banter_result code) noexcept
      : events_(events), count_(count), code_(code) {}
  const banter_event* begin() const noexcept { return events_; }
  const banter_event* end() const noexcept { return events_ + count_; }
  uint32_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  /** What banter_poll() returned. */
  banter_result code() const noexcept { return code_; }

 private:
  const banter_event* events_;
  uint32_t count_;
  banter_result code_;
};

/** The text of an event. Borrowed as the event is. */
inline std::string_view text_of(const banter_event& event) noexcept {
  return {event.text, event.text_len};
}
/** True for the event that ends its request. */
inline bool is_terminal(const banter_event& event) noexcept {
  return event.kind == BANTER_EVENT_MODEL_READY || event.kind == BANTER_EVENT_DONE ||
         event.kind == BANTER_EVENT_CANCELLED || event.kind == BANTER_EVENT_FAILED ||
         event.kind == BANTER_EVENT_SNAPSHOT;
}

/** Configuration structs, filled with defaults. */
inline banter_engine_config engine_config() noexcept {
  banter_engine_config config;
  banter_engine_config_init(&config, sizeof config);
  return config;
}
inline banter_model_config model_config() noexcept {
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  return config;
}
inline banter_npc_config npc_config() noexcept {
  banter_npc_config config;
  banter_npc_config_init(&config, sizeof config);
  return config;
}
inline banter_request_config request_config() noexcept {
  banter_request_config config;
  banter_request_config_init(&config, sizeof config);
  return config;
}
inline banter_sampling_config sampling_config() noexcept {
  banter_sampling_config config;
  banter_sampling_config_init(&config, sizeof config);
  return config;
}
inline banter_save_config save_config() noexcept {
  banter_save_config config;
  banter_save_config_init(&config, sizeof config);
  return config;
}
inline banter_load_config load_config() noexcept {
  banter_load_config config;
  banter_load_config_init(&config, sizeof config);
  return config;
}

/** See banter_engine. */
class Engine : public Owner<banter_engine, banter_engine_destroy> {
 public:
  using Owner::Owner;

  banter_result create(const banter_engine_config* config = nullptr) noexcept {
    banter_engine* engine = nullptr;
    const banter_result code = banter_engine_create(BANTER_API_VERSION, config, &engine);
    if (code == BANTER_OK) reset(engine);
    return code;
  }
  /** Polls into `events`, an array of the caller. */
  template <size_t N>
  Events poll(banter_event (&events)[N]) noexcept {
    return poll(events, static_cast<uint32_t>(N));
  }
  Events poll(banter_event* events, uint32_t capacity) noexcept {
    uint32_t count = 0;
    const banter_result code = banter_poll(get(), events, sizeof(banter_event), capacity, &count);
    return {events, count, code};
  }
  /** Polls and calls `visit(const banter_event&)` for each event, `batch` at a time, until none waits. */
  template <class Visitor>
  banter_result dispatch(Visitor&& visit) noexcept(noexcept(visit(std::declval<const banter_event&>()))) {
    constexpr uint32_t kBatch = 32;
    banter_event events[kBatch];
    for (;;) {
      const Events polled = poll(events, kBatch);
      if (polled.code() != BANTER_OK) return polled.code();
      for (const banter_event& event : polled) visit(event);
      if (polled.size() < kBatch) return BANTER_OK;
    }
  }
  banter_result wait(uint32_t timeout_ms) noexcept { return banter_wait(get(), timeout_ms); }
  banter_result cancel(banter_request_id request) noexcept { return banter_cancel(get(), request); }
  banter_engine_statistics statistics() const noexcept {
    banter_engine_statistics figures = {};
    figures.struct_size = sizeof figures;
    (void)banter_engine_get_statistics(get(), &figures);
    return figures;
  }
  /** The figures as one line of JSON in the caller's memory; empty where it does not fit (4096 bytes do). */
  template <size_t N>
  std::string_view metrics_json(char (&buffer)[N]) const noexcept {
    size_t length = 0;
    const banter_result code = banter_engine_get_metrics_json(get(), buffer, N, &length);
    return code == BANTER_OK && length < N ? std::string_view(buffer, length) : std::string_view();
  }
  /** See the functions of the same names. */
  banter_result set_frame_budget(float milliseconds) noexcept {
    return banter_engine_set_frame_budget(get(), milliseconds);
  }
  banter_result begin_frame() noexcept { return banter_engine_begin_frame(get()); }
  banter_result set_cpu_share(float share) noexcept { return banter_engine_set_cpu_share(get(), share); }
  banter_result set_paused(bool paused) noexcept { return banter_engine_set_paused(get(), paused ? 1 : 0); }
  banter_result set_budget(uint64_t bytes) noexcept { return banter_engine_set_budget(get(), bytes); }
  banter_result trace_start(uint32_t max_events = 0) noexcept { return banter_engine_trace_start(get(), max_events); }
  banter_result trace_stop(banter_write_fn write, void* user_data) noexcept {
    return banter_engine_trace_stop(get(), write, user_data);
  }
};

/** See banter_model. */
class Model : public Owner<banter_model, banter_model_release> {
 public:
  using Owner::Owner;

  banter_result load(Engine& engine, const banter_model_config& config,
                     banter_request_id* out_request = nullptr) noexcept {
    banter_model* model = nullptr;
    const banter_result code = banter_model_load(engine.get(), &config, &model, out_request);
    if (code == BANTER_OK) reset(model);
    return code;
  }
  banter_result load(Engine& engine, std::string_view path, banter_request_id* out_request = nullptr) noexcept {
    banter_model_config config = model_config();
    config.path = path.data();
    config.path_len = path.size();
    return load(engine, config, out_request);
  }
  banter_result info(banter_model_info& out) const noexcept {
    out.struct_size = sizeof out;
    return banter_model_get_info(get(), &out);
  }
  static banter_result measure(const banter_model_config& config, banter_model_needs& out) noexcept {
    out.struct_size = sizeof out;
    return banter_model_measure(&config, &out);
  }
  banter_result complete(std::string_view text, banter_request_id& out_request,
                         const banter_request_config* config = nullptr) noexcept {
    return banter_model_complete(get(), text.data(), text.size(), config, &out_request);
  }
  banter_result complete(const int32_t* tokens, size_t count, banter_request_id& out_request,
                         const banter_request_config* config = nullptr) noexcept {
    return banter_model_complete_tokens(get(), tokens, count, config, &out_request);
  }
};

/** See banter_npc. */
class Npc : public Owner<banter_npc, banter_npc_destroy> {
 public:
  using Owner::Owner;

  banter_result create(Model& model, const banter_npc_config& config) noexcept {
    banter_npc* npc = nullptr;
    const banter_result code = banter_npc_create(model.get(), &config, &npc);
    if (code == BANTER_OK) reset(npc);
    return code;
  }
  banter_result create(Model& model, std::string_view persona = {}) noexcept {
    banter_npc_config config = npc_config();
    config.persona = persona.data();
    config.persona_len = persona.size();
    return create(model, config);
  }
  /** From a profile that flatc has made. */
  banter_result create_from_profile(Model& model, const void* profile, size_t size,
                                    void* user_data = nullptr) noexcept {
    banter_npc* npc = nullptr;
    const banter_result code = banter_npc_create_from_profile(model.get(), profile, size, user_data, &npc);
    if (code == BANTER_OK) reset(npc);
    return code;
  }
  banter_result say(std::string_view text, banter_request_id& out_request,
                    const banter_request_config* config = nullptr) noexcept {
    return banter_npc_say(get(), text.data(), text.size(), config, &out_request);
  }
  banter_result add_turn(banter_role role, std::string_view text) noexcept {
    return banter_npc_add_turn(get(), role, text.data(), text.size());
  }
  banter_result reset_turns() noexcept { return banter_npc_reset(get()); }
  /** Ends with a SNAPSHOT event. */
  banter_result save(banter_request_id& out_request, const banter_save_config* config = nullptr) noexcept {
    return banter_npc_save(get(), config, &out_request);
  }
  banter_result load(const void* snapshot, size_t size, banter_request_id& out_request,
                     const banter_load_config* config = nullptr) noexcept {
    return banter_npc_load(get(), snapshot, size, config, &out_request);
  }
};

}  // namespace banter

#endif
