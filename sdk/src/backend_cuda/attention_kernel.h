// The attention kernel: flash attention over pages, prefill and decode alike (ops::AttentionParams).
//
// Bytes: the keys and values that a tile sees, once for each block of query rows: decode moves
// kv_len · 2 · kv_vector_bytes a KV head, whatever the number of heads that share it. Arithmetic: 4 · rows · kv_len ·
// head_dim. Bound: decode of up to 16 query rows a KV head by memory, prefill by the tensor cores.
// Mapping: grid (tile, KV head · row block, split), 4 warps a block. A tile's tokens times the heads of a KV head are the
// query rows, 16 to a matrix; kRowWarps such matrices a block, each shared by kAttentionWarps / kRowWarps warps. Those
// compute scores of their own keys each, hand them around in shared memory, and then do the same softmax all of them, and
// their own dimensions of the output each: so every value is computed by the same instructions in the same order in all
// mappings, and a row's bits do not depend on the mapping. Q stays in registers as halves, K and V pass through shared
// memory; copies of the next tile run during the arithmetic of this one. Rows beyond the tile's see nothing.
// Numerics: q is scaled by a power of two to a largest magnitude in [1, 2) and rounded to half (2^-11 relative); K and V
// are halves (attention_load.h); products and sums in float32 by the tensor cores; weights are rounded to half, and the
// sum of weights is that of the rounded ones, so that weights sum to 1. Error of a score: 2^-11 · Σ|q k| · scale for q
// (and as much for keys of quantised pages), of an output: 2 · that · max|v| for the weights' exponents + 2^-10 · max|v|.
// Shared memory: 36 to 46 KB for vectors of 128 and 256, two blocks an SM; 19 to 30 KB for smaller ones, three. That is
// 16 KB and more in flight for each block, against about 5 KB an SM by Little's law on a card of 1 TB/s and 128 SMs.
// Registers: no spills; what would spill on Turing is not launched there (launch_rows()).
// Expectation: decode 85 % of the copy bandwidth for contexts of some thousand positions, less where tiles · KV heads ·
// splits do not fill the card; INT8 and INT4 70 % (8 and 4 instructions a byte to expand). Prefill 50 to 60 % of the
// matrix rate with 64 query rows a block; without shared heads, 16 rows a block, a quarter of it, by the second-level
// cache.
#pragma once

#include "backend_cuda/attention_load.h"
#include "backend_cuda/launch.h"

#if defined(__CUDACC__) || defined(BANTER_CUDA_EMULATOR)

namespace banter::cuda {

/** A lane's place: rows `row` and row + 8 of the block's queries, and its warp's part of keys and dimensions. */
template <class S>
struct AttentionLane {
  // Dimensions go to warps in units of 16, the last warps may get none.
  static constexpr int kUnits = (S::kDim / 16 + S::kShare - 1) / S::kShare;
  static constexpr int kOwnTiles = S::kKeys / 8 / S::kShare;

  int lane, g, t;
  int row_warp, share;

  __device__ AttentionLane() {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    lane = static_cast<int>(threadIdx.x) % kWarp;
    g = lane / 4;
    t = lane % 4;
    row_warp = warp / S::kShare;
    share = warp % S::kShare;
  }
  __device__ int row() const { return row_warp * 16 + g; }
  __device__ int first_unit() const { return share * kUnits; }
  __device__ bool has_unit(int unit) const {
    return S::kDim / 16 % S::kShare == 0 || first_unit() + unit < S::kDim / 16;
  }
};

/** Running result of two rows in one split. o[2u + h]: dimensions 16 u + 8 h.. of the warp's own; l: sums of weights, in
 *  the layout of a matrix product with ones. Element e of a fragment belongs to row e / 2. */
template <class S>
struct RowState {
  float o[2 * AttentionLane<S>::kUnits][4];
  float l[4];
  float m[2];

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (auto& tile : o)
#pragma unroll
      for (float& x : tile) x = 0.0f;
#pragma unroll
    for (float& x : l) x = 0.0f;
    m[0] = m[1] = -INFINITY;
  }
};

/** Q of the lane's two rows as fragments. The other threads may read the rows' positions and factors, which undo the
 *  rows' scaling too, after the next barrier. */
