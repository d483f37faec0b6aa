// Quantised weights times 1 to 8 rows of activations: y[t][r] = Σ_k W[r][k] · x[t][k].
//   weights  panels of device_weight.h        x  int8 blocks (QuantisedRows)        y  float [rows][weight rows]
// Bound: memory. Bytes: the panels, once (18 to 34 a row and block of 32 columns); activations (1.25 · cols · rows) come
//   from the second-level cache once a multiprocessor and then from the first, broadcast.
// Mapping: a block is one panel of 32 weight rows, its up to 8 warps take segments of columns (linear_common.h) in turn,
//   a lane is one weight row. A lane loads the 16 bytes of a block's 4-bit codes at once, a warp 512 in a row; four blocks
//   (of 8 rows' kernels two) are under way in registers: 2 to 3 blocks of a multiprocessor × 8 warps × 4 × 576 bytes =
//   36 to 55 KB, where a 4090's memory needs 8 to be busy. dp4a takes 4 columns a lane and row.
//   Instructions a warp, block of 32 columns and row: 8 dp4a, 3 loads, 4 others, plus 25 for the weights; with 8 rows a
//   4090 could stream 4 TB/s at this rate, four times its memory.
// Numerics: the formula of add_block(): exact integer sums, two roundings a block and one a scale; segments added in
//   order. Error ≤ (4 · blocks + 8) · 2^-24 · Σ|x|·(max|w| + spread), beside the activations' rounding.
// Expected: 85 % of the copy bandwidth for Q8_0, 80 % for 4 bits, on matrices of 16 panels a multiprocessor and more.
#pragma once

#include "backend_cuda/linear_merge.h"
#include "backend_cuda/weight_codes.h"

namespace banter::cuda {

/** A lane's codes of one block, as loaded. */
template <ops::FormId kId>
struct GemvBlock {
  using F = Form<kId>;
  static constexpr int kBaseWords = F::kBaseBits;  // a row's 32 codes of n bits are n words
  static constexpr int kExtraWords = F::kExtraBits;
  uint32_t base[kBaseWords];
  uint32_t extra[kExtraWords == 0 ? 1 : kExtraWords];
  RawScale scale;

  __device__ __forceinline__ void load(const uint8_t* panel, int32_t b, int lane) {
    const uint8_t* const block = panel + block_offset<kId>(b);
    scale = load_scale<kId>(panel + header_offset<kId>(b), block, b % ops::kSuperBlocks, lane);
    const uint8_t* plane = block + F::kScaleBytes;
    for (int i = 0; i < kExtraWords; ++i, plane += 128) {
      extra[i] = load_stream(reinterpret_cast<const uint32_t*>(plane) + lane);
    }
    if constexpr (F::kBaseBits == 2) {
      for (int i = 0; i < 2; ++i) base[i] = load_stream(reinterpret_cast<const uint32_t*>(plane + 128 * i) + lane);
    } else {
      for (int i = 0; i < kBaseWords / 4; ++i) {
        const uint4 four = load_stream(reinterpret_cast<const uint4*>(plane + 512 * i) + lane);
        base[4 * i] = four.x;
        base[4 * i + 1] = four.y;
        base[4 * i + 2] = four.z;
        base[4 * i + 3] = four.w;
      }
    }
  }

