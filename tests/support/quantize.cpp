#include "support/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace banter::test {
namespace {

using formats::TensorType;
using formats::TypeTraits;

constexpr int kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr float kE2m1[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, 0, -.5f, -1, -1.5f, -2, -3, -4, -6};

void store_u16(uint8_t* out, uint16_t value) {
  out[0] = static_cast<uint8_t>(value);
  out[1] = static_cast<uint8_t>(value >> 8);
}

void store_u32(uint8_t* out, uint32_t value) {
  store_u16(out, static_cast<uint16_t>(value));
  store_u16(out + 2, static_cast<uint16_t>(value >> 16));
}

/** Stores a scale and returns what a reader will see, so that codes are chosen for the scale as stored. */
float store_half(uint8_t* out, float value) {
  const uint16_t half = float_to_half(value);
  store_u16(out, half);
  return half_to_float(half);
}

/** round(x / scale) within [low, high]; 0 (or the bound nearest to it) where the scale is 0. */
int code(float x, float scale, int low, int high) {
  const float q = scale == 0 ? 0.0f : std::nearbyint(x / scale);
  return static_cast<int>(std::clamp(q, static_cast<float>(low), static_cast<float>(high)));
}

template <class Level>
int nearest(const Level (&levels)[16], float x) {
  int best = 0;
  for (int i = 1; i < 16; ++i) {
    if (std::fabs(static_cast<float>(levels[i]) - x) < std::fabs(static_cast<float>(levels[best]) - x)) best = i;
  }
  return best;
}

/** The element of largest magnitude, with its sign. */
float extreme(std::span<const float> x) {
  float best = 0;
  for (const float value : x) {
    if (std::fabs(value) > std::fabs(best)) best = value;
  }
  return best;
}

/** Stores the 32 nibbles of the short types: element i low, element i + 16 high. */
void store_nibbles(uint8_t* out, const int (&codes)[32]) {
  for (int i = 0; i < 16; ++i) out[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

uint32_t fifth_bits(const int (&codes)[32]) {
  uint32_t high = 0;
  for (int i = 0; i < 32; ++i) high |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
  return high;
}

void encode_q8_0(std::span<const float> x, uint8_t* out) {
  const float d = store_half(out, std::fabs(extreme(x)) / 127);
  for (int i = 0; i < 32; ++i) out[2 + i] = static_cast<uint8_t>(code(x[i], d, -127, 127));
}

/** Q4_0 (levels = 16) and Q5_0 (levels = 32). */
void encode_symmetric(std::span<const float> x, uint8_t* out, int levels) {
  const float d = store_half(out, extreme(x) / static_cast<float>(-levels / 2));
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = code(x[i], d, -levels / 2, levels / 2 - 1) + levels / 2;
  if (levels == 32) store_u32(out + 2, fifth_bits(codes));
  store_nibbles(out + (levels == 32 ? 6 : 2), codes);
}

/** Q4_1 (levels = 16) and Q5_1 (levels = 32). */
void encode_affine(std::span<const float> x, uint8_t* out, int levels) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const float d = store_half(out, (*high - *low) / static_cast<float>(levels - 1));
  const float m = store_half(out + 2, *low);
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = code(x[i] - m, d, 0, levels - 1);
  if (levels == 32) store_u32(out + 4, fifth_bits(codes));
  store_nibbles(out + (levels == 32 ? 8 : 4), codes);
}

void encode_iq4_nl(std::span<const float> x, uint8_t* out) {
  const float d = store_half(out, extreme(x) / -127);
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = nearest(kIq4Levels, d == 0 ? 0 : x[i] / d);
  store_nibbles(out + 2, codes);
}

void encode_mxfp4(std::span<const float> x, uint8_t* out) {
  const float largest = std::fabs(extreme(x));
  const int exponent = largest == 0 ? 0 : std::clamp(std::ilogb(largest) - 2 + 127, 0, 254);
  out[0] = static_cast<uint8_t>(exponent);
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = nearest(kE2m1, std::ldexp(x[i], 127 - exponent));
  store_nibbles(out + 1, codes);
}

/** Scale and offset of each group of an affine K-quant: x = scale * code - offset with code in [0, top], offset >= 0.
 */
struct Groups {
  float scale[16];
  float offset[16];
  float largest_scale = 0;
  float largest_offset = 0;
};

Groups affine_groups(std::span<const float> x, int size, int top) {
  Groups groups;
  for (int g = 0; g < 256 / size; ++g) {
    const auto [low, high] = std::minmax_element(x.begin() + g * size, x.begin() + (g + 1) * size);
    groups.offset[g] = std::max(0.0f, -*low);
    groups.scale[g] = std::max(0.0f, *high + groups.offset[g]) / static_cast<float>(top);
    groups.largest_scale = std::max(groups.largest_scale, groups.scale[g]);
    groups.largest_offset = std::max(groups.largest_offset, groups.offset[g]);
  }
  return groups;
}

void encode_q2_k(std::span<const float> x, uint8_t* out) {
  const Groups groups = affine_groups(x, 16, 3);
  const float d = store_half(out + 80, groups.largest_scale / 15);
  const float dmin = store_half(out + 82, groups.largest_offset / 15);
  std::fill(out + 16, out + 80, uint8_t{0});
  for (int g = 0; g < 16; ++g) {
    const int scale = code(groups.scale[g], d, 0, 15);
    const int offset = code(groups.offset[g], dmin, 0, 15);
    out[g] = static_cast<uint8_t>(scale | offset << 4);
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int q = code(x[i] + dmin * static_cast<float>(offset), d * static_cast<float>(scale), 0, 3);
      out[16 + 32 * (i / 128) + i % 32] |= static_cast<uint8_t>(q << (2 * (i % 128 / 32)));
    }
  }
}

void encode_q3_k(std::span<const float> x, uint8_t* out) {
  float scales[16];
  float largest = 0;
  for (int g = 0; g < 16; ++g) {
    scales[g] = extreme(x.subspan(16 * g, 16)) / -4;  // signed: the extreme becomes code -4
    largest = std::max(largest, std::fabs(scales[g]));
  }
  std::fill(out, out + 108, uint8_t{0});
  const float d = store_half(out + 108, largest / 31);
  for (int g = 0; g < 16; ++g) {
    const int scale = code(scales[g], d, -32, 31);
    out[96 + g % 8] |= static_cast<uint8_t>(((scale + 32) & 15) << (4 * (g / 8)));
    out[104 + g % 4] |= static_cast<uint8_t>(((scale + 32) >> 4) << (2 * (g / 4)));
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int q = code(x[i], d * static_cast<float>(scale), -4, 3) + 4;
      out[32 + 32 * (i / 128) + i % 32] |= static_cast<uint8_t>((q & 3) << (2 * (i % 128 / 32)));
      out[i % 32] |= static_cast<uint8_t>((q >> 2) << (i / 32));
    }
  }
}

