// The end of the kernels for few rows, where each warp of a block summed a segment of columns for one panel.
#pragma once

#include "backend_cuda/linear_common.h"
#include "backend_cuda/row_forms.h"

namespace banter::cuda {

/** Segments' sums of one panel in shared memory: [pass][segment][row of activations][row of weights]. */
struct SegmentSums {
  float* at;
  int32_t segments;
  int32_t rows;  // that a segment has room for

  __device__ __forceinline__ float* of(int32_t pass, int32_t segment, int32_t row) const {
    return at + ((pass * segments + segment) * rows + row) * ops::kPanelRows;
  }
  /** The product of weight row `lane` with activation row `row`. */
  __device__ __forceinline__ float merged(int32_t pass, int32_t row, int32_t lane) const {
    float sum = of(pass, 0, row)[lane];
    for (int32_t segment = 1; segment < segments; ++segment) sum += of(pass, segment, row)[lane];
    return sum;
  }
};

/** Warps of a block, at most: few enough that a multiprocessor holds several blocks, of which some stream while others
 *  begin or end. */
inline constexpr int32_t kPanelWarps = 8;
inline constexpr int32_t kPanelThreads = kPanelWarps * kWarp;

/** What a block of these kernels works on. Its warps take segments in turn. */
struct PanelWork {
  int32_t target, panel;    // of a gated product target 0 stands for both
  int32_t first_row, rows;  // of activations that exist; none: nothing to do
};
__device__ __forceinline__ PanelWork panel_work(const ProductArgs& args, int32_t rows_each) {
  PanelWork work;
  work.first_row = static_cast<int32_t>(blockIdx.y) * rows_each;
  work.rows = existing_rows(args) - work.first_row;
  if (work.rows > rows_each) work.rows = rows_each;
  const auto tile = static_cast<int32_t>(blockIdx.x);
  work.target = args.gated ? 0 : target_of_tile(args, tile);
  work.panel = tile - args.target[work.target].first_tile;
  return work;
}

/** A segment's blocks of 32 columns. */
struct SegmentBlocks {
  int32_t begin, end;
};
__device__ __forceinline__ SegmentBlocks blocks_of(const ProductArgs& args, int32_t segment) {
  const int32_t begin = segment * args.segment_blocks;
  const int32_t end = begin + args.segment_blocks;
  return {begin, end < args.blocks ? end : args.blocks};
}

/** The warp's turns: calls run(pass, segment, panel, blocks) for each of its segments, of both weights where gated. */
template <class Run>
__device__ __forceinline__ void for_segments(const ProductArgs& args, const PanelWork& work, const Run& run) {
  const auto warps = static_cast<int32_t>(blockDim.x / kWarp);
  for (int32_t pass = 0; pass < (args.gated ? 2 : 1); ++pass) {
    const ProductTarget& target = args.target[work.target + pass];
    const uint8_t* const panel = target.panels + static_cast<size_t>(work.panel) * target.panel_bytes;
    for (auto segment = static_cast<int32_t>(threadIdx.x / kWarp); segment < args.segments; segment += warps) {
      run(pass, segment, panel, blocks_of(args, segment));
    }
  }
}

/** Launches such a kernel: a block for each panel and `rows_each` rows of activations. */
inline cudaError_t launch_panels(void (*kernel)(ProductArgs), ProductArgs args, int32_t rows_each, KernelQueue queue) {
  const int32_t tiles = assign_tiles(args, 1);
  const int32_t passes = args.gated ? 2 : 1;
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>(args.gated ? panels_of(args.target[0]) : tiles),
                    static_cast<uint32_t>((args.rows + rows_each - 1) / rows_each));
  shape.block = dim3(static_cast<uint32_t>((args.segments < kPanelWarps ? args.segments : kPanelWarps) * kWarp));
  shape.shared_bytes = static_cast<size_t>(passes * args.segments * rows_each) * ops::kPanelRows * sizeof(float);
  return launch(kernel, shape, queue, args);
}

/** After a barrier: the block's warps finish the outputs. */
__device__ __forceinline__ void finish_panel(const ProductArgs& args, const SegmentSums& sums, const PanelWork& work) {
  const ProductTarget& target = args.target[args.gated ? 1 : work.target];
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int32_t row = work.panel * ops::kPanelRows + lane;
  const auto warps = static_cast<int32_t>(blockDim.x / kWarp);
  for (auto i = static_cast<int32_t>(threadIdx.x / kWarp); i < work.rows; i += warps) {
    const int64_t token = work.first_row + i;
    const float factor = args.row_scale != nullptr ? args.row_scale[token] : 1.0f;
    float value = sums.merged(0, i, lane) * factor;
    if (args.gated) value = activate(args.activation, value) * (sums.merged(1, i, lane) * factor);
    if (row < target.weight_rows) {
      if (!args.gated) value = finished(args, target, row, value);
      target.y[token * target.weight_rows + row] = value;
    } else {
      value = 0.0f;
    }
    if (args.gated_forms.q != nullptr) write_int8_block(value, token, work.panel, args.gated_forms);
    if (args.gated_forms.bfloat != nullptr) {
      args.gated_forms.bfloat[token * args.gated_forms.stride + row] = float_to_bfloat(value);
    }
  }
}

}  // namespace banter::cuda
