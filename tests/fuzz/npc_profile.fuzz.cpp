// Any bytes as an NPC profile: a character or an error with a sentence, never a crash, and never a small file that takes
// much memory.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "banter/banter.h"
#include "dialogue/profile.h"
#include "text/utf8.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "npc_profile: %s (%s)\n", what, banter_last_error_message());
  std::abort();
}

/** A model that never loads: its characters can be made. */
struct Game {
  Game() {
    require(banter_engine_create(BANTER_API_VERSION, nullptr, &engine) == BANTER_OK, "no engine");
    banter_model_config config;
    banter_model_config_init(&config, sizeof config);
    config.path = "/absent/model.gguf";
    config.path_len = BANTER_ZERO_TERMINATED;
    require(banter_model_load(engine, &config, &model, nullptr) == BANTER_OK, "no model");
  }
  ~Game() { banter_engine_destroy(engine); }
  banter_engine* engine = nullptr;
  banter_model* model = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Game game;
  banter_npc* npc = nullptr;
  const banter_result code = banter_npc_create_from_profile(game.model, data, size, nullptr, &npc);
  require((code == BANTER_OK) == (npc != nullptr), "a character without OK, or OK without one");
  require(code == BANTER_OK || code == BANTER_ERROR_CORRUPT || code == BANTER_ERROR_INVALID_ARGUMENT, "a strange code");
  require(code == BANTER_OK || std::strlen(banter_last_error_message()) > 10, "no sentence");
  banter_npc_destroy(npc);

  banter_sampling_config defaults;
  banter_sampling_config_init(&defaults, sizeof defaults);
  const auto profile = banter::dialogue::read_profile(std::as_bytes(std::span(data, size)), defaults);
  if (!profile) {
    require(code != BANTER_OK, "a character of a bad profile");
    return 0;
  }
  size_t bytes = profile->name.size() + profile->persona.size();
  for (const banter::dialogue::Turn& turn : profile->examples) {
    require(banter::text::utf8_is_valid(turn.text), "an example is not UTF-8");
    bytes += turn.text.size();
  }
  require(banter::text::utf8_is_valid(profile->persona), "the persona is not UTF-8");
  require(bytes <= 4 * size, "more text than bytes");
  return 0;
}
