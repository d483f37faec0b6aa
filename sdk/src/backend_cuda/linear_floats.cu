// Float weights times few rows of activations; for F32, and for bfloat16 on cards without its matrix instruction, any
// number of rows.
//   half_kernel    F16 and BF16, up to 8 rows: a tile of mma.m16n8k16 has 8 columns, whether they are used or not.
//     Bound: memory; bytes: 64 a block of 32 columns and row. Mapping: block = panel, warps take segments of columns in turn,
//     lane = (g, t) of fragments: 4 loads of 16 bytes a block, kAhead blocks under way: 8 warps × 4 × 2 KiB a block.
//     Numerics: products exact, added in float32 in the instruction's order within 16 columns, these in order within a
//     segment, segments in order: the same as in linear_gemm.h. Error ≤ (cols + 16) · 2^-23 · Σ|w·x|, beside the
//     activations' rounding. Expected: 90 % of the copy bandwidth.
//   bfloat_kernel  BF16 below compute capability 8.0 times float activations, 4 rows a block. A lane multiplies what it holds of the fragments,
//     four lanes' sums of a row are shuffled together. Memory-bound up to 4 rows, then by arithmetic: 1/4 of the card's.
//   float_kernel   F32, 4 rows a block; lane = weight row, columns in order. Bytes: 128 a row and block.
#include "backend_cuda/linear_merge.h"

namespace banter::cuda {
namespace {

constexpr int32_t kBlockBytes = 2048;  // of 16-bit types: 32 rows × 32 columns
constexpr int32_t kFmaRows = 4;

/** A lane's fragments of one block: [step][half of the panel]. */
struct HalfBlock {
  uint4 a[2][2];
  __device__ __forceinline__ void load(const uint8_t* panel, int32_t b) {
    const auto* at = reinterpret_cast<const uint4*>(panel + static_cast<size_t>(b) * kBlockBytes) + threadIdx.x % kWarp;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int m = 0; m < 2; ++m) a[s][m] = load_stream(at + (s * 2 + m) * kWarp);
    }
  }
};

template <ops::FormId kId>
__device__ __forceinline__ void half_segment(const uint8_t* panel, const SegmentBlocks& blocks, const PanelWork& work,
                                             const QuantisedRows& x, float (&sums)[2][4]) {
  constexpr int kAhead = 4;
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int32_t g = lane / 4;
  const int64_t token = work.first_row + (g < work.rows ? g : work.rows - 1);  // columns of D do not touch each other
  const uint16_t* values = kId == ops::FormId::kF16 ? x.half : x.bfloat;
  const auto* columns = reinterpret_cast<const uint4*>(values + token * x.stride) + lane % 4;
  HalfBlock ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (blocks.begin + i < blocks.end) ahead[i].load(panel, blocks.begin + i);
  }
  for (int32_t b = blocks.begin; b < blocks.end; b += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (b + i >= blocks.end) break;
      const uint4 column = columns[(b + i) * 4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply_halves<kId>(sums[m], ahead[i].a[0][m], column.x, column.y);
        multiply_halves<kId>(sums[m], ahead[i].a[1][m], column.z, column.w);
      }
      if (b + i + kAhead < blocks.end) ahead[i].load(panel, b + i + kAhead);
    }
  }
}

template <ops::FormId kId>
__global__ void __launch_bounds__(kPanelThreads, 2) half_kernel(ProductArgs args) {
  const SegmentSums shared{&shared_memory<float>(), args.segments, kFewRows};
  const PanelWork work = panel_work(args, kFewRows);
  if (work.rows <= 0) return;
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  for_segments(args, work, [&](int32_t pass, int32_t segment, const uint8_t* panel, const SegmentBlocks& blocks) {
    float sums[2][4] = {};
    half_segment<kId>(panel, blocks, work, args.quantised, sums);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        shared.of(pass, segment, lane % 4 * 2 + e % 2)[16 * m + 8 * (e / 2) + lane / 4] = sums[m][e];
      }
    }
  });
  __syncthreads();
  finish_panel(args, shared, work);
}

/** A row of float activations. */
__device__ __forceinline__ const float* float_row(const ProductArgs& args, const PanelWork& work, int32_t t) {
  int64_t row = work.first_row + (t < work.rows ? t : work.rows - 1);
  if (args.x_rows != nullptr) row = args.x_rows[row];
  return args.x + row * args.cols;
}

/** The fragments' word that holds row g + 8i of half m for columns 8t + 2k, 8t + 2k + 1. */
__device__ __forceinline__ uint32_t word_of(const HalfBlock& block, int m, int i, int k) {
  const uint4& four = block.a[k / 2][m];
  if (k % 2 == 0) return i == 0 ? four.x : four.y;
  return i == 0 ? four.z : four.w;
}

