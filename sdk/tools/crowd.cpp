#include "crowd.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace banter::tools {
namespace {

constexpr const char* kWords[] = {
    "the",    "village", "of",   "and",   "a",    "road",   "dragon", "silver",     "what",    "price", "tell",
    "me",     "about",   "your", "sword", "in",   "winter", "Borin",  "Mira",       "Oakrest", "is",    "who",
    "guards", "gate",    "at",   "night", "stew", "for",    "two",    "travellers", "from",    "north", "1492",
    "def",    "return",  "x",    "+",     "1",    "茶",     "村庄",   "你好",       "été",     "???",   "\n"};

}  // namespace

Crowd::Crowd(EngineSession& session, uint64_t seed) : session_(session), random_(seed ^ 0x9e3779b97f4a7c15u) {}

Crowd::~Crowd() {
  for (const Member& member : members_) banter_npc_destroy(member.npc);
}

bool Crowd::join(uint32_t count) {
  banter_model_info info = {};
  info.struct_size = sizeof info;
  if (banter_model_get_info(session_.model(), &info) != BANTER_OK) return give_up("the crowd");
  // A word may take a dozen tokens of a small vocabulary; persona and prompt together must fit.
  most_words_ = std::clamp(info.context_tokens / 32, 1u, 200u);
  for (uint32_t i = 0; i < count; ++i) {
    Member member;
    if (below(2) == 0) {
      banter_npc_config config;
      banter_npc_config_init(&config, sizeof config);
      const std::string persona = words(1 + below(std::min(most_words_, 64u)));
      config.persona = persona.data();
      config.persona_len = persona.size();
      if (banter_npc_create(session_.model(), &config, &member.npc) != BANTER_OK) return give_up("a character");
    }
    members_.push_back(member);
    if (!talk(members_.back())) return false;
  }
  return true;
}

void Crowd::see(const banter_event& event) {
  for (Member& member : members_) {
    if (member.request != event.request) continue;
    if (event.kind == BANTER_EVENT_FAILED) {
      std::fprintf(stderr, "banter: somebody of the crowd failed: %s\n", event.text);
      failed_ = true;
      member.request = 0;
      return;
    }
    if (event.kind != BANTER_EVENT_PROMPT) {
      member.said += event.token_count;
      tokens_ += event.token_count;
    }
    if (event.kind == BANTER_EVENT_DONE || event.kind == BANTER_EVENT_CANCELLED) {
      ++ended_;
      if (member.npc != nullptr && below(3) == 0) banter_npc_reset(member.npc);
      talk(member);
    } else if (member.cut_after != 0 && member.said >= member.cut_after) {
      member.cut_after = 0;
      banter_cancel(session_.engine(), member.request);
    }
    return;
  }
}

float Crowd::between(float low, float high) {
  return low + (high - low) * static_cast<float>(below(1 << 16)) / 65536.0f;
}

std::string Crowd::words(uint32_t count) {
  std::string text;
  for (uint32_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[below(static_cast<uint32_t>(std::size(kWords)))];
  }
  return text;
}

banter_sampling_config Crowd::draw_sampling() {
  banter_sampling_config sampling;
  banter_sampling_config_init(&sampling, sizeof sampling);
  sampling.seed = random_();
  sampling.temperature = below(3) == 0 ? 0.0f : between(0.2f, 1.6f);
  sampling.top_k = static_cast<int32_t>(below(80));
  sampling.top_p = between(0.5f, 1.0f);
  sampling.min_p = between(0.0f, 0.1f);
  if (below(3) == 0) sampling.typical_p = between(0.3f, 1.0f);
  if (below(3) == 0) sampling.repetition_penalty = between(1.0f, 1.3f);
  if (below(4) == 0) sampling.dry_multiplier = between(0.1f, 1.0f);
  if (below(5) == 0) sampling.mirostat = 2;
  return sampling;
}

/** Begins a reply of up to 96 tokens to up to 200 words. */
bool Crowd::talk(Member& member) {
  const banter_sampling_config sampling = draw_sampling();
  banter_request_config config;
  banter_request_config_init(&config, sizeof config);
  config.sampling = &sampling;
  config.max_tokens = 1 + below(96);
  config.priority = static_cast<int32_t>(below(8));
  if (below(2) == 0) config.flags = BANTER_REQUEST_IGNORE_END;
  member.said = 0;
  member.cut_after = below(6) == 0 ? 1 + below(16) : 0;
  const std::string text = words(1 + below(below(4) == 0 ? most_words_ : std::min(most_words_, 30u)));
  const banter_result code =
      member.npc != nullptr
          ? banter_npc_say(member.npc, text.data(), text.size(), &config, &member.request)
          : banter_model_complete(session_.model(), text.data(), text.size(), &config, &member.request);
  return code == BANTER_OK || give_up("somebody of the crowd");
}

bool Crowd::give_up(const char* what) {
  std::fprintf(stderr, "banter: %s cannot talk: %s\n", what, banter_last_error_message());
  failed_ = true;
  return false;
}

}  // namespace banter::tools
