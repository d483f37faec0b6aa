// Rotary embedding frequencies: the scaling variants that stretch a model's context, folded into one table per layer kind.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/backend.h"

namespace banter::model {

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,  // positions divided by `factor` (Chen et al. 2023, position interpolation)
  kYarn,    // slow pairs interpolated, fast ones kept, attention sharpened (Peng et al. 2023)
};

/** Everything that decides how far a pair turns per position. Ranges are the caller's to check. */
struct RopeConfig {
  int32_t rotary_dims = 0;  // first dimensions of a head that turn; even, ≥ 2
  double base = 10000.0;    // > 1
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;            // > 0: how many times longer the context became
  int32_t original_context = 0;   // tokens before stretching (YaRN)
  double attention_factor = 1.0;  // multiplies cos and sin (longrope's factor; YaRN's comes on top)
  double beta_fast = 32.0,
         beta_slow = 1.0;      // YaRN: turns within original_context at which interpolation begins, is whole
  double extrapolation = 1.0;  // YaRN: share of the unscaled angle where it applies, [0, 1]
  /** Divisors of each pair's frequency (Llama 3's rope_freqs, Phi-3's long and short factors); empty = 1.
   *  [rotary_dims / 2], finite and > 0. */
  std::vector<float> divisors;
  bool adjacent_pairs = false;
  int32_t max_positions = 0;
};

/** inverse_frequency[k] = base^(−2k/rotary_dims) / divisors[k], scaled as `config` says. */
ops::RopeSpec make_rope(const RopeConfig& config);

}  // namespace banter::model
