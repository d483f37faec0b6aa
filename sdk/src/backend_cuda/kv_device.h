// What KV pages hold on the device, and what a warp does with one head's vector.
//
// A head's region of a page (ops::KvGeometry::offset) holds, K and V alike,
//   values [page_tokens][value_bytes], then scales [page_tokens][scales] as half floats.
// F16, BF16: 2 bytes a dimension. INT8: 1. INT4: byte j of the 8 bytes of dimensions [16 p, 16 p + 16) holds dimension
// 16 p + j in its low and 16 p + 8 + j in its high half, in two's complement. The values of 16 neighbouring tokens are a
// multiple of 16 bytes at a 16-byte boundary in every format, and so are their scales: pages are read in such pieces.
//
// A warp holds a vector of up to 256 dimensions as HeadVector: lane l has dimensions 2 l + 64 i and the next, so that
// loads and stores of a step i are one contiguous stretch. Lanes beyond the vector's end hold zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend_cuda/device.h"
#include "backend_cuda/step_data.h"
#include "ops/kv_format.h"

namespace banter::cuda {

inline constexpr int32_t kMaxHeadDim = 256;

/** DevicePages of one layer, with every size worked out on the host. */
struct KvLayer {
  DevicePages pages;
  ops::KvType type = ops::KvType::kF16;
  int32_t group = 0;
  int32_t page_tokens = 16;
  int32_t value_bytes = 0;  // of one vector
  int32_t scale_bytes = 0;
  uint32_t head_bytes = 0;
  uint32_t to_values = 0;   // from a head's K to its V
  size_t layer_offset = 0;  // of head 0's K
};

inline KvLayer kv_layer(const DevicePages& pages, int32_t layer) {
  const ops::KvGeometry& g = pages.geometry;
  KvLayer result;
  result.pages = pages;
  result.type = g.type;
  result.group = pages.group;
  result.page_tokens = g.page_tokens;
  result.value_bytes = static_cast<int32_t>(static_cast<size_t>(g.head_dim) * ops::kv_bytes_of_16(g.type) / 16);
  result.scale_bytes = 2 * ops::kv_scales(g.type, g.head_dim);
  result.head_bytes = static_cast<uint32_t>(g.head_bytes());
  result.to_values = static_cast<uint32_t>(g.offset(0, 1, 0) - g.offset(0, 0, 0));
  result.layer_offset = g.offset(layer, 0, 0);
  return result;
}

/** Formats and head sizes that the kernels serve: vectors are read in pieces of 16 bytes. */
inline bool kv_heads_are_served(ops::KvType type, int32_t head_dim) {
  const int32_t grain = ops::kv_is_quantised(type) ? 16 : 8;
  return type != ops::KvType::kF32 && head_dim >= grain && head_dim <= kMaxHeadDim && head_dim % grain == 0;
}
inline bool kv_layer_is_served(const ops::KvGeometry& g) {
  return kv_heads_are_served(g.type, g.head_dim) && g.kv_heads >= 1 && g.page_tokens >= 16 && g.page_tokens % 16 == 0;
}

#if defined(__CUDACC__) || defined(BANTER_CUDA_EMULATOR)

inline constexpr float kLargestHalf = 65504.0f;
inline constexpr float kLargestBfloat = 3.3895313892515355e38f;

/** Beyond the largest finite value an infinity would stand in the cache and poison positions that are masked. */
__device__ __forceinline__ float clamp_to(float x, float largest) {
  return x > largest ? largest : x < -largest ? -largest : x;
}

/** Start of a head's K region in a page. */
__device__ __forceinline__ std::byte* kv_region(const KvLayer& kv, int32_t page, int32_t head) {
  return kv.pages.page(page) + kv.layer_offset + static_cast<size_t>(head) * kv.head_bytes;
}

inline constexpr int kVectorSteps = kMaxHeadDim / (2 * kWarp);
struct HeadVector {
  float x[kVectorSteps][2];
};
/** Dimension of x[step][0] in this lane. */
__device__ __forceinline__ int32_t vector_dim(int32_t lane, int step) {
  return 2 * lane + 2 * kWarp * step;
}

/** From dim floats at an 8-byte boundary. */
__device__ __forceinline__ void load_vector(HeadVector& v, const float* p, int32_t dim, int32_t lane) {
#pragma unroll
  for (int i = 0; i < kVectorSteps; ++i) {
    const int32_t d = vector_dim(lane, i);
    const float2 pair = d < dim ? *reinterpret_cast<const float2*>(p + d) : make_float2(0.0f, 0.0f);
    v.x[i][0] = pair.x;
    v.x[i][1] = pair.y;
  }
}
__device__ __forceinline__ void store_vector(const HeadVector& v, float* p, int32_t dim, int32_t lane) {
#pragma unroll
  for (int i = 0; i < kVectorSteps; ++i) {
    const int32_t d = vector_dim(lane, i);
    if (d < dim) *reinterpret_cast<float2*>(p + d) = make_float2(v.x[i][0], v.x[i][1]);
  }
}

/** v = H v / sqrt(block), H the Hadamard matrix (-1)^popcount(i & j), in blocks of `block` dimensions (16 to 128, a power
 *  of two that divides the vector's size): its own inverse. One rounding for the norm and one for each of the log2(block)
 *  additions, in rising strides. All lanes take part. */
__device__ __forceinline__ void rotate_for_cache(HeadVector& v, int32_t block, int32_t lane) {
  const float norm = 1.0f / sqrtf(static_cast<float>(block));
#pragma unroll
  for (int i = 0; i < kVectorSteps; ++i) {
    const float a = v.x[i][0] * norm, b = v.x[i][1] * norm;
    v.x[i][0] = a + b;
    v.x[i][1] = a - b;
  }
  for (int32_t lanes = 1; lanes < kWarp && 2 * lanes < block; lanes *= 2) {
    const bool is_high = (lane & lanes) != 0;
#pragma unroll
    for (int i = 0; i < kVectorSteps; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float other = __shfl_xor_sync(kAllLanes, v.x[i][j], lanes);
        v.x[i][j] = is_high ? other - v.x[i][j] : v.x[i][j] + other;
      }
  }
  if (block == 4 * kWarp) {
#pragma unroll
    for (int i = 0; i < kVectorSteps; i += 2)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float a = v.x[i][j], b = v.x[i + 1][j];
        v.x[i][j] = a + b;
        v.x[i + 1][j] = a - b;
      }
  }
}

#endif

}  // namespace banter::cuda
