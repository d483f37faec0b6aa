#include "village.h"

#include <cstdio>

namespace {

constexpr int32_t kBackground = 1, kPlayerWaits = 7;

// Everyone knows this: it is computed once, and its memory is shared.
constexpr const char* kLore =
    "You live in Oakrest, a village of forty people by the river Wend. The mill burned down in spring. Lord Harrow "
    "takes a tenth of every harvest. Wolves were heard near the old bridge. The fair begins in three days. Answer in "
    "one or two short sentences and stay in character. ";

constexpr const char* kNames[] = {"Mira", "Borin", "Lian", "Tomas", "Edda", "Rurik", "Selma", "Anselm", "Greta", "Odo"};
constexpr const char* kTrades[] = {"the innkeeper", "the smith",  "the tea merchant", "a farmer",
                                   "the miller",    "a guard",    "the herbalist",    "a carpenter",
                                   "a fisher",      "the weaver", "a shepherd",       "the bell ringer"};
constexpr const char* kOpenings[] = {"Good morning! How is your family?", "Did you hear the wolves last night?",
                                     "Will you come to the fair?",        "What do you think of Lord Harrow?",
                                     "Who will build the mill again?",    "Have you seen my goat?"};
constexpr const char* kQuestions[] = {"Can you tell me the way to the old bridge?", "What happened to the mill?",
                                      "When does the fair begin?", "Who are you, and what do you do here?"};

}  // namespace

Village::Village(banter::Engine& engine, banter::Model& model, const VillageOptions& options)
    : engine_(engine), model_(model), options_(options) {}

bool Village::found() {
  villagers_.resize(options_.villagers);
  for (size_t i = 0; i < villagers_.size(); ++i) {
    Villager& villager = villagers_[i];
    villager.name = kNames[i % std::size(kNames)];
    if (i >= std::size(kNames)) villager.name += ' ' + std::to_string(i / std::size(kNames) + 1);
    const std::string persona = kLore + ("You are " + villager.name) + ", " + kTrades[i % std::size(kTrades)] + ".";
    banter_npc_config config = banter::npc_config();
    config.persona = persona.data();
    config.persona_len = persona.size();
    config.context_tokens = 1024;  // the model's, where that is less
    config.reply_reserve_tokens = options_.reply_tokens;
    if (villager.npc.create(model_, config) != BANTER_OK) {
      std::fprintf(stderr, "village: %s\n", banter_last_error_message());
      return false;
    }
    // People begin to talk over the first seconds, not in one frame.
    villager.silent_until = 0.1 * below(40);
    villager.words.reserve(1024);
  }
  return true;
}

bool Village::frame(double now) {
  engine_.dispatch([&](const banter_event& event) { hear(event, now); });
  if (now >= player_speaks_at_ && wanted_by_player_ == SIZE_MAX) {
    wanted_by_player_ = below(static_cast<uint32_t>(villagers_.size()));
    player_speaks_at_ = now + options_.player_every_seconds;
    // Whoever is spoken to stops chattering.
    const Villager& wanted = villagers_[wanted_by_player_];
    if (wanted.request != 0 && !wanted.to_player) engine_.cancel(wanted.request);
  }
  if (wanted_by_player_ != SIZE_MAX && villagers_[wanted_by_player_].request == 0) {
    if (!speak_to(villagers_[wanted_by_player_], kQuestions[below(std::size(kQuestions))], kPlayerWaits)) return false;
    wanted_by_player_ = SIZE_MAX;
  }
  bool has_started = false;
  ++frames_;
  for (Villager& villager : villagers_) {
    if (villager.request != 0) {
      ++talking_;
    } else if (!has_started && now >= villager.silent_until) {
      // One conversation begins per frame at most. A neighbour's last words are taken up, or something else.
      const Villager& neighbour = villagers_[below(static_cast<uint32_t>(villagers_.size()))];
      const bool takes_up = !neighbour.words.empty() && neighbour.request == 0 && below(2) == 0;
      if (!speak_to(villager, takes_up ? neighbour.words : kOpenings[below(std::size(kOpenings))], kBackground))
        return false;
      has_started = true;
    }
  }
  return !failed_;
}

bool Village::speak_to(Villager& villager, const std::string& words, int32_t priority) {
  if (++villager.exchanges % 4 == 0) villager.npc.reset_turns();  // small talk is soon forgotten
  banter_request_config config = banter::request_config();
  config.max_tokens = options_.reply_tokens;
  config.priority = priority;
  if (villager.npc.say(words, villager.request, &config) != BANTER_OK) {
    std::fprintf(stderr, "village: %s\n", banter_last_error_message());
    return false;
  }
  villager.to_player = priority == kPlayerWaits;
  villager.words.clear();
  return true;
}

void Village::hear(const banter_event& event, double now) {
  for (Villager& villager : villagers_) {
    if (villager.request == 0 || villager.request != event.request) continue;
    if (event.kind == BANTER_EVENT_FAILED) {
      std::fprintf(stderr, "village: %s: %s\n", villager.name.c_str(), event.text);
      failed_ = true;
      return;
    }
    villager.words.append(event.text, event.text_len);
    if (event.statistics == nullptr) return;
    const banter_request_statistics& s = *event.statistics;
    if (s.generated_tokens > 0) (villager.to_player ? villager.player_ttft : villager.ttft).push_back(s.ttft_ms);
    if (s.generated_tokens > 1) {
      villager.itl.push_back(s.itl_p50_ms);
      villager.itl_p99.push_back(s.itl_p99_ms);
    }
    tokens_ += s.generated_tokens;
    cached_tokens_ += s.cached_tokens;
    prompt_tokens_ += s.prompt_tokens;
    ++(event.kind == BANTER_EVENT_DONE ? replies_ : interrupted_);
    villager.request = 0;
    villager.silent_until = now + 0.5 + 0.1 * below(30);
    return;
  }
}