template <class S>
__device__ __forceinline__ void load_queries(const AttentionKernel& a, typename S::Shared& shared,
                                             const AttentionLane<S>& at, uint32_t (&q)[S::kDim / 16][4]) {
  const AttentionBlock& block = shared.block;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t row = at.row() + 8 * half, query = block.first_row + row;
    const bool exists = row < block.rows;
    const float* x = a.q + (exists ? query_offset(a, block.tile, block.kv_head, query) : 0) + 2 * at.t;
    float largest = 0;
#pragma unroll 4
    for (int i = 0; i < S::kDim / 8; ++i) {
      if (!exists || 8 * i >= a.head_dim) continue;
      const float2 pair = *reinterpret_cast<const float2*>(x + 8 * i);
      largest = fmaxf(largest, fmaxf(fabsf(pair.x), fabsf(pair.y)));
    }
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
    uint32_t exponent = __float_as_uint(largest) >> 23;
    exponent = exponent == 0 ? 127 : exponent > 253 ? 253 : exponent;
    const float down = __uint_as_float((254 - exponent) << 23);
    if (at.share == 0 && at.t == 0) {
      shared.factors[row] = __uint_as_float(exponent << 23) * a.score_factor;
      shared.positions[row] = exists ? block.tile.position + query / (a.heads / a.kv_heads) : -1;
    }
#pragma unroll
    for (int i = 0; i < S::kDim / 8; ++i) {
      const bool is_there = exists && 8 * i < a.head_dim;
      const float2 pair = is_there ? *reinterpret_cast<const float2*>(x + 8 * i) : make_float2(0.0f, 0.0f);
      q[i / 2][2 * (i % 2) + half] = pack_halves(pair.x * down, pair.y * down);
    }
  }
}

/** q · k of the warp's own keys. */
template <class S>
__device__ __forceinline__ void multiply_keys(const uint8_t* tile, const AttentionLane<S>& at,
                                              const uint32_t (&q)[S::kDim / 16][4],
                                              float (&s)[AttentionLane<S>::kOwnTiles][4]) {
  constexpr int kTiles = AttentionLane<S>::kOwnTiles;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = 0.0f;
  const uint8_t* rows = tile + (8 * kTiles * at.share + at.lane % 8) * S::kRowBytes + 16 * (at.lane / 8);
#pragma unroll
  for (int k = 0; k < S::kDim / 32; ++k)
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      uint32_t b[4];
      ldmatrix_x4(b, rows + 8 * n * S::kRowBytes + 64 * k);
      const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      mma_m16n8k16_f16(s[n], q[2 * k], low);
      mma_m16n8k16_f16(s[n], q[2 * k + 1], high);
    }
}

/** Scores in base 2 from products; -inf where a row does not see the key. `start`: position of the warp's first key. */
template <class S>
__device__ __forceinline__ void finish_scores(const AttentionKernel& a, const typename S::Shared& shared, int32_t start,
                                              const AttentionLane<S>& at, float (&s)[AttentionLane<S>::kOwnTiles][4]) {
  constexpr int kTiles = AttentionLane<S>::kOwnTiles;
  const float factor[2] = {shared.factors[at.row()], shared.factors[at.row() + 8]};
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] *= factor[e / 2];
  if (a.cap != 0.0f) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = a.cap * (1.0f - 2.0f / (1.0f + exp2_approx(s[n][e])));
  }
  // In most blocks every row of the tile sees every key.
  const TileKeys& keys = shared.block.keys;
  if (start + 8 * kTiles - 1 <= keys.position && start > keys.last - a.window) return;
  const int32_t position[2] = {shared.positions[at.row()], shared.positions[at.row() + 8]};
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int32_t key = start + 8 * n + 2 * at.t + e % 2, row = position[e / 2];
      if (key > row || key <= row - a.window) s[n][e] = -INFINITY;
    }
}

/** Scores to weights, as fragments of the product with V; the running result is scaled to the new maximum. */
template <class S>
__device__ __forceinline__ void soften(float (&s)[S::kKeys / 8][4], RowState<S>& state,
                                       uint32_t (&p)[S::kKeys / 16][4]) {
  float highest[2] = {-INFINITY, -INFINITY}, keep[2];
#pragma unroll
  for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) highest[e / 2] = fmaxf(highest[e / 2], s[n][e]);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    highest[half] = fmaxf(highest[half], __shfl_xor_sync(kAllLanes, highest[half], 1));
    highest[half] = fmaxf(highest[half], __shfl_xor_sync(kAllLanes, highest[half], 2));
    const float now = fmaxf(state.m[half], highest[half]);
    const float base = now == -INFINITY ? 0.0f : now;  // nothing seen yet: all weights are 2^-inf = 0
    keep[half] = exp2_approx(state.m[half] - base);
    state.m[half] = now;
    highest[half] = base;
  }