/** Packs the 6-bit scale and minimum of one group of Q4_K or Q5_K. */
void pack_k4(uint8_t* packed, int group, int scale, int minimum) {
  if (group < 4) {
    packed[group] |= static_cast<uint8_t>(scale);
    packed[group + 4] |= static_cast<uint8_t>(minimum);
  } else {
    packed[group + 4] |= static_cast<uint8_t>((scale & 15) | (minimum & 15) << 4);
    packed[group - 4] |= static_cast<uint8_t>(scale >> 4 << 6);
    packed[group] |= static_cast<uint8_t>(minimum >> 4 << 6);
  }
}

/** Q4_K (bits = 4) and Q5_K (bits = 5). */
void encode_k4(std::span<const float> x, uint8_t* out, int bits) {
  const int top = (1 << bits) - 1;
  const Groups groups = affine_groups(x, 32, top);
  const float d = store_half(out, groups.largest_scale / 63);
  const float dmin = store_half(out + 2, groups.largest_offset / 63);
  uint8_t* high = out + 16;
  uint8_t* low = bits == 5 ? out + 48 : out + 16;
  std::fill(out + 4, low + 128, uint8_t{0});
  for (int g = 0; g < 8; ++g) {
    const int scale = code(groups.scale[g], d, 0, 63);
    const int minimum = code(groups.offset[g], dmin, 0, 63);
    pack_k4(out + 4, g, scale, minimum);
    for (int i = 0; i < 32; ++i) {
      const int q = code(x[32 * g + i] + dmin * static_cast<float>(minimum), d * static_cast<float>(scale), 0, top);
      low[32 * (g / 2) + i] |= static_cast<uint8_t>((q & 15) << (4 * (g & 1)));
      if (bits == 5) high[i] |= static_cast<uint8_t>(q >> 4 << g);
    }
  }
}

void encode_q6_k(std::span<const float> x, uint8_t* out) {
  float scales[16];
  float largest = 0;
  for (int g = 0; g < 16; ++g) {
    scales[g] = extreme(x.subspan(16 * g, 16)) / -32;
    largest = std::max(largest, std::fabs(scales[g]));
  }
  std::fill(out, out + 208, uint8_t{0});
  const float d = store_half(out + 208, largest / 127);
  for (int g = 0; g < 16; ++g) {
    const int scale = code(scales[g], d, -128, 127);
    out[192 + g] = static_cast<uint8_t>(scale);
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int q = code(x[i], d * static_cast<float>(scale), -32, 31) + 32;
      const int quarter = i % 128 / 32;
      out[64 * (i / 128) + 32 * (quarter & 1) + i % 32] |= static_cast<uint8_t>((q & 15) << (4 * (quarter >> 1)));
      out[128 + 32 * (i / 128) + i % 32] |= static_cast<uint8_t>((q >> 4) << (2 * quarter));
    }
  }
}

