// How the CPU backend keeps weight matrices: the packed forms of ops/packed_form.h, in memory of its arenas.
//
// Tried on Zen 4: all small scales in the header. Reading then jumps back to the header in every block, which loses the
// hardware's stream detection: Q4_K and Q6_K fell from 26 to 12 GB/s with one token. (kSuper32's header is short enough.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend_cpu/memory.h"
#include "ops/backend.h"
#include "ops/packed_form.h"

namespace banter::cpu {

using ops::form_of;
using ops::FormId;
using ops::is_quantised;
using ops::kBlock;
using ops::kE2m1;
using ops::kFirstQuantised;
using ops::kFormCount;
using ops::kForms;
using ops::kLevels;
using ops::kNoTable;
using ops::kPanelRows;
using ops::kSuperBlocks;
using ops::kTables;
using ops::pack_panel;
using ops::packed_form;
using ops::PackedForm;
using ops::panel_bytes;
using ops::ScaleKind;
using ops::Zero;

/** A matrix in panels. */
class PackedWeight final : public ops::Weight {
 public:
  FormId form = FormId::kF32;
  const uint8_t* panels = nullptr;
  size_t panel_bytes = 0;
  std::shared_ptr<Arena> arena;  // owns `panels`

  int64_t panel_count() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t blocks() const { return cols / kBlock; }
};

/** Row `row` of a packed matrix, bit-equal to formats::dequantize() of its file blocks, times `scale`. */
void unpack_row(const PackedWeight& weight, int64_t row, float scale, float* out);

}  // namespace banter::cpu
