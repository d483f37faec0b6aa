// One block of attention (attention_kernel.h): the loop over key blocks, what becomes of the result, and the launches.
#pragma once

#include "backend_cuda/attention_kernel.h"

#if defined(__CUDACC__) || defined(BANTER_CUDA_EMULATOR)

namespace banter::cuda {

/** False: nothing to do. */
template <class S>
__device__ __forceinline__ bool find_block(const AttentionKernel& a, AttentionBlock& block) {
  const auto index = static_cast<int32_t>(blockIdx.x);
  if (index >= a.step.counts->tiles) return false;
  block.tile = a.step.tiles[index];
  block.keys = tile_keys(block.tile, a.window);
  block.kv_head = static_cast<int32_t>(blockIdx.y) % a.kv_heads;
  block.first_row = static_cast<int32_t>(blockIdx.y) / a.kv_heads * S::kRows;
  block.rows = block.tile.rows * (a.heads / a.kv_heads) - block.first_row;
  if (block.rows <= 0) return false;
  block.begin = block.keys.oldest / S::kKeys;
  block.end = block.keys.last / S::kKeys + 1;
  if (a.partials != nullptr) {
    const int32_t split = block.keys.first_split() + static_cast<int32_t>(blockIdx.z);
    const int32_t begin = split * S::kSplitBlocks, end = begin + S::kSplitBlocks;
    block.begin = begin > block.begin ? begin : block.begin;
    block.end = end < block.end ? end : block.end;
  }
  return block.begin < block.end;
}

/** Shared memory of a block, and how it is filled with the key block of a number. In plain pages K and V have a tile each;
 *  with scales they have a raw buffer each and take turns in the one tile. */
template <class S>
struct AttentionLoads {
  const AttentionKernel& a;
  const AttentionBlock& block;
  typename S::Shared& shared;

