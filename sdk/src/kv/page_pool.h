// Fixed-size pages with reference counts: the KV cache of all characters of a model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/backend.h"

namespace banter::kv {

using PageId = int32_t;
inline constexpr PageId kNoPage = -1;

/** Layers that cache alike. `window` 0: full attention; else only the newest `window` positions are ever read. */
struct GroupSpec {
  ops::KvType type = ops::KvType::kF16;
  int32_t layers = 0, kv_heads = 0, head_dim = 0;
  int32_t window = 0;
  /** Positions kept behind the window, so that truncate() can take back this many tokens (a cut stop string, an
   *  interrupted reply's last words) without a new prefill. Ignored when window is 0. */
  int32_t restorable = 64;
  /** Quantised groups: index of the F16 group of the same layers that holds the newest tokens, a window of at least
   *  ops::kKvRecentWindow; -1: none, everything is read quantised. */
  int32_t companion = -1;
};

/** Page geometry for groups so that all pages have the same stride and a long conversation loses little of its memory to
 *  padding: page_tokens is a multiple of 16, at least 16. `groups` as PagePool::create accepts them. */
std::vector<ops::KvGeometry> plan_geometry(std::span<const GroupSpec> groups);

/** Bytes from one page to the next in a pool of this geometry. */
size_t page_stride(std::span<const ops::KvGeometry> geometry);
/** Most pages of `page_tokens` tokens that a sequence holds at any time in `group` while it grows to `tokens` tokens in
 *  chunks of at most `chunk`. */
int64_t pages_of_sequence(const GroupSpec& group, int32_t page_tokens, int32_t tokens, int32_t chunk);

/** The pool. Used by the engine thread only; statistics getters too. */
class PagePool {
 public:
  /** Allocates budget_bytes / stride pages from the backend, which must outlive the pool.
   *  Errors: INVALID_ARGUMENT (no group, more than ops::kMaxKvGroups, a shape below 1, a companion that does not
   *  fit), UNSUPPORTED (page format, or a head size that it cannot hold),
   *  OUT_OF_MEMORY, BUDGET_EXCEEDED when not even one page per group fits. */
  static Result<std::unique_ptr<PagePool>> create(ops::Backend& backend, std::vector<GroupSpec> groups,
                                                  size_t budget_bytes);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  /** A page with one reference and undefined contents, or kNoPage. O(1), no memory is allocated. */
  PageId allocate();
  /** One more holder of a page that is held. */
  void retain(PageId page);
  /** One holder less; the last one frees the page. kNoPage is a no-op. A page that nobody holds: asserts in debug
   *  builds, ignored otherwise. */
  void release(PageId page);
  int32_t references(PageId page) const { return references_[static_cast<size_t>(page)]; }

  /** Copies a page's contents. Errors: BACKEND. */
  Result<void> copy_page(PageId from, PageId to);
  /** Copies page_stride() bytes to or from host memory. Errors: BACKEND. */
  Result<void> read_page(PageId page, std::byte* host) const;
  Result<void> write_page(PageId page, const std::byte* host);

  std::span<const GroupSpec> groups() const { return groups_; }
  const ops::KvPages& pages(int32_t group) const { return views_[static_cast<size_t>(group)]; }
  /** The pages of a group's companion; null where it has none. */
  const ops::KvPages* companion_pages(int32_t group) const {
    const int32_t companion = groups_[static_cast<size_t>(group)].companion;
    return companion < 0 ? nullptr : &views_[static_cast<size_t>(companion)];
  }
  int32_t total_pages() const { return static_cast<int32_t>(references_.size()); }
  int32_t free_pages() const { return static_cast<int32_t>(free_.size()); }
  size_t page_stride() const { return views_[0].page_stride; }
  /** How many pages there would be after resize() to this many bytes. */
  int32_t pages_in(size_t bytes) const;
  /** Grows or shrinks to `pages`, a result of pages_in(); contents are kept. Shrinking needs that no more than `pages` are
   *  held, and moves those at the end to where there is room.
   *  @param moved  [out] for every page there was: its new number, or kNoPage where it did not move. Every table that
   *                names pages must be renumbered.
   *  Errors: INVALID_ARGUMENT (too many held), OUT_OF_MEMORY (grown as far as there was memory), BACKEND; after an error
   *  `moved` is as true. */
  Result<void> resize(int32_t pages, std::vector<PageId>& moved);
  /** Most pages that a sequence holds at any time in all groups together while it grows to `tokens` tokens in chunks of
   *  at most `chunk`. */
  int32_t pages_for(int32_t tokens, int32_t chunk) const;

