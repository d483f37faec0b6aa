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
 *  penalties; ties go to the lowest id). Mirostat 2 replaces everything from top-k on, temperature too (except 0, which
 *  stays greedy). Ranges are checked by validate().
 *
 *  Every filter works on the probabilities that the filters before it left, renormalised; top-p and typical keep the
 *  token that reaches the mass; equal logits rank by id, lowest first; at least one token always survives. */
struct SamplingParams {
  uint64_t seed = 0;
  float temperature = 0.7f;         // [0, 10]
  int32_t top_k = 40;               // 0 = off
  float top_p = 0.95f;              // (0, 1]; 1 = off
  float min_p = 0.05f;              // [0, 1); 0 = off
  float typical_p = 1.0f;           // (0, 1]; 1 = off
  float repetition_penalty = 1.0f;  // [0.01, 10]; 1 = off; Keskar et al. 2019
  float presence_penalty = 0.0f;    // [-10, 10]
  float frequency_penalty = 0.0f;   // [-10, 10]
  int32_t penalty_last_n = 64;      // tokens of history the penalties see; 0 = off, -1 = all
  float dry_multiplier = 0.0f;      // [0, 100]; 0 = off
  float dry_base = 1.75f;           // [1, 10]
  int32_t dry_allowed_length = 2;   // >= 1; a repeat of this many tokens is the shortest that is penalised
  int32_t dry_last_n = -1;          // 0 = off, -1 = all
  float xtc_probability = 0.0f;     // [0, 1]; 0 = off
  float xtc_threshold = 0.1f;       // [0, 1]; > 0.5 never acts
  int32_t mirostat = 0;             // 0 or 2
  float mirostat_tau = 5.0f, mirostat_eta = 0.1f;          // (0, 100] bits of surprise aimed at, (0, 1] learning rate
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // finite, or -inf to ban; several for one token add up
  /** Sequences that a DRY match may not cross. A breaker of one token is never penalised itself. */
  std::vector<std::vector<TokenId>> dry_breakers = {};
};

/** INVALID_ARGUMENT naming the field, its value and its range. */
Result<void> validate(const SamplingParams& params, int32_t vocabulary_size);

/** Uniform random bits for (seed, position): counter-based (Philox 4x32-10, Salmon et al. 2011), so the n-th token of a
 *  request draws the same number whatever else runs. */
std::array<uint32_t, 4> philox(uint64_t seed, uint64_t counter);
/** The same generator with all of its key and counter words. */
std::array<uint32_t, 4> philox(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter);

/** Counter for the draw of the `index`-th token of a reply (< 2^40) after `rollbacks` (< 2^24) rollbacks of that reply.
 *  A token drawn again in place of a rejected one needs a fresh number: with the old one, the neighbours of the
 *  rejected token would be preferred. Without rollbacks this is `index`. */
constexpr uint64_t draw_position(uint64_t index, uint32_t rollbacks) {
  return index | uint64_t{rollbacks} << 40;
}

/** One token that may be chosen, and the probability that it is. */
struct TokenProbability {
  TokenId token;
  float probability;
};

/** A model's logits of one position: all of them, or the best, the others on call (a device would have to send them). */
struct LogitRow {
  LogitRow() = default;
  LogitRow(std::span<float> logits) : all(logits) {}     // NOLINT(google-explicit-constructor)
  LogitRow(std::vector<float>& logits) : all(logits) {}  // NOLINT(google-explicit-constructor)

  std::span<float> all;  // [vocabulary], scratch of the sampler; empty: only the best are here
  /** All logits above `rest`, in any order, none of them infinite or NaN; no other logit that is a number is above it. */
  std::span<const TokenId> best;
  std::span<const float> best_logits;
  float rest = 0.0f;
  /** Brings all of them; empty when that failed. */
  std::span<float> (*fetch)(void* context, int32_t row) = nullptr;
  void* context = nullptr;
  int32_t row = 0;
};

/** Scratch memory of sample(), about 32 bytes per vocabulary entry. Samplers that are used by one thread share one, so
 *  that many requests cost little. Filled with sizes by Sampler::create; never touched by two threads at once. */
class Workspace;
std::shared_ptr<Workspace> make_workspace();

/** The chain of one request. Not thread-safe; no allocation after create() in sample(), distribution(), accept() and
 *  rollback().
 *
 *  Deterministic: the same parameters, history, logits and position give the same token on every machine and for every
 *  thread. Sums have a fixed order, exp() is our own, and no step depends on the width of vector registers; what is
 *  left to the platform is the C library's log() (typical, top-p without top-k, min-p, mirostat), where a difference in
 *  the last bit could only move a token that lies exactly on a filter's border. */
class Sampler {
 public:
  /** @param max_tokens  most tokens of history (prompt and reply) it will be shown; beyond it the oldest are forgotten
   *  @param workspace   shared with other samplers of the same thread; null = one of its own
   *  @returns INVALID_ARGUMENT as validate() says it, or for sizes below 1 */
  static Result<std::unique_ptr<Sampler>> create(const SamplingParams& params, int32_t vocabulary_size,
                                                 int32_t max_tokens, std::shared_ptr<Workspace> workspace = nullptr);
  virtual ~Sampler() = default;
  /** Picks a token. Non-finite logits are treated as -inf. Which logits are here changes nothing but the time: where the
   *  best do not suffice, all are fetched.
   *  @param banned  tokens that must not be chosen now (banned strings, unused tokens, grammar); if nothing is left: -1
   *  @param position  index of the token in the reply: the counter of the random draw */
  virtual TokenId sample(const LogitRow& logits, std::span<const TokenId> banned, uint64_t position) = 0;
  /** The probabilities from which sample() with the same arguments would draw (XTC's coin included), tokens ascending;
   *  greedy gives one token. Empty when nothing is left. Valid until the next call on this thread's workspace. */
  virtual std::span<const TokenProbability> distribution(std::span<float> logits, std::span<const TokenId> banned,
                                                         uint64_t position) = 0;
  /** Adds a token to the history that penalties and DRY see: the prompt's tokens first, then each chosen one. Mirostat
   *  learns here, from the token of the last sample(); sample() itself changes no state. */
  virtual void accept(TokenId token) = 0;
  /** Takes the newest `count` accepted tokens back, as if they had never been accepted (banned strings, rejected
   *  drafts). Clamped to what is remembered. */
  virtual void rollback(int32_t count) = 0;
};

}  // namespace banter::sampling