#pragma unroll
  for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      p[n / 2][2 * (n % 2) + half] =
          pack_halves(exp2_approx(s[n][2 * half] - highest[half]), exp2_approx(s[n][2 * half + 1] - highest[half]));
#pragma unroll
  for (auto& tile : state.o)
#pragma unroll
    for (int e = 0; e < 4; ++e) tile[e] *= keep[e / 2];
#pragma unroll
  for (int e = 0; e < 4; ++e) state.l[e] *= keep[e / 2];
}

/** o += P V for the warp's own dimensions, l += P 1. */
template <class S>
__device__ __forceinline__ void multiply_values(const uint8_t* tile, const AttentionLane<S>& at,
                                                const uint32_t (&p)[S::kKeys / 16][4], RowState<S>& state) {
  const uint32_t ones[2] = {0x3C003C00u, 0x3C003C00u};
  const uint8_t* rows = tile + at.lane % 16 * S::kRowBytes + 16 * (at.lane / 16) + 32 * at.first_unit();
#pragma unroll
  for (int k = 0; k < S::kKeys / 16; ++k) {
    mma_m16n8k16_f16(state.l, p[k], ones);
#pragma unroll
    for (int u = 0; u < AttentionLane<S>::kUnits; ++u) {
      if (!at.has_unit(u)) continue;
      uint32_t b[4];
      ldmatrix_x4_trans(b, rows + 16 * k * S::kRowBytes + 32 * u);
      const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      mma_m16n8k16_f16(state.o[2 * u], p[k], low);
      mma_m16n8k16_f16(state.o[2 * u + 1], p[k], high);
    }
  }
}

/** The warps of a row block hand each other their scores. */
template <class S>
__device__ __forceinline__ void give_scores(float* scores, const AttentionLane<S>& at,
                                            const float (&s)[AttentionLane<S>::kOwnTiles][4]) {
  float* row = scores + at.row() * S::kScoreStride + 8 * AttentionLane<S>::kOwnTiles * at.share + 2 * at.t;
#pragma unroll
  for (int n = 0; n < AttentionLane<S>::kOwnTiles; ++n) {
    *reinterpret_cast<float2*>(row + 8 * n) = make_float2(s[n][0], s[n][1]);
    *reinterpret_cast<float2*>(row + 8 * n + 8 * S::kScoreStride) = make_float2(s[n][2], s[n][3]);
  }
}
template <class S>
__device__ __forceinline__ void take_scores(const float* scores, const AttentionLane<S>& at,
                                            float (&s)[S::kKeys / 8][4]) {
  const float* row = scores + at.row() * S::kScoreStride + 2 * at.t;
#pragma unroll
  for (int n = 0; n < S::kKeys / 8; ++n) {
    const float2 above = *reinterpret_cast<const float2*>(row + 8 * n);
    const float2 below = *reinterpret_cast<const float2*>(row + 8 * n + 8 * S::kScoreStride);
    s[n][0] = above.x;
    s[n][1] = above.y;
    s[n][2] = below.x;
    s[n][3] = below.y;
  }
}

/** A finished split joins what is merged already. */
template <class S>
__device__ __forceinline__ void merge_split(RowState<S>& total, const RowState<S>& split) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const MergeFactors factors = merge_factors(total.m[half], split.m[half]);
    total.m[half] = factors.maximum;
#pragma unroll
    for (int i = 0; i < 2 * AttentionLane<S>::kUnits; ++i)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) total.o[i][e] = merge_value(factors, total.o[i][e], split.o[i][e]);
#pragma unroll
    for (int e = 2 * half; e < 2 * half + 2; ++e) total.l[e] = merge_value(factors, total.l[e], split.l[e]);
  }
}

/** Writes the lane's dimensions of its row `half` to a vector at `out`, times `factor`. */
template <class S>
__device__ __forceinline__ void write_row(const RowState<S>& state, const AttentionLane<S>& at, int half, float factor,
                                          int32_t head_dim, float* out) {
#pragma unroll
  for (int i = 0; i < 2 * AttentionLane<S>::kUnits; ++i) {
    const int32_t d = 16 * at.first_unit() + 8 * i + 2 * at.t;
    if (d < head_dim && at.has_unit(i / 2))
      *reinterpret_cast<float2*>(out + d) =
          make_float2(state.o[i][2 * half] * factor, state.o[i][2 * half + 1] * factor);
  }
}

}  // namespace banter::cuda

#endif
