// Weights times many rows of activations on tensor cores: y[t][r] = Σ_k W[r][k] · x[t][k].
//   weights  panels of device_weight.h       x  int8 blocks, half or bfloat (QuantisedRows)      y  float
// Bound: a block of P panels × 64 tokens reads P · panel bytes and 64 · cols activations; from about 40 tokens on a card's
//   arithmetic, below its memory. Weights come from memory once (token tiles are the fast grid index, so blocks that
//   share a panel run side by side), activations from the second-level cache rows / (32 P) times.
// Mapping: P = 4: 8 warps, each one panel × 32 tokens (2 × 4 tiles of 16 × 8); Q2_K 16 of 16 tokens. P = 1, for matrices too small to fill the
//   card by fours: 4 warps, each the panel × 16 tokens. A stage of 64 columns (32 for 16-bit types) of both operands is
//   copied to shared memory by cp.async, kStages deep; weights stay packed there and are expanded in registers: word t of
//   a row is the fragment of lane (g, t). Tiles of tokens that do not exist are skipped.
// Numerics: exactly those of the kernels for few rows: the integer sum of a block is exact (its float is the accumulator's
//   bits: 1.5 · 2^23 + sum, less 1.5 · 2^23), then add_block() in column order, segments added in order.
// Instructions a warp and tile of 16 × 8 × 32: one mma, 12 of float arithmetic, 3 of loads and expansion: so about half of
//   the card's int8 rate is the ceiling; 60 % of that of float16 for the 16-bit types, whose tiles are smaller than a
//   library's.
#pragma once

#include "backend_cuda/linear_common.h"
#include "backend_cuda/weight_codes.h"

