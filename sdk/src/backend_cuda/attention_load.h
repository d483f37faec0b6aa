// From pages to tiles in shared memory: how a block of attention reads K and V.
//
// A tile is [kKeys][kDim] halves, rows 16 bytes longer than that so that the eight rows of an 8 × 8 matrix start in
// different banks. Dimensions from head_dim on are zero, and so are the vectors of positions that the tile's rows do not
// see: slots that nobody wrote yet may hold anything, and 0 · NaN would not be 0.
// F16 pages are copied straight into the tile; BF16 likewise, then each thread turns the 16-byte chunks that it copied into
// halves (exact between 2^-14 and 65504, clamped above, rounded to a multiple of 2^-24 below). INT8 and INT4 are copied as
// they stand into a raw buffer, and expanded from there: level · scale, one rounding to half.
#pragma once

#include "backend_cuda/attention_tile.h"

#if defined(__CUDACC__) || defined(BANTER_CUDA_EMULATOR)

namespace banter::cuda {

/** What a block works on: in shared memory, since registers are scarce. */
struct alignas(16) AttentionBlock {
  AttentionTile tile;
  TileKeys keys;
  int32_t kv_head;
  int32_t first_row, rows;  // of the tile's query rows, those of this block
  int32_t begin, end;       // key blocks
};

/** Shape of a block: head vectors filled up to kDim; kRowWarps · 16 query rows, each 16 of them shared by
 *  kAttentionWarps / kRowWarps warps, which take their parts of the keys for the scores and of the dimensions for the
 *  output. */
template <int kDimValue, int kRowWarpsValue, bool kQuantisedValue>
struct AttentionShape {
  static constexpr int kDim = kDimValue, kRowWarps = kRowWarpsValue;
  static constexpr bool kQuantised = kQuantisedValue;
  static constexpr int kShare = kAttentionWarps / kRowWarps;
  static constexpr int kRows = 16 * kRowWarps;
  static constexpr int kKeys = kDim <= 128 ? 64 : 32;
  static constexpr int kSplitBlocks = kSplitKeys / kKeys;
  static constexpr int kChunks = kDim / 8;
  static constexpr int kRowBytes = 2 * kDim + 16;
  static constexpr int kTileBytes = kKeys * kRowBytes;
  static constexpr int kScalesAt = kKeys * kDim;  // in a raw buffer; at most kDim / 8 bytes of scales a key
  static constexpr int kRawBytes = kScalesAt + kKeys * kDim / 8;
  static constexpr int kScoreStride = kKeys + 8;
  /** Blocks that an SM should hold: registers must leave room for them. */
  static constexpr int kBlocks = kDim < 128 && kRowWarps < 4 ? 3 : 2;
  /** Would spill registers on Turing, whose copies and products take more of them. */
  static constexpr bool kNeedsAmpere = (kDim == 128 && kRowWarps == 4) || (kDim == 256 && kRowWarps == 2);

  struct Shared {
    AttentionBlock block;
    int32_t positions[kRows];  // of the query rows; -1: no such row
    float factors[kRows];      // what makes a query row's products its scores
    uint8_t tile[kTileBytes];
    uint8_t second[kQuantised ? 2 * kRawBytes : kTileBytes];  // V's tile, or K and V as they stand in their pages
    float scores[kShare > 1 ? kRows* kScoreStride : 4];
    Piece pieces[2 * kSplitPieces];
  };
  static_assert(sizeof(Shared) <= kSharedLimit);
  static_assert(!kQuantised || kTileBytes + 2 * kRawBytes >= 4 * kRows * kDim, "outputs are staged there");
  static_assert(kKeys * kChunks % kAttentionThreads == 0 && kKeys * kDim / 16 % kAttentionThreads == 0);
};

/** Finds the pieces of kSplitPieces threads' worth of a split; thread p looks for the p-th. */
__device__ __forceinline__ void find_pieces(const AttentionKernel& a, const TileKeys& keys, int32_t sequence,
                                            int32_t kv_head, int32_t split, int32_t p, Piece* pieces) {
  const int32_t index = split * kSplitPieces + p;
  pieces[index % (2 * kSplitPieces)] = find_piece(a, keys, sequence, kv_head, index * kPieceTokens);
}
__device__ __forceinline__ Piece piece_at(const Piece* pieces, int32_t position) {
  return pieces[position / kPieceTokens % (2 * kSplitPieces)];
}

/** Starts copying the halves of positions [start, start + kKeys) into a tile. */
template <class S>
__device__ __forceinline__ void copy_tile(uint8_t* tile, const Piece* pieces, const TileKeys& keys, int32_t start,
                                          uint32_t offset, int32_t vector_bytes, const void* any_address) {
#pragma unroll 2
  for (int i = 0; i < S::kKeys * S::kChunks / kAttentionThreads; ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * kAttentionThreads;
    const int key = item / S::kChunks, chunk = item % S::kChunks;
    const int32_t position = start + key;
    const std::byte* piece = piece_at(pieces, position).keys;
    const bool is_valid =
        piece != nullptr && position >= keys.oldest && position <= keys.last && 16 * chunk < vector_bytes;
    const void* source =
        is_valid ? piece + offset + (position % kPieceTokens) * vector_bytes + 16 * chunk : any_address;
    cp_async_16(tile + key * S::kRowBytes + 16 * chunk, source, is_valid);
  }
}

/** Two bfloats of a register as halves. */
__device__ __forceinline__ uint32_t bfloats_to_halves(uint32_t x) {
  return pack_halves(clamp_to(__uint_as_float(x << 16), kLargestHalf),
                     clamp_to(__uint_as_float(x & 0xFFFF0000u), kLargestHalf));
}
/** The chunks that this thread copied with copy_tile(), from bfloats to halves. */
template <class S>
__device__ __forceinline__ void convert_tile(uint8_t* tile) {
#pragma unroll 1
  for (int i = 0; i < S::kKeys * S::kChunks / kAttentionThreads; ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * kAttentionThreads;
    uint4& chunk = *reinterpret_cast<uint4*>(tile + item / S::kChunks * S::kRowBytes + 16 * (item % S::kChunks));
    const uint4 x = chunk;
    chunk = make_uint4(bfloats_to_halves(x.x), bfloats_to_halves(x.y), bfloats_to_halves(x.z), bfloats_to_halves(x.w));
  }
}

/** Starts copying levels and scales of positions [start, start + kKeys) into a raw buffer: a warp or two a piece. The
 *  bytes of 16 tokens are as many 16-byte chunks as a token has bytes. */
template <class S>
__device__ __forceinline__ void copy_raw(uint8_t* raw, const Piece* pieces, int32_t start, const KvLayer& kv,
                                         uint32_t offset) {
  constexpr int kPieces = S::kKeys / kPieceTokens, kThreads = kAttentionThreads / kPieces;
  const int piece_index = static_cast<int>(threadIdx.x) / kThreads;
  const Piece piece = piece_at(pieces, start + piece_index * kPieceTokens);
  if (piece.keys == nullptr) return;
  uint8_t* values = raw + piece_index * kPieceTokens * kv.value_bytes;
  uint8_t* scales = raw + S::kScalesAt + piece_index * kPieceTokens * kv.scale_bytes - 16 * kv.value_bytes;
  const std::byte* from_scales = piece.scales + offset - 16 * kv.value_bytes;
  for (int c = static_cast<int>(threadIdx.x) % kThreads; c < kv.value_bytes + kv.scale_bytes; c += kThreads) {
    const bool is_value = c < kv.value_bytes;
    cp_async_16((is_value ? values : scales) + 16 * c, (is_value ? piece.keys + offset : from_scales) + 16 * c);
  }
}

/** Four signed bytes as floats: exact. 2^23 + 128 + level is the float whose low byte is level + 128. */
__device__ __forceinline__ void bytes_to_floats(uint32_t bytes, float* x) {
  const uint32_t shifted = bytes ^ 0x80808080u;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i)
    x[i] = __uint_as_float(permute_bytes(shifted, 0x4B000000u, 0x7440u + i)) - 8388736.0f;
}
/** Likewise the low halves of four bytes, in two's complement. */
__device__ __forceinline__ void nibbles_to_floats(uint32_t bytes, float* x) {
  const uint32_t shifted = (bytes & 0x0F0F0F0Fu) ^ 0x08080808u;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i)
    x[i] = __uint_as_float(permute_bytes(shifted, 0x4B000000u, 0x7440u + i)) - 8388616.0f;
}

