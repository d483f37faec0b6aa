#include "kv/stored_pages.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

namespace banter::kv {
namespace {

bool same_shape(const ops::KvGeometry& a, const ops::KvGeometry& b) {
  return a.type == b.type && a.layers == b.layers && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim &&
         a.page_tokens == b.page_tokens;
}

int32_t pages_of(int32_t tokens, int32_t page_tokens) {
  return static_cast<int32_t>((int64_t{tokens} + page_tokens - 1) / page_tokens);
}

/** Tokens that any sequence has computed when its oldest pages in use are those of `stored`: growing to it and back
 *  gives a new sequence the same ones. */
int64_t reached_tokens(const PagePool& pool, const StoredPages& stored) {
  int64_t reached = stored.tokens;
  for (size_t g = 0; g < stored.groups.size(); ++g) {
    const StoredGroup& group = stored.groups[g];
    const GroupSpec& spec = pool.groups()[g];
    if (spec.window == 0 || group.first_page == 0) continue;
    reached =
        std::max(reached, int64_t{group.first_page} * group.geometry.page_tokens + spec.window - 1 + spec.restorable);
  }
  return reached;
}

Result<void> check(const PagePool& pool, const StoredPages& stored, int32_t max_tokens, size_t bytes) {
  if (stored.groups.size() != pool.groups().size()) {
    return Error{BANTER_ERROR_UNSUPPORTED, "the layers are grouped otherwise"};
  }
  if (stored.tokens <= 0) return Error{BANTER_ERROR_CORRUPT, "there are no tokens"};
  if (stored.tokens > max_tokens)
    return Error{BANTER_ERROR_CONTEXT_FULL, "there are more tokens than the context holds"};
  uint64_t total = 0;
  for (size_t g = 0; g < stored.groups.size(); ++g) {
    const StoredGroup& group = stored.groups[g];
    const GroupSpec& spec = pool.groups()[g];
    const ops::KvGeometry& geometry = pool.pages(static_cast<int32_t>(g)).geometry;
    if (!same_shape(group.geometry, geometry) || group.window != spec.window) {
      return Error{BANTER_ERROR_UNSUPPORTED, "the pages have another format"};
    }
    const int64_t end = int64_t{group.first_page} + group.page_count;
    const bool ends_there = end == pages_of(stored.tokens, geometry.page_tokens);
    if (group.first_page < 0 || group.page_count < 1 || !ends_there || (spec.window == 0 && group.first_page != 0)) {
      return Error{BANTER_ERROR_CORRUPT, "the page counts do not fit the tokens"};
    }
    total += group.bytes();  // far below 2^64: pages · page bytes of a slab that exists, a few groups
  }
  if (total != bytes) return Error{BANTER_ERROR_CORRUPT, "the pages' size is not what their counts say"};
  return {};
}

/** The pages' contents. `bytes` has stored.bytes() of them. */
Result<void> check_numbers(const ops::Backend& backend, const StoredPages& stored, std::span<const std::byte> bytes) {
  size_t at = 0;
  for (const StoredGroup& group : stored.groups) {
    const std::optional<ops::KvLayout> layout = backend.kv_layout(group.geometry);
    if (!layout) return Error{BANTER_ERROR_UNSUPPORTED, "this backend does not take pages from files"};
    const size_t size = group.geometry.page_bytes();
    for (int32_t p = 0; p < group.page_count; ++p, at += size) {
      if (!ops::holds_numbers(group.geometry, *layout, bytes.subspan(at, size))) {
        return Error{BANTER_ERROR_CORRUPT, "the pages hold what is not a number"};
      }
    }
  }
  return {};
}

/** A sequence that holds exactly the pages of `stored`, contents undefined. */
Result<SequenceCache> make_sequence(PagePool& pool, const StoredPages& stored, int32_t max_tokens) {
  constexpr int32_t kStep = 256;  // small, so that a window's old pages come back before many new ones are taken
  const int64_t reached = reached_tokens(pool, stored);
  if (reached > max_tokens) return Error{BANTER_ERROR_CONTEXT_FULL, "its window reaches beyond the context"};
  SequenceCache cache(pool, max_tokens);
  while (cache.length() < reached) {
    const int32_t step = std::min(kStep, static_cast<int32_t>(reached) - cache.length());
    if (Result<void> reserved = cache.reserve(step); !reserved) return reserved.error();
    cache.advance(step);
  }
  const bool kept = cache.truncate(stored.tokens) == stored.tokens;
  for (size_t g = 0; kept && g < stored.groups.size(); ++g) {
    const std::span<const PageId> table = cache.table(static_cast<int32_t>(g));
    const auto first = static_cast<size_t>(stored.groups[g].first_page);
    const auto count = static_cast<size_t>(stored.groups[g].page_count);
    bool same = first + count <= table.size() && (first == 0 || table[first - 1] == kNoPage);
    for (size_t p = first; same && p < first + count; ++p) same = table[p] != kNoPage && pool.references(table[p]) == 1;
    if (!same) return Error{BANTER_ERROR_CORRUPT, "the pages are not those that a conversation would hold"};
  }
  if (!kept) return Error{BANTER_ERROR_CORRUPT, "the pages are not those that a conversation would hold"};
  return cache;
}

}  // namespace

uint64_t StoredPages::bytes() const {
  uint64_t total = 0;
  for (const StoredGroup& group : groups) total += group.bytes();
  return total;
}

std::optional<StoredPages> plan_stored_pages(const ops::Backend& backend, const PagePool& pool,
                                             const SequenceCache& cache) {
  StoredPages stored;
  stored.tokens = cache.length();
  if (stored.tokens == 0) return std::nullopt;
  for (size_t g = 0; g < pool.groups().size(); ++g) {
    const std::span<const PageId> table = cache.table(static_cast<int32_t>(g));
    StoredGroup group;
    group.geometry = pool.pages(static_cast<int32_t>(g)).geometry;
    if (!backend.kv_layout(group.geometry)) return std::nullopt;
    group.window = pool.groups()[g].window;
    const int32_t end = pages_of(stored.tokens, group.geometry.page_tokens);
    while (group.first_page < end && table[static_cast<size_t>(group.first_page)] == kNoPage) ++group.first_page;
    group.page_count = end - group.first_page;
    const auto begin = table.begin() + group.first_page;
    if (group.page_count < 1 || std::find(begin, begin + group.page_count, kNoPage) != begin + group.page_count) {
      return std::nullopt;
    }
    // The next token sees positions from tokens − window + 1 on.
    const int64_t oldest = std::max(0, group.window == 0 ? 0 : stored.tokens - group.window + 1);
    if (int64_t{group.first_page} * group.geometry.page_tokens > oldest) return std::nullopt;
    stored.groups.push_back(group);
  }
  if (reached_tokens(pool, stored) > cache.max_tokens()) return std::nullopt;
  return stored;
}

Result<void> copy_pages_out(ops::Backend& backend, const PagePool& pool, const SequenceCache& cache,
                            const StoredPages& stored, std::span<std::byte> out) {
  size_t at = 0;
  for (size_t g = 0; g < stored.groups.size(); ++g) {
    const StoredGroup& group = stored.groups[g];
    const size_t bytes = group.geometry.page_bytes();
    for (int32_t p = 0; p < group.page_count; ++p, at += bytes) {
      const PageId page = cache.table(static_cast<int32_t>(g))[static_cast<size_t>(group.first_page + p)];
      const std::byte* const from = pool.pages(static_cast<int32_t>(g)).page(page);
      if (Result<void> copied = backend.copy_to_host(out.data() + at, from, bytes); !copied) return copied;
    }
    const int32_t last_page_tokens =
        stored.tokens - (group.first_page + group.page_count - 1) * group.geometry.page_tokens;
    const std::optional<ops::KvLayout> layout = backend.kv_layout(group.geometry);
    if (layout) ops::clear_unwritten(group.geometry, *layout, last_page_tokens, out.subspan(at - bytes, bytes));
  }
  return {};
}

Result<SequenceCache> copy_pages_in(ops::Backend& backend, PagePool& pool, PrefixIndex& prefixes,
                                    const StoredPages& stored, int32_t max_tokens, std::span<const std::byte> bytes) {
  if (Result<void> ok = check(pool, stored, max_tokens, bytes.size()); !ok) return ok.error();
  if (Result<void> ok = check_numbers(backend, stored, bytes); !ok) return ok.error();
  int64_t pages = 0;
  for (const StoredGroup& group : stored.groups) pages += group.page_count;
  while (pool.free_pages() < std::min<int64_t>(pages, pool.total_pages()) && prefixes.evict()) {
  }
  Result<SequenceCache> cache = make_sequence(pool, stored, max_tokens);
  if (!cache) return cache;
  size_t at = 0;
  for (size_t g = 0; g < stored.groups.size(); ++g) {
    const StoredGroup& group = stored.groups[g];
    const size_t size = group.geometry.page_bytes();
    for (int32_t p = 0; p < group.page_count; ++p, at += size) {
      const PageId page = cache->table(static_cast<int32_t>(g))[static_cast<size_t>(group.first_page + p)];
      std::byte* const to = pool.pages(static_cast<int32_t>(g)).page(page);
      if (Result<void> copied = backend.copy_from_host(to, bytes.data() + at, size); !copied) return copied.error();
    }
  }
  return cache;
}

}  // namespace banter::kv