namespace banter::cuda {

inline constexpr int32_t kGemmTokens = 64;

#if defined(__CUDA_ARCH__)
inline constexpr int kGemmArch = __CUDA_ARCH__;
#else
inline constexpr int kGemmArch = 0;
#endif

constexpr bool is_half_form(ops::FormId id) {
  return id == ops::FormId::kF16 || id == ops::FormId::kBF16;
}

/** How a block's shared memory is laid out. */
template <ops::FormId kId, int kPanels>
struct GemmShape {
  static constexpr bool kHalf = is_half_form(kId);
  using F = Form<kHalf ? ops::FormId::kQ8_0 : kId>;  // never asked about for the 16-bit types
  // 32 tokens a warp where registers allow; scales of 16 with minimums do not.
  static constexpr int kTokenWarps = kPanels == 4 && !(F::kPer16 && F::kHasMin) ? 2 : 4;
  static constexpr int kTiles = kGemmTokens / 8 / kTokenWarps;  // of 8 tokens, a warp
  static constexpr int kThreads = kWarp * kPanels * kTokenWarps;
  /** Blocks that a multiprocessor shall hold: as many as registers allow without spilling. The compiler's code for
   *  Blackwell takes 170 of them where others' takes 125; Hopper's with scales of 16 a few more than 128. */
  static constexpr bool kWide = kGemmArch >= 1000 || (kGemmArch == 900 && F::kPer16);
  static constexpr int kResident = (kWide ? 256 : 512) / kThreads < 1 ? 1 : (kWide ? 256 : 512) / kThreads;
  static constexpr int kBlocks = kHalf ? 1 : 2;  // of 32 columns, a stage
  static constexpr int kBlockBytes = kHalf ? 2048 : F::kBlockBytes;
  static constexpr int kPanelBytes = kBlocks * kBlockBytes;  // a stage of a panel
  // Rows of 64 bytes: as they are, 16-byte loads of fragments meet no bank twice; ldmatrix needs 16 bytes in between.
  static constexpr int kTokenBytes = kHalf ? 64 : 80;
  static constexpr int kScaleBytes = kHalf ? 0 : kGemmTokens * 8;  // of a block
  static constexpr int kTokensAt = kPanels * kPanelBytes;
  static constexpr int kScalesAt = kTokensAt + kGemmTokens * kTokenBytes;
  static constexpr int kStageBytes = kScalesAt + kBlocks * kScaleBytes;
  static constexpr int kHeaderBytes = kHalf ? 0 : F::kHeaderBytes;
  // Of the super-block at work, and of the next.
  static constexpr int kHeadersBytes = kHeaderBytes == 0 ? 16 : 2 * kPanels * kHeaderBytes;
  static constexpr int kSourceBytes = (32 + 8 * kPanels + 15) / 16 * 16;  // sizeof(GemmSource), rounded up
  static constexpr int kFit = static_cast<int>(kSharedLimit - kSourceBytes - kHeadersBytes) / kStageBytes;
  // At most five: then the next super-block's header is fetched when the one before last is done with.
  static constexpr int kStages = kFit < 5 ? kFit : 5;
  static_assert(kStages >= 2 && kStageBytes % 16 == 0);
};

/** Where a block's operands come from. It stands in shared memory and is read at every stage: in registers it would cost
 *  a fifth of them. */
template <int kPanels>
struct GemmSource {
  const uint8_t* panels[kPanels];  // null: beyond the matrix
  const uint8_t* rows;             // activations of the block's first token
  const ActivationScale* scales;   // its first scale
  int32_t row_bytes, capacity;
  int32_t tokens, blocks;
};

template <ops::FormId kId, int kPanels>
struct alignas(16) GemmShared {
  using S = GemmShape<kId, kPanels>;
  alignas(16) GemmSource<kPanels> source;
  alignas(16) uint8_t headers[S::kHeadersBytes];
  alignas(16) uint8_t stages[S::kStages][S::kStageBytes];
};

/** What a block works on. */
struct GemmTile {
  const ProductTarget* target;
  int32_t first_panel;
  int32_t first_token, tokens;  // that exist, at most kGemmTokens
};

/** One thread fills in the source. */
template <ops::FormId kId, int kPanels>
__device__ __forceinline__ void set_source(const ProductArgs& args, const GemmTile& tile, GemmSource<kPanels>& source) {
  const QuantisedRows& x = args.quantised;
  for (int32_t i = 0; i < kPanels; ++i) {
    const int32_t panel = tile.first_panel + i;
    source.panels[i] = panel * ops::kPanelRows < tile.target->weight_rows
                           ? tile.target->panels + static_cast<size_t>(panel) * tile.target->panel_bytes
                           : nullptr;
  }
  source.row_bytes = GemmShape<kId, kPanels>::kHalf ? 2 * x.stride : x.stride;
  source.rows = reinterpret_cast<const uint8_t*>(x.q);
  if constexpr (kId == ops::FormId::kF16) source.rows = reinterpret_cast<const uint8_t*>(x.half);
  if constexpr (kId == ops::FormId::kBF16) source.rows = reinterpret_cast<const uint8_t*>(x.bfloat);
  source.rows += static_cast<int64_t>(tile.first_token) * source.row_bytes;
  source.scales = x.scales + tile.first_token;
  source.capacity = x.capacity;
  source.tokens = tile.tokens;
  source.blocks = args.blocks;
}

/** Copies kBytes of each panel from `offset` on, of which `valid_bytes` exist; a share of the threads takes each panel. */
template <int kPanels, int kThreads, int kBytes>
__device__ __forceinline__ void fetch_panels(const GemmSource<kPanels>& source, uint32_t offset, int32_t valid_bytes,
                                             uint8_t* to) {
  constexpr int kShare = kThreads / kPanels;
  const auto panel = static_cast<int32_t>(threadIdx.x) / kShare;
  const uint8_t* const from = source.panels[panel];
  for (int32_t at = static_cast<int32_t>(threadIdx.x) % kShare * 16; at < kBytes; at += kShare * 16) {
    const bool valid = from != nullptr && at < valid_bytes;
    cp_async_16(to + panel * kBytes + at, valid ? from + offset + at : source.rows, valid);
  }
}

/** Starts the copies of stage `stage` of the columns. All threads take part. */
template <ops::FormId kId, int kPanels>
__device__ __forceinline__ void fetch_stage(int32_t stage, GemmShared<kId, kPanels>& shared) {
  using S = GemmShape<kId, kPanels>;
  const GemmSource<kPanels>& source = shared.source;
  uint8_t* const to = shared.stages[stage % S::kStages];
  const int32_t first = stage * S::kBlocks;
  const int32_t blocks = source.blocks - first < S::kBlocks ? source.blocks - first : S::kBlocks;
  auto offset = static_cast<uint32_t>(first) * S::kBlockBytes;
  if constexpr (!S::kHalf) offset = static_cast<uint32_t>(block_offset<kId>(first));
  fetch_panels<kPanels, S::kThreads, S::kPanelBytes>(source, offset, blocks * S::kBlockBytes, to);
  if constexpr (S::kHeaderBytes != 0) {
    if (first % ops::kSuperBlocks == 0) {
      uint8_t* const headers = shared.headers + first / ops::kSuperBlocks % 2 * (kPanels * S::kHeaderBytes);
      fetch_panels<kPanels, S::kThreads, S::kHeaderBytes>(source, static_cast<uint32_t>(header_offset<kId>(first)),
                                                          S::kHeaderBytes, headers);
    }
  }
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t chunk = thread % 4 * 16;  // of the 64 bytes that are a token's stage
  constexpr int kBlockOfToken = S::kHalf ? 64 : 32;
#pragma unroll
  for (int32_t token = thread / 4; token < kGemmTokens; token += S::kThreads / 4) {
    const bool valid = token < source.tokens && chunk < blocks * kBlockOfToken;
    const int64_t at = static_cast<int64_t>(token) * source.row_bytes + first * kBlockOfToken + chunk;
    cp_async_16(to + S::kTokensAt + token * S::kTokenBytes + chunk, source.rows + (valid ? at : 0), valid);
  }
  if constexpr (!S::kHalf) {
    if (thread < S::kBlocks * kGemmTokens / 2) {  // two tokens' scales are 16 bytes
      const int32_t block = thread / (kGemmTokens / 2), token = thread % (kGemmTokens / 2) * 2;
      const bool valid = token < source.tokens && block < blocks;
      const int64_t at = static_cast<int64_t>(first + block) * source.capacity + token;
      cp_async_16(to + S::kScalesAt + block * S::kScaleBytes + token * 8, source.scales + (valid ? at : 0), valid);
    }
  }
}

/** Sums of a warp: of 2 × kTiles tiles of 16 weight rows × 8 tokens, as mma lays them out. */
template <int kTiles>
using WarpSums = float[2][kTiles][4];

/** Codes, and scales of rows g and g + 8 of half `m` of the panel: one half at a time, both do not fit the registers. */
template <ops::FormId kId>
struct GemmWeights {
  using F = Form<kId>;
  static constexpr int kScales = F::kPer16 ? 2 : 1;
  uint32_t codes[4];
  float scale[2][kScales];
  float minimum[2][kScales];

