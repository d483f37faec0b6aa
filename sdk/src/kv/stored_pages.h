// A sequence's pages on their way out of the pool and back in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "ops/backend.h"

namespace banter::kv {

/** Pages [first_page, first_page + page_count) of a sequence in one group. */
struct StoredGroup {
  ops::KvGeometry geometry;
  int32_t window = 0;
  int32_t first_page = 0;
  int32_t page_count = 0;

  /** Of all pages, which are stored without the padding between them. */
  uint64_t bytes() const { return uint64_t{geometry.page_bytes()} * static_cast<uint64_t>(page_count); }
};

/** All pages of a sequence of `tokens` tokens in every group; behind its last token they hold zeros. */
struct StoredPages {
  int32_t tokens = 0;
  std::vector<StoredGroup> groups;  // in the pool's order

  uint64_t bytes() const;
};

/** Nothing for an empty sequence, or where the backend says no layout of its pages, or lacks a window's pages. */
std::optional<StoredPages> plan_stored_pages(const ops::Backend& backend, const PagePool& pool,
                                             const SequenceCache& cache);

/** Copies the pages into `out`, which has stored.bytes() bytes: group after group, page after page. Errors: BACKEND. */
Result<void> copy_pages_out(ops::Backend& backend, const PagePool& pool, const SequenceCache& cache,
                            const StoredPages& stored, std::span<std::byte> out);

/** A new sequence of at most `max_tokens` tokens with these pages, which it alone holds.
 *  @param prefixes  of the pool: cached pages that nobody uses make room
 *  @param stored  any numbers at all: everything is checked against the pool
 *  @param bytes   any contents
 *  Errors: UNSUPPORTED (another geometry), CORRUPT (counts that do not fit together, numbers that are not finite),
 *  CONTEXT_FULL, KV_POOL_EXHAUSTED, BACKEND. */
Result<SequenceCache> copy_pages_in(ops::Backend& backend, PagePool& pool, PrefixIndex& prefixes,
                                    const StoredPages& stored, int32_t max_tokens, std::span<const std::byte> bytes);

}  // namespace banter::kv