  __device__ __forceinline__ bool is_recent(int32_t number) const {
    return S::kQuantised && reads_recent(a, block.keys, number * S::kKeys);
  }
  /** Starts the copy of K (0) or V (1). */
  template <int kValue>
  __device__ __forceinline__ void start(int32_t number) const {
    if (number < block.end) {
      const uint32_t offset = kValue == 0 ? 0 : a.kv.to_values;
      if constexpr (!S::kQuantised) {
        copy_tile<S>(kValue == 0 ? shared.tile : shared.second, shared.pieces, block.keys, number * S::kKeys, offset,
                     a.kv.value_bytes, a.q);
      } else if (!is_recent(number)) {
        copy_raw<S>(shared.second + kValue * S::kRawBytes, shared.pieces, number * S::kKeys, a.kv, offset);
      }
    }
    cp_async_commit();
  }
  /** Plain pages: the copy of `tile` that this thread made, complete and in halves. */
  __device__ __forceinline__ void finish(uint8_t* tile) const {
    cp_async_wait<0>();
    if (a.kv.type == ops::KvType::kBF16) convert_tile<S>(tile);
  }
  /** Pages with scales: the tile of K (0) or V (1), whose raw copy is there in all threads. */
  template <int kValue>
  __device__ __forceinline__ void expand(int32_t number) const {
    if (is_recent(number)) {
      copy_tile<S>(shared.tile, shared.pieces, block.keys, number * S::kKeys, kValue == 0 ? 0 : a.recent.to_values,
                   a.recent.value_bytes, a.q);
      cp_async_commit();
      cp_async_wait<0>();
    } else {
      expand_tile<S>(shared.tile, shared.second + kValue * S::kRawBytes, shared.pieces, block.keys, number * S::kKeys,
                     a.kv, a.head_dim);
    }
  }
};

/** Leaves the lane's weights of all keys in p, K's tile free in all threads and V's tile filled. Warps that have their rows
 *  to themselves do the softmax while V is under way, and hold p instead of the scores then. */
template <class S>
__device__ __forceinline__ void weigh_and_load(const AttentionLoads<S>& loads, int32_t number,
                                               const AttentionLane<S>& at, bool is_active,
                                               const uint32_t (&q)[S::kDim / 16][4], RowState<S>& state,
                                               uint32_t (&p)[S::kKeys / 16][4]) {
  constexpr int kOwn = AttentionLane<S>::kOwnTiles;
  typename S::Shared& shared = loads.shared;
  if (is_active) {
    float s[kOwn][4];
    multiply_keys<S>(shared.tile, at, q, s);
    finish_scores<S>(loads.a, shared, number * S::kKeys + 8 * kOwn * at.share, at, s);
    if constexpr (S::kShare > 1) {
      give_scores<S>(shared.scores, at, s);
    } else {
      soften<S>(s, state, p);
    }
  }
  if constexpr (S::kQuantised) {
    cp_async_wait<1>();  // V; the next K may be under way
    __syncthreads();
    loads.template expand<1>(number);
    __syncthreads();
    loads.template start<1>(number + 1);
  } else {
    loads.finish(shared.second);
    __syncthreads();
    loads.template start<0>(number + 1);
  }
  if constexpr (S::kShare > 1) {
    if (!is_active) return;
    float s[S::kKeys / 8][4];
    take_scores<S>(shared.scores, at, s);
    soften<S>(s, state, p);
  }
}

/** K's tile filled in all threads, and V's copy started. */
template <class S>
__device__ __forceinline__ void begin_key_block(const AttentionLoads<S>& loads, int32_t number) {
  const AttentionKernel& a = loads.a;
  const AttentionBlock& block = loads.block;
  if constexpr (S::kQuantised) {
    cp_async_wait<1>();
  } else {
    loads.finish(loads.shared.tile);
  }
  __syncthreads();
  // A split has begun, and the one before is read: its pieces make room for the split after.
  if (number % S::kSplitBlocks == 0 && number > block.begin && threadIdx.x < kSplitPieces)
    find_pieces(a, block.keys, block.tile.sequence, block.kv_head, number / S::kSplitBlocks + 1,
                static_cast<int32_t>(threadIdx.x), loads.shared.pieces);
  if constexpr (S::kQuantised) {
    loads.template expand<0>(number);
    __syncthreads();
    loads.template start<0>(number + 1);
  } else {
    loads.template start<1>(number);
  }
}

/** Partial results for the merge kernel. */
template <class S>
__device__ __forceinline__ void write_partials(const AttentionKernel& a, const AttentionBlock& block,
                                               const AttentionLane<S>& at, const RowState<S>& state) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t row = at.row() + 8 * half;
    if (row >= block.rows) continue;
    const size_t index = partial_index(a, static_cast<int32_t>(blockIdx.x), static_cast<int32_t>(blockIdx.z),
                                       block.kv_head, block.first_row + row);
    float* out = a.partials + index * static_cast<size_t>(a.head_dim + kPartialExtra);
    write_row<S>(state, at, half, 1.0f, a.head_dim, out);
    if (at.share == 0 && at.t == 0)
      *reinterpret_cast<float2*>(out + a.head_dim) = make_float2(state.m[half], state.l[2 * half]);
  }
}

/** O / l. Where it must be turned back, rows pass through shared memory, for turning takes a whole vector. */
template <class S>
__device__ __forceinline__ void write_outputs(const AttentionKernel& a, const AttentionBlock& block,
                                              const AttentionLane<S>& at, const RowState<S>& total,
                                              typename S::Shared& shared) {
  float* staged = reinterpret_cast<float*>(shared.tile);
  if constexpr (S::kQuantised) __syncthreads();  // the tile is free
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t row = at.row() + 8 * half;
    if (row >= block.rows) continue;
    float* out = S::kQuantised ? staged + row * S::kDim
                               : a.out + query_offset(a, block.tile, block.kv_head, block.first_row + row);
    write_row<S>(total, at, half, 1.0f / total.l[2 * half], a.head_dim, out);
  }
  if constexpr (S::kQuantised) {
    __syncthreads();
    const int32_t rows = block.rows < S::kRows ? block.rows : S::kRows;
    for (int32_t row = static_cast<int32_t>(threadIdx.x) / kWarp; row < rows; row += kAttentionWarps) {
      HeadVector v;
      load_vector(v, staged + row * S::kDim, a.head_dim, at.lane);
      rotate_for_cache(v, a.rotation, at.lane);
      store_vector(v, a.out + query_offset(a, block.tile, block.kv_head, block.first_row + row), a.head_dim, at.lane);
    }
  }
}

