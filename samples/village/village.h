// The people of a village: they chatter in the background, and now and then the player speaks to one of them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "banter/banter.hpp"

/** What was measured of one villager. Times in milliseconds. */
struct Villager {
  banter::Npc npc;
  std::string name;
  std::string words;  // of the reply in progress, then of the last one
  banter_request_id request = 0;
  bool to_player = false;   // the reply in progress
  double silent_until = 0;  // seconds of the loop
  uint32_t exchanges = 0;
  std::vector<double> ttft, player_ttft, itl, itl_p99;  // one of each reply
};

struct VillageOptions {
  uint32_t villagers = 40;
  double player_every_seconds = 4;
  uint32_t reply_tokens = 48;
};

/** Game thread only. */
class Village {
 public:
  Village(banter::Engine& engine, banter::Model& model, const VillageOptions& options);

  /** Creates everyone. False: the reason was printed. */
  bool found();
  /** Once a frame: takes what was said, lets people speak. False: something failed, the reason was printed. */
  bool frame(double now_seconds);

  const std::vector<Villager>& villagers() const { return villagers_; }
  uint64_t replies() const { return replies_; }
  uint64_t interrupted() const { return interrupted_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t cached_tokens() const { return cached_tokens_; }
  uint64_t prompt_tokens() const { return prompt_tokens_; }
  /** Sum over frames of villagers with a reply in progress, and frames. */
  double mean_talking() const {
    return frames_ == 0 ? 0 : static_cast<double>(talking_) / static_cast<double>(frames_);
  }

 private:
  void hear(const banter_event& event, double now);
  bool speak_to(Villager& villager, const std::string& words, int32_t priority);
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

  banter::Engine& engine_;
  banter::Model& model_;
  VillageOptions options_;
  std::mt19937 random_{7};
  std::vector<Villager> villagers_;
  size_t wanted_by_player_ = SIZE_MAX;  // waits for this villager's chatter to end
  double player_speaks_at_ = 1;
  bool failed_ = false;
  uint64_t replies_ = 0, interrupted_ = 0, tokens_ = 0, cached_tokens_ = 0, prompt_tokens_ = 0, talking_ = 0,
           frames_ = 0;
};
