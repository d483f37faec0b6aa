#include "backend_cpu/packed_weight.h"

#include <cstring>

#include "base/half.h"

namespace banter::cpu {
namespace {

uint16_t load_u16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}

/** The code of one element: its value plus the form's zero. */
int load_code(const PackedForm& form, int r, int column, const uint8_t* planes) {
  const uint8_t* extra = planes;
  planes += form.extra_bits * 128;
  const int g = column / 4;
  const int at = 4 * r + column % 4;
  int code = 0;
  if (form.base_bits == 8) code = planes[128 * g + at];
  if (form.base_bits == 4) code = planes[128 * (g % 4) + at] >> (4 * (g / 4)) & 15;
  if (form.base_bits == 2) code = planes[128 * (g / 4) + at] >> (2 * (g % 4)) & 3;
  if (form.extra_bits == 2) code |= (extra[128 * (g / 4) + at] >> (2 * (g % 4)) & 3) << form.base_bits;
  if (form.extra_bits == 1) code |= (extra[at] >> g & 1) << form.base_bits;
  if (form.table != kNoTable) code = kTables[form.table][code];
  return code + form.add;
}

float half_at(const uint8_t* header, int r) {
  return half_to_float(load_u16(header + 2 * r));
}

/** 32 values of row r of a block; `sub` is the block's index under its header. Products are rounded as dequantize() does. */
void unpack_block(const PackedForm& form, int r, int sub, const uint8_t* header, const uint8_t* block, float* y) {
  static constexpr int kZeros[] = {0, 8, 16, 32, 128};
  const int zero = kZeros[static_cast<int>(form.zero)];
  for (int half = 0; half < 2; ++half) {
    float scale = half_at(form.is_super() ? header : block, r);
    float offset = form.has_min() ? half_at((form.is_super() ? header : block) + 64, r) : 0.0f;
    const uint8_t small = block[32 * half + r];
    switch (form.scale) {
      case ScaleKind::kHalf:
        break;
      case ScaleKind::kHalfMin:
        offset = -offset;
        break;
      case ScaleKind::kPower:
        scale = bfloat_to_float(load_u16(block + 2 * r));
        break;
      case ScaleKind::kSuper32:
        scale *= static_cast<float>(static_cast<int8_t>(header[64 + 32 * sub + r]));
        break;
      case ScaleKind::kSuper32Min:
        scale *= static_cast<float>(block[r]);
        offset *= static_cast<float>(block[32 + r]);
        break;
      case ScaleKind::kSuper16:
        scale *= static_cast<float>(static_cast<int8_t>(small));
        break;
      case ScaleKind::kSuper16Min:
        scale *= static_cast<float>(small & 15);
        offset *= static_cast<float>(small >> 4);
        break;
    }
    for (int c = 16 * half; c < 16 * half + 16; ++c) {
      const float value = scale * static_cast<float>(load_code(form, r, c, block + form.scale_bytes()) - zero);
      y[c] = form.has_min() ? value - offset : value;
    }
  }
}

}  // namespace

void unpack_row(const PackedWeight& weight, int64_t row, float scale, float* out) {
  const uint8_t* panel = weight.panels + static_cast<size_t>(row / kPanelRows) * weight.panel_bytes;
  const int r = static_cast<int>(row % kPanelRows);
  if (!is_quantised(weight.form)) {
    for (int64_t c = 0; c < weight.cols; ++c) {
      const size_t at = static_cast<size_t>(c) * kPanelRows + static_cast<size_t>(r);
      if (weight.form == FormId::kF32) {
        std::memcpy(out + c, panel + 4 * at, 4);
      } else {
        const uint16_t bits = load_u16(panel + 2 * at);
        out[c] = weight.form == FormId::kF16 ? half_to_float(bits) : bfloat_to_float(bits);
      }
    }
  } else {
    const PackedForm& form = packed_form(weight.form);
    const int blocks_each = form.is_super() ? kSuperBlocks : 1;
    const int64_t stride = form.header_bytes() + blocks_each * form.block_bytes();
    for (int64_t b = 0; b < weight.blocks(); ++b) {
      const uint8_t* header = panel + static_cast<size_t>(b / blocks_each * stride);
      const int sub = static_cast<int>(b % blocks_each);
      unpack_block(form, r, sub, header, header + form.header_bytes() + sub * form.block_bytes(), out + kBlock * b);
    }
  }
  if (scale != 1.0f) {
    for (int64_t c = 0; c < weight.cols; ++c) out[c] *= scale;
  }
}

}  // namespace banter::cpu
