// How much of the time the engine may compute: a budget per frame of the game, or a share of the time.
#pragma once

#include <cstdint>

namespace banter::engine {

/** What happened between two layers. */
struct Rest {
  uint64_t ns = 0;  // slept, which is not the step's time
  bool goes_on = true;
};

/** Two accounts of computing time, each of which must be in credit for a step to begin. A step that takes longer than its
 *  credit leaves a debt, so that the average holds whatever a single step costs; where a step can rest between its layers
 *  it does so instead, and goes on when there is credit again. Told the time, so that it can be tested.
 *
 *  Frame account: every frame fills it up with the budget; nothing is saved for later frames. Without news of a frame for
 *  kSilentNs a game that does not tell is assumed, at 60 frames a second.
 *  Share account: fills with share · time, up to kMostSavedNs. */
class Pacer {
 public:
  static constexpr uint64_t kNoLimit = UINT64_MAX;

  /** @param ns  computing time per frame, 0 = no such limit */
  void set_frame_budget(uint64_t ns, uint64_t now);
  /** @param share  of the time, (0, 1]; 1 = no such limit */
  void set_share(double share, uint64_t now);
  /** `count` frames have begun. */
  void frames(uint64_t count, uint64_t now);

  bool is_limited() const { return budget_ > 0 || share_ < 1; }
  /** Computing time that the limits leave of `ns`; kNoLimit: they leave all. */
  uint64_t part_of(uint64_t ns) const;
  /** Nanoseconds that a step beginning now should take at most; 0: none may begin before wake_at(). */
  uint64_t allowance(uint64_t now);
  /** After allowance() was 0: when it will not be, if no frame begins before. */
  uint64_t wake_at(uint64_t now) const;
  /** A step took this long. */
  void spend(uint64_t ns);

 private:
  static constexpr double kAssumedFrameNs = 1e9 / 60;
  static constexpr uint64_t kSilentNs = 100'000'000;
  static constexpr double kMostSavedNs = 10e6;

  void refill(uint64_t now);
  bool is_silent(uint64_t now) const { return now - last_frame_ > kSilentNs; }

  double budget_ = 0, share_ = 1;
  double frame_credit_ = 0, share_credit_ = 0;  // ns
  uint64_t last_frame_ = 0, refilled_ = 0;
};

}  // namespace banter::engine
