#include "sampling/penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace banter::sampling {
namespace {

size_t window_of(const SamplingParams& params, size_t capacity) {
  if (!Penalties::enabled(params)) return 0;
  return params.penalty_last_n < 0 ? capacity : std::min(capacity, static_cast<size_t>(params.penalty_last_n));
}

}  // namespace

bool Penalties::enabled(const SamplingParams& params) {
  return params.penalty_last_n != 0 &&
         (params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f);
}

Penalties::Penalties(const SamplingParams& params, size_t capacity)
    : repetition_(params.repetition_penalty),
      presence_(params.presence_penalty),
      frequency_(params.frequency_penalty),
      window_(window_of(params, capacity)),
      counts_(window_) {}

void Penalties::before_push(const TokenHistory& history, TokenId token) {
  if (window_ == 0) return;
  if (history.size() >= window_) counts_.remove(history.newest(window_ - 1).token);
  counts_.add(token);
}

void Penalties::after_pop(const TokenHistory& history, TokenId token) {
  if (window_ == 0) return;
  counts_.remove(token);
  if (history.size() >= window_) counts_.add(history.newest(window_ - 1).token);
}

void Penalties::apply(std::span<float> logits) const {
  if (window_ == 0) return;
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const TokenCounts::Slot& slot : counts_.slots()) {
    if (slot.count == 0 || slot.token < 0 || static_cast<size_t>(slot.token) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(slot.token)];
    if (!std::isfinite(logit)) continue;
    logit = logit > 0.0f ? logit / repetition_ : logit * repetition_;
    logit -= presence_ + frequency_ * static_cast<float>(slot.count);
    logit = std::clamp(logit, -kLargest, kLargest);  // a penalty never bans, nor makes a token infinitely likely
  }
}

}  // namespace banter::sampling