template <class S>
__device__ __forceinline__ void run_block(const AttentionKernel& a) {
  auto& shared = shared_memory<typename S::Shared>();
  {
    AttentionBlock found;
    if (!find_block<S>(a, found)) return;
    if (threadIdx.x == 0) shared.block = found;
    __syncthreads();
  }
  const AttentionBlock& block = shared.block;
  const AttentionLane<S> at;
  const AttentionLoads<S> loads{a, block, shared};
  if (threadIdx.x < 2 * kSplitPieces)
    find_pieces(a, block.keys, block.tile.sequence, block.kv_head, block.begin / S::kSplitBlocks,
                static_cast<int32_t>(threadIdx.x), shared.pieces);
  __syncthreads();
  loads.template start<0>(block.begin);
  if constexpr (S::kQuantised) loads.template start<1>(block.begin);

  const bool is_active = 16 * at.row_warp < block.rows;
  uint32_t q[S::kDim / 16][4];
  load_queries<S>(a, shared, at, q);
  RowState<S> total, state;
  total.reset();
  state.reset();
  for (int32_t number = block.begin; number < block.end; ++number) {
    begin_key_block<S>(loads, number);
    uint32_t p[S::kKeys / 16][4];
    weigh_and_load<S>(loads, number, at, is_active, q, state, p);
    if (!is_active) continue;
    multiply_values<S>(S::kQuantised ? shared.tile : shared.second, at, p, state);
    if (a.partials == nullptr && ((number + 1) % S::kSplitBlocks == 0 || number + 1 == block.end)) {
      merge_split<S>(total, state);
      state.reset();
    }
  }
  cp_async_wait<0>();
  if (a.partials != nullptr) {
    write_partials<S>(a, block, at, state);
  } else {
    write_outputs<S>(a, block, at, total, shared);
  }
}

template <class S>
__global__ void __launch_bounds__(kAttentionThreads, S::kBlocks) attention_kernel(AttentionKernel a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  if constexpr (S::kNeedsAmpere) {
    __trap();
  } else {
    run_block<S>(a);
  }
#else
  run_block<S>(a);
#endif
}

template <int kDim, int kRowWarps, bool kQuantised>
cudaError_t launch_shape(const AttentionKernel& kernel, int32_t tiles, int32_t query_rows, KernelQueue queue) {
  using S = AttentionShape<kDim, kRowWarps, kQuantised>;
  const int32_t row_blocks = (query_rows + S::kRows - 1) / S::kRows;
  return launch(attention_kernel<S>,
                {.grid = dim3(static_cast<uint32_t>(tiles), static_cast<uint32_t>(kernel.kv_heads * row_blocks),
                              static_cast<uint32_t>(kernel.partials == nullptr ? 1 : kernel.splits)),
                 .block = dim3(kAttentionThreads),
                 .shared_bytes = sizeof(typename S::Shared)},
                queue, kernel);
}
template <int kDim, bool kQuantised>
cudaError_t launch_rows(const AttentionKernel& kernel, int32_t tiles, int32_t query_rows, const DeviceLimits& device,
                        KernelQueue queue) {
  // Vectors of 256 leave no registers for a warp that has its rows to itself.
  const bool is_turing = device.compute_capability < 80;
  const int32_t most = (kDim > 128 ? 2 : 4) / (is_turing && kDim >= 128 ? 2 : 1);
  if (query_rows <= 16 || most == 1) return launch_shape<kDim, 1, kQuantised>(kernel, tiles, query_rows, queue);
  if (query_rows <= 32 || most == 2) return launch_shape<kDim, 2, kQuantised>(kernel, tiles, query_rows, queue);
  if constexpr (kDim <= 128) return launch_shape<kDim, 4, kQuantised>(kernel, tiles, query_rows, queue);
  return cudaErrorInvalidValue;
}
template <bool kQuantised>
cudaError_t launch_attention(const AttentionKernel& kernel, int32_t tiles, int32_t query_rows,
                             const DeviceLimits& device, KernelQueue queue) {
  if (kernel.head_dim <= 64) return launch_rows<64, kQuantised>(kernel, tiles, query_rows, device, queue);
  if (kernel.head_dim <= 96) return launch_rows<96, kQuantised>(kernel, tiles, query_rows, device, queue);
  if (kernel.head_dim <= 128) return launch_rows<128, kQuantised>(kernel, tiles, query_rows, device, queue);
  return launch_rows<256, kQuantised>(kernel, tiles, query_rows, device, queue);
}

}  // namespace banter::cuda

#endif
