// Passes over a whole vocabulary of logits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "sampling/workspace.h"

namespace banter::sampling {

inline constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

/** e^x for x <= 0 with a relative error below 3e-7; 0 below -87 and for NaN. Plain arithmetic without branches or
 *  comparisons, so that compilers vectorise loops of it and every machine gets the same bits.
 *
 *  x = n ln2 + r, |r| <= ln2 / 2; e^r by its Taylor series to r^7 (truncation < 6e-9); 2^n through the exponent bits.
 */
inline float exp_nonpositive(float x) {
  constexpr float kLowest = -87.0f;  // e^-87 is still a normal number
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // high part has 9 bits: n * high is exact
  constexpr float kRound = 12582912.0f;                                // 1.5 * 2^23: adding it rounds to an integer
  constexpr int32_t kMagnitude = 0x7fffffff;
  // All ones where |x| < 87: magnitudes order like integers, and NaN and infinity above every number.
  const int32_t bits = std::bit_cast<int32_t>(x);
  const int32_t mask = ((bits & kMagnitude) - (std::bit_cast<int32_t>(kLowest) & kMagnitude)) >> 31;
  const float inside = std::bit_cast<float>(bits & mask);
  const float shifted = inside * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (inside - n * kLn2High) - n * kLn2Low;
  float series = 1.0f / 5040.0f;
  series = series * r + 1.0f / 720.0f;
  series = series * r + 1.0f / 120.0f;
  series = series * r + 1.0f / 24.0f;
  series = series * r + 1.0f / 6.0f;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const float scale = std::bit_cast<float>((exponent + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<int32_t>(series * scale) & mask);
}

/** One vocabulary of logits, with the maximum of each block. NaN counts as absent everywhere; +inf is replaced by -inf
 *  in the constructor. Views caller's memory: valid while `logits` and `workspace` are, and `logits` are not changed. */
class LogitScan {
 public:
  /** One pass over `logits`. */
  LogitScan(std::span<float> logits, Workspace& workspace);

  /** Largest logit, or kNoLogit when there is none. */
  float max() const { return max_; }
  bool empty() const { return max_ == kNoLogit; }
  /** Lowest id among the largest logits. Precondition: not empty. */
  TokenId argmax() const;
  /** A value that at least `k` logits reach (kNoLogit when only that is known): everything below it is not in the top
   *  k. */
  float lower_bound_of_top(size_t k);
  /** Replaces workspace.candidates by the tokens with logit >= threshold (weights 0), ids ascending. */
  void collect(float threshold);
  /** sum over tokens of e^(logit - max()). */
  double sum_exp() const;
  /** Draws from softmax(logits / temperature) without building candidates. `u` in [0, 1). */
  TokenId draw(float temperature, double u);

 private:
  size_t blocks() const { return (logits_.size() + kBlock - 1) / kBlock; }
  /** The kBlock logits of a block; the last one is copied to `padded` [kBlock] and filled up with kNoLogit. */
  const float* block(size_t b, float* padded) const;
  void find_maxima();

  std::span<float> logits_;
  Workspace& workspace_;
  float max_ = kNoLogit;
};

}  // namespace banter::sampling
