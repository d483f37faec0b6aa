#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace banter::model {

namespace {

// The pair (as a real number) that makes `turns` full turns within the original context: the solution for k of
// original_context · base^(−2k/n) = 2π · turns. Peng et al. 2023, YaRN, section 3.2.
double pair_of_turns(const RopeConfig& c, double turns) {
  return c.rotary_dims * std::log(c.original_context / (2.0 * std::numbers::pi * turns)) / (2.0 * std::log(c.base));
}

}  // namespace

ops::RopeSpec make_rope(const RopeConfig& c) {
  ops::RopeSpec spec;
  spec.adjacent_pairs = c.adjacent_pairs;
  spec.max_positions = c.max_positions;
  double magnitude = c.attention_factor;
  double low = 0, high = 0;
  if (c.scaling == RopeScaling::kYarn) {
    low = std::max(0.0, std::floor(pair_of_turns(c, c.beta_fast)));
    high = std::min(c.rotary_dims - 1.0, std::ceil(pair_of_turns(c, c.beta_slow)));
    if (c.extrapolation != 0.0) magnitude *= 1.0 + 0.1 * std::log(c.factor);
  }
  const int32_t pairs = c.rotary_dims / 2;
  for (int32_t k = 0; k < pairs; ++k) {
    double frequency = std::pow(c.base, -2.0 * k / c.rotary_dims);
    if (!c.divisors.empty()) frequency /= c.divisors[static_cast<size_t>(k)];
    const double interpolated = frequency / c.factor;
    if (c.scaling == RopeScaling::kLinear) frequency = interpolated;
    if (c.scaling == RopeScaling::kYarn) {
      // 0.001: low and high may coincide for tiny heads; the ramp is then a step.
      const double ramp = std::clamp((k - low) / std::max(0.001, high - low), 0.0, 1.0);
      const double keep = (1.0 - ramp) * c.extrapolation;
      frequency = interpolated * (1.0 - keep) + frequency * keep;
    }
    spec.inverse_frequency.push_back(frequency);
  }
  spec.magnitude = static_cast<float>(magnitude);
  return spec;
}

}  // namespace banter::model
