// Q/K norm, rotary embedding, rotation for quantised pages, and the KV write (ops::RopeKvParams).
//
// Bound: latency. Bytes of a row: q read and written, k and v read (4 bytes a dimension), its vectors written once to
// `kv` and once to `recent`; 4 · head_dim · (2 heads + 2 kv_heads) and some: 50 KB for 32 + 8 heads of 128, a thousandth
// of the row's matrix products. Decode of a few rows is one wave of short blocks; the expectation is a few microseconds
// whatever the card, and 60 % of the copy bandwidth for prefill.
// Mapping: a warp for each (row, head of q, k or v); four warps a block; no barrier but those of the warp. Loads and
// stores are contiguous over the lanes (kv_device.h); the rotary embedding goes through 1 KB of shared memory a warp,
// since its pairs may lie anywhere in the vector.
// Numerics: float32. The mean square is summed per lane over rising dimensions, then by a butterfly: relative error below
// (head_dim / 32 + 6) · 2^-24. Rounding to the page's format as ops/kv_format.h says, divisions being real ones, so that
// levels are those of the reference for equal input.
#include "backend_cuda/kernels.h"
#include "backend_cuda/kv_device.h"
#include "backend_cuda/launch.h"

namespace banter::cuda {

namespace {

constexpr int kWarpsOfBlock = 4;

struct RopeKvKernel {
  StepView step;
  float* q;
  const float* k;
  const float* v;
  const float* q_norm;
  const float* k_norm;
  const float* cos_sin;
  const float* k_shift;
  float epsilon;
  int32_t pairs;
  bool adjacent_pairs;
  bool has_recent;
  int32_t heads, kv_heads, head_dim;
  int32_t rotation;  // block of the rotation; 0: none
  KvLayer kv, recent;
};

struct RopeKvShared {
  float x[kWarpsOfBlock][kMaxHeadDim];
};

__device__ __forceinline__ void norm_vector(HeadVector& v, const float* weight, float epsilon, int32_t dim,
                                            int32_t lane) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kVectorSteps; ++i) {
    sum = fmaf(v.x[i][0], v.x[i][0], sum);
    sum = fmaf(v.x[i][1], v.x[i][1], sum);
  }
  const float scale = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(dim) + epsilon);
#pragma unroll
  for (int i = 0; i < kVectorSteps; ++i) {
    const int32_t d = vector_dim(lane, i);
    if (d >= dim) continue;
    v.x[i][0] = v.x[i][0] * scale * weight[d];
    v.x[i][1] = v.x[i][1] * scale * weight[d + 1];
  }
}

__device__ __forceinline__ void subtract(HeadVector& v, const float* shift, int32_t dim, int32_t lane) {
#pragma unroll
  for (int i = 0; i < kVectorSteps; ++i) {
    const int32_t d = vector_dim(lane, i);
    if (d >= dim) continue;
    v.x[i][0] -= shift[d];
    v.x[i][1] -= shift[d + 1];
  }
}

/** Turns the pairs of v by the table's row [pairs][2] of the position. */
__device__ __forceinline__ void rope_vector(HeadVector& v, float* shared, const float* table, int32_t pairs,
                                            bool adjacent, int32_t dim, int32_t lane) {
  store_vector(v, shared, dim, lane);
  __syncwarp();
  for (int32_t k = lane; k < pairs; k += kWarp) {
    const float2 turn = *reinterpret_cast<const float2*>(table + 2 * k);
    float* first = shared + (adjacent ? 2 * k : k);
    float* second = adjacent ? first + 1 : first + pairs;
    const float a = *first, b = *second;
    *first = a * turn.x - b * turn.y;
    *second = a * turn.y + b * turn.x;
  }
  __syncwarp();
  load_vector(v, shared, dim, lane);
}

// ---------------------------------------------------------------- the formats

/** Maximum over the `lanes` (a power of two) neighbouring lanes that share a scale. */
__device__ __forceinline__ float group_max(float x, int lanes) {
  for (int offset = 1; offset < lanes; offset *= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, offset));
  return x;
}

/** round(x / scale) to even, in [low, high]; not-a-number becomes low. */
__device__ __forceinline__ int32_t to_level(float x, float scale, float low, float high) {
  if (scale == 0.0f) return 0;
  const float level = rintf(x / scale);
  return static_cast<int32_t>(level >= low ? (level <= high ? level : high) : low);
}

