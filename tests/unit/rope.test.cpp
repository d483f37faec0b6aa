// Rotary frequencies against numbers worked out apart from this code, and against the properties their papers promise.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace banter::model {
namespace {

RopeConfig config(int32_t dims, double base) {
  RopeConfig c;
  c.rotary_dims = dims;
  c.base = base;
  c.max_positions = 4096;
  return c;
}

TEST(Rope, PlainFrequenciesAreAGeometricSeries) {
  const ops::RopeSpec spec = make_rope(config(8, 10000.0));
  ASSERT_EQ(spec.inverse_frequency.size(), 4u);
  const double expected[] = {1.0, 0.1, 0.01, 0.001};
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(spec.inverse_frequency[k], expected[k], 1e-15);
  EXPECT_EQ(spec.magnitude, 1.0f);
  EXPECT_FALSE(spec.adjacent_pairs);
  EXPECT_EQ(spec.max_positions, 4096);
}

TEST(Rope, LinearScalingDividesPositions) {
  RopeConfig c = config(8, 10000.0);
  c.scaling = RopeScaling::kLinear;
  c.factor = 8.0;
  const ops::RopeSpec plain = make_rope(config(8, 10000.0)), spec = make_rope(c);
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(spec.inverse_frequency[k], plain.inverse_frequency[k] / 8.0, 1e-16);
  EXPECT_EQ(spec.magnitude, 1.0f);
}

TEST(Rope, DivisorsDivideEachPair) {
  RopeConfig c = config(8, 10000.0);
  c.divisors = {1.0f, 2.0f, 4.0f, 32.0f};
  c.attention_factor = 1.25;
  const ops::RopeSpec spec = make_rope(c);
  const double expected[] = {1.0, 0.05, 0.0025, 0.001 / 32};
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(spec.inverse_frequency[k], expected[k], 1e-15);
  EXPECT_EQ(spec.magnitude, 1.25f);
}

// Qwen 2.5's YaRN: head of 128, base 1e6, factor 4 over 32768. The borders solve
// 32768 · 1e6^(−2k/128) = 2π · turns: k = 23.6 for 32 turns, 39.6 for one, so the ramp runs from 23 to 40.
TEST(Rope, YarnKeepsFastPairsAndInterpolatesSlowOnes) {
  RopeConfig c = config(128, 1e6);
  const ops::RopeSpec plain = make_rope(c);
  c.scaling = RopeScaling::kYarn;
  c.factor = 4.0;
  c.original_context = 32768;
  const ops::RopeSpec spec = make_rope(c);
  for (size_t k = 0; k < 64; ++k) {
    const double ramp = k <= 23 ? 0.0 : k >= 40 ? 1.0 : (static_cast<double>(k) - 23.0) / 17.0;
    const double ratio = ramp / 4.0 + (1.0 - ramp);
    EXPECT_NEAR(spec.inverse_frequency[k] / plain.inverse_frequency[k], ratio, 1e-12) << "pair " << k;
  }
  EXPECT_NEAR(spec.magnitude, 1.0 + 0.1 * std::log(4.0), 1e-6);
}

TEST(Rope, YarnWithoutExtrapolationIsLinear) {
  RopeConfig c = config(64, 10000.0);
  c.scaling = RopeScaling::kYarn;
  c.factor = 2.0;
  c.original_context = 2048;
  c.extrapolation = 0.0;
  RopeConfig linear = c;
  linear.scaling = RopeScaling::kLinear;
  const ops::RopeSpec a = make_rope(c), b = make_rope(linear);
  for (size_t k = 0; k < 32; ++k) EXPECT_DOUBLE_EQ(a.inverse_frequency[k], b.inverse_frequency[k]);
  EXPECT_EQ(a.magnitude, 1.0f);
}

// Two dimensions and a tiny context put both borders on the same pair; nothing may divide by zero.
TEST(Rope, YarnSurvivesDegenerateShapes) {
  for (const int32_t dims : {2, 4, 8}) {
    for (const int32_t context : {1, 2, 100}) {
      RopeConfig c = config(dims, 1.001);
      c.scaling = RopeScaling::kYarn;
      c.factor = 65536.0;
      c.original_context = context;
      c.beta_fast = c.beta_slow = 1.0;
      for (const double frequency : make_rope(c).inverse_frequency) {
        EXPECT_TRUE(std::isfinite(frequency));
        EXPECT_GT(frequency, 0.0);
      }
    }
  }
}

}  // namespace
}  // namespace banter::model
