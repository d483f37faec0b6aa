// How cached keys and values are stored: the page formats, their sizes, and which keys a row reads unquantised.
//
// INT8 and INT4 store vectors that were turned by an orthonormal Hadamard matrix in blocks of kv_rotation_block()
// dimensions, which spreads a vector's few large components over all of them (Ashkboos et al. 2024, QuaRot): keys after
// the rotary embedding, queries likewise, so that q·k stays; values too, and the attention's output is turned back.
// A vector is then cut into groups of kv_scale_group() values with a half-float scale each, from that vector alone:
// what a token's cache holds does not depend on any other token, on chunks or on batches.
//   INT8: x = q · s, q in [-127, 127], s = max|x| / 127.
//   INT4: x = q · s, q in [-8, 7], s = m / -d with m the value of largest magnitude and d of kKvInt4Divisors the one
//         that leaves the least squared error.
// Where a model's keys have a large part that is the same in all of them, that part is taken off before (RopeKvParams::
// k_shift); scales and levels then describe what differs.
// The newest tokens are read as F16 from a companion group of the same layers (GroupSpec::companion), see kv_is_recent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace banter::ops {

enum class KvType : uint8_t {
  kF16,
  kF32,   // exact, twice the size: what the reference backend uses unless told otherwise
  kBF16,  // the range of F32 with 8 significant bits
  kI8,
  kI4,
};
inline constexpr int kKvTypes = 5;

/** "f16", "f32", "bf16", "int8", "int4". */
constexpr const char* kv_type_name(KvType type) {
  switch (type) {
    case KvType::kF16:
      return "f16";
    case KvType::kF32:
      return "f32";
    case KvType::kBF16:
      return "bf16";
    case KvType::kI8:
      return "int8";
    case KvType::kI4:
      return "int4";
  }
  return "f16";
}

/** INT8 and INT4: vectors are rotated and scaled. */
constexpr bool kv_is_quantised(KvType type) {
  return type == KvType::kI8 || type == KvType::kI4;
}

/** Values that share a scale; the last group of a vector may be shorter. 0: the format has no scales. */
constexpr int32_t kv_scale_group(KvType type) {
  return type == KvType::kI8 ? 32 : type == KvType::kI4 ? 16 : 0;
}

/** Scales of one head's K (or V) vector. */
constexpr int32_t kv_scales(KvType type, int32_t head_dim) {
  const int32_t group = kv_scale_group(type);
  return group == 0 ? 0 : (head_dim + group - 1) / group;
}

/** What INT4 may divide its largest magnitude by; around 8, since the least squared error may clip or widen a little. */
inline constexpr float kKvInt4Divisors[] = {8.0f, 7.5f, 8.5f, 9.0f};

/** Bytes of one value in 16: 64, 32, 16 or 8. */
constexpr size_t kv_bytes_of_16(KvType type) {
  return type == KvType::kF32 ? 64 : type == KvType::kI8 ? 16 : type == KvType::kI4 ? 8 : 32;
}

/** Bytes of one head's K (or V) vector of one token, scales included. Quantised: head_dim is a multiple of 16. */
constexpr size_t kv_vector_bytes(KvType type, int32_t head_dim) {
  return static_cast<size_t>(head_dim) * kv_bytes_of_16(type) / 16 + 2 * static_cast<size_t>(kv_scales(type, head_dim));
}

/** Dimensions that are rotated together: the largest power of two up to 128 that divides head_dim; 0 where that is
 *  below 16, and such heads cannot be quantised. */
constexpr int32_t kv_rotation_block(int32_t head_dim) {
  const int32_t block = std::min(head_dim & -head_dim, 128);
  return block < 16 ? 0 : block;
}

/** Whether heads of this size can be stored in `type`. */
constexpr bool kv_fits(KvType type, int32_t head_dim) {
  return head_dim >= 1 && (!kv_is_quantised(type) || kv_rotation_block(head_dim) != 0);
}

/** Keys are read in blocks of 64 at absolute positions; a row reads its own block and the one before from the companion
 *  group. That depends on the two positions only, never on chunks. */
inline constexpr int32_t kKvRecentBlock = 64;
constexpr bool kv_is_recent(int32_t key_position, int32_t row_position) {
  return key_position / kKvRecentBlock + 1 >= row_position / kKvRecentBlock;
}
/** Positions that a companion group must keep for that, the row's own included: its window. */
inline constexpr int32_t kKvRecentWindow = 2 * kKvRecentBlock;

}  // namespace banter::ops
