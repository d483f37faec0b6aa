// Block layouts and formulas are drawn in sdk/docs/model-formats.md. Every product is rounded to float32 in the order
// written here: (scale * sub-scale) first, then times the code, then minus the offset. That order is part of the format
// as the reference tools define it, so results can be compared bit by bit.
#include "formats/tensor_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/half.h"

namespace banter::formats {
namespace {

constexpr TypeTraits kTypes[] = {
    {TensorType::kF32, "F32", 1, 4},           {TensorType::kF16, "F16", 1, 2},
    {TensorType::kBF16, "BF16", 1, 2},         {TensorType::kQ8_0, "Q8_0", 32, 34},
    {TensorType::kQ4_0, "Q4_0", 32, 18},       {TensorType::kQ4_1, "Q4_1", 32, 20},
    {TensorType::kQ5_0, "Q5_0", 32, 22},       {TensorType::kQ5_1, "Q5_1", 32, 24},
    {TensorType::kQ2_K, "Q2_K", 256, 84},      {TensorType::kQ3_K, "Q3_K", 256, 110},
    {TensorType::kQ4_K, "Q4_K", 256, 144},     {TensorType::kQ5_K, "Q5_K", 256, 176},
    {TensorType::kQ6_K, "Q6_K", 256, 210},     {TensorType::kIQ4_NL, "IQ4_NL", 32, 18},
    {TensorType::kIQ4_XS, "IQ4_XS", 256, 136}, {TensorType::kMXFP4, "MXFP4", 32, 17},
};

/** What else GGUF defines: enough to name it and to find where its bytes end. */
struct ForeignType {
  uint32_t id;
  std::string_view name;
  BlockLayout layout;
};
constexpr ForeignType kForeignTypes[] = {
    {9, "Q8_1", {32, 36}},      {15, "Q8_K", {256, 292}}, {16, "IQ2_XXS", {256, 66}}, {17, "IQ2_XS", {256, 74}},
    {18, "IQ3_XXS", {256, 98}}, {19, "IQ1_S", {256, 50}}, {21, "IQ3_S", {256, 110}},  {22, "IQ2_S", {256, 82}},
    {24, "I8", {1, 1}},         {25, "I16", {1, 2}},      {26, "I32", {1, 4}},        {27, "I64", {1, 8}},
    {28, "F64", {1, 8}},        {29, "IQ1_M", {256, 56}}, {34, "TQ1_0", {256, 54}},   {35, "TQ2_0", {256, 66}},
    {40, "NVFP4", {64, 36}},    {41, "Q1_0", {128, 18}},
};

constexpr uint32_t kIdLimit = 256;

struct TypeTables {
  std::array<int16_t, kIdLimit> ours{};     // index into kTypes, or -1
  std::array<int16_t, kIdLimit> foreign{};  // index into kForeignTypes, or -1
  std::array<BlockLayout, kIdLimit> layouts{};
  std::array<std::array<char, 9>, kIdLimit> fallback_names{};  // "type 255"
};

constexpr TypeTables make_tables() {
  TypeTables tables;
  for (uint32_t id = 0; id < kIdLimit; ++id) {
    tables.ours[id] = tables.foreign[id] = -1;
    auto& name = tables.fallback_names[id];
    name = {'t', 'y', 'p', 'e', ' '};
    size_t at = 5;
    if (id >= 100) name[at++] = static_cast<char>('0' + id / 100);
    if (id >= 10) name[at++] = static_cast<char>('0' + id / 10 % 10);
    name[at] = static_cast<char>('0' + id % 10);
  }
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    const auto id = static_cast<uint32_t>(kTypes[i].type);
    tables.ours[id] = static_cast<int16_t>(i);
    tables.layouts[id] = {kTypes[i].block_elements, kTypes[i].block_bytes};
  }
  for (size_t i = 0; i < std::size(kForeignTypes); ++i) {
    tables.foreign[kForeignTypes[i].id] = static_cast<int16_t>(i);
    tables.layouts[kForeignTypes[i].id] = kForeignTypes[i].layout;
  }
  return tables;
}

constexpr TypeTables kTables = make_tables();

uint16_t load_u16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}

uint32_t load_u32(const uint8_t* bytes) {
  return bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24;
}

float load_half(const uint8_t* bytes) {
  return half_to_float(load_u16(bytes));
}

/** A 4-bit level grid, finer around zero (IQ4 types). */
constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/** FP4 E2M1 doubled, so that its halves are whole numbers. */
constexpr int8_t kE2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/** 2^(e - 128): an E8M0 scale, halved because kE2m1Doubled is doubled. e < 2 gives a subnormal. */
float e8m0_half(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (uint32_t{e} - 1u) << 23);
}

