// What the matrix-product kernels share: their arguments, the segments that columns are summed in, how an output is
// finished.
//
// An output is a sum over segments of columns. A segment is summed from its first column to its last, starting from zero;
// segments' sums are added in order, starting from the first one's. The length of segments is a function of the number
// of columns, so whichever kernel computes a row, for however many others, its bits are the same.
#pragma once

#include "backend_cuda/activation.h"
#include "backend_cuda/device.h"
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

namespace banter::cuda {

inline constexpr int32_t kMaxSegments = 16;

/** Blocks of 32 columns of a segment: whole super-blocks of 256 columns, so that there are at most kMaxSegments. */
inline int32_t segment_blocks(int64_t cols) {
  const int64_t supers = (cols + 255) / 256;
  return static_cast<int32_t>(8 * ((supers + kMaxSegments - 1) / kMaxSegments));
}

/** One weight and where its products go. */
struct ProductTarget {
  const uint8_t* panels;
  size_t panel_bytes;
  const float* bias;  // null: none
  float* y;           // [rows][weight_rows]
  int32_t weight_rows;
  int32_t first_tile;  // of the grid: tiles of this target begin here
};

/** A launch of a product kernel: up to three weights of one form that read the same rows. */
struct ProductArgs {
  const int32_t* row_count;  // of the step; rows from *row_count on are left untouched
  int32_t rows;
  int32_t cols, blocks;  // blocks of 32 columns, the last one filled up
  int32_t segment_blocks, segments;
  int32_t targets;
  ProductTarget target[3];
  float softcap;
  const float* x;  // where weights read floats: row x_rows[i], or i where that is null
  const int32_t* x_rows;
  const float* row_scale;  // [rows] multiplies products; null: none
  QuantisedRows quantised;
  // Gated products (small batches): target 0 is the gate, target 1 the up matrix, outputs go to target 1's y.
  bool gated;
  ops::Activation activation;
  QuantisedRows gated_forms;
};

/** Rows that exist of those the grid was made for. */
__device__ __forceinline__ int32_t existing_rows(const ProductArgs& args) {
  const int32_t there = *args.row_count;
  return there < args.rows ? there : args.rows;
}

/** Panels of a target. */
inline int32_t panels_of(const ProductTarget& target) {
  return (target.weight_rows + ops::kPanelRows - 1) / ops::kPanelRows;
}

/** The target that grid tile `tile` belongs to. */
__device__ __forceinline__ int32_t target_of_tile(const ProductArgs& args, int32_t tile) {
  int32_t target = 0;
  while (target + 1 < args.targets && tile >= args.target[target + 1].first_tile) ++target;
  return target;
}

/** Bias, then soft cap. */
__device__ __forceinline__ float finished(const ProductArgs& args, const ProductTarget& target, int32_t row,
                                          float sum) {
  if (target.bias != nullptr) sum += target.bias[row];
  return args.softcap > 0 ? soft_cap(sum, args.softcap) : sum;
}

// Launchers, each for the forms of its file; they fill first_tile. Few rows: at most kFewRows.
inline constexpr int32_t kFewRows = 8;
cudaError_t launch_gemv_blocks(ops::FormId form, const ProductArgs& args, KernelQueue queue);
cudaError_t launch_gemv_supers(ops::FormId form, const ProductArgs& args, KernelQueue queue);
cudaError_t launch_gemm_blocks(ops::FormId form, const ProductArgs& args, const DeviceLimits& device,
                               KernelQueue queue);
cudaError_t launch_gemm_supers(ops::FormId form, const ProductArgs& args, const DeviceLimits& device,
                               KernelQueue queue);
cudaError_t launch_gemm_halves(ops::FormId form, const ProductArgs& args, const DeviceLimits& device,
                               KernelQueue queue);
cudaError_t launch_few_halves(ops::FormId form, const ProductArgs& args, KernelQueue queue);
cudaError_t launch_bfloat_fma(const ProductArgs& args, KernelQueue queue);
cudaError_t launch_floats(const ProductArgs& args, KernelQueue queue);

/** Quantised types whose scales stand in front of every 8 blocks. */
inline bool is_super_form(ops::FormId form) {
  return ops::is_quantised(form) && ops::packed_form(form).is_super();
}

/** D += A B for a step of 16 columns, of 16-bit types. */
template <ops::FormId kId>
__device__ __forceinline__ void multiply_halves(float (&d)[4], const uint4& a, uint32_t b0, uint32_t b1) {
  const uint32_t columns[2] = {b0, b1};
  const uint32_t rows[4] = {a.x, a.y, a.z, a.w};
  if constexpr (kId == ops::FormId::kF16) {
    mma_m16n8k16_f16(d, rows, columns);
  } else {
    mma_m16n8k16_bf16(d, rows, columns);
  }
}

/** out = act(gate) ⊙ out, both [rows][cols], and the forms of it (row_kernels.cu). */
cudaError_t gate_rows(const StepView& step, const float* gate, float* out, int32_t rows, int32_t cols,
                      ops::Activation activation, const QuantisedRows& forms, KernelQueue queue);

/** Sets first_tile of each target for tiles of `panels_each` panels; returns the number of tiles. */
inline int32_t assign_tiles(ProductArgs& args, int32_t panels_each) {
  const int32_t rows_each = panels_each * ops::kPanelRows;
  int32_t tiles = 0;
  for (int32_t i = 0; i < args.targets; ++i) {
    args.target[i].first_tile = tiles;
    tiles += (args.target[i].weight_rows + rows_each - 1) / rows_each;
  }
  return tiles;
}

}  // namespace banter::cuda