/** Levels of 16 dimensions: 16 bytes of INT8, or 8 of INT4. */
__device__ __forceinline__ void load_levels(const uint8_t* values, bool is_int8, float (&x)[16]) {
  if (is_int8) {
    const uint4 bytes = *reinterpret_cast<const uint4*>(values);
    bytes_to_floats(bytes.x, x);
    bytes_to_floats(bytes.y, x + 4);
    bytes_to_floats(bytes.z, x + 8);
    bytes_to_floats(bytes.w, x + 12);
  } else {
    const uint2 bytes = *reinterpret_cast<const uint2*>(values);
    nibbles_to_floats(bytes.x, x);
    nibbles_to_floats(bytes.y, x + 4);
    nibbles_to_floats(bytes.x >> 4, x + 8);
    nibbles_to_floats(bytes.y >> 4, x + 12);
  }
}

/** Levels times scale as halves in a tile. Not before the copies of all threads are there. */
template <class S>
__device__ __forceinline__ void expand_tile(uint8_t* tile, const uint8_t* raw, const Piece* pieces,
                                            const TileKeys& keys, int32_t start, const KvLayer& kv, int32_t head_dim) {
  constexpr int kParts = S::kDim / 16;
  const bool is_int8 = kv.type == ops::KvType::kI8;
#pragma unroll 1
  for (int i = 0; i < S::kKeys * kParts / kAttentionThreads; ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * kAttentionThreads;
    const int key = item / kParts, part = item % kParts;
    const int32_t position = start + key;
    uint4* out = reinterpret_cast<uint4*>(tile + key * S::kRowBytes + 32 * part);
    if (position < keys.oldest || position > keys.last || 16 * part >= head_dim ||
        piece_at(pieces, position).keys == nullptr) {
      out[0] = out[1] = make_uint4(0, 0, 0, 0);
      continue;
    }
    float x[16];
    load_levels(raw + key * kv.value_bytes + (is_int8 ? 16 : 8) * part, is_int8, x);
    const float scale = half_to_float(*reinterpret_cast<const uint16_t*>(raw + S::kScalesAt + key * kv.scale_bytes +
                                                                         2 * (is_int8 ? part / 2 : part)));
#pragma unroll
    for (int d = 0; d < 16; ++d) x[d] *= scale;
    if (fabsf(scale) > kLargestHalf / 128.0f) {  // rounding the scale may have brought the largest beyond the halves
#pragma unroll
      for (int d = 0; d < 16; ++d) x[d] = clamp_to(x[d], kLargestHalf);
    }
    out[0] =
        make_uint4(pack_halves(x[0], x[1]), pack_halves(x[2], x[3]), pack_halves(x[4], x[5]), pack_halves(x[6], x[7]));
    out[1] = make_uint4(pack_halves(x[8], x[9]), pack_halves(x[10], x[11]), pack_halves(x[12], x[13]),
                        pack_halves(x[14], x[15]));
  }
}

}  // namespace banter::cuda

#endif