void block_q8_0(const uint8_t* b, float* y) {
  const float d = load_half(b);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(static_cast<int8_t>(b[2 + i]));
}

// In the 32-element nibble types, byte i holds element i in its low half and element i + 16 in its high half.

void block_q4_0(const uint8_t* b, float* y) {
  const float d = load_half(b);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    y[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}

void block_q4_1(const uint8_t* b, float* y) {
  const float d = load_half(b);
  const float m = load_half(b + 2);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * static_cast<float>(b[4 + i] & 15) + m;
    y[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + m;
  }
}

/** The 5-bit code of element i: low four bits from `nibbles`, the fifth from bit i of `high`. */
int code5(const uint8_t* nibbles, uint32_t high, int i) {
  const int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
  return low | static_cast<int>((high >> i) & 1u) << 4;
}

void block_q5_0(const uint8_t* b, float* y) {
  const float d = load_half(b);
  const uint32_t high = load_u32(b + 2);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(code5(b + 6, high, i) - 16);
}

void block_q5_1(const uint8_t* b, float* y) {
  const float d = load_half(b);
  const float m = load_half(b + 2);
  const uint32_t high = load_u32(b + 4);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(code5(b + 8, high, i)) + m;
}

void block_iq4_nl(const uint8_t* b, float* y) {
  const float d = load_half(b);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * static_cast<float>(kIq4Levels[b[2 + i] & 15]);
    y[i + 16] = d * static_cast<float>(kIq4Levels[b[2 + i] >> 4]);
  }
}

void block_mxfp4(const uint8_t* b, float* y) {
  const float d = e8m0_half(b[0]);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * static_cast<float>(kE2m1Doubled[b[1 + i] & 15]);
    y[i + 16] = d * static_cast<float>(kE2m1Doubled[b[1 + i] >> 4]);
  }
}

void block_q2_k(const uint8_t* b, float* y) {
  const uint8_t* scales = b;
  const uint8_t* codes = b + 16;
  const float d = load_half(b + 80);
  const float dmin = load_half(b + 82);
  for (int group = 0; group < 16; ++group) {  // 16 elements share a scale
    const float scale = d * static_cast<float>(scales[group] & 15);
    const float offset = dmin * static_cast<float>(scales[group] >> 4);
    for (int i = 16 * group; i < 16 * group + 16; ++i) {
      const int code = codes[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
      y[i] = scale * static_cast<float>(code) - offset;
    }
  }
}

void block_q3_k(const uint8_t* b, float* y) {
  const uint8_t* high = b;
  const uint8_t* codes = b + 32;
  const uint8_t* scales = b + 96;
  const float d = load_half(b + 108);
  for (int group = 0; group < 16; ++group) {
    const int low4 = scales[group % 8] >> (4 * (group / 8)) & 15;
    const int high2 = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
    const float scale = d * static_cast<float>((low4 | high2 << 4) - 32);
    for (int i = 16 * group; i < 16 * group + 16; ++i) {
      const int low2 = codes[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
      const int below = (high[i % 32] >> (i / 32) & 1) != 0 ? 0 : 4;
      y[i] = scale * static_cast<float>(low2 - below);
    }
  }
}

/** Unpacks the eight 6-bit scales and eight 6-bit minima of Q4_K and Q5_K from twelve bytes. */
void unpack_k4(const uint8_t* packed, int group, int& scale, int& minimum) {
  if (group < 4) {
    scale = packed[group] & 63;
    minimum = packed[group + 4] & 63;
  } else {
    scale = (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4;
    minimum = packed[group + 4] >> 4 | (packed[group] >> 6) << 4;
  }
}

/** Q4_K, and Q5_K where `high` holds the fifth bits. */
void block_k4(const uint8_t* b, const uint8_t* high, const uint8_t* codes, float* y) {
  const float d = load_half(b);
  const float dmin = load_half(b + 2);
  for (int group = 0; group < 8; ++group) {  // 32 elements share a scale and a minimum
    int scale6 = 0;
    int minimum6 = 0;
    unpack_k4(b + 4, group, scale6, minimum6);
    const float scale = d * static_cast<float>(scale6);
    const float offset = dmin * static_cast<float>(minimum6);
    for (int i = 0; i < 32; ++i) {
      int code = codes[32 * (group / 2) + i] >> (4 * (group & 1)) & 15;
      if (high != nullptr) code |= (high[i] >> group & 1) << 4;
      y[32 * group + i] = scale * static_cast<float>(code) - offset;
    }
  }
}

void block_q4_k(const uint8_t* b, float* y) {
  block_k4(b, nullptr, b + 16, y);
}
void block_q5_k(const uint8_t* b, float* y) {
  block_k4(b, b + 16, b + 48, y);
}

void block_q6_k(const uint8_t* b, float* y) {
  const uint8_t* low = b;
  const uint8_t* high = b + 128;
  const uint8_t* scales = b + 192;
  const float d = load_half(b + 208);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[group]));
    for (int i = 16 * group; i < 16 * group + 16; ++i) {
      const int half = i / 128;
      const int quarter = i % 128 / 32;
      const int lane = i % 32;
      const int low4 = low[64 * half + 32 * (quarter & 1) + lane] >> (4 * (quarter >> 1)) & 15;
      const int high2 = high[32 * half + lane] >> (2 * quarter) & 3;
      y[i] = scale * static_cast<float>((low4 | high2 << 4) - 32);
    }
  }
}

