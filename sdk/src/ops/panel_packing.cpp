// Repacking a file's blocks into panels (packed_form.h).
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ops/packed_form.h"

namespace banter::ops {
namespace {

using formats::TensorType;

uint16_t load_u16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}
void store_u16(uint8_t* bytes, uint16_t value) {
  bytes[0] = static_cast<uint8_t>(value);
  bytes[1] = static_cast<uint8_t>(value >> 8);
}

/** One row of 8 blocks (or of 1), unpacked from the file: what packing needs, whatever the type. */
struct RowCodes {
  uint8_t code[256];
  uint16_t d = 0, minimum = 0;  // f16 bits (bf16 for MXFP4)
  uint8_t scale[16];            // small scales, as their bytes
  uint8_t small_minimum[16];
};

void nibbles(const uint8_t* packed, uint8_t* code) {
  for (int i = 0; i < 16; ++i) {
    code[i] = packed[i] & 15;
    code[i + 16] = packed[i] >> 4;
  }
}

/** Bits 0 to 3 of `nibble` to bit 4 of four bytes: the product puts copies 7 bits apart, which carries never reach. */
uint32_t spread_to_bit4(uint32_t nibble) {
  return (nibble * 0x00204081u & 0x01010101u) << 4;
}

void fifth_bits(const uint8_t* packed, uint8_t* code) {
  for (int i = 0; i < 8; ++i) {
    uint32_t four;
    std::memcpy(&four, code + 4 * i, sizeof four);
    four |= spread_to_bit4(packed[i / 2] >> (4 * (i % 2)) & 15u);
    std::memcpy(code + 4 * i, &four, sizeof four);
  }
}

void read_k4(const uint8_t* b, const uint8_t* high, const uint8_t* codes, RowCodes& row) {
  row.d = load_u16(b);
  row.minimum = load_u16(b + 2);
  const uint8_t* packed = b + 4;
  for (int g = 0; g < 8; ++g) {
    if (g < 4) {
      row.scale[g] = packed[g] & 63;
      row.small_minimum[g] = packed[g + 4] & 63;
    } else {
      row.scale[g] = static_cast<uint8_t>((packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4);
      row.small_minimum[g] = static_cast<uint8_t>(packed[g + 4] >> 4 | (packed[g] >> 6) << 4);
    }
    for (int i = 0; i < 32; ++i) {
      int code = codes[32 * (g / 2) + i] >> (4 * (g & 1)) & 15;
      if (high != nullptr) code |= (high[i] >> g & 1) << 4;
      row.code[32 * g + i] = static_cast<uint8_t>(code);
    }
  }
}

void read_q2_k(const uint8_t* b, RowCodes& row) {
  row.d = load_u16(b + 80);
  row.minimum = load_u16(b + 82);
  std::memcpy(row.scale, b, 16);          // scale | minimum << 4, as we keep it
  for (int part = 0; part < 8; ++part) {  // 32 codes each, at one shift
    for (int i = 0; i < 32; ++i) row.code[32 * part + i] = b[16 + 32 * (part / 4) + i] >> (2 * (part % 4)) & 3;
  }
}

void read_q3_k(const uint8_t* b, RowCodes& row) {
  row.d = load_u16(b + 108);
  for (int g = 0; g < 16; ++g) {
    const int low4 = b[96 + g % 8] >> (4 * (g / 8)) & 15;
    const int high2 = b[104 + g % 4] >> (2 * (g / 4)) & 3;
    row.scale[g] = static_cast<uint8_t>((low4 | high2 << 4) - 32);
  }
  for (int part = 0; part < 8; ++part) {
    for (int i = 0; i < 32; ++i) {
      const int low2 = b[32 + 32 * (part / 4) + i] >> (2 * (part % 4)) & 3;
      row.code[32 * part + i] = static_cast<uint8_t>(low2 | (b[i] >> part & 1) << 2);
    }
  }
}

void read_q6_k(const uint8_t* b, RowCodes& row) {
  row.d = load_u16(b + 208);
  std::memcpy(row.scale, b + 192, 16);
  for (int part = 0; part < 8; ++part) {
    const uint8_t* low = b + 64 * (part / 4) + 32 * (part & 1);
    const uint8_t* high = b + 128 + 32 * (part / 4);
    for (int i = 0; i < 32; ++i) {
      const int low4 = low[i] >> (4 * (part % 4 / 2)) & 15;
      row.code[32 * part + i] = static_cast<uint8_t>(low4 | (high[i] >> (2 * (part % 4)) & 3) << 4);
    }
  }
}

void read_iq4_xs(const uint8_t* b, RowCodes& row) {
  row.d = load_u16(b);
  const uint16_t high = load_u16(b + 2);
  for (int g = 0; g < 8; ++g) {
    const int low4 = b[4 + g / 2] >> (4 * (g % 2)) & 15;
    row.scale[g] = static_cast<uint8_t>((low4 | (high >> (2 * g) & 3) << 4) - 32);
    nibbles(b + 8 + 16 * g, row.code + 32 * g);
  }
}

/** Reads the file's block at `b`: 256 elements for K-types, else 32. */
void read_block(TensorType type, const uint8_t* b, RowCodes& row) {
  switch (type) {
    case TensorType::kQ8_0:
      row.d = load_u16(b);
      for (int i = 0; i < 32; ++i) row.code[i] = b[2 + i] ^ 0x80;  // q + 128
      return;
    case TensorType::kQ4_0:
    case TensorType::kIQ4_NL:
      row.d = load_u16(b);
      return nibbles(b + 2, row.code);
    case TensorType::kQ4_1:
      row.d = load_u16(b);
      row.minimum = load_u16(b + 2);
      return nibbles(b + 4, row.code);
    case TensorType::kQ5_0:
      row.d = load_u16(b);
      nibbles(b + 6, row.code);
      return fifth_bits(b + 2, row.code);
    case TensorType::kQ5_1:
      row.d = load_u16(b);
      row.minimum = load_u16(b + 2);
      nibbles(b + 8, row.code);
      return fifth_bits(b + 4, row.code);
    case TensorType::kMXFP4:
      // 2^(e - 128) as bfloat16: exponent field e - 1, subnormal for e < 2.
      row.d = static_cast<uint16_t>(b[0] < 2 ? 0x20 << b[0] : (b[0] - 1) << 7);
      return nibbles(b + 1, row.code);
    case TensorType::kQ2_K:
      return read_q2_k(b, row);
    case TensorType::kQ3_K:
      return read_q3_k(b, row);
    case TensorType::kQ4_K:
      return read_k4(b, nullptr, b + 16, row);
    case TensorType::kQ5_K:
      return read_k4(b, b + 16, b + 48, row);
    case TensorType::kQ6_K:
      return read_q6_k(b, row);
    case TensorType::kIQ4_XS:
      return read_iq4_xs(b, row);
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      return;
  }
}

/** Puts the 32 codes of row r into a block's planes. A word holds the codes of one column group. */
template <PackedForm kForm>
void store_codes(int r, const uint8_t* code, uint8_t* planes) {
  constexpr uint32_t kBase = 0x01010101u * ((1u << kForm.base_bits) - 1);
  uint32_t group[8];
  std::memcpy(group, code, sizeof group);
  const auto store = [&](int plane, uint32_t word) { std::memcpy(planes + 128 * plane + 4 * r, &word, sizeof word); };
  if constexpr (kForm.extra_bits == 1) {
    uint32_t word = 0;
    for (int g = 0; g < 8; ++g) word |= (group[g] >> kForm.base_bits & 0x01010101u) << g;
    store(0, word);
  }
  if constexpr (kForm.extra_bits == 2) {
    for (int h = 0; h < 2; ++h) {
      uint32_t word = 0;
      for (int i = 0; i < 4; ++i) word |= (group[4 * h + i] >> kForm.base_bits & 0x03030303u) << (2 * i);
      store(h, word);
    }
  }
  planes += 128 * kForm.extra_bits;
  if constexpr (kForm.base_bits == 8) {
    for (int g = 0; g < 8; ++g) store(g, group[g]);
  }
  if constexpr (kForm.base_bits == 4) {
    for (int i = 0; i < 4; ++i) store(i, (group[i] & kBase) | (group[i + 4] & kBase) << 4);
  }
  if constexpr (kForm.base_bits == 2) {
    for (int h = 0; h < 2; ++h) {
      uint32_t word = 0;
      for (int i = 0; i < 4; ++i) word |= (group[4 * h + i] & kBase) << (2 * i);
      store(h, word);
    }
  }
}

/** Scales of row r: `header` is written for the first of its blocks, `block` for block `sub` of it. */
void store_scales(const PackedForm& form, int r, const RowCodes& row, int sub, uint8_t* header, uint8_t* block) {
  if (form.is_super() && sub == 0) {
    store_u16(header + 2 * r, row.d);
    if (form.has_min()) store_u16(header + 64 + 2 * r, row.minimum);
  }
  switch (form.scale) {
    case ScaleKind::kHalf:
    case ScaleKind::kPower:
      return store_u16(block + 2 * r, row.d);
    case ScaleKind::kHalfMin:
      store_u16(block + 2 * r, row.d);
      return store_u16(block + 64 + 2 * r, row.minimum);
    case ScaleKind::kSuper32:
      header[64 + 32 * sub + r] = row.scale[sub];
      return;
    case ScaleKind::kSuper32Min:
      block[r] = row.scale[sub];
      block[32 + r] = row.small_minimum[sub];
      return;
    case ScaleKind::kSuper16:
    case ScaleKind::kSuper16Min:
      block[r] = row.scale[2 * sub];
      block[32 + r] = row.scale[2 * sub + 1];
      return;
  }
}

/** Elements to [col][32 rows], 16 columns at a time: a cache line of every row, and lines that are written whole. */
template <class Element>
void pack_floats(int64_t rows, int64_t cols, const std::byte* data, uint8_t* out) {
  constexpr int64_t kColumns = 16;
  for (int64_t begin = 0; begin < cols; begin += kColumns) {
    const int64_t count = std::min(kColumns, cols - begin);
    for (int64_t r = 0; r < rows; ++r) {
      Element values[kColumns];
      std::memcpy(values, data + static_cast<size_t>(r * cols + begin) * sizeof(Element),
                  static_cast<size_t>(count) * sizeof(Element));
      for (int64_t c = 0; c < count; ++c) {
        std::memcpy(out + static_cast<size_t>((begin + c) * kPanelRows + r) * sizeof(Element), values + c,
                    sizeof(Element));
      }
    }
  }
}

/** Packs `count` rows that stand at `data` into a panel. */
template <int kId>
void pack_rows(TensorType type, int64_t count, int64_t cols, const std::byte* data, uint8_t* out) {
  constexpr PackedForm kForm = kForms[kId];
  constexpr int kSubs = kForm.is_super() ? kSuperBlocks : 1;
  const size_t block_bytes = formats::type_traits(type).block_bytes;
  const int64_t file_blocks = cols / (kSubs * kBlock);
  RowCodes row;
  for (int64_t b = 0; b < file_blocks; ++b, out += kForm.header_bytes() + kSubs * kForm.block_bytes()) {
    for (int r = 0; r < count; ++r) {
      read_block(type, reinterpret_cast<const uint8_t*>(data) + static_cast<size_t>(r * file_blocks + b) * block_bytes,
                 row);
      uint8_t* block = out + kForm.header_bytes();
      for (int sub = 0; sub < kSubs; ++sub, block += kForm.block_bytes()) {
        store_scales(kForm, r, row, sub, out, block);
        store_codes<kForm>(r, row.code + kBlock * sub, block + kForm.scale_bytes());
      }
    }
  }
}

using Packer = void (*)(TensorType type, int64_t count, int64_t cols, const std::byte* data, uint8_t* out);
template <int... kIds>
constexpr std::array<Packer, sizeof...(kIds)> make_packers(std::integer_sequence<int, kIds...>) {
  return {pack_rows<kIds>...};
}
constexpr auto kPackers = make_packers(std::make_integer_sequence<int, kFormCount - kFirstQuantised>{});

}  // namespace

FormId form_of(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return FormId::kF32;
    case TensorType::kF16:
      return FormId::kF16;
    case TensorType::kBF16:
      return FormId::kBF16;
    case TensorType::kQ8_0:
      return FormId::kQ8_0;
    case TensorType::kQ4_0:
      return FormId::kQ4_0;
    case TensorType::kQ4_1:
      return FormId::kQ4_1;
    case TensorType::kQ5_0:
      return FormId::kQ5_0;
    case TensorType::kQ5_1:
      return FormId::kQ5_1;
    case TensorType::kQ2_K:
      return FormId::kQ2_K;
    case TensorType::kQ3_K:
      return FormId::kQ3_K;
    case TensorType::kQ4_K:
      return FormId::kQ4_K;
    case TensorType::kQ5_K:
      return FormId::kQ5_K;
    case TensorType::kQ6_K:
      return FormId::kQ6_K;
    case TensorType::kIQ4_NL:
      return FormId::kIQ4_NL;
    case TensorType::kIQ4_XS:
      return FormId::kIQ4_XS;
    case TensorType::kMXFP4:
      return FormId::kMXFP4;
  }
  return FormId::kF32;
}

size_t panel_bytes(FormId form, int64_t cols) {
  if (is_quantised(form)) return packed_form(form).panel_bytes(cols / kBlock);
  return static_cast<size_t>(cols) * kPanelRows * (form == FormId::kF32 ? 4 : 2);
}

void pack_panel(TensorType type, int64_t rows, int64_t cols, const std::byte* data, int64_t panel, uint8_t* out) {
  const FormId id = form_of(type);
  const int64_t first = panel * kPanelRows;
  const int64_t count = std::min<int64_t>(kPanelRows, rows - first);
  if (count < kPanelRows) std::memset(out, 0, panel_bytes(id, cols));
  const formats::TypeTraits& traits = formats::type_traits(type);
  data += static_cast<size_t>(first * (cols / traits.block_elements)) * traits.block_bytes;
  if (id == FormId::kF32) return pack_floats<uint32_t>(count, cols, data, out);
  if (!is_quantised(id)) return pack_floats<uint16_t>(count, cols, data, out);
  kPackers[static_cast<int>(id) - kFirstQuantised](type, count, cols, data, out);
}

}  // namespace banter::ops
