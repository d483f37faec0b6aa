// The packed forms of weight matrices that backends share: panels of 32 rows, planes of bits, scales in front. As it stands
// here it is what the CPU backend computes on (one vector load brings 4 columns of 16 rows); the CUDA backend transposes
// the planes (backend_cuda/device_weight.h).
//
// A matrix W [rows][cols] is cut into panels of 32 rows (the last is filled up with zero rows), a panel into blocks of
// 32 columns that stand one after another, so a matrix-vector product reads memory front to back.
// Within a block, byte (g, r, j) belongs to row r and column 4g + j (g = 0..7 column group, j = 0..3):
//
//   8 bit   [g][r][j]                1 byte  = the code
//   4 bit   [g = 0..3][r][j]         low nibble = column group g, high nibble = column group g + 4
//   2 bit   [h = 0..1][r][j]         bits 2i..2i+1 = column group 4h + i
//   1 bit   [r][j]                   bit g = column group g
//
// Codes of 5, 6 and 3 bits are a 1-bit or 2-bit plane of their high bits, then a 4-bit (2-bit) plane. A code u is unsigned; its
// meaning is scale · (u − zero) [− minimum], or scale · (table[u] − zero) for the table types. Scales are exactly the
// file's: float16 (bfloat16 holds MXFP4's powers of two), or small integers times a float16 per 256 columns.
//
// In front of a block's codes stand its scales, and in front of every 8 blocks, where there is one, a header:
//
//                header                                block
//   kHalf                                              f16 scale[32]
//   kHalfMin                                           f16 scale[32], f16 minimum[32] (added)
//   kPower                                             bf16 scale[32]
//   kSuper32     f16 d[32], i8 scale[8][32]
//   kSuper32Min  f16 d[32], f16 dmin[32]               u8 scale[32], u8 minimum[32] (subtracted)
//   kSuper16     f16 d[32]                             i8 scale[2][32]
//   kSuper16Min  f16 d[32], f16 dmin[32]               u8 scale | minimum << 4 [2][32] (subtracted)
//
// Bytes per weight against the file: equal for Q8_0, Q4_x, Q5_x, IQ4_NL, Q2_K and Q6_K; Q4_K 148/144, Q5_K 180/176,
// Q3_K 114/110, IQ4_XS 138/136, MXFP4 18/17. F32, F16 and BF16: panels [col][32 rows] of the same elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/tensor_type.h"

namespace banter::ops {

inline constexpr int kPanelRows = 32;
inline constexpr int kBlock = 32;       // columns of a block, and of an activation scale
inline constexpr int kSuperBlocks = 8;  // blocks under one super-scale

enum class ScaleKind : uint8_t { kHalf, kHalfMin, kPower, kSuper32, kSuper32Min, kSuper16, kSuper16Min };

/** What is subtracted from codes: one of these, so that activations carry the products −zero · Σq ready-made. */
enum class Zero : uint8_t { k0, k8, k16, k32, k128 };

/** The shape of a packed type. Kernels take it as a template argument, the packing code as a value. */
struct PackedForm {
  uint8_t base_bits;   // 8, 4 or 2
  uint8_t extra_bits;  // 0, 1 or 2: the plane above
  uint8_t add;         // added to codes when they are unpacked, so that `zero` can be one of the five
  ScaleKind scale;
  Zero zero;
  int8_t table;  // -1, or kLevels / kE2m1: 4-bit codes look their value up (bytes, zero included)