  __device__ __forceinline__ void load(const uint8_t* header, const uint8_t* block, int sub, int m) {
    const auto lane = static_cast<int>(threadIdx.x % kWarp);
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = 16 * m + 8 * i + g;
      const uint8_t* plane = block + F::kScaleBytes;
      CodeWords words = {};
      for (int e = 0; e < F::kExtraBits; ++e, plane += 128) {
        words.extra[e] = reinterpret_cast<const uint32_t*>(plane)[r];
      }
      const auto* base = reinterpret_cast<const uint32_t*>(plane);
      if constexpr (F::kBaseBits == 2) {
        words.base[0] = base[r];
        words.base[1] = base[32 + r];
      } else {
        words.base[0] = base[4 * r + t];
        if constexpr (F::kBaseBits == 8) words.base[1] = base[128 + 4 * r + t];
      }
      expand<kId>(words, t, codes[i], codes[2 + i]);
      const RawScale raw = load_scale<kId>(header, block, sub, r);
      const HeaderScale super = decode(load_header<kId>(header, r));
#pragma unroll
      for (int half = 0; half < kScales; ++half) {
        scale[i][half] = scale_of<kId>(raw, super, half);
        if constexpr (F::kHasMin) minimum[i][half] = minimum_of<kId>(raw, super, half);
      }
    }
  }
};

