// A weight matrix on the device: panels of 32 rows, in blocks of 32 columns, as ops/packed_form.h describes them, with the
// planes of a block transposed so that a lane of a warp, which is a row of the panel, reads its 16 bytes at once:
//
//   8 bit   [h = 0..1][r][16]        bytes = the codes of columns 16h..16h+15
//   4 bit   [r][16]                  byte 4w + j: low nibble = column 4w + j, high nibble = column 16 + 4w + j
//   2 bit   [h = 0..1][r][4]         byte j, bits 2i..2i+1 = column 16h + 4i + j
//   1 bit   [r][4]                   byte j, bit g = column 4g + j
//
// Word w of a row's 4-bit codes is then what lane t = w of an 8-bit matrix fragment holds (device.h): low nibbles are its
// a[0], high nibbles its a[2]. F32: [column][32 rows].
//
// F16 and BF16: 16-bit matrix fragments, of columns rounded up to 32 (zeros). A block of 32 columns is 2 KiB,
// [s = 0..1 step][m = 0..1 half of the panel][lane = 4g + t][i = 0..3] words, one 16-byte load a fragment. Word i holds
// row 16m + g + 8 · (i & 1), columns 8t + 4s + 2 · (i >> 1) and the one after it. So which column an instruction's k
// stands for is permuted, the same way for both operands: a lane's activations of both steps are 8 neighbours, columns
// 8t..8t+7, words b[0], b[1] of step 0, then of step 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/backend.h"
#include "ops/packed_form.h"

namespace banter::cuda {

class DeviceWeight : public ops::Weight {
 public:
  ops::FormId form = ops::FormId::kF32;
  const uint8_t* panels = nullptr;  // device memory, owned by whoever made the weight
  size_t panel_bytes = 0;

  int64_t panel_count() const { return (rows + ops::kPanelRows - 1) / ops::kPanelRows; }
};

}  // namespace banter::cuda