  constexpr int code_bytes() const { return (base_bits + extra_bits) * 128; }
  constexpr bool is_super() const { return scale >= ScaleKind::kSuper32; }
  constexpr bool per_16() const { return scale == ScaleKind::kSuper16 || scale == ScaleKind::kSuper16Min; }
  constexpr bool has_min() const {
    return scale == ScaleKind::kHalfMin || scale == ScaleKind::kSuper32Min || scale == ScaleKind::kSuper16Min;
  }
  /** Bytes in front of every 8 blocks. */
  constexpr int header_bytes() const {
    switch (scale) {
      case ScaleKind::kSuper32:
        return 64 + 8 * 32;
      case ScaleKind::kSuper16:
        return 64;
      case ScaleKind::kSuper32Min:
      case ScaleKind::kSuper16Min:
        return 128;
      default:
        return 0;
    }
  }
  /** Bytes of scales in front of a block's codes. */
  constexpr int scale_bytes() const {
    return scale == ScaleKind::kSuper32 ? 0 : scale == ScaleKind::kHalfMin ? 128 : 64;
  }
  constexpr int block_bytes() const { return scale_bytes() + code_bytes(); }
  /** Bytes of a panel of `blocks` blocks (a multiple of 8 where is_super()). */
  constexpr size_t panel_bytes(int64_t blocks) const {
    const int64_t headers = is_super() ? blocks / kSuperBlocks : 0;
    return static_cast<size_t>(headers * header_bytes() + blocks * block_bytes());
  }
};

inline constexpr int8_t kNoTable = -1, kLevels = 0, kE2m1 = 1;
/** Table values plus their zero (128 and 16), as unsigned bytes: IQ4's levels; FP4 E2M1 doubled. */
inline constexpr uint8_t kTables[2][16] = {
    {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
    {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4},
};

/** The kinds of kernels; quantised types map to a PackedForm. */
enum class FormId : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
};
inline constexpr int kFormCount = 16;
inline constexpr int kFirstQuantised = 3;

/** Forms of the quantised ids, from kQ8_0 on. */
inline constexpr PackedForm kForms[kFormCount - kFirstQuantised] = {
    {8, 0, 0, ScaleKind::kHalf, Zero::k128, kNoTable},      // Q8_0
    {4, 0, 0, ScaleKind::kHalf, Zero::k8, kNoTable},        // Q4_0
    {4, 0, 0, ScaleKind::kHalfMin, Zero::k0, kNoTable},     // Q4_1
    {4, 1, 0, ScaleKind::kHalf, Zero::k16, kNoTable},       // Q5_0
    {4, 1, 0, ScaleKind::kHalfMin, Zero::k0, kNoTable},     // Q5_1
    {2, 0, 0, ScaleKind::kSuper16Min, Zero::k0, kNoTable},  // Q2_K
    {2, 1, 28, ScaleKind::kSuper16, Zero::k32, kNoTable},   // Q3_K: zero 4
    {4, 0, 0, ScaleKind::kSuper32Min, Zero::k0, kNoTable},  // Q4_K
    {4, 1, 0, ScaleKind::kSuper32Min, Zero::k0, kNoTable},  // Q5_K
    {4, 2, 0, ScaleKind::kSuper16, Zero::k32, kNoTable},    // Q6_K
    {4, 0, 0, ScaleKind::kHalf, Zero::k128, kLevels},       // IQ4_NL
    {4, 0, 0, ScaleKind::kSuper32, Zero::k128, kLevels},    // IQ4_XS
    {4, 0, 0, ScaleKind::kPower, Zero::k16, kE2m1},         // MXFP4
};
constexpr bool is_quantised(FormId id) {
  return static_cast<int>(id) >= kFirstQuantised;
}
constexpr const PackedForm& packed_form(FormId id) {
  return kForms[static_cast<int>(id) - kFirstQuantised];
}

/** The form of a file's type. All of TensorType is covered. */
FormId form_of(formats::TensorType type);

/** Bytes of one panel of a matrix with `cols` columns (a whole number of the type's blocks). */
size_t panel_bytes(FormId form, int64_t cols);

/** Packs rows [32·panel, 32·panel + 32) ∩ [0, rows) of `data` (file layout, any alignment) into `out`. */
void pack_panel(formats::TensorType type, int64_t rows, int64_t cols, const std::byte* data, int64_t panel,
                uint8_t* out);

}  // namespace banter::ops