/** 1.5 · 2^23: an integer below 2^22 added to these bits is that float plus the integer. */
inline constexpr int32_t kMagicBits = 0x4B400000;
inline constexpr float kMagic = 12582912.0f;

/** A tile of 16 × 8 integer sums enters the float sums: `d` and `n` are those of the lane's two tokens. */
template <ops::FormId kId>
__device__ __forceinline__ void add_tile(const GemmWeights<kId>& weights, int half, const int32_t (&dots)[4],
                                         const float (&d)[2], const int32_t (&n)[2], float (&sums)[4]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float dot = __uint_as_float(static_cast<uint32_t>(dots[e])) - kMagic;
    float minimum = 0.0f, d_sum = 0.0f;
    if constexpr (Form<kId>::kHasMin) {
      minimum = weights.minimum[e / 2][half];
      d_sum = d[e % 2] * static_cast<float>(n[e % 2]);
    }
    sums[e] = add_block<kId>(sums[e], dot, weights.scale[e / 2][half], d[e % 2], minimum, d_sum);
  }
}

/** 16 weight rows times 8 tokens over a block of 32 columns. `columns`: the tokens' fragments; `scales`: their scales. */
template <ops::FormId kId>
__device__ __forceinline__ void multiply_tile(const GemmWeights<kId>& weights, const uint32_t (&columns)[2],
                                              const uint4& scales, float (&sums)[4]) {
  constexpr int32_t kZero = Form<kId>::kZero;
  const float d[2] = {__uint_as_float(scales.x), __uint_as_float(scales.z)};
  const int32_t first[2] = {static_cast<int16_t>(scales.y), static_cast<int16_t>(scales.w)};
  const int32_t second[2] = {static_cast<int32_t>(scales.y) >> 16, static_cast<int32_t>(scales.w) >> 16};
  if constexpr (Form<kId>::kPer16) {
    const int32_t start[2] = {kMagicBits - kZero * first[0], kMagicBits - kZero * first[1]};
    int32_t dots[4] = {start[0], start[1], start[0], start[1]};
    mma_m16n8k16_u8s8(dots, {weights.codes[0], weights.codes[1]}, columns[0]);
    add_tile<kId>(weights, 0, dots, d, first, sums);
    const int32_t start_second[2] = {kMagicBits - kZero * second[0], kMagicBits - kZero * second[1]};
    int32_t dots_second[4] = {start_second[0], start_second[1], start_second[0], start_second[1]};
    mma_m16n8k16_u8s8(dots_second, {weights.codes[2], weights.codes[3]}, columns[1]);
    add_tile<kId>(weights, 1, dots_second, d, second, sums);
  } else {
    const int32_t n[2] = {first[0] + second[0], first[1] + second[1]};
    const int32_t start[2] = {kMagicBits - kZero * n[0], kMagicBits - kZero * n[1]};
    int32_t dots[4] = {start[0], start[1], start[0], start[1]};
    mma_m16n8k32_u8s8(dots, weights.codes, columns);
    add_tile<kId>(weights, 0, dots, d, n, sums);
  }
}