void block_iq4_xs(const uint8_t* b, float* y) {
  const float d = load_half(b);
  const uint16_t scales_high = load_u16(b + 2);
  for (int group = 0; group < 8; ++group) {
    const int low4 = b[4 + group / 2] >> (4 * (group % 2)) & 15;
    const int high2 = scales_high >> (2 * group) & 3;
    const float scale = d * static_cast<float>((low4 | high2 << 4) - 32);
    const uint8_t* codes = b + 8 + 16 * group;
    float* out = y + 32 * group;
    for (int i = 0; i < 16; ++i) {
      out[i] = scale * static_cast<float>(kIq4Levels[codes[i] & 15]);
      out[i + 16] = scale * static_cast<float>(kIq4Levels[codes[i] >> 4]);
    }
  }
}

template <void (*kBlock)(const uint8_t*, float*)>
void each_block(TensorType type, const uint8_t* bytes, float* out, size_t count) {
  const TypeTraits& traits = type_traits(type);
  for (size_t block = 0; block < count / traits.block_elements; ++block) {
    kBlock(bytes + block * traits.block_bytes, out + block * traits.block_elements);
  }
}

}  // namespace

const TypeTraits* type_traits(uint32_t gguf_type_id) {
  if (gguf_type_id >= kIdLimit || kTables.ours[gguf_type_id] < 0) return nullptr;
  return &kTypes[kTables.ours[gguf_type_id]];
}

std::string_view type_name(uint32_t gguf_type_id) {
  if (gguf_type_id >= kIdLimit) return "unknown type";
  if (const TypeTraits* traits = type_traits(gguf_type_id)) return traits->name;
  if (kTables.foreign[gguf_type_id] >= 0) return kForeignTypes[kTables.foreign[gguf_type_id]].name;
  return kTables.fallback_names[gguf_type_id].data();
}

const BlockLayout* type_layout(uint32_t gguf_type_id) {
  if (gguf_type_id >= kIdLimit || kTables.layouts[gguf_type_id].elements == 0) return nullptr;
  return &kTables.layouts[gguf_type_id];
}

std::span<const TypeTraits> all_types() {
  return kTypes;
}

void dequantize(TensorType type, const std::byte* blocks, float* out, size_t count) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(blocks);
  switch (type) {
    case TensorType::kF32:
      for (size_t i = 0; i < count; ++i) out[i] = std::bit_cast<float>(load_u32(bytes + 4 * i));
      return;
    case TensorType::kF16:
      for (size_t i = 0; i < count; ++i) out[i] = load_half(bytes + 2 * i);
      return;
    case TensorType::kBF16:
      for (size_t i = 0; i < count; ++i) out[i] = bfloat_to_float(load_u16(bytes + 2 * i));
      return;
    case TensorType::kQ8_0:
      return each_block<block_q8_0>(type, bytes, out, count);
    case TensorType::kQ4_0:
      return each_block<block_q4_0>(type, bytes, out, count);
    case TensorType::kQ4_1:
      return each_block<block_q4_1>(type, bytes, out, count);
    case TensorType::kQ5_0:
      return each_block<block_q5_0>(type, bytes, out, count);
    case TensorType::kQ5_1:
      return each_block<block_q5_1>(type, bytes, out, count);
    case TensorType::kQ2_K:
      return each_block<block_q2_k>(type, bytes, out, count);
    case TensorType::kQ3_K:
      return each_block<block_q3_k>(type, bytes, out, count);
    case TensorType::kQ4_K:
      return each_block<block_q4_k>(type, bytes, out, count);
    case TensorType::kQ5_K:
      return each_block<block_q5_k>(type, bytes, out, count);
    case TensorType::kQ6_K:
      return each_block<block_q6_k>(type, bytes, out, count);
    case TensorType::kIQ4_NL:
      return each_block<block_iq4_nl>(type, bytes, out, count);
    case TensorType::kIQ4_XS:
      return each_block<block_iq4_xs>(type, bytes, out, count);
    case TensorType::kMXFP4:
      return each_block<block_mxfp4>(type, bytes, out, count);
  }
}

}  // namespace banter::formats
