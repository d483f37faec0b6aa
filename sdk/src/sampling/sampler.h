// From logits to one token: the sampler chain of one request.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace banter::sampling {

using TokenId = int32_t;

/** Parameters of the chain, applied in this order: logit bias, banned tokens, repetition/presence/frequency penalties,
 *  DRY, top-k, typical, top-p, min-p, XTC, temperature, draw. `temperature` 0 is greedy (argmax after bias, bans and
 *  penalties; ties go to the lowest id). Mirostat 2 replaces everything from top-k on. Ranges are checked by validate(). */
struct SamplingParams {
  uint64_t seed = 0;
  float temperature = 0.7f;          // [0, 10]
  int32_t top_k = 40;                // 0 = off
  float top_p = 0.95f;               // (0, 1]; 1 = off
  float min_p = 0.05f;               // [0, 1); 0 = off
  float typical_p = 1.0f;            // (0, 1]; 1 = off
  float repetition_penalty = 1.0f;   // [0.01, 10]; 1 = off; Keskar et al. 2019
  float presence_penalty = 0.0f;     // [-10, 10]
  float frequency_penalty = 0.0f;    // [-10, 10]
  int32_t penalty_last_n = 64;       // tokens of history the penalties see; 0 = off, -1 = all
  float dry_multiplier = 0.0f;       // [0, 100]; 0 = off
  float dry_base = 1.75f;            // [1, 10]
  int32_t dry_allowed_length = 2;
  int32_t dry_last_n = -1;           // -1 = all
  float xtc_probability = 0.0f;      // [0, 1]; 0 = off
  float xtc_threshold = 0.1f;        // [0, 1]; > 0.5 never acts
  int32_t mirostat = 0;              // 0 or 2
  float mirostat_tau = 5.0f, mirostat_eta = 0.1f;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<std::vector<TokenId>> dry_breakers;   // sequences that a DRY match may not cross
};

/** INVALID_ARGUMENT naming the field, its value and its range. */
Result<void> validate(const SamplingParams& params, int32_t vocabulary_size);

/** Uniform random bits for (seed, position): counter-based (Philox 4x32-10, Salmon et al. 2011), so the n-th token of a
 *  request draws the same number whatever else runs. */
std::array<uint32_t, 4> philox(uint64_t seed, uint64_t counter);

/** The chain of one request. Not thread-safe; no allocation after create() in sample() and accept(). */
class Sampler {
 public:
  /** @param max_tokens  most tokens of history (prompt and reply) it will be shown */
  static Result<std::unique_ptr<Sampler>> create(const SamplingParams& params, int32_t vocabulary_size, int32_t max_tokens);
  virtual ~Sampler() = default;
  /** Picks a token. `logits` [vocabulary_size] is scratch: it may be changed. Non-finite logits are treated as -inf.
   *  @param banned  tokens that must not be chosen now (banned strings, unused tokens, grammar); if nothing is left: -1
   *  @param position  index of the token in the reply: the counter of the random draw */
  virtual TokenId sample(std::span<float> logits, std::span<const TokenId> banned, uint64_t position) = 0;
  /** Adds a token to the history that penalties and DRY see: the prompt's tokens first, then each chosen one. */
  virtual void accept(TokenId token) = 0;
};

}  // namespace banter::sampling
