// The tavern: three characters on one set of weights, driven from a 60 Hz loop as a game would.
//
//   banter_tavern --model M.gguf [--threads N]        (or the model's path in BANTER_MODEL)
//
// With a terminal you speak: "mira: Good evening!" (a name alone is enough once, then it stays). Without one, a short
// scripted evening plays: everyone is asked twice, one is interrupted, one question is Chinese.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>

#include "stage.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kFrame = std::chrono::microseconds(16667);
constexpr uint32_t kLongestReply = 160;

volatile sig_atomic_t g_interrupt = 0;
void on_interrupt(int) {
  g_interrupt = g_interrupt + 1;
}

struct Persona {
  const char* name;
  const char* text;
};
constexpr Persona kCast[] = {
    {"Mira",
     "You are Mira, the cheerful innkeeper of the Gilded Goose in the village of Oakrest. A room costs 3 silver, a "
     "bowl of stew "
     "costs 1 silver. Stay in character and answer in one or two short sentences."},
    {"Borin",
     "You are Borin, the gruff dwarven blacksmith of Oakrest. You mend swords for 5 silver and it takes one day. Stay "
     "in character "
     "and answer in one or two short sentences."},
    {"Lian",
     "You are Lian, a travelling tea merchant from the east who sells green tea and jasmine tea. Stay in character and "
     "answer in one or "
     "two short sentences, in the language in which you are asked."},
};

/** Loads the model while a game would show its title screen. */
bool load(banter_engine* engine, const char* path, banter_model** model) {
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.path = path;
  config.path_len = BANTER_ZERO_TERMINATED;
  config.context_tokens = 4096;
  if (banter_model_load(engine, &config, model, nullptr) != BANTER_OK) {
    std::fprintf(stderr, "tavern: %s\n", banter_last_error_message());
    return false;
  }
  int shown = -1;
  for (;; std::this_thread::sleep_for(kFrame)) {
    banter_event event;
    uint32_t count = 0;
    if (banter_poll(engine, &event, sizeof event, 1, &count) != BANTER_OK) return false;
    if (count == 0) continue;
    if (event.kind == BANTER_EVENT_LOAD_PROGRESS && static_cast<int>(event.progress * 10) > shown) {
      shown = static_cast<int>(event.progress * 10);
      std::fprintf(stderr, "loading %d %%\n", shown * 10);
    }
    if (event.kind == BANTER_EVENT_MODEL_READY) return true;
    if (event.kind == BANTER_EVENT_FAILED) {
      std::fprintf(stderr, "tavern: %s\n", event.text);
      return false;
    }
  }
}

/** Runs the game loop until everyone is silent. */
void play(Stage& stage) {
  Clock::time_point next = Clock::now();
  while (!stage.idle() && !stage.failed()) {
    stage.frame();
    if (g_interrupt != 0) {
      g_interrupt = 0;
      stage.interrupt();
    }
    next += kFrame;
    std::this_thread::sleep_until(next);
  }
}

void scripted_evening(Stage& stage) {
  std::printf("--- Evening falls over Oakrest. Everyone is spoken to at once. ---\n");
  stage.ask(0, "Good evening! Do you have a room for the night?", kLongestReply);
  stage.ask(1, "Can you mend a broken sword, and what does it cost?", kLongestReply);
  stage.ask(2, "你好！你卖什么茶？", kLongestReply);
  play(stage);
  std::printf("\n--- Later that evening. ---\n");
  stage.ask(0, "Tell me a long story about the village, from the very beginning.", kLongestReply, 12);
  stage.ask(1, "How long will it take?", kLongestReply);
  stage.ask(2, "Which tea do you like best?", kLongestReply);
  play(stage);
}

void talk(Stage& stage) {
  std::printf(
      "In the tavern: Mira the innkeeper, Borin the smith, Lian the tea merchant.\n"
      "Speak like this:  mira: Good evening!     Ctrl-C interrupts, an empty line leaves.\n");
  signal(SIGINT, on_interrupt);
  size_t speaker = 0;
  std::string line;
  while (std::printf("\n[to %s] ", stage.name(speaker).c_str()), std::fflush(stdout), std::getline(std::cin, line)) {
    if (line.empty()) break;
    for (size_t i = 0; i < stage.size(); ++i) {
      const std::string& name = stage.name(i);
      if (strncasecmp(line.c_str(), name.c_str(), name.size()) != 0 || line.size() < name.size()) continue;
      if (line.size() > name.size() && line[name.size()] != ':' && line[name.size()] != ',') continue;
      speaker = i;
      line.erase(0, std::min(line.size(), name.size() + 1));
      line.erase(0, line.find_first_not_of(' '));
    }
    if (line.empty()) continue;
    stage.ask(speaker, line, 0);
    play(stage);
    if (stage.failed()) break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* model_path = std::getenv("BANTER_MODEL");
  int threads = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--model") == 0 && i + 1 < argc) {
      model_path = argv[++i];
    } else if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      threads = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: banter_tavern --model M.gguf [--threads N]\n");
      return 2;
    }
  }
  if (model_path == nullptr) {
    std::fprintf(stderr, "tavern: give --model M.gguf, or set BANTER_MODEL\n");
    return 2;
  }

  banter_engine_config config;
  banter_engine_config_init(&config, sizeof config);
  config.thread_count = threads;
  banter_engine* engine = nullptr;
  if (banter_engine_create(BANTER_API_VERSION, &config, &engine) != BANTER_OK) {
    std::fprintf(stderr, "tavern: %s\n", banter_last_error_message());
    return 1;
  }
  banter_model* model = nullptr;
  bool ok = load(engine, model_path, &model);
  if (ok) {
    banter_model_info info = {};
    info.struct_size = sizeof info;
    if (banter_model_get_info(model, &info) == BANTER_OK)
      std::printf("%s, computed by %s: %.0f MB of weights, %.0f MB for everyone's memories\n", info.name, info.backend,
                  static_cast<double>(info.weight_bytes) / 1e6, static_cast<double>(info.kv_pool_bytes) / 1e6);
    Stage stage(engine, model);
    for (const Persona& persona : kCast) ok = ok && stage.add(persona.name, persona.text);
    if (ok && isatty(STDIN_FILENO) != 0) talk(stage);
    if (ok && isatty(STDIN_FILENO) == 0) scripted_evening(stage);
    ok = ok && !stage.failed();
  }
  banter_model_release(model);
  banter_engine_destroy(engine);
  return ok ? 0 : 1;
}
