#include "backend_cuda/weight_packing.h"

#include <algorithm>
#include <cstring>

namespace banter::cuda {
namespace {

using ops::FormId;
using ops::kBlock;
using ops::kPanelRows;
using ops::PackedForm;

/** [words][32 rows] words of 4 bytes to [32 rows][words], in place. */
template <int kWords>
void transpose(uint8_t* plane) {
  uint8_t copy[kWords * kPanelRows * 4];
  std::memcpy(copy, plane, sizeof copy);
  for (int w = 0; w < kWords; ++w) {
    for (int r = 0; r < kPanelRows; ++r) std::memcpy(plane + 4 * (r * kWords + w), copy + 4 * (w * kPanelRows + r), 4);
  }
}

/** Planes of a packed panel, as ops::pack_panel left it, to the device's order. */
void transpose_planes(const PackedForm& form, int64_t blocks, uint8_t* panel) {
  const int blocks_each = form.is_super() ? ops::kSuperBlocks : 1;
  for (int64_t b = 0; b < blocks; ++b, panel += form.block_bytes()) {
    if (b % blocks_each == 0) panel += form.header_bytes();
    uint8_t* const base = panel + form.scale_bytes() + 128 * form.extra_bits;
    if (form.base_bits == 4) transpose<4>(base);
    if (form.base_bits == 8) {
      transpose<4>(base);
      transpose<4>(base + 512);
    }
  }
}

/** Rows of 2-byte elements to fragments. */
void pack_fragments(int64_t rows, int64_t cols, const std::byte* data, uint8_t* out) {
  for (int64_t begin = 0; begin < cols; begin += kBlock, out += 2 * kBlock * kPanelRows) {
    const auto bytes = static_cast<size_t>(std::min<int64_t>(kBlock, cols - begin)) * 2;
    for (int64_t r = 0; r < rows; ++r) {
      uint8_t row[2 * kBlock] = {};
      std::memcpy(row, data + static_cast<size_t>(r * cols + begin) * 2, bytes);
      const int64_t m = r / 16, g = r % 8, i = r % 16 / 8;
      for (int64_t pair = 0; pair < kBlock / 2; ++pair) {
        const int64_t t = pair / 4, s = pair % 4 / 2, high = pair % 2;
        std::memcpy(out + 4 * (((s * 2 + m) * 32 + 4 * g + t) * 4 + 2 * high + i), row + 4 * pair, 4);
      }
    }
  }
}

}  // namespace

size_t device_panel_bytes(FormId form, int64_t cols) {
  if (form != FormId::kF16 && form != FormId::kBF16) return ops::panel_bytes(form, cols);
  return static_cast<size_t>((cols + kBlock - 1) / kBlock) * (2 * kBlock * kPanelRows);
}

void pack_device_panel(formats::TensorType type, int64_t rows, int64_t cols, const std::byte* data, int64_t panel,
                       uint8_t* out) {
  const FormId id = ops::form_of(type);
  if (id == FormId::kF16 || id == FormId::kBF16) {
    const int64_t first = panel * kPanelRows;
    const int64_t count = std::min<int64_t>(kPanelRows, rows - first);
    if (count < kPanelRows) std::memset(out, 0, device_panel_bytes(id, cols));
    return pack_fragments(count, cols, data + static_cast<size_t>(first * cols) * 2, out);
  }
  ops::pack_panel(type, rows, cols, data, panel, out);
  if (ops::is_quantised(id)) transpose_planes(ops::packed_form(id), cols / kBlock, out);
}

}  // namespace banter::cuda
