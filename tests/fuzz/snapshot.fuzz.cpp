// Any bytes as a snapshot: loaded or refused, never a crash; what was loaded talks; what is read is written again alike.
// Each input is also tried with its checksum set right, or nothing would ever reach the KV pages.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "banter/banter.h"
#include "base/hash.h"
#include "dialogue/snapshot.h"
#include "engine/tiny_model.h"

namespace {

using Bytes = std::vector<std::byte>;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "snapshot: %s (%s)\n", what, banter_last_error_message());
  std::abort();
}

struct Game {
  Game() {
    banter_engine_config config;
    banter_engine_config_init(&config, sizeof config);
    config.thread_count = 1;
    require(banter_engine_create(BANTER_API_VERSION, &config, &engine) == BANTER_OK, "no engine");
    banter_model_config model_config;
    banter_model_config_init(&model_config, sizeof model_config);
    model_config.memory = file.data();
    model_config.memory_bytes = file.size();
    banter_request_id request = 0;
    require(banter_model_load(engine, &model_config, &model, &request) == BANTER_OK, "no model");
    require(end_of(request) == BANTER_EVENT_MODEL_READY, "the model does not load");
    require(banter_npc_create(model, nullptr, &npc) == BANTER_OK, "no character");
  }
  ~Game() { banter_engine_destroy(engine); }

  banter_event_kind end_of(banter_request_id request) const {
    for (;;) {
      require(banter_wait(engine, 60000) == BANTER_OK, "a request does not end");
      banter_event event{};
      uint32_t count = 0;
      require(banter_poll(engine, &event, sizeof event, 1, &count) == BANTER_OK, "poll failed");
      const bool last = event.kind == BANTER_EVENT_MODEL_READY || event.kind == BANTER_EVENT_DONE ||
                        event.kind == BANTER_EVENT_FAILED;
      if (count == 1 && event.request == request && last) return event.kind;
    }
  }
  void load_and_talk(const Bytes& bytes) const {
    banter_request_id request = 0;
    require(banter_npc_load(npc, bytes.data(), bytes.size(), nullptr, &request) == BANTER_OK, "not accepted");
    const bool loaded = end_of(request) == BANTER_EVENT_DONE;
    require(loaded == static_cast<bool>(banter::dialogue::read_snapshot(bytes)), "loaded what cannot be read");
    if (!loaded) return;
    banter_request_config config;
    banter_request_config_init(&config, sizeof config);
    config.max_tokens = 2;
    require(banter_npc_say(npc, "x", 1, &config, &request) == BANTER_OK, "say");
    (void)end_of(request);  // a prompt may be too long, numbers may be mad; the engine goes on
  }

  const Bytes file = banter::test::tiny_model({.context = 256, .layers = 1});
  banter_engine* engine = nullptr;
  banter_model* model = nullptr;
  banter_npc* npc = nullptr;
};

void write_again(const Bytes& bytes) {
  const auto read = banter::dialogue::read_snapshot(bytes);
  if (!read) return;
  auto written = banter::dialogue::write_snapshot(read->snapshot);
  require(static_cast<bool>(written), "what was read cannot be written");
  if (!written->pages.empty()) std::memcpy(written->pages.data(), read->pages.data(), read->pages.size());
  banter::dialogue::seal(*written);
  const auto again = banter::dialogue::read_snapshot(written->bytes);
  require(static_cast<bool>(again), "what was written cannot be read");
  const banter::dialogue::ConversationState& a = read->snapshot.conversation;
  const banter::dialogue::ConversationState& b = again->snapshot.conversation;
  require(a.persona == b.persona && a.turns.size() == b.turns.size() && a.examples.size() == b.examples.size() &&
              a.forgotten_turns == b.forgotten_turns,
          "what was written is something else");
  require(again->snapshot.model == read->snapshot.model, "another model");
  require(again->snapshot.kv.has_value() == read->snapshot.kv.has_value(), "the pages went away");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > (1 << 18)) return 0;
  static const Game game;
  const auto view = std::as_bytes(std::span(data, size));
  Bytes bytes(view.begin(), view.end());
  write_again(bytes);
  game.load_and_talk(bytes);
  if (size < 16) return 0;
  banter::Hash64 hash;
  hash.add(std::span<const std::byte>(bytes).first(size - 8));
  const uint64_t checksum = hash.value();
  if (std::memcmp(bytes.data() + size - 8, &checksum, 8) == 0) return 0;
  std::memcpy(bytes.data() + size - 8, &checksum, 8);
  write_again(bytes);
  game.load_and_talk(bytes);
  return 0;
}