/** Half a panel over one block of a stage, quantised types. `tokens`, `scales`: from the warp's first token on. */
template <ops::FormId kId, int kTiles>
__device__ __forceinline__ void multiply_block(const GemmWeights<kId>& weights, const uint8_t* tokens,
                                               const uint8_t* scales, int32_t tiles, float (&sums)[kTiles][4]) {
  constexpr int kTokenBytes = GemmShape<kId, 1>::kTokenBytes;
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
#pragma unroll
  for (int pair = 0; pair < kTiles; pair += 2) {
    if (pair >= tiles) break;
    __syncwarp();  // keeps the compiler from loading all tiles' operands at once: registers
    // Two tiles' fragments at once: matrices are (tile, 16 columns).
    uint32_t b[4];
    ldmatrix_x4(b, tokens + (8 * pair + lane / 16 * 8 + lane % 8) * kTokenBytes + lane / 8 % 2 * 16);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i != 0 && (Form<kId>::kHasMin || Form<kId>::kPer16)) __syncwarp();
      const uint4 two = *reinterpret_cast<const uint4*>(scales + (8 * (pair + i) + lane % 4 * 2) * 8);
      const uint32_t columns[2] = {b[2 * i], b[2 * i + 1]};
      multiply_tile<kId>(weights, columns, two, sums[pair + i]);
    }
  }
}

/** One block of 32 columns of a stage, 16-bit types. */
template <ops::FormId kId, int kTiles>
__device__ __forceinline__ void multiply_half_block(const uint8_t* block, const uint8_t* tokens, int32_t tiles,
                                                    WarpSums<kTiles>& sums) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  uint4 a[2][2];
#pragma unroll
  for (int s = 0; s < 2; ++s) {
#pragma unroll
    for (int m = 0; m < 2; ++m) a[s][m] = reinterpret_cast<const uint4*>(block)[(s * 2 + m) * kWarp + lane];
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    if (tile >= tiles) break;
    const uint4 b = *reinterpret_cast<const uint4*>(tokens + (8 * tile + lane / 4) * GemmShape<kId, 1>::kTokenBytes +
                                                    lane % 4 * 16);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      multiply_halves<kId>(sums[m][tile], a[0][m], b.x, b.y);
      multiply_halves<kId>(sums[m][tile], a[1][m], b.z, b.w);
    }
  }
}

/** Writes a warp's outputs. */
template <int kTiles>
__device__ __forceinline__ void write_outputs(const ProductArgs& args, const GemmTile& tile, int32_t panel,
                                              int32_t token_in_tile, const WarpSums<kTiles>& totals) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int32_t within = token_in_tile + 8 * t + lane % 4 * 2 + j;
      if (within >= tile.tokens) continue;
      const int64_t token = tile.first_token + within;
      const float factor = args.row_scale != nullptr ? args.row_scale[token] : 1.0f;
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int32_t row = panel * ops::kPanelRows + 16 * m + 8 * i + lane / 4;
          if (row >= tile.target->weight_rows) continue;
          tile.target->y[token * tile.target->weight_rows + row] =
              finished(args, *tile.target, row, totals[m][t][2 * i + j] * factor);
        }
      }
    }
  }
}

