// Repetition, presence and frequency penalties.
#pragma once

#include <span>

#include "sampling/token_history.h"

namespace banter::sampling {

/** Keeps the counts of the last `penalty_last_n` tokens and lowers the logits of those tokens:
 *  repetition (Keskar et al. 2019, CTRL): positive logits are divided by the penalty, negative ones multiplied;
 *  presence: minus the penalty once; frequency: minus the penalty times the count. */
class Penalties {
 public:
  /** @param capacity  of the history */
  Penalties(const SamplingParams& params, size_t capacity);
  static bool enabled(const SamplingParams& params);
  /** Call before the token is pushed to `history`. */
  void before_push(const TokenHistory& history, TokenId token);
  /** Call after `token` was popped from `history`. */
  void after_pop(const TokenHistory& history, TokenId token);
  void apply(std::span<float> logits) const;

 private:
  float repetition_, presence_, frequency_;
  size_t window_;  // 0 = off
  TokenCounts counts_;
};

}  // namespace banter::sampling
