// Others who talk while one request is watched: whatever they do, its reply must not change.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "banter/banter.h"
#include "engine_session.h"

namespace banter::tools {

/** Members with random prompts, lengths, samplers, seeds and priorities, drawn from a seed; some are characters, some
 *  continue a text. One whose reply has ended, or is cut short at random, begins another. Goes before the session; one
 *  thread. */
class Crowd {
 public:
  Crowd(EngineSession& session, uint64_t seed);
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  /** `count` more begin to talk. False: the reason was printed. */
  bool join(uint32_t count);
  /** To be told every event of the engine. */
  void see(const banter_event& event);
  /** A member could not go on; the reason was printed. */
  bool failed() const { return failed_; }
  uint64_t tokens() const { return tokens_; }  // said so far
  uint64_t ended() const { return ended_; }    // replies

 private:
  struct Member {
    banter_npc* npc = nullptr;  // null: continues texts
    banter_request_id request = 0;
    uint32_t cut_after = 0;  // tokens, 0: not cut
    uint32_t said = 0;
  };
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  float between(float low, float high);
  std::string words(uint32_t count);
  banter_sampling_config draw_sampling();
  bool talk(Member& member);
  bool give_up(const char* what);

  EngineSession& session_;
  std::mt19937_64 random_;
  uint32_t most_words_ = 1;  // of a persona or a prompt
  std::vector<Member> members_;
  uint64_t tokens_ = 0, ended_ = 0;
  bool failed_ = false;
};

}  // namespace banter::tools