template <ops::FormId kId, int kPanels>
__global__ void __launch_bounds__(GemmShape<kId, kPanels>::kThreads, GemmShape<kId, kPanels>::kResident)
    gemm_kernel(ProductArgs args) {
  using S = GemmShape<kId, kPanels>;
  auto& shared = shared_memory<GemmShared<kId, kPanels>>();
  GemmTile tile;
  tile.first_token = static_cast<int32_t>(blockIdx.x) * kGemmTokens;
  tile.tokens = existing_rows(args) - tile.first_token;
  if (tile.tokens <= 0) return;
  if (tile.tokens > kGemmTokens) tile.tokens = kGemmTokens;
  const auto grid_tile = static_cast<int32_t>(blockIdx.y);
  tile.target = &args.target[target_of_tile(args, grid_tile)];
  tile.first_panel = (grid_tile - tile.target->first_tile) * kPanels;

  if (threadIdx.x == 0) set_source<kId, kPanels>(args, tile, shared.source);
  __syncthreads();

  const auto warp = static_cast<int32_t>(threadIdx.x / kWarp);
  const int32_t panel = warp % kPanels;
  const int32_t token = warp / kPanels * (8 * S::kTiles);  // the warp's first, in the tile
  const int32_t tiles = (tile.tokens - token + 7) / 8;     // may be none
  WarpSums<S::kTiles> sums = {};
  WarpSums<S::kTiles> totals = {};
  const int32_t stages = (args.blocks + S::kBlocks - 1) / S::kBlocks;
  for (int32_t stage = 0; stage < S::kStages - 1; ++stage) {
    if (stage < stages) fetch_stage(stage, shared);
    cp_async_commit();
  }
  for (int32_t stage = 0; stage < stages; ++stage) {
    cp_async_wait<S::kStages - 2>();
    __syncthreads();  // this stage has come; the one before is done with
    if (stage + S::kStages - 1 < stages) fetch_stage(stage + S::kStages - 1, shared);
    cp_async_commit();
    const uint8_t* const at = shared.stages[stage % S::kStages];
    const uint8_t* const tokens = at + S::kTokensAt + token * S::kTokenBytes;
    if (tiles > 0) {
      if constexpr (S::kHalf) {
        multiply_half_block<kId, S::kTiles>(at + panel * S::kPanelBytes, tokens, tiles, sums);
      } else {
#pragma unroll 1
        for (int32_t i = 0; i < S::kBlocks; ++i) {
          const int32_t b = stage * S::kBlocks + i;
          if (b >= args.blocks) break;
          const uint8_t* const header =
              shared.headers + (b / ops::kSuperBlocks % 2 * kPanels + panel) * S::kHeaderBytes;
          const uint8_t* const block = at + panel * S::kPanelBytes + i * S::kBlockBytes;
          const uint8_t* const scales = at + S::kScalesAt + i * S::kScaleBytes + token * 8;
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            __syncwarp();  // and not both halves' operands at once
            GemmWeights<kId> weights;
            weights.load(header, block, b % ops::kSuperBlocks, m);
            multiply_block<kId, S::kTiles>(weights, tokens + i * ops::kBlock, scales, tiles, sums[m]);
          }
        }
      }
    }
    const int32_t done = (stage + 1) * S::kBlocks;
    if (done % args.segment_blocks != 0 && stage + 1 < stages) continue;
    const bool first_segment = done <= args.segment_blocks;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          totals[m][t][e] = first_segment ? sums[m][t][e] : totals[m][t][e] + sums[m][t][e];
          sums[m][t][e] = 0.0f;
        }
      }
    }
  }
  if (tiles > 0) write_outputs<S::kTiles>(args, tile, tile.first_panel + panel, token, totals);
}

template <ops::FormId kId, int kPanels>
cudaError_t launch_gemm_panels(ProductArgs args, KernelQueue queue) {
  using S = GemmShape<kId, kPanels>;
  static_assert(sizeof(GemmShared<kId, kPanels>) <= kSharedLimit);
  const int32_t tiles = assign_tiles(args, kPanels);
  const auto token_tiles = static_cast<uint32_t>((args.rows + kGemmTokens - 1) / kGemmTokens);
  return launch(gemm_kernel<kId, kPanels>,
                {.grid = dim3(token_tiles, static_cast<uint32_t>(tiles)),
                 .block = dim3(S::kThreads),
                 .shared_bytes = sizeof(GemmShared<kId, kPanels>)},
                queue, args);
}

/** Large tiles where they fill the card, at least once over; else small ones. */
template <ops::FormId kId>
cudaError_t launch_gemm_form(const ProductArgs& args, const DeviceLimits& device, KernelQueue queue) {
  int64_t rows = 0;
  for (int32_t i = 0; i < args.targets; ++i) rows += args.target[i].weight_rows;
  const int64_t large = (rows + 127) / 128 * ((args.rows + kGemmTokens - 1) / kGemmTokens);
  if (large >= device.multiprocessors) return launch_gemm_panels<kId, 4>(args, queue);
  return launch_gemm_panels<kId, 1>(args, queue);
}

}  // namespace banter::cuda
