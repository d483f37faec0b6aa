// Writing a row's activations in the forms that matrix products read (QuantisedRows), by a block or by a warp.
#pragma once

#include "backend_cuda/device.h"
#include "backend_cuda/kernels.h"

namespace banter::cuda {

/** Shared memory of block_sum() and block_max(). */
struct ReductionShared {
  float sums[kWarp];
  int32_t largest[kWarp];
};

/** Threads of a block that works on a row of `cols` values: a function of the row's length, as are all its sums. */
inline uint32_t row_threads(int64_t cols) {
  const int64_t threads = (cols + kWarp - 1) / kWarp * kWarp;
  return static_cast<uint32_t>(threads < 512 ? threads : 512);
}

/** A float's magnitude as an integer that compares alike; NaN stands above infinity. */
__device__ __forceinline__ int32_t magnitude_bits(float x) {
  return static_cast<int32_t>(__float_as_uint(x) & 0x7FFFFFFFu);
}
__device__ __forceinline__ int32_t warp_largest(int32_t bits) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const int32_t other = __shfl_xor_sync(kAllLanes, bits, offset);
    bits = other > bits ? other : bits;
  }
  return bits;
}

/** Sum over the block, of warps in order. All threads take part and get it. */
__device__ __forceinline__ float block_sum(float x, ReductionShared& shared) {
  x = warp_sum(x);
  __syncthreads();  // what stood here has been read
  if (threadIdx.x % kWarp == 0) shared.sums[threadIdx.x / kWarp] = x;
  __syncthreads();
  float total = shared.sums[0];
  for (uint32_t warp = 1; warp < blockDim.x / kWarp; ++warp) total += shared.sums[warp];
  return total;
}
__device__ __forceinline__ int32_t block_largest(int32_t bits, ReductionShared& shared) {
  bits = warp_largest(bits);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared.largest[threadIdx.x / kWarp] = bits;
  __syncthreads();
  for (uint32_t warp = 0; warp < blockDim.x / kWarp; ++warp) {
    if (shared.largest[warp] > bits) bits = shared.largest[warp];
  }
  return bits;
}

/** Writes block `block` of row `row` in 8 bits: a warp's 32 lanes hold its values. */
__device__ __forceinline__ void write_int8_block(float x, int64_t row, int64_t block, const QuantisedRows& out) {
  const uint32_t lane = threadIdx.x % kWarp;
  const int32_t largest = warp_largest(magnitude_bits(x));
  const bool finite = largest < 0x7F800000;
  const float maximum = __uint_as_float(static_cast<uint32_t>(largest));
  int32_t q = 0;
  float d = finite ? 0.0f : __uint_as_float(0x7FC00000u);
  if (finite && maximum >= 1e-30f) {  // below, 127 / maximum could overflow
    q = static_cast<int32_t>(rintf(x * (127.0f / maximum)));
    d = maximum / 127.0f;
  }
  out.q[row * out.stride + block * ops::kBlock + lane] = static_cast<int8_t>(q);
  int32_t sum = q;
  for (int offset = kWarp / 4; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
  const int32_t second = __shfl_xor_sync(kAllLanes, sum, kWarp / 2);
  if (lane == 0) {
    ActivationScale scale;
    scale.d = d;
    scale.n[0] = static_cast<int16_t>(sum);
    scale.n[1] = static_cast<int16_t>(second);
    out.scales[block * out.capacity + row] = scale;
  }
}

/** The block's threads write row `row` of `out`, whose value at a column is value(column). All threads take part; a
 *  column's value is asked for by thread column % blockDim.x only, up to twice. */
template <class Values>
__device__ __forceinline__ void write_forms(const Values& value, int32_t cols, int64_t row, const QuantisedRows& out,
                                            ReductionShared& shared) {
  int32_t largest = 0;
  const auto begin = static_cast<int32_t>(threadIdx.x);
  const auto step = static_cast<int32_t>(blockDim.x);
  for (int32_t col = begin; col < out.stride; col += step) {  // stride and step are whole warps
    const float x = col < cols ? value(col) : 0.0f;
    if (out.q != nullptr) write_int8_block(x, row, col / ops::kBlock, out);
    if (out.bfloat != nullptr) out.bfloat[row * out.stride + col] = float_to_bfloat(x);
    if (magnitude_bits(x) > largest) largest = magnitude_bits(x);
  }
  if (out.half == nullptr) return;
  largest = block_largest(largest, shared);
  int32_t exponent = largest >> 23;                     // biased
  if (largest == 0 || exponent == 255) exponent = 127;  // zeros; infinities and NaN stay what they are
  if (exponent == 0) exponent = 1;
  // 2^-e; the power that float32 has as a subnormal number only is that of the largest exponent.
  const float factor =
      exponent == 254 ? __uint_as_float(0x00400000u) : __uint_as_float(static_cast<uint32_t>(254 - exponent) << 23);
  for (int32_t col = begin; col < out.stride; col += step) {
    out.half[row * out.stride + col] = float_to_half(col < cols ? value(col) * factor : 0.0f);
  }
  if (threadIdx.x == 0) out.half_scale[row] = __uint_as_float(static_cast<uint32_t>(exponent) << 23);
}

}  // namespace banter::cuda
