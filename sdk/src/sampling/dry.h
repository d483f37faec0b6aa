// "Don't repeat yourself": lowers tokens that would prolong a repeat of what was said before.
#pragma once

#include <span>

#include "sampling/token_history.h"

namespace banter::sampling {

/** For every earlier place at which the last m tokens occurred already, m >= allowed_length, the token that followed
 *  there is lowered by multiplier * base^(m - allowed_length), m being the longest such repeat for that token. A repeat
 *  ends at a breaker. Needs Workspace::reserve() with this window. */
class Dry {
 public:
  /** @param capacity  of the history */
  Dry(const SamplingParams& params, size_t capacity);
  static bool enabled(const SamplingParams& params) { return params.dry_multiplier > 0.0f && params.dry_last_n != 0; }
  /** Most tokens that are looked at; 0 = off. */
  size_t window() const { return window_; }
  /** TokenHistory::Entry::since_breaker of a token that is about to be pushed. */
  int32_t since_breaker(const TokenHistory& history, TokenId token) const;
  /** O(window), by the Z algorithm (Gusfield 1997) on the reversed window. */
  void apply(std::span<float> logits, const TokenHistory& history, Workspace& workspace) const;

 private:
  bool ends_here(const std::vector<TokenId>& breaker, const TokenHistory& history) const;
  bool is_breaker(TokenId token) const;
  float penalty(int32_t match) const;

  float multiplier_, base_;
  int32_t allowed_length_;
  size_t window_;
  std::vector<std::vector<TokenId>> breakers_;  // sorted by last token, then length
};

}  // namespace banter::sampling
