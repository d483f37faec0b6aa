// A page of cached keys and values, byte by byte: its sizes, and where in it a token's numbers stand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/kv_format.h"

namespace banter::ops {

/** What one page of a KV group holds: [layers][K, V][kv_heads], each of page_tokens · kv_vector_bytes() bytes, tightly
 *  packed. How the vectors of a page's tokens (and their scales) stand in these bytes is the backend's own. */
struct KvGeometry {
  KvType type = KvType::kF16;
  int32_t layers = 0;  // layers of this group
  int32_t kv_heads = 0;
  int32_t head_dim = 0;     // of K and of V
  int32_t page_tokens = 0;  // a multiple of 16

  size_t head_bytes() const { return kv_vector_bytes(type, head_dim) * static_cast<size_t>(page_tokens); }
  size_t bytes_per_token() const {
    return kv_vector_bytes(type, head_dim) * 2 * static_cast<size_t>(layers) * kv_heads;
  }
  size_t page_bytes() const { return bytes_per_token() * static_cast<size_t>(page_tokens); }
  /** Offset in a page of the first token's vector of a head: `value` 0 = K, 1 = V. */
  size_t offset(int32_t layer, int value, int32_t head) const {
    return ((static_cast<size_t>(layer) * 2 + value) * kv_heads + head) * head_bytes();
  }
};

/** Where the vectors of a page's tokens, or their scales, stand in a head's region (KvGeometry::offset): token t has
 *  `runs` runs of `run_bytes` bytes, run r at offset + t · token_step + r · run_step. */
struct KvTable {
  size_t offset = 0;
  size_t runs = 0, run_bytes = 0;
  size_t token_step = 0, run_step = 0;
};

/** One head's K and V regions. The tables together are every byte of the region. */
struct KvLayout {
  struct Region {
    KvTable values;
    KvTable scales;  // quantised formats only: float16 numbers
  };
  std::array<Region, 2> regions;  // K, V
};

/** Zeroes what a page in host memory holds of its tokens [tokens, page_tokens), which may never have been written. */
void clear_unwritten(const KvGeometry& geometry, const KvLayout& layout, int32_t tokens, std::span<std::byte> page);

/** True when attention over the page computes with numbers only: no scale and no unscaled value is infinite or
 *  not-a-number, and no INT8 value is -128, which storing never gives. Any bytes; page.size() is page_bytes(). */
bool holds_numbers(const KvGeometry& geometry, const KvLayout& layout, std::span<const std::byte> page);

}  // namespace banter::ops
