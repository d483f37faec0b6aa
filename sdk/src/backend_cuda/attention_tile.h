// What the attention kernels share: their argument, the pieces of pages that a block reads, and the arithmetic of a row's
// running result, which must be the same wherever a row is computed.
//
// A row's result is defined as follows, whichever way the work is spread. Its keys are cut at multiples of kSplitKeys.
// Each split starts from nothing and goes over its key blocks (kKeys positions, at multiples of that) in rising order:
//   m' = max(m, scores), O' = O · 2^(m - m') + P V, l' = l · 2^(m - m') + P 1, P = 2^(scores - m') rounded to half
// with the products of one block as one chain of m16n8k16 steps over rising keys. Splits are then merged in rising order
// by merge_factors() and merge_value(), the first into nothing, and the row is O / l. Blocks and splits of which a row
// sees no key change none of its bits: there P is zero, the factors are exactly 1 and 0, and 0 · V is 0, since values of
// slots that nobody wrote are read as zeros.
#pragma once

#include "backend_cuda/kernels.h"
#include "backend_cuda/kv_device.h"

namespace banter::cuda {

inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = kAttentionWarps * kWarp;
inline constexpr int32_t kPieceTokens = 16;  // neighbouring positions that lie in one page for sure
inline constexpr int32_t kSplitPieces = kSplitKeys / kPieceTokens;
inline constexpr int32_t kNoWindow = 1 << 30;

struct AttentionKernel {
  StepView step;
  const float* q;
  float* out;
  float* partials;  // null: one block goes over all splits of a tile
  int32_t heads, kv_heads, head_dim;
  int32_t splits, tile_rows;
  int32_t rotation;    // of the output; 0: none
  int32_t window;      // kNoWindow: all
  float score_factor;  // a score's factor; with a softcap, of the argument of 1 - 2 / (1 + 2^x)
  float cap;           // softcap · log2(e); 0: none
  bool has_recent;
  KvLayer kv, recent;
};

/** A partial result is O [head_dim], m, l. */
inline constexpr int32_t kPartialExtra = 2;

/** Launches the kernel for pages without or with scales; `query_rows`: most rows of a tile times heads of a KV head. */
cudaError_t launch_attention_plain(const AttentionKernel& kernel, int32_t tiles, int32_t query_rows,
                                   const DeviceLimits& device, KernelQueue queue);
cudaError_t launch_attention_quantised(const AttentionKernel& kernel, int32_t tiles, int32_t query_rows,
                                       const DeviceLimits& device, KernelQueue queue);

#if defined(__CUDACC__) || defined(BANTER_CUDA_EMULATOR)

/** What a tile's rows may see: positions [oldest, last], of which each row masks its own part. */
struct TileKeys {
  int32_t position, oldest, last;
  __device__ int32_t first_split() const { return oldest / kSplitKeys; }
  __device__ int32_t last_split() const { return last / kSplitKeys; }
};
__device__ __forceinline__ TileKeys tile_keys(const AttentionTile& tile, int32_t window) {
  const int32_t oldest = tile.position - window + 1;
  return {tile.position, oldest > 0 ? oldest : 0, tile.position + tile.rows - 1};
}

/** Index of the partial result of query row `r` (token · group + head of the KV head). */
__device__ __forceinline__ size_t partial_index(const AttentionKernel& a, int32_t tile, int32_t split, int32_t kv_head,
                                                int32_t r) {
  const int32_t rows = a.tile_rows * (a.heads / a.kv_heads);
  return ((static_cast<size_t>(tile) * static_cast<size_t>(a.splits) + static_cast<size_t>(split)) *
              static_cast<size_t>(a.kv_heads) +
          static_cast<size_t>(kv_head)) *
             static_cast<size_t>(rows) +
         static_cast<size_t>(r);
}
/** Start of query row r's vector in q and out. */
__device__ __forceinline__ size_t query_offset(const AttentionKernel& a, const AttentionTile& tile, int32_t kv_head,
                                               int32_t r) {
  const int32_t group = a.heads / a.kv_heads;
  return (static_cast<size_t>(tile.first_row + r / group) * static_cast<size_t>(a.heads) +
          static_cast<size_t>(kv_head * group + r % group)) *
         static_cast<size_t>(a.head_dim);
}

/** What scales a running result and the split that joins it. Nothing joins nothing: factors 0. */
struct MergeFactors {
  float maximum, keep, add;
};
__device__ __forceinline__ MergeFactors merge_factors(float maximum, float other) {
  const float now = fmaxf(maximum, other);
  const float base = now == -INFINITY ? 0.0f : now;
  return {now, exp2_approx(maximum - base), exp2_approx(other - base)};
}
__device__ __forceinline__ float merge_value(const MergeFactors& factors, float value, float other) {
  return fmaf(value, factors.keep, other * factors.add);
}

/** 16 positions of the cache. `keys` null: nothing to read there. */
struct Piece {
  const std::byte* keys;
  const std::byte* scales;
};

/** Blocks of ops::kKvRecentBlock positions agree on this, and so do the rows of a tile. */
__device__ __forceinline__ bool reads_recent(const AttentionKernel& a, const TileKeys& keys, int32_t position) {
  return a.has_recent && position / ops::kKvRecentBlock + 1 >= keys.position / ops::kKvRecentBlock;
}

__device__ __forceinline__ Piece piece_of(const KvLayer& kv, const StepView& step, int32_t sequence, int32_t kv_head,
                                          int32_t position) {
  const int32_t page = step.tables[step.sequences[sequence].tables[kv.group] + position / kv.page_tokens];
  if (page < 0) return {nullptr, nullptr};
  const auto slot = static_cast<size_t>(position % kv.page_tokens);
  const std::byte* region = kv_region(kv, page, kv_head);
  return {region + slot * static_cast<size_t>(kv.value_bytes),
          region + static_cast<size_t>(kv.page_tokens) * static_cast<size_t>(kv.value_bytes) +
              slot * static_cast<size_t>(kv.scale_bytes)};
}
__device__ __forceinline__ Piece find_piece(const AttentionKernel& a, const TileKeys& keys, int32_t sequence,
                                            int32_t kv_head, int32_t position) {
  if (position > keys.last || position + kPieceTokens <= keys.oldest) return {nullptr, nullptr};
  return reads_recent(a, keys, position) ? piece_of(a.recent, a.step, sequence, kv_head, position)
                                         : piece_of(a.kv, a.step, sequence, kv_head, position);
}

#endif

}  // namespace banter::cuda
