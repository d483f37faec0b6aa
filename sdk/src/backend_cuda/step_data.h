// What kernels read about the step: everything that changes from step to step stands in device memory at addresses that
// stay, so that a graph can be launched again. The host fills one pinned copy and sends it before the step's kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/backend.h"

namespace banter::cuda {

/** A sequence of the step, as ops::StepSequence. */
struct DeviceSequence {
  int32_t first_row, rows, position;
  int32_t tables[ops::kMaxKvGroups];  // index into StepView::tables of each group's page table
};

/** Consecutive rows of one sequence that attention computes together: at most kTileTokens, and all in one block of
 *  ops::kKvRecentBlock positions, so that they agree on which keys are recent. */
struct AttentionTile {
  int32_t sequence;
  int32_t first_row;  // of the step
  int32_t rows;
  int32_t position;  // of first_row
};
inline constexpr int32_t kTileTokens = 16;

/** The counts of a step; kernels whose grid was rounded up leave early by them. */
struct StepCounts {
  int32_t rows, sequences, logit_rows, tiles;
};

/** Device addresses of the step's arrays. Passed to kernels by value; the addresses change only when the backend grows
 *  its arrays (and drops its graphs). */
struct StepView {
  const StepCounts* counts;
  const int32_t* tokens;            // [rows]
  const int32_t* positions;         // [rows]
  const int32_t* row_sequence;      // [rows] index into sequences
  const int32_t* logit_rows;        // [logit_rows] row numbers
  const DeviceSequence* sequences;  // [sequences]
  const AttentionTile* tiles;       // [tiles]
  const int32_t* tables;            // page tables one after another
};

/** Pages of a KV group as kernels see them: ops::KvPages with its slabs on the device. */
struct DevicePages {
  std::byte* const* slabs = nullptr;  // device array, part of the step's data
  size_t page_stride = 0;
  int32_t slab_shift = 0;  // log2 of the pages of a slab
  int32_t group = 0;
  ops::KvGeometry geometry;

#if defined(__CUDACC__) || defined(BANTER_CUDA_EMULATOR)
  __device__ std::byte* page(int32_t index) const {
    return slabs[index >> slab_shift] + static_cast<size_t>(index & ((1 << slab_shift) - 1)) * page_stride;
  }
#endif
};

}  // namespace banter::cuda