__device__ __forceinline__ void bfloat_segment(const ProductArgs& args, const uint8_t* panel,
                                               const SegmentBlocks& blocks, const PanelWork& work,
                                               float (&sums)[2][2][kFmaRows]) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  for (int32_t b = blocks.begin; b < blocks.end; ++b) {
    HalfBlock block;
    block.load(panel, b);
    const int32_t column = b * ops::kBlock + lane % 4 * 8;
#pragma unroll
    for (int t = 0; t < kFmaRows; ++t) {
      const float* x = float_row(args, work, t) + column;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float even = column + 2 * k < args.cols ? x[2 * k] : 0.0f;
        const float odd = column + 2 * k + 1 < args.cols ? x[2 * k + 1] : 0.0f;
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const uint32_t w = word_of(block, m, i, k);
            sums[m][i][t] = fmaf(__uint_as_float(w << 16), even, sums[m][i][t]);
            sums[m][i][t] = fmaf(__uint_as_float(w & 0xFFFF0000u), odd, sums[m][i][t]);
          }
        }
      }
    }
  }
}

__global__ void __launch_bounds__(kPanelThreads, 2) bfloat_kernel(ProductArgs args) {
  const SegmentSums shared{&shared_memory<float>(), args.segments, kFmaRows};
  const PanelWork work = panel_work(args, kFmaRows);
  if (work.rows <= 0) return;
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  for_segments(args, work, [&](int32_t pass, int32_t segment, const uint8_t* panel, const SegmentBlocks& blocks) {
    float sums[2][2][kFmaRows] = {};
    bfloat_segment(args, panel, blocks, work, sums);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int t = 0; t < kFmaRows; ++t) {
          float sum = sums[m][i][t];
          sum += __shfl_xor_sync(kAllLanes, sum, 1);
          sum += __shfl_xor_sync(kAllLanes, sum, 2);
          if (lane % 4 == t) shared.of(pass, segment, t)[16 * m + 8 * i + lane / 4] = sum;
        }
      }
    }
  });
  __syncthreads();
  finish_panel(args, shared, work);
}

__device__ __forceinline__ void float_segment(const ProductArgs& args, const uint8_t* panel,
                                              const SegmentBlocks& blocks, const PanelWork& work,
                                              float (&sums)[kFmaRows]) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const float* x[kFmaRows];
#pragma unroll
  for (int t = 0; t < kFmaRows; ++t) x[t] = float_row(args, work, t);
  const int32_t end = blocks.end * ops::kBlock < args.cols ? blocks.end * ops::kBlock : args.cols;
  const auto* weights = reinterpret_cast<const float*>(panel) + lane;
#pragma unroll 8
  for (int32_t k = blocks.begin * ops::kBlock; k < end; ++k) {
    const float w = weights[static_cast<size_t>(k) * ops::kPanelRows];
#pragma unroll
    for (int t = 0; t < kFmaRows; ++t) sums[t] = fmaf(w, x[t][k], sums[t]);
  }
}

__global__ void __launch_bounds__(kPanelThreads, 2) float_kernel(ProductArgs args) {
  const SegmentSums shared{&shared_memory<float>(), args.segments, kFmaRows};
  const PanelWork work = panel_work(args, kFmaRows);
  if (work.rows <= 0) return;
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  for_segments(args, work, [&](int32_t pass, int32_t segment, const uint8_t* panel, const SegmentBlocks& blocks) {
    float sums[kFmaRows] = {};
    float_segment(args, panel, blocks, work, sums);
#pragma unroll
    for (int t = 0; t < kFmaRows; ++t) shared.of(pass, segment, t)[lane] = sums[t];
  });
  __syncthreads();
  finish_panel(args, shared, work);
}

}  // namespace

cudaError_t launch_few_halves(ops::FormId form, const ProductArgs& args, KernelQueue queue) {
  if (form == ops::FormId::kF16) return launch_panels(half_kernel<ops::FormId::kF16>, args, kFewRows, queue);
  if (form == ops::FormId::kBF16) return launch_panels(half_kernel<ops::FormId::kBF16>, args, kFewRows, queue);
  return cudaErrorInvalidValue;
}

cudaError_t launch_bfloat_fma(const ProductArgs& args, KernelQueue queue) {
  return launch_panels(bfloat_kernel, args, kFmaRows, queue);
}

cudaError_t launch_floats(const ProductArgs& args, KernelQueue queue) {
  return launch_panels(float_kernel, args, kFmaRows, queue);
}

}  // namespace banter::cuda
