// The reference backend's KV pages: every format written out plainly. A vector's values stand first, its scales behind.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "ops/reference_backend.h"

namespace banter::ops {

namespace {

// Beyond the largest half an infinity would stand in the cache and poison positions that are masked.
float clamp_to_half(float x) {
  return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
}

void write_u16(std::byte* target, uint16_t value) {
  std::memcpy(target, &value, 2);
}
uint16_t read_u16(const std::byte* source) {
  uint16_t value;
  std::memcpy(&value, source, 2);
  return value;
}

// round(x / scale) to even, in [low, high]; not-a-number becomes low.
int32_t to_level(float x, float scale, float low, float high) {
  if (scale == 0.0f) return 0;
  const float level = std::nearbyint(x / scale);
  return static_cast<int32_t>(level >= low ? (level <= high ? level : high) : low);
}

void store_int8(const float* x, int32_t count, int8_t* levels, std::byte* scale_at) {
  float largest = 0;
  for (int32_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(clamp_to_half(x[i])));
  const uint16_t half = float_to_half(largest / 127.0f);
  const float scale = half_to_float(half);
  for (int32_t i = 0; i < count; ++i) levels[i] = static_cast<int8_t>(to_level(clamp_to_half(x[i]), scale, -127, 127));
  write_u16(scale_at, half);
}

// Levels 0..7 of 16 values go to the low, 8..15 to the high halves of 8 bytes.
void store_int4(const float* x, std::byte* levels, std::byte* scale_at) {
  float values[16], signed_largest = 0;
  for (int32_t i = 0; i < 16; ++i) {
    values[i] = clamp_to_half(x[i]);
    if (std::abs(values[i]) > std::abs(signed_largest)) signed_largest = values[i];
  }
  float least_error = INFINITY;
  for (const float divisor : kKvInt4Divisors) {
    const uint16_t half = float_to_half(-signed_largest / divisor);
    const float scale = half_to_float(half);
    int32_t level[16];
    float error = 0;
    for (int32_t i = 0; i < 16; ++i) {
      level[i] = to_level(values[i], scale, -8, 7);
      const float difference = static_cast<float>(level[i]) * scale - values[i];
      error += difference * difference;
    }
    if (error >= least_error) continue;
    least_error = error;
    write_u16(scale_at, half);
    for (int32_t i = 0; i < 8; ++i) levels[i] = static_cast<std::byte>((level[i] & 15) | (level[i + 8] & 15) << 4);
  }
  if (least_error < INFINITY) return;
  write_u16(scale_at, 0);  // only not-a-number can bring it here
  std::memset(levels, 0, 8);
}

int32_t int4_level(std::byte packed, bool high) {
  const int32_t nibble = high ? static_cast<int32_t>(packed) >> 4 : static_cast<int32_t>(packed) & 15;
  return nibble >= 8 ? nibble - 16 : nibble;
}

}  // namespace

void rotate_hadamard(double* x, int32_t head_dim) {
  const int32_t block = kv_rotation_block(head_dim);
  double turned[128];
  for (int32_t start = 0; start < head_dim; start += block) {
    for (int32_t row = 0; row < block; ++row) {
      turned[row] = 0;
      for (int32_t column = 0; column < block; ++column) {
        const bool negative = std::popcount(static_cast<uint32_t>(row & column)) % 2 == 1;
        turned[row] += negative ? -x[start + column] : x[start + column];
      }
    }
    for (int32_t row = 0; row < block; ++row) x[start + row] = turned[row] / std::sqrt(static_cast<double>(block));
  }
}

std::optional<KvLayout> ReferenceBackend::kv_layout(const KvGeometry& geometry) const {
  const size_t vector = kv_vector_bytes(geometry.type, geometry.head_dim);
  const size_t scales = 2 * static_cast<size_t>(kv_scales(geometry.type, geometry.head_dim));
  KvLayout::Region region;
  region.values = {.offset = 0, .runs = 1, .run_bytes = vector - scales, .token_step = vector};
  region.scales = {.offset = vector - scales, .runs = 1, .run_bytes = scales, .token_step = vector};
  return KvLayout{{region, region}};
}

std::byte* ReferenceBackend::kv_vector(const KvPages& kv, const StepSequence& sequence, int32_t layer, int value,
                                       int32_t head, int32_t t) {
  const KvGeometry& geometry = kv.geometry;
  const std::span<const int32_t> table = sequence.page_tables[static_cast<size_t>(kv.group)];
  const size_t index = static_cast<size_t>(t / geometry.page_tokens);
  if (index >= table.size() || table[index] < 0) {
    missing_page_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  return kv.page(table[index]) + geometry.offset(layer, value, head) +
         static_cast<size_t>(t % geometry.page_tokens) * kv_vector_bytes(geometry.type, geometry.head_dim);
}

void ReferenceBackend::store_kv(const KvPages& kv, const StepSequence& sequence, int32_t layer, int value, int32_t head,
                                int32_t t, const float* vector) {
  std::byte* target = kv_vector(kv, sequence, layer, value, head, t);
  if (target == nullptr) return;
  const KvType type = kv.geometry.type;
  const int32_t head_dim = kv.geometry.head_dim;
  if (type == KvType::kF32) {
    std::memcpy(target, vector, static_cast<size_t>(head_dim) * sizeof(float));
    return;
  }
  std::byte* scales = target + static_cast<size_t>(head_dim) * kv_bytes_of_16(type) / 16;
  for (int32_t i = 0; i < head_dim; ++i) {
    if (type == KvType::kF16) write_u16(target + 2 * i, float_to_half(vector[i]));
    if (type == KvType::kBF16) write_u16(target + 2 * i, float_to_bfloat(vector[i]));
    if (type == KvType::kI8 && i % 32 == 0) {
      store_int8(vector + i, std::min(32, head_dim - i), reinterpret_cast<int8_t*>(target) + i, scales + 2 * (i / 32));
    }
    if (type == KvType::kI4 && i % 16 == 0) store_int4(vector + i, target + i / 2, scales + 2 * (i / 16));
  }
}

bool ReferenceBackend::load_kv(const KvPages& kv, const StepSequence& sequence, int32_t layer, int value, int32_t head,
                               int32_t t, double* out) {
  const std::byte* source = kv_vector(kv, sequence, layer, value, head, t);
  if (source == nullptr) return false;
  const KvType type = kv.geometry.type;
  const int32_t head_dim = kv.geometry.head_dim;
  const std::byte* scales = source + static_cast<size_t>(head_dim) * kv_bytes_of_16(type) / 16;
  for (int32_t i = 0; i < head_dim; ++i) {
    switch (type) {
      case KvType::kF32: {
        float x;
        std::memcpy(&x, source + 4 * i, 4);
        out[i] = x;
        break;
      }
      case KvType::kF16:
        out[i] = half_to_float(read_u16(source + 2 * i));
        break;
      case KvType::kBF16:
        out[i] = bfloat_to_float(read_u16(source + 2 * i));
        break;
      case KvType::kI8:
        out[i] = double{half_to_float(read_u16(scales + 2 * (i / 32)))} * static_cast<int8_t>(source[i]);
        break;
      case KvType::kI4:
        out[i] = double{half_to_float(read_u16(scales + 2 * (i / 16)))} *
                 int4_level(source[i / 16 * 8 + i % 8], i % 16 >= 8);
        break;
    }
  }
  return true;
}

}  // namespace banter::ops
