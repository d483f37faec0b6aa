// What the sampler tests share.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "sampling/sampler.h"

namespace banter::sampling {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/** Nothing between the logits and the draw. */
inline SamplingParams all_off() {
  SamplingParams p;
  p.temperature = 1.0f;
  p.top_k = 0;
  p.top_p = 1.0f;
  p.min_p = 0.0f;
  return p;
}

inline std::unique_ptr<Sampler> make(const SamplingParams& params, int32_t vocabulary, int32_t max_tokens = 256) {
  auto sampler = Sampler::create(params, vocabulary, max_tokens);
  EXPECT_TRUE(sampler) << sampler.error().message;
  return std::move(*sampler);
}

/** About normal, standard deviation 2.8. */
inline std::vector<float> random_logits(size_t n, uint32_t seed) {
  std::mt19937 bits(seed);
  std::vector<float> logits(n);
  // No std::normal_distribution: its numbers differ between standard libraries.
  for (float& x : logits) {
    x = 0;
    for (int i = 0; i < 6; ++i) x += static_cast<float>(bits() >> 8) * 0x1p-24f - 0.5f;
    x *= 4.0f;
  }
  return logits;
}

/** Everything that remembers tokens, at once. */
inline SamplingParams with_memory() {
  SamplingParams p = all_off();
  p.repetition_penalty = 1.2f;
  p.frequency_penalty = 0.3f;
  p.penalty_last_n = 7;
  p.dry_multiplier = 0.5f;
  p.dry_allowed_length = 1;
  p.dry_breakers = {{3, 4}, {6}};
  return p;
}

}  // namespace banter::sampling
