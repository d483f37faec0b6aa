// How many guessed tokens are worth checking.
#pragma once

#include <algorithm>
#include <cstdint>

namespace banter::engine {

/** Chance that a guess is right, learned per reply. */
class Acceptance {
 public:
  /** Guesses worth checking: the i-th is right with chance^i, and costs `row` where the step as it is costs `step` for
   *  `tokens` tokens. At most `most`. */
  int32_t worthwhile(double step, double tokens, double row, int32_t most) const {
    double chance = 1, expected = tokens, cost = step;
    int32_t count = 0;
    for (; count < most; ++count) {
      chance *= chance_;
      // One more row must bring tokens faster than the step does without it.
      if (chance * cost <= row * expected) break;
      expected += chance;
      cost += row;
    }
    return count;
  }

  void learn(int32_t guessed, int32_t right) {
    for (int32_t i = 0; i < std::min(guessed, right + 1); ++i) {
      chance_ += kLearningRate * ((i < right ? 1.0 : 0.0) - chance_);
    }
    // Never hopeless: another passage of the reply may repeat.
    chance_ = std::clamp(chance_, 0.15, 0.98);
  }

 private:
  static constexpr double kLearningRate = 0.15;
  double chance_ = 0.6;
};

}  // namespace banter::engine