void encode_iq4_xs(std::span<const float> x, uint8_t* out) {
  float scales[8];
  float largest = 0;
  for (int g = 0; g < 8; ++g) {
    scales[g] = extreme(x.subspan(32 * g, 32)) / -127;
    largest = std::max(largest, std::fabs(scales[g]));
  }
  const float d = store_half(out, largest / 31);
  std::fill(out + 4, out + 8, uint8_t{0});
  uint16_t high = 0;
  for (int g = 0; g < 8; ++g) {
    const int scale = code(scales[g], d, -32, 31);
    out[4 + g / 2] |= static_cast<uint8_t>(((scale + 32) & 15) << (4 * (g % 2)));
    high = static_cast<uint16_t>(high | ((scale + 32) >> 4) << (2 * g));
    const float step = d * static_cast<float>(scale);
    int codes[32];
    for (int i = 0; i < 32; ++i) codes[i] = nearest(kIq4Levels, step == 0 ? 0 : x[32 * g + i] / step);
    store_nibbles(out + 8 + 16 * g, codes);
  }
  store_u16(out + 2, high);
}

void encode_block(TensorType type, std::span<const float> x, uint8_t* out) {
  switch (type) {
    case TensorType::kF32:
      return store_u32(out, std::bit_cast<uint32_t>(x[0]));
    case TensorType::kF16:
      return store_u16(out, float_to_half(x[0]));
    case TensorType::kBF16:
      return store_u16(out, float_to_bfloat(x[0]));
    case TensorType::kQ8_0:
      return encode_q8_0(x, out);
    case TensorType::kQ4_0:
      return encode_symmetric(x, out, 16);
    case TensorType::kQ5_0:
      return encode_symmetric(x, out, 32);
    case TensorType::kQ4_1:
      return encode_affine(x, out, 16);
    case TensorType::kQ5_1:
      return encode_affine(x, out, 32);
    case TensorType::kQ2_K:
      return encode_q2_k(x, out);
    case TensorType::kQ3_K:
      return encode_q3_k(x, out);
    case TensorType::kQ4_K:
      return encode_k4(x, out, 4);
    case TensorType::kQ5_K:
      return encode_k4(x, out, 5);
    case TensorType::kQ6_K:
      return encode_q6_k(x, out);
    case TensorType::kIQ4_NL:
      return encode_iq4_nl(x, out);
    case TensorType::kIQ4_XS:
      return encode_iq4_xs(x, out);
    case TensorType::kMXFP4:
      return encode_mxfp4(x, out);
  }
}

/** SplitMix64: one multiply-and-shift step per number, the same everywhere. */
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

}  // namespace

std::vector<std::byte> quantize(TensorType type, std::span<const float> values) {
  const TypeTraits& traits = formats::type_traits(type);
  const size_t blocks = values.size() / traits.block_elements;
  std::vector<std::byte> out(blocks * traits.block_bytes);
  auto* bytes = reinterpret_cast<uint8_t*>(out.data());
  for (size_t block = 0; block < blocks; ++block) {
    encode_block(type, values.subspan(block * traits.block_elements, traits.block_elements),
                 bytes + block * traits.block_bytes);
  }
  return out;
}

std::vector<float> dequantize_all(TensorType type, std::span<const std::byte> blocks) {
  const TypeTraits& traits = formats::type_traits(type);
  std::vector<float> out(blocks.size() / traits.block_bytes * traits.block_elements);
  formats::dequantize(type, blocks.data(), out.data(), out.size());
  return out;
}

std::vector<float> random_values(size_t count, uint64_t seed, float deviation) {
  uint64_t state = seed;
  std::vector<float> out(count);
  for (float& value : out) {
    // The sum of four uniform numbers: bell-shaped, exact in float, and without library functions that may differ.
    const uint64_t bits = next_random(state);
    int32_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<int32_t>(bits >> (16 * i) & 0xFFFF) - 32768;
    value = static_cast<float>(sum) * (deviation / 37837.2f);  // 65536 * sqrt(4 / 12)
  }
  return out;
}

std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
  uint64_t state = seed;
  std::vector<std::byte> out(count);
  for (std::byte& byte : out) byte = static_cast<std::byte>(next_random(state) >> 56);
  return out;
}

}  // namespace banter::test