  /** Word w of the planes, for expand(). */
  __device__ __forceinline__ CodeWords words(int w) const {
    CodeWords out = {};
    if constexpr (F::kBaseBits == 8) {
      out.base[0] = base[w];
      out.base[1] = base[4 + w];
    } else if constexpr (F::kBaseBits == 4) {
      out.base[0] = base[w];
    } else {
      out.base[0] = base[0];
      out.base[1] = base[1];
    }
    for (int i = 0; i < kExtraWords; ++i) out.extra[i] = extra[i];
    return out;
  }
};

/** Adds one block to the sums of kRows rows; those beyond `rows` repeat the last. */
template <ops::FormId kId, int kRows>
__device__ __forceinline__ void gemv_add(const GemvBlock<kId>& block, const HeaderScale& header, int32_t b,
                                         const QuantisedRows& x, int32_t first_row, int32_t rows,
                                         float (&sums)[kRows]) {
  using F = Form<kId>;
  uint32_t low[4], high[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) expand<kId>(block.words(w), w, low[w], high[w]);
  float scale[2], minimum[2] = {0, 0};
#pragma unroll
  for (int half = 0; half < (F::kPer16 ? 2 : 1); ++half) {
    scale[half] = scale_of<kId>(block.scale, header, half);
    if constexpr (F::kHasMin) minimum[half] = minimum_of<kId>(block.scale, header, half);
  }
#pragma unroll
  for (int t = 0; t < kRows; ++t) {
    // Keeps the compiler from loading all rows' activations at once, for which there are not enough registers.
    if (t != 0 && t % 2 == 0) __syncwarp();
    const int64_t row = first_row + (t < rows ? t : rows - 1);
    const auto* q = reinterpret_cast<const uint4*>(x.q + row * x.stride + b * ops::kBlock);
    const uint4 q_low = q[0], q_high = q[1];
    const ActivationScale s = x.scales[static_cast<int64_t>(b) * x.capacity + row];
    int32_t first = dp4a_u8s8(low[0], q_low.x, -F::kZero * s.n[0]);
    first = dp4a_u8s8(low[1], q_low.y, first);
    first = dp4a_u8s8(low[2], q_low.z, first);
    first = dp4a_u8s8(low[3], q_low.w, first);
    int32_t second = dp4a_u8s8(high[0], q_high.x, -F::kZero * s.n[1]);
    second = dp4a_u8s8(high[1], q_high.y, second);
    second = dp4a_u8s8(high[2], q_high.z, second);
    second = dp4a_u8s8(high[3], q_high.w, second);
    if constexpr (F::kPer16) {
      sums[t] = add_block<kId>(sums[t], static_cast<float>(first), scale[0], s.d, minimum[0],
                               s.d * static_cast<float>(s.n[0]));
      sums[t] = add_block<kId>(sums[t], static_cast<float>(second), scale[1], s.d, minimum[1],
                               s.d * static_cast<float>(s.n[1]));
    } else {
      sums[t] = add_block<kId>(sums[t], static_cast<float>(first + second), scale[0], s.d, minimum[0],
                               s.d * static_cast<float>(s.n[0] + s.n[1]));
    }
  }
}

/** Blocks that a lane has under way: what registers allow beside the activations. Q2_K's two scales and two minima take the most. */
template <ops::FormId kId, int kRows>
struct Ahead {
  using F = Form<kId>;
  static constexpr int kBlocks = (F::kBaseBits == 2 ? 8 : 4) / (kRows <= 4 ? 1 : F::kPer16 && F::kHasMin ? 4 : 2);
};

/** Sums of blocks [begin, end) of a panel; begin is a multiple of 8, end - begin too where the form has super-blocks. */
template <ops::FormId kId, int kRows>
__device__ __forceinline__ void gemv_segment(const uint8_t* panel, int32_t begin, int32_t end, const QuantisedRows& x,
                                             int32_t first_row, int32_t rows, float (&sums)[kRows]) {
  constexpr int kAhead = Ahead<kId, kRows>::kBlocks;
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  for (int t = 0; t < kRows; ++t) sums[t] = 0.0f;
  GemvBlock<kId> ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (begin + i < end) ahead[i].load(panel, begin + i, lane);
  }
  RawHeader next_header = load_header<kId>(panel + header_offset<kId>(begin), lane);
  for (int32_t super = begin; super < end; super += ops::kSuperBlocks) {
    const HeaderScale header = decode(next_header);
    if (super + ops::kSuperBlocks < end) {
      next_header = load_header<kId>(panel + header_offset<kId>(super + ops::kSuperBlocks), lane);
    }
#pragma unroll 1
    for (int32_t b = super; b < super + ops::kSuperBlocks; b += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (b + i >= end) break;
        gemv_add<kId, kRows>(ahead[i], header, b + i, x, first_row, rows, sums);
        if (b + i + kAhead < end) ahead[i].load(panel, b + i + kAhead, lane);
      }
    }
  }
}

template <ops::FormId kId, int kRows>
__global__ void __launch_bounds__(kPanelThreads, 2) gemv_kernel(ProductArgs args) {
  const SegmentSums sums{&shared_memory<float>(), args.segments, kRows};
  const PanelWork work = panel_work(args, kRows);
  if (work.rows <= 0) return;
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  for_segments(args, work, [&](int32_t pass, int32_t segment, const uint8_t* panel, const SegmentBlocks& blocks) {
    float results[kRows];
    gemv_segment<kId, kRows>(panel, blocks.begin, blocks.end, args.quantised, work.first_row, work.rows, results);
#pragma unroll
    for (int t = 0; t < kRows; ++t) sums.of(pass, segment, t)[lane] = results[t];
  });
  __syncthreads();
  finish_panel(args, sums, work);
}

/** Three row counts serve all: what a kernel computes for rows that are not there costs no memory traffic. */
template <ops::FormId kId>
cudaError_t launch_gemv_form(const ProductArgs& args, KernelQueue queue) {
  if (args.rows <= 1) return launch_panels(gemv_kernel<kId, 1>, args, 1, queue);
  if (args.rows <= 4) return launch_panels(gemv_kernel<kId, 4>, args, 4, queue);
  return launch_panels(gemv_kernel<kId, 8>, args, 8, queue);
}

}  // namespace banter::cuda
