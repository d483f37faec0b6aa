#include "stage.h"

#include <cstdio>

Stage::~Stage() {
  for (banter_npc* npc : npcs_) banter_npc_destroy(npc);
}

bool Stage::add(const std::string& name, const std::string& persona) {
  banter_sampling_config sampling;
  banter_sampling_config_init(&sampling, sizeof sampling);
  sampling.temperature = 0.0f;  // the same evening every time; a game would rather use the default
  banter_npc_config config;
  banter_npc_config_init(&config, sizeof config);
  config.persona = persona.data();
  config.persona_len = persona.size();
  config.sampling = &sampling;
  banter_npc* npc = nullptr;
  if (banter_npc_create(model_, &config, &npc) != BANTER_OK) {
    std::fprintf(stderr, "tavern: %s does not come tonight: %s\n", name.c_str(), banter_last_error_message());
    return false;
  }
  names_.push_back(name);
  npcs_.push_back(npc);
  return true;
}

bool Stage::ask(size_t speaker, const std::string& question, uint32_t max_tokens, uint32_t interrupt_after) {
  banter_request_config config;
  banter_request_config_init(&config, sizeof config);
  config.max_tokens = max_tokens;
  config.priority = 7;  // the player waits
  Line line;
  line.speaker = speaker;
  line.question = question;
  line.interrupt_after = interrupt_after;
  if (banter_npc_say(npcs_[speaker], question.data(), question.size(), &config, &line.request) != BANTER_OK) {
    std::fprintf(stderr, "tavern: %s\n", banter_last_error_message());
    failed_ = true;
    return false;
  }
  lines_.push_back(line);
  return true;
}

void Stage::frame() {
  banter_event events[32];
  uint32_t count = 0;
  do {
    if (banter_poll(engine_, events, sizeof events[0], 32, &count) != BANTER_OK) {
      failed_ = true;
      return;
    }
    for (uint32_t i = 0; i < count; ++i) handle(events[i]);
  } while (count == 32);
  print();
}

void Stage::handle(const banter_event& event) {
  for (Line& line : lines_) {
    if (line.request != event.request) continue;
    char note[160];
    switch (event.kind) {
      case BANTER_EVENT_TEXT:
        line.pending.append(event.text, event.text_len);
        ++line.pieces;
        if (line.interrupt_after != 0 && line.pieces == line.interrupt_after) {
          line.interrupted = true;
          banter_cancel(engine_, line.request);
        }
        break;
      case BANTER_EVENT_DONE:
      case BANTER_EVENT_CANCELLED:
        line.pending.append(event.text, event.text_len);
        std::snprintf(
            note, sizeof note,
            "first token after %.0f ms, then one every %.0f ms (%u prompt tokens, %u of them cached; %u said)",
            event.statistics->ttft_ms, event.statistics->itl_mean_ms, event.statistics->prompt_tokens,
            event.statistics->cached_tokens, event.statistics->generated_tokens);
        line.interrupted = event.kind == BANTER_EVENT_CANCELLED;
        line.note = note;
        line.ended = true;
        break;
      case BANTER_EVENT_FAILED:
        line.note = event.text;
        line.ended = line.failed = failed_ = true;
        break;
      default:
        break;
    }
  }
}

void Stage::print() {
  while (!lines_.empty()) {
    Line& line = lines_.front();
    if (!line.begun) {
      std::printf("\nYou, to %s: %s\n%s: ", names_[line.speaker].c_str(), line.question.c_str(),
                  names_[line.speaker].c_str());
      line.begun = true;
    }
    std::fwrite(line.pending.data(), 1, line.pending.size(), stdout);
    line.pending.clear();
    if (!line.ended) break;
    std::printf("%s\n    [%s]\n", line.interrupted ? " - (interrupted)" : "", line.note.c_str());
    lines_.pop_front();
  }
  std::fflush(stdout);
}

void Stage::interrupt() {
  if (!lines_.empty()) banter_cancel(engine_, lines_.front().request);
}