 private:
  PagePool() = default;
  std::byte* address(PageId page) const { return views_[0].page(page); }
  Result<void> add_slabs(int32_t pages);
  void drop_slabs(int32_t pages);

  ops::Backend* backend_ = nullptr;
  int32_t slab_shift_ = 0;         // log2 of the pages of a slab
  std::vector<std::byte*> slabs_;  // never grows beyond what was reserved: views point into it
  std::vector<GroupSpec> groups_;
  std::vector<ops::KvPages> views_;
  std::vector<int32_t> references_;
  std::vector<PageId> free_;
};

/** One sequence's page tables, a table per group. Move-only; returns its pages when destroyed. The pool must outlive it.
 *  Engine thread only. */
class SequenceCache {
 public:
  /** @param max_tokens  longest this sequence can get: tables are sized once, reserve() does not allocate memory */
  SequenceCache(PagePool& pool, int32_t max_tokens);
  ~SequenceCache();
  SequenceCache(SequenceCache&&) noexcept;
  SequenceCache& operator=(SequenceCache&&) noexcept;

  /** Makes positions [length, length + tokens) writable, all or nothing. Reserving again before advance() replaces
   *  nothing: pages already held stay, more are added. A page that others hold too and that will be written is copied
   *  first. Errors: KV_POOL_EXHAUSTED, CONTEXT_FULL, BACKEND. */
  Result<void> reserve(int32_t tokens);
  /** The reserved tokens have been computed; then releases pages that lie wholly behind a sliding window (and its
   *  GroupSpec::restorable). */
  void advance(int32_t tokens);
  /** Forgets positions from `length` on (none when it is not below length(), but reserved pages go). A sliding-window group cannot grow back: after its pages were released, only
   *  lengths ≥ oldest_restorable() can be kept, anything below becomes 0 (the sequence must be prefilled again).
   *  Returns the length kept. */
  int32_t truncate(int32_t length);
  /** The smallest length above 0 that truncate() can keep; 1 while no page has been released. */
  int32_t oldest_restorable() const;
  void clear() { truncate(0); }

  /** Pages of one group that hold positions computed by another sequence. */
  struct Run {
    int32_t first = 0;  // index in the table of pages[0]; above 0 only behind a sliding window
    std::span<const PageId> pages;
  };
  /** For an empty cache: begins with `length` ≤ max_tokens() tokens that stand in these pages, one run per group, and
   *  becomes one more holder of each. */
  void adopt(int32_t length, std::span<const Run> runs);
  /** Holds `page` instead of the page at this place in the table; both have the same contents. */
  void replace(int32_t group, int32_t index, PageId page);
  /** Pages moved: entry p becomes moved[p] where that is not kNoPage. References do not change. */
  void renumber(std::span<const PageId> moved);
  /** False: its pages come from outside and never go to the prefix index. True again when it is empty. */
  bool is_shareable() const { return is_shareable_; }
  void keep_private() { is_shareable_ = false; }
  /** Tokens whose full pages are in the prefix index. */
  int32_t indexed() const { return indexed_; }
  void set_indexed(int32_t tokens) { indexed_ = tokens; }

  /** Index of the page that holds position length() where that page holds earlier positions too, else -1. */
  int32_t tail_page(size_t group) const;
  int32_t length() const { return length_; }
  int32_t max_tokens() const { return max_tokens_; }
  /** Positions that may be written now: length() + what reserve() has made ready, rounded up to whole pages. */
  int32_t writable() const;
  /** Pages held in all groups. */
  int32_t held_pages() const;
  /** Page of each table entry; kNoPage behind a window and beyond what is reserved. */
  std::span<const PageId> table(int32_t group) const { return tables_[static_cast<size_t>(group)]; }
  /** The part of the table that holds pages. */
  std::span<const PageId> held(int32_t group) const {
    const auto g = static_cast<size_t>(group);
    return table(group).subspan(static_cast<size_t>(first_live_[g]), static_cast<size_t>(end_[g] - first_live_[g]));
  }

 private:
  bool is_shared(size_t group, int32_t index) const;
  PagePool* pool_;
  int32_t length_ = 0;
  int32_t max_tokens_ = 0;
  int32_t indexed_ = 0;
  bool is_shareable_ = true;
  std::vector<std::vector<PageId>> tables_;
  std::vector<int32_t> first_live_;  // per group: index of the first page still held
  std::vector<int32_t> end_;         // per group: one past the last page held
};

}  // namespace banter::kv