/** 32 dimensions of INT8 share a scale: those of 16 lanes. */
__device__ __forceinline__ void store_int8(const float (&x)[2], std::byte* values, std::byte* scales, int32_t d,
                                           int32_t dim, int32_t lane) {
  const float a = clamp_to(x[0], kLargestHalf), b = clamp_to(x[1], kLargestHalf);
  const uint16_t half = float_to_half(group_max(fmaxf(fmaxf(fabsf(a), fabsf(b)), 0.0f), 16) / 127.0f);
  if (d >= dim) return;
  const float scale = half_to_float(half);
  const int32_t low = to_level(a, scale, -127.0f, 127.0f), high = to_level(b, scale, -127.0f, 127.0f);
  *reinterpret_cast<uint16_t*>(values + d) = static_cast<uint16_t>((low & 255) | (high & 255) << 8);
  if (lane % 16 == 0) *reinterpret_cast<uint16_t*>(scales + d / 32 * 2) = half;
}

/** The value of largest magnitude, the first of equals, of the 16 that 8 lanes hold. */
__device__ __forceinline__ float signed_largest(float a, float b, int32_t lane) {
  const float largest = group_max(fmaxf(fmaxf(fabsf(a), fabsf(b)), 0.0f), 8);
  // Place in the group and sign in one number: the least is the first.
  int32_t first = 255;
  if (fabsf(b) == largest) first = (lane % 8 * 2 + 1) * 2 + (b < 0.0f ? 1 : 0);
  if (fabsf(a) == largest) first = lane % 8 * 4 + (a < 0.0f ? 1 : 0);
  for (int offset = 1; offset < 8; offset *= 2) {
    const int32_t other = __shfl_xor_sync(kAllLanes, first, offset);
    first = other < first ? other : first;
  }
  return (first & 1) != 0 ? -largest : largest;
}

/** 16 dimensions of INT4 share a scale: those of 8 lanes. Of kKvInt4Divisors the one with the least squared error. */
__device__ __forceinline__ void store_int4(const float (&x)[2], std::byte* values, std::byte* scales, int32_t d,
                                           int32_t dim, int32_t lane) {
  constexpr float kDivisors[] = {ops::kKvInt4Divisors[0], ops::kKvInt4Divisors[1], ops::kKvInt4Divisors[2],
                                 ops::kKvInt4Divisors[3]};
  const float a = clamp_to(x[0], kLargestHalf), b = clamp_to(x[1], kLargestHalf);
  const float largest = signed_largest(a, b, lane);
  float least_error = INFINITY;
  uint16_t best = 0;
  int32_t levels = 0;  // two bytes
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint16_t half = float_to_half(-largest / kDivisors[i]);
    const float scale = half_to_float(half);
    const int32_t p = to_level(a, scale, -8.0f, 7.0f), q = to_level(b, scale, -8.0f, 7.0f);
    const float off_a = static_cast<float>(p) * scale - a, off_b = static_cast<float>(q) * scale - b;
    float error = off_a * off_a + off_b * off_b;
    for (int offset = 1; offset < 8; offset *= 2) error += __shfl_xor_sync(kAllLanes, error, offset);
    if (error >= least_error || !(error < INFINITY)) continue;  // not-a-number: all zero
    least_error = error;
    best = half;
    levels = (p & 15) | (q & 15) << 8;
  }
  // The low halves of the bytes are the group's first 8 dimensions, the high ones the last: 4 lanes further on.
  const int32_t other = __shfl_xor_sync(kAllLanes, levels, 4);
  if (d >= dim || lane % 8 >= 4) return;
  *reinterpret_cast<uint16_t*>(values + d / 16 * 8 + d % 16) = static_cast<uint16_t>(levels | other << 4);
  if (lane % 8 == 0) *reinterpret_cast<uint16_t*>(scales + d / 16 * 2) = best;
}

/** Writes the vector of the token at `position` of the sequence: `value` 0 = K, 1 = V. */
__device__ __forceinline__ void store_to_page(const HeadVector& v, const StepView& step, const KvLayer& kv,
                                              const DeviceSequence& sequence, int32_t position, int32_t head, int value,
                                              int32_t dim, int32_t lane) {
  const int32_t page = step.tables[sequence.tables[kv.group] + position / kv.page_tokens];
  if (page < 0) return;  // released already: nobody will read it
  const int32_t slot = position % kv.page_tokens;
  std::byte* region = kv_region(kv, page, head) + static_cast<size_t>(value) * kv.to_values;
  std::byte* values = region + static_cast<size_t>(slot) * static_cast<size_t>(kv.value_bytes);
  std::byte* scales = region + static_cast<size_t>(kv.page_tokens) * static_cast<size_t>(kv.value_bytes) +
                      static_cast<size_t>(slot) * static_cast<size_t>(kv.scale_bytes);
#pragma unroll
  for (int i = 0; i < kVectorSteps; ++i) {
    const int32_t d = vector_dim(lane, i);
    if (kv.type == ops::KvType::kI8) {
      store_int8(v.x[i], values, scales, d, dim, lane);
    } else if (kv.type == ops::KvType::kI4) {
      store_int4(v.x[i], values, scales, d, dim, lane);
    } else if (d < dim) {
      uint32_t& out = *reinterpret_cast<uint32_t*>(values + 2 * d);
      if (kv.type == ops::KvType::kBF16) {
        out = pack_bfloats(clamp_to(v.x[i][0], kLargestBfloat), clamp_to(v.x[i][1], kLargestBfloat));
      } else {
        out = pack_halves(clamp_to(v.x[i][0], kLargestHalf), clamp_to(v.x[i][1], kLargestHalf));
      }
    }
  }
}

