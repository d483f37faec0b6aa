// Reading quantised weights on the device: from planes to bytes, from packed scales to floats; and the one formula in
// which a block of 32 columns enters a sum. Layout: device_weight.h.
#pragma once

#include "backend_cuda/device.h"
#include "ops/packed_form.h"

namespace banter::cuda {

/** A packed form's properties as constants: nvcc evaluates constexpr functions of the host at class scope, not in kernels. */
template <ops::FormId kId>
struct Form {
  static constexpr ops::PackedForm kPacked = ops::packed_form(kId);
  static constexpr int kBaseBits = kPacked.base_bits;
  static constexpr int kExtraBits = kPacked.extra_bits;
  static constexpr uint32_t kAdd = 0x01010101u * kPacked.add;
  static constexpr int kTable = kPacked.table;
  static constexpr ops::ScaleKind kScale = kPacked.scale;
  static constexpr bool kSuper = kPacked.is_super();
  static constexpr bool kPer16 = kPacked.per_16();
  static constexpr bool kHasMin = kPacked.has_min();
  static constexpr int kHeaderBytes = kPacked.header_bytes();
  static constexpr int kScaleBytes = kPacked.scale_bytes();
  static constexpr int kBlockBytes = kPacked.block_bytes();
  /** What is subtracted from codes. */
  static constexpr int32_t kZero = kPacked.zero == ops::Zero::k8     ? 8
                                   : kPacked.zero == ops::Zero::k16  ? 16
                                   : kPacked.zero == ops::Zero::k32  ? 32
                                   : kPacked.zero == ops::Zero::k128 ? 128
                                                                     : 0;
};

constexpr uint32_t table_word(int table, int word) {
  const uint8_t* bytes = ops::kTables[table] + 4 * word;
  return bytes[0] | bytes[1] << 8 | static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}
template <int kTable>
struct Table {
  static constexpr uint32_t k0 = table_word(kTable, 0), k1 = table_word(kTable, 1);
  static constexpr uint32_t k2 = table_word(kTable, 2), k3 = table_word(kTable, 3);
};

/** Table values of the eight nibbles of `codes`: of the low ones of each byte, and of the high ones. */
template <int kTable>
__device__ __forceinline__ void look_up(uint32_t codes, uint32_t& low, uint32_t& high) {
  using T = Table<kTable>;
  // Three bits choose among eight bytes, the fourth between the table's halves.
  const uint32_t within = codes & 0x77777777u;
  const uint32_t half = (codes >> 1 & 0x44444444u) | 0x32103210u;
  const uint32_t first = permute_bytes(permute_bytes(T::k0, T::k1, within), permute_bytes(T::k2, T::k3, within), half);
  const uint32_t second =
      permute_bytes(permute_bytes(T::k0, T::k1, within >> 16), permute_bytes(T::k2, T::k3, within >> 16), half >> 16);
  low = permute_bytes(first, second, 0x6420);
  high = permute_bytes(first, second, 0x7531);
}

/** Where a word's bits are: what expand() needs of a row's planes for word w. 8-bit and 2-bit base planes have a word in
 *  each half; extra planes are one word (1 bit) or two (2 bits). */
struct CodeWords {
  uint32_t base[2];
  uint32_t extra[2];
};

/** Codes of columns 4w..4w+3 (`low`) and 16+4w..16+4w+3 (`high`), unsigned bytes, tables looked up. */
template <ops::FormId kId>
__device__ __forceinline__ void expand(const CodeWords& words, int w, uint32_t& low, uint32_t& high) {
  using F = Form<kId>;
  if constexpr (F::kTable >= 0) {
    look_up<F::kTable>(words.base[0], low, high);
  } else if constexpr (F::kBaseBits == 8) {
    low = words.base[0];
    high = words.base[1];
  } else if constexpr (F::kBaseBits == 4) {
    low = words.base[0] & 0x0F0F0F0Fu;
    high = words.base[0] >> 4 & 0x0F0F0F0Fu;
  } else {
    low = words.base[0] >> (2 * w) & 0x03030303u;
    high = words.base[1] >> (2 * w) & 0x03030303u;
  }
  if constexpr (F::kExtraBits == 1) {
    low |= (words.extra[0] >> w & 0x01010101u) << F::kBaseBits;
    high |= (words.extra[0] >> (w + 4) & 0x01010101u) << F::kBaseBits;
  } else if constexpr (F::kExtraBits == 2) {
    low |= (words.extra[0] >> (2 * w) & 0x03030303u) << F::kBaseBits;
    high |= (words.extra[1] >> (2 * w) & 0x03030303u) << F::kBaseBits;
  }
  if constexpr (F::kAdd != 0) {
    low += F::kAdd;
    high += F::kAdd;
  }
}

/** Scales as they stand in memory: a block's, and those of its super-block. */
struct RawScale {
  uint32_t first, second;
};
struct RawHeader {
  uint32_t d, minimum;
};

__device__ __forceinline__ uint32_t load_u16(const uint8_t* at) {
  return *reinterpret_cast<const uint16_t*>(at);
}

template <ops::FormId kId>
__device__ __forceinline__ RawHeader load_header(const uint8_t* header, int r) {
  using F = Form<kId>;
  RawHeader raw = {0, 0};
  if constexpr (F::kSuper) raw.d = load_u16(header + 2 * r);
  if constexpr (F::kSuper && F::kHasMin) raw.minimum = load_u16(header + 64 + 2 * r);
  return raw;
}

/** Of row r in block `sub` of its super-block. */
template <ops::FormId kId>
__device__ __forceinline__ RawScale load_scale(const uint8_t* header, const uint8_t* block, int sub, int r) {
  using F = Form<kId>;
  RawScale raw = {0, 0};
  if constexpr (F::kScale == ops::ScaleKind::kSuper32) {
    raw.first = header[64 + 32 * sub + r];
  } else if constexpr (F::kSuper) {
    raw.first = block[r];
    raw.second = block[32 + r];
  } else {
    raw.first = load_u16(block + 2 * r);
    if constexpr (F::kHasMin) raw.second = load_u16(block + 64 + 2 * r);
  }
  return raw;
}

/** A header's numbers as floats. */
struct HeaderScale {
  float d, minimum;
};
__device__ __forceinline__ HeaderScale decode(const RawHeader& raw) {
  return {half_to_float(static_cast<uint16_t>(raw.d)), half_to_float(static_cast<uint16_t>(raw.minimum))};
}

__device__ __forceinline__ float from_int8(uint32_t byte) {
  return static_cast<float>(static_cast<int8_t>(byte));
}

/** The scale of the codes in half `half` of the block (all the same unless the form scales 16). */
template <ops::FormId kId>
__device__ __forceinline__ float scale_of(const RawScale& raw, const HeaderScale& header, int half) {
  using F = Form<kId>;
  const uint32_t small = half == 0 ? raw.first : raw.second;
  if constexpr (F::kScale == ops::ScaleKind::kPower) return bfloat_to_float(static_cast<uint16_t>(raw.first));
  if constexpr (!F::kSuper) return half_to_float(static_cast<uint16_t>(raw.first));
  if constexpr (F::kScale == ops::ScaleKind::kSuper32) return header.d * from_int8(raw.first);
  if constexpr (F::kScale == ops::ScaleKind::kSuper32Min) return header.d * static_cast<float>(raw.first);
  if constexpr (F::kScale == ops::ScaleKind::kSuper16) return header.d * from_int8(small);
  return header.d * static_cast<float>(small & 15u);
}

/** What is subtracted, times the activations' sum; forms with a minimum only. */
template <ops::FormId kId>
__device__ __forceinline__ float minimum_of(const RawScale& raw, const HeaderScale& header, int half) {
  using F = Form<kId>;
  const uint32_t small = half == 0 ? raw.first : raw.second;
  if constexpr (!F::kSuper) return -half_to_float(static_cast<uint16_t>(raw.second));  // added in the file
  if constexpr (F::kScale == ops::ScaleKind::kSuper32Min) return header.minimum * static_cast<float>(raw.second);
  return header.minimum * static_cast<float>(small >> 4);
}

/** One block of 32 columns (16 where the form scales 16) enters the sum f. `dot` = Σ code · q − zero · Σ q, exact;
 *  d_sum = d · Σ q. Every kernel adds blocks by this, in the order of columns. */
template <ops::FormId kId>
__device__ __forceinline__ float add_block(float f, float dot, float scale, float d, float minimum, float d_sum) {
  f = fmaf(dot, scale * d, f);
  if constexpr (Form<kId>::kHasMin) f = fmaf(-minimum, d_sum, f);
  return f;
}

/** Offset in a panel of block b; and of its super-block's header. */
template <ops::FormId kId>
__device__ __forceinline__ size_t block_offset(int32_t b) {
  using F = Form<kId>;
  if constexpr (!F::kSuper) return static_cast<size_t>(b) * F::kBlockBytes;
  return static_cast<size_t>(b) * F::kBlockBytes + static_cast<size_t>(b / ops::kSuperBlocks + 1) * F::kHeaderBytes;
}
template <ops::FormId kId>
__device__ __forceinline__ size_t header_offset(int32_t b) {
  using F = Form<kId>;
  constexpr int kStride = F::kHeaderBytes + ops::kSuperBlocks * F::kBlockBytes;
  return static_cast<size_t>(b / ops::kSuperBlocks) * kStride;
}

}  // namespace banter::cuda
