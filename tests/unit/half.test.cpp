// Half floats against their definition, for every bit pattern.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace banter {
namespace {

/** The value of a binary floating-point pattern by definition, with `fraction_bits` and a bias. */
double defined_value(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const double fraction = bits & ((1u << fraction_bits) - 1);
  const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + std::ldexp(1.0, fraction_bits), exponent - bias - fraction_bits);
}

template <class ToFloat, class FromFloat>
void check_every_pattern(int exponent_bits, int fraction_bits, ToFloat to_float, FromFloat from_float) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = defined_value(bits, exponent_bits, fraction_bits);
    const float value = to_float(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(to_float(from_float(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), (bits >> 15) != 0) << bits;
    ASSERT_EQ(from_float(value), bits) << "round trip";
  }
}

/** Between neighbours a and b: the middle goes to the even pattern, and what is beside the middle to the nearer one. */
template <class ToFloat, class FromFloat>
void check_rounding(uint16_t infinity, ToFloat to_float, FromFloat from_float) {
  for (uint16_t low = 0; low + 1 < infinity; ++low) {
    const uint16_t high = static_cast<uint16_t>(low + 1);
    const auto middle = static_cast<float>((static_cast<double>(to_float(low)) + to_float(high)) / 2);
    const uint16_t even = low % 2 == 0 ? low : high;
    ASSERT_EQ(from_float(middle), even) << low;
    ASSERT_EQ(from_float(-middle), even | 0x8000) << low;
    ASSERT_EQ(from_float(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(from_float(std::nextafter(middle, INFINITY)), high) << low;
  }
}

TEST(Half, EveryPatternHasItsDefinedValueAndRoundTrips) {
  check_every_pattern(5, 10, half_to_float, float_to_half);
}

TEST(Half, RoundsToNearestEven) {
  check_rounding(0x7C00, half_to_float, float_to_half);
}

TEST(Half, OverflowBecomesInfinityAndUnderflowZero) {
  EXPECT_EQ(float_to_half(65504.0f), 0x7BFF);
  EXPECT_EQ(float_to_half(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_half(-1e30f), 0xFC00);
  EXPECT_EQ(float_to_half(INFINITY), 0x7C00);
  EXPECT_EQ(float_to_half(std::ldexp(1.0f, -25)), 0x0000);
  EXPECT_EQ(float_to_half(std::nextafter(std::ldexp(1.0f, -25), 1.0f)), 0x0001);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(Bfloat, EveryPatternHasItsDefinedValueAndRoundTrips) {
  check_every_pattern(8, 7, bfloat_to_float, float_to_bfloat);
}

TEST(Bfloat, RoundsToNearestEven) {
  check_rounding(0x7F80, bfloat_to_float, float_to_bfloat);
}

TEST(Bfloat, OverflowBecomesInfinityAndNanStaysNan) {
  EXPECT_EQ(float_to_bfloat(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(float_to_bfloat(-INFINITY), 0xFF80);
  // A NaN whose upper bits alone would read as infinity.
  EXPECT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(std::bit_cast<float>(0x7F800001u)))));
}

}  // namespace
}  // namespace banter