__global__ void __launch_bounds__(kWarp* kWarpsOfBlock) rope_kv_kernel(RopeKvKernel a) {
  const int32_t row = static_cast<int32_t>(blockIdx.x);
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp, lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t unit = static_cast<int32_t>(blockIdx.y) * kWarpsOfBlock + warp;
  if (row >= a.step.counts->rows || unit >= a.heads + 2 * a.kv_heads) return;
  const bool is_q = unit < a.heads;
  const int32_t kv_unit = unit - a.heads;
  const int value = !is_q && kv_unit >= a.kv_heads ? 1 : 0;
  const int32_t head = is_q ? unit : kv_unit - value * a.kv_heads;
  const int32_t row_heads = is_q ? a.heads : a.kv_heads;
  const size_t at = (static_cast<size_t>(row) * static_cast<size_t>(row_heads) + static_cast<size_t>(head)) *
                    static_cast<size_t>(a.head_dim);
  const int32_t position = a.step.positions[row];

  HeadVector v;
  load_vector(v, (is_q ? a.q : value == 0 ? a.k : a.v) + at, a.head_dim, lane);
  if (value == 0) {
    const float* weight = is_q ? a.q_norm : a.k_norm;
    if (weight != nullptr) norm_vector(v, weight, a.epsilon, a.head_dim, lane);
    if (a.cos_sin != nullptr)
      rope_vector(v, shared_memory<RopeKvShared>().x[warp],
                  a.cos_sin + static_cast<size_t>(position) * static_cast<size_t>(2 * a.pairs), a.pairs,
                  a.adjacent_pairs, a.head_dim, lane);
  }
  if (a.k_shift != nullptr && !is_q && value == 0) {
    subtract(v, a.k_shift + static_cast<size_t>(head) * static_cast<size_t>(a.head_dim), a.head_dim, lane);
  }
  if (a.rotation != 0) rotate_for_cache(v, a.rotation, lane);
  if (is_q) {
    store_vector(v, a.q + at, a.head_dim, lane);
    return;
  }
  const DeviceSequence& sequence = a.step.sequences[a.step.row_sequence[row]];
  store_to_page(v, a.step, a.kv, sequence, position, head, value, a.head_dim, lane);
  if (a.has_recent) store_to_page(v, a.step, a.recent, sequence, position, head, value, a.head_dim, lane);
}

}  // namespace

cudaError_t rope_kv(const StepView& step, int32_t rows, const RopeKvArgs& args, KernelQueue queue) {
  const ops::KvGeometry& g = args.kv.geometry;
  if (!kv_layer_is_served(g) || args.heads < 1 || 2 * args.pairs > g.head_dim) return cudaErrorInvalidValue;
  const bool is_quantised = ops::kv_is_quantised(g.type);
  RopeKvKernel kernel = {};
  kernel.step = step;
  kernel.q = args.q;
  kernel.k = args.k;
  kernel.v = args.v;
  kernel.q_norm = args.q_norm;
  kernel.k_norm = args.k_norm;
  kernel.cos_sin = args.pairs > 0 ? args.cos_sin : nullptr;
  kernel.k_shift = is_quantised ? args.k_shift : nullptr;
  kernel.epsilon = args.epsilon;
  kernel.pairs = args.pairs;
  kernel.adjacent_pairs = args.adjacent_pairs;
  kernel.has_recent = is_quantised && args.recent.page_stride != 0;
  kernel.heads = args.heads;
  kernel.kv_heads = g.kv_heads;
  kernel.head_dim = g.head_dim;
  kernel.rotation = is_quantised ? ops::kv_rotation_block(g.head_dim) : 0;
  kernel.kv = kv_layer(args.kv, args.layer);
  if (kernel.has_recent) kernel.recent = kv_layer(args.recent, args.layer);
  const auto units = static_cast<uint32_t>(args.heads + 2 * g.kv_heads);
  return launch(rope_kv_kernel,
                {.grid = dim3(static_cast<uint32_t>(rows), (units + kWarpsOfBlock - 1) / kWarpsOfBlock),
                 .block = dim3(kWarp * kWarpsOfBlock),
                 .shared_bytes = sizeof(RopeKvShared)},
                queue, kernel);
}

}  // namespace banter::cuda
