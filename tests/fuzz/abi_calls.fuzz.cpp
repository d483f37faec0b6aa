// Random sequences of C ABI calls against a tiny model: arguments good and bad, any order, objects dying at any moment.
// What must hold: no crash, every accepted request has exactly one terminal event (unless its engine is destroyed), BUSY and
// INVALID_ARGUMENT only where they are due, text is whole UTF-8, and the engine works afterwards.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "banter/banter.h"
#include "engine/tiny_model.h"
#include "text/utf8.h"

namespace {

using banter::test::tiny_model;
using banter::test::TinyModelOptions;

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "abi_calls: %s (%s)\n", what, banter_last_error_message());
  std::abort();
}
void require(bool holds, const char* what) {
  if (!holds) broken(what);
}

/** The input as a stream of decisions; 0 when it is used up. */
class Decisions {
 public:
  Decisions(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool done() const { return at_ >= size_; }
  uint8_t byte() { return done() ? 0 : data_[at_++]; }
  uint32_t below(uint32_t n) { return byte() % n; }
  uint32_t word() { return byte() | byte() << 8 | byte() << 16 | static_cast<uint32_t>(byte()) << 24; }
  std::string text() {
    std::string out(byte(), '\0');
    for (char& c : out) c = static_cast<char>(byte());
    return out;
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

struct Game {
  Decisions in;
  banter_engine* engine = nullptr;
  std::vector<banter_model*> models;
  std::vector<banter_npc*> npcs;
  std::vector<banter_request_id> requests;
  std::map<banter_request_id, int> open;  // accepted, not ended
  std::vector<std::byte> snapshot;        // the last that was saved

  Game(const uint8_t* data, size_t size) : in(data, size) {}

  const std::vector<std::byte>& model_bytes(uint32_t which) {
    static const std::vector<std::byte> files[] = {
        tiny_model({.context = 256, .layers = 1}),
        tiny_model({.chat_template = "", .context = 96, .layers = 1, .window = 32}),
        tiny_model({.chat_template = "{{ raise_exception('no') }}", .layers = 1, .broken_weights = true}),
        std::vector<std::byte>(300, std::byte{0x47})};
    return files[which % 4];
  }

  /** Not by value: the call that fills `request` is an argument too. */
  void accepted(banter_result code, const banter_request_id& request) {
    require((code == BANTER_OK) == (request != 0), "a request id without OK, or OK without one");
    require(code == BANTER_OK || code == BANTER_ERROR_BUSY || code == BANTER_ERROR_INVALID_ARGUMENT,
            "a submission returned a code that it may not");
    if (code != BANTER_OK) return;
    require(open.emplace(request, 1).second, "a request id was used twice");
    requests.push_back(request);
  }

  void poll() {
    banter_event events[8];
    uint32_t count = 0;
    const uint32_t capacity = in.below(9);
    require(banter_poll(engine, events, sizeof events[0], capacity, &count) == BANTER_OK, "poll failed");
    require(count <= capacity, "poll wrote too many events");
    for (uint32_t i = 0; i < count; ++i) check(events[i]);
  }

  void check(const banter_event& event) {
    require(event.text != nullptr && event.text[event.text_len] == '\0', "text is not terminated");
    require(banter::text::utf8_is_valid({event.text, event.text_len}), "text is not UTF-8");
    require(event.token_count == 0 || event.tokens != nullptr, "tokens are missing");
    for (uint32_t i = 0; i < event.token_count; ++i) {
      require(event.tokens[i] >= 0 && event.tokens[i] < banter::test::kTinyVocabulary, "a token is no token");
    }
    const auto found = open.find(event.request);
    require(found != open.end(), "an event of a request that has ended or never was");
    const bool terminal = event.kind == BANTER_EVENT_MODEL_READY || event.kind == BANTER_EVENT_DONE ||
                          event.kind == BANTER_EVENT_CANCELLED || event.kind == BANTER_EVENT_FAILED ||
                          event.kind == BANTER_EVENT_SNAPSHOT;
    require((event.bytes != nullptr) == (event.kind == BANTER_EVENT_SNAPSHOT), "bytes and kind do not match");
    if (event.bytes != nullptr) {
      const auto* const bytes = static_cast<const std::byte*>(event.bytes);
      snapshot.assign(bytes, bytes + event.byte_count);
    }
    require((event.code != BANTER_OK) == (event.kind == BANTER_EVENT_FAILED), "code and kind do not match");
    require(event.kind != BANTER_EVENT_FAILED || event.text_len > 5, "a failure without a sentence");
    if (terminal) open.erase(found);
  }

  banter_sampling_config sampling() {
    banter_sampling_config config;
    banter_sampling_config_init(&config, sizeof config);
    config.seed = in.byte();
    config.temperature = static_cast<float>(in.below(24)) / 8 - 0.25f;  // sometimes out of range
    config.top_k = static_cast<int32_t>(in.below(40)) - 1;
    config.top_p = static_cast<float>(in.below(20)) / 16;
    config.repetition_penalty = static_cast<float>(in.below(12)) / 4;
    config.mirostat = static_cast<int32_t>(in.below(8) == 0 ? in.below(3) : 0);
    config.dry_multiplier = in.below(8) == 0 ? 1.0f : 0.0f;
    config.xtc_probability = in.below(8) == 0 ? 0.5f : 0.0f;
    return config;
  }

  void submit() {
    const std::string text = in.text();
    std::string stop = in.below(3) == 0 ? in.text() : "zq", ban = in.below(3) == 0 ? in.text() : "qz";
    const char* const stops[] = {stop.c_str(), "the"};
    const char* const bans[] = {ban.c_str(), "e"};
    const int32_t stop_tokens[] = {static_cast<int32_t>(in.byte()), -5};
    const banter_sampling_config chain = sampling();
    banter_request_config config;
    banter_request_config_init(&config, sizeof config);
    config.flags = in.below(4) == 0 ? in.byte() : static_cast<uint32_t>(BANTER_REQUEST_IGNORE_END);
    config.max_tokens = 1 + in.below(20);
    config.priority = static_cast<int32_t>(in.below(9));
    config.sampling = in.below(2) == 0 ? &chain : nullptr;
    config.stop_strings = stops;
    config.stop_string_count = in.below(3);
    config.banned_strings = bans;
    config.banned_string_count = in.below(3);
    config.stop_tokens = stop_tokens;
    config.stop_token_count = in.below(3);
    if (in.below(16) == 0) config.struct_size = in.word();
    if (config.struct_size > sizeof config) config.struct_size = sizeof config;  // we have no more memory to show
    banter_request_id request = 0;
    const banter_request_config* const used = in.below(8) == 0 ? nullptr : &config;
    if (used == nullptr && text.size() % 2 == 0) return;  // the default has no length limit: keep those few
    switch (in.below(3)) {
      case 0:
        if (npcs.empty()) return;
        return accepted(banter_npc_say(pick(npcs), text.data(), text.size(), used, &request), request);
      case 1:
        if (models.empty()) return;
        return accepted(banter_model_complete(pick(models), text.data(), text.size(), used, &request), request);
      default: {
        if (models.empty()) return;
        std::vector<int32_t> tokens;
        for (const char c : text) tokens.push_back(static_cast<uint8_t>(c) + (in.below(16) == 0 ? 100 : 0));
        return accepted(banter_model_complete_tokens(pick(models), tokens.data(), tokens.size(), used, &request),
                        request);
      }
    }
  }

  template <class T>
  T pick(const std::vector<T>& from) {
    return from[in.below(static_cast<uint32_t>(from.size()))];
  }
  template <class T>
  T take(std::vector<T>& from) {
    const size_t index = in.below(static_cast<uint32_t>(from.size()));
    const T taken = from[index];
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
    return taken;
  }

  void load() {
    if (models.size() >= 3) return;
    const std::vector<std::byte>& bytes = model_bytes(in.byte());
    banter_model_config config;
    banter_model_config_init(&config, sizeof config);
    config.memory = bytes.data();
    config.memory_bytes = bytes.size();
    config.context_tokens = in.below(3) == 0 ? in.byte() : 0;
    config.kv_budget_bytes = in.below(3) == 0 ? in.byte() * 1024u : 0;
    const std::string host_template = in.below(4) == 0 ? in.text() : std::string();
    config.chat_template = host_template.data();
    config.chat_template_len = host_template.size();
    banter_model* model = nullptr;
    banter_request_id request = 0;
    const banter_result code = banter_model_load(engine, &config, &model, &request);
    require((code == BANTER_OK) == (model != nullptr), "a model without OK, or OK without one");
    accepted(code, request);
    if (model != nullptr) models.push_back(model);
  }

  void create_npc() {
    if (models.empty() || npcs.size() >= 12) return;
    const std::string persona = in.text();
    const banter_sampling_config chain = sampling();
    banter_npc_config config;
    banter_npc_config_init(&config, sizeof config);
    config.persona = persona.data();
    config.persona_len = persona.size();
    config.context_tokens = in.below(3) == 0 ? in.byte() : 0;
    config.reply_reserve_tokens = in.byte();
    config.sampling = in.below(2) == 0 ? &chain : nullptr;
    banter_npc* npc = nullptr;
    const banter_result code = banter_npc_create(pick(models), &config, &npc);
    require((code == BANTER_OK) == (npc != nullptr), "a character without OK, or OK without one");
    if (npc != nullptr) npcs.push_back(npc);
  }

  void save_or_load() {
    if (npcs.empty()) return;
    banter_request_id request = 0;
    if (in.below(2) == 0 || snapshot.empty()) {
      banter_save_config config;
      banter_save_config_init(&config, sizeof config);
      config.flags = in.below(3);
      return accepted(banter_npc_save(pick(npcs), &config, &request), request);
    }
    std::vector<std::byte> bytes = snapshot;
    if (in.below(2) == 0) bytes[in.word() % bytes.size()] = static_cast<std::byte>(in.byte());
    banter_load_config config;
    banter_load_config_init(&config, sizeof config);
    config.flags = in.below(3);
    accepted(banter_npc_load(pick(npcs), bytes.data(), bytes.size(), &config, &request), request);
  }

  void odd_calls() {
    banter_request_id request = 1;
    uint32_t count = 0;
    size_t tokens = 0;
    switch (in.below(10)) {
      case 0:
        require(banter_npc_say(nullptr, "x", 1, nullptr, &request) == BANTER_ERROR_INVALID_ARGUMENT, "say(NULL)");
        break;
      case 1:
        require(banter_poll(engine, nullptr, 0, 5, &count) == BANTER_ERROR_INVALID_ARGUMENT, "poll(NULL)");
        break;
      case 2:
        (void)banter_cancel(engine, static_cast<banter_request_id>(in.word()) << 20 | in.byte());
        break;
      case 3:
        (void)banter_wait(engine, in.below(3));
        break;
      case 4: {
        banter_engine_statistics figures;
        figures.struct_size = static_cast<uint32_t>(sizeof figures);
        require(banter_engine_get_statistics(engine, &figures) == BANTER_OK, "statistics");
        break;
      }
      case 5: {
        if (models.empty()) break;
        const std::string text = in.text();
        int32_t ids[16];
        (void)banter_model_tokenize(pick(models), text.data(), text.size(), ids, 16, &tokens);
        break;
      }
      case 6: {
        if (models.empty()) break;
        banter_model_info info;
        info.struct_size = sizeof info;
        (void)banter_model_get_info(pick(models), &info);
        break;
      }
      case 7: {
        char line[64];
        require(banter_engine_get_metrics_json(engine, line, in.below(65), &tokens) == BANTER_OK, "metrics");
        break;
      }
      case 8:
        // One of the two, as it comes.
        if (banter_engine_trace_start(engine, 16u + in.byte()) == BANTER_OK) break;
        require(
            banter_engine_trace_stop(
                engine, [](const char*, size_t, void*) -> banter_result { return BANTER_OK; }, nullptr) == BANTER_OK,
            "trace");
        break;
      default:
        (void)banter_result_name(static_cast<banter_result>(in.word()));
        break;
    }
  }

  void step() {
    switch (in.below(16)) {
      case 0:
        return load();
      case 1:
      case 2:
        return create_npc();
      case 3:
      case 4:
      case 5:
      case 6:
      case 7:
        return submit();
      case 8:
      case 9:
        return poll();
      case 10:
        if (!requests.empty()) (void)banter_cancel(engine, pick(requests));
        return;
      case 11: {
        if (npcs.empty()) return;
        const std::string text = in.text();
        const banter_result code =
            banter_npc_add_turn(pick(npcs), static_cast<banter_role>(in.below(4)), text.data(), text.size());
        require(code == BANTER_OK || code == BANTER_ERROR_BUSY || code == BANTER_ERROR_INVALID_ARGUMENT, "add_turn");
        return;
      }
      case 12:
        if (!npcs.empty()) (void)banter_npc_reset(pick(npcs));
        return;
      case 13:
        if (!npcs.empty()) banter_npc_destroy(take(npcs));
        return;
      case 14:
        // Its characters' handles stay good.
        if (models.empty()) return;
        if (in.below(3) == 0) return banter_model_release(take(models));
        return save_or_load();
      default:
        return odd_calls();
    }
  }

  bool open_engine() {
    banter_engine_config config;
    banter_engine_config_init(&config, sizeof config);
    config.thread_count = 1;
    config.flags = BANTER_ENGINE_NORMAL_PRIORITY;
    config.max_requests = 1 + in.below(12);
    config.max_events = 16 + in.below(8);
    config.text_buffer_bytes = 4096;
    config.step_tokens = static_cast<int32_t>(1 + in.below(64));
    return banter_engine_create(BANTER_API_VERSION, &config, &engine) == BANTER_OK;
  }

  /** Everything that was accepted ends, and then there is silence. */
  void finish() {
    for (const banter_request_id request : requests) (void)banter_cancel(engine, request);
    while (!open.empty()) {
      require(banter_wait(engine, 20000) == BANTER_OK, "a request does not end");
      banter_event events[16];
      uint32_t count = 0;
      require(banter_poll(engine, events, sizeof events[0], 16, &count) == BANTER_OK, "poll failed");
      for (uint32_t i = 0; i < count; ++i) check(events[i]);
    }
    banter_event event;
    uint32_t count = 0;
    require(banter_poll(engine, &event, sizeof event, 1, &count) == BANTER_OK && count == 0, "an event after the last");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  Game game(data, size);
  const bool abrupt = game.in.below(4) == 0;  // destroy in the middle of everything
  if (!game.open_engine()) broken("no engine");
  while (!game.in.done()) game.step();
  if (!abrupt) game.finish();
  if (!abrupt && size % 2 == 0) {
    for (banter_npc* npc : game.npcs) banter_npc_destroy(npc);
    for (banter_model* model : game.models) banter_model_release(model);
  }
  banter_engine_destroy(game.engine);
  return 0;
}
