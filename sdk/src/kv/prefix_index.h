// Finds what is cached already: a tree of token runs over the pool's pages, shared by all sequences of a model.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kv/page_pool.h"
#include "kv/swap_store.h"

namespace banter::kv {

/** The pages of all sequences, keyed by the exact tokens from the sequence's start to the page's end. A persona or world
 *  lore that several characters share is so computed and stored once, whoever comes first; where sequences part within a
 *  page, the later one copies that page when it writes (SequenceCache::reserve()).
 *
 *  The tree's nodes stand for kUnit tokens each. A page belongs to the node at which its tokens end: a full one to a node
 *  at a page's border, one that was not full yet (insert(), with_tail) to a node before that. The index holds a reference
 *  to each of its pages; those that nobody else holds stay until evict() takes them, least recently used first, and
 *  leaves before their roots. Where a swap store is given, evicted pages go there first.
 *
 *  Sharing changes no result: a page's contents depend on its tokens only (ops/backend.h, batch invariance).
 *  Engine thread only. Memory is taken when the index is made; nothing else allocates. */
class PrefixIndex {
 public:
  static constexpr int32_t kUnit = 16;  // tokens of a node; page sizes are multiples of it

  /** The pool must outlive the index.
   *  @param swap_bytes  host memory for evicted pages, 0 = none. Errors: OUT_OF_MEMORY */
  static Result<std::unique_ptr<PrefixIndex>> create(PagePool& pool, size_t swap_bytes);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  /** Off: nothing is inserted or found. */
  void set_enabled(bool enabled) { enabled_ = enabled; }

  /** Tokens at the start of `tokens` that attach() would find, at most `limit`. */
  int32_t match(std::span<const int32_t> tokens, int32_t limit) const;

  /** Gives `cache` (emptied first) the longest cached prefix of `tokens`, at most `limit` tokens; returns its length.
   *  Swapped pages are brought back where evict() can make room for them; `now` marks what was used. */
  int32_t attach(std::span<const int32_t> tokens, int32_t limit, SequenceCache& cache, uint64_t now);

  /** Makes the full pages of `cache`, which holds the first cache.length() of `tokens`, known. A page that another
   *  sequence computed before replaces this one's copy.
   *  @param with_tail  also the last page, as far as it is filled: `cache` will copy it when it writes on */
  void insert(std::span<const int32_t> tokens, SequenceCache& cache, uint64_t now, bool with_tail);

  /** Frees the least recently used page that nobody else holds; false when there is none. */
  bool evict();
  /** When the page that evict() would take was last used; UINT64_MAX: there is none. */
  uint64_t oldest_use() const;
  /** Lets go of a page that it holds. */
  void forget(PageId page);
  /** Forgets everything, swapped pages included. */
  void clear();

  /** True for pages that the index holds a reference to. */
  bool holds(PageId page) const { return node_of_page_[static_cast<size_t>(page)] != kNone; }
  /** Pages that only the index holds. */
  int32_t cached_pages() const;
  int32_t swapped_pages() const { return swap_ ? swap_->used() : 0; }
  /** What it costs to compute a token again, so that only pages for which copying is cheaper are swapped. 0: unknown. */
  void set_recompute_cost(double ns_per_token) { recompute_ns_ = ns_per_token; }
  /** Takes all memory that renumber() will need for up to `pages` pages, so that it cannot fail. */
  void prepare_renumber(int32_t pages);
  /** The pool has `pages` pages now, and page p became moved[p] where that is not kNoPage; all pages that the index holds
   *  are below `pages`. After prepare_renumber(). */
  void renumber(std::span<const PageId> moved, int32_t pages);

 private:
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kMostVisits = 64;  // nodes looked at beside a sequence's own path
  struct Node {
    std::array<int32_t, kUnit> tokens;
    uint64_t last_used;
    int32_t parent, first_child, next_sibling;
    int32_t next_in_bucket;
    int32_t newer, older;  // list of nodes that hold pages
    int32_t held;          // pages, swapped ones included
  };

  PrefixIndex(PagePool& pool, std::unique_ptr<SwapStore> swap);
  Node& node(int32_t index) { return nodes_[static_cast<size_t>(index)]; }
  const Node& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  int32_t& children_of(int32_t parent) { return parent == kNone ? root_children_ : node(parent).first_child; }
  size_t place_of(int32_t index, size_t group) const {
    return static_cast<size_t>(index) * page_tokens_.size() + group;
  }
  PageId& page_at(int32_t index, size_t group) { return pages_[place_of(index, group)]; }
  PageId page_at(int32_t index, size_t group) const { return pages_[place_of(index, group)]; }
  bool has_page(int32_t index, size_t group, bool resident_only) const {
    return resident_only ? page_at(index, group) >= 0 : page_at(index, group) != kNoPage;
  }

  /** An entry of pages_ is a page, kNoPage, or a slot of the swap store. */
  static PageId swapped(int32_t slot) { return -2 - slot; }
  static int32_t swap_slot(PageId entry) { return -2 - entry; }

  // Nodes.
  void reserve_nodes(int32_t pages);
  size_t bucket(int32_t parent, const int32_t* tokens) const;
  int32_t child(int32_t parent, const int32_t* tokens) const;
  int32_t add_child(int32_t parent, const int32_t* tokens);
  void prune(int32_t index);
  void link_newest(int32_t index, uint64_t now);
  void unlink(int32_t index);
  void touch_path(uint64_t now);

  // Pages.
  void hold(int32_t index, size_t group, PageId page);
  void let_go(int32_t index, size_t group);
  void take_page(size_t group, bool is_full, SequenceCache& cache);
  bool evictable(int32_t index) const;
  int32_t oldest_evictable() const;
  int32_t swap_out(PageId page, size_t group);
  void drop_oldest_swapped();

  // Looking up; see prefix_match.cpp.
  void walk(std::span<const int32_t> tokens, int32_t limit) const;
  int32_t longest(bool resident_only) const;
  bool is_usable(int32_t length, bool resident_only) const;
  bool is_resident(int32_t length) const;
  int32_t first_page(int32_t length, size_t group) const;
  int32_t node_of(int32_t length, int32_t place, size_t group, bool resident_only) const;
  int32_t page_below(int32_t index, int32_t levels, size_t group, bool resident_only, int32_t& visits) const;
  void bring_back(int32_t length, uint64_t now);
  bool restore(int32_t index, size_t group);

  PagePool& pool_;
  std::unique_ptr<SwapStore> swap_;
  bool enabled_ = true;
  double recompute_ns_ = 0;
  std::vector<int32_t> page_tokens_;  // by group
  std::vector<Node> nodes_;           // never grows beyond what was reserved
  std::vector<int32_t> free_nodes_;
  std::vector<PageId> pages_;          // [node][group]
  std::vector<int32_t> buckets_;       // heads of chains of nodes by (parent, tokens)
  std::vector<int32_t> node_of_page_;  // by page
  std::vector<int32_t> renumbered_;    // the next one
  int32_t root_children_ = kNone;
  int32_t newest_ = kNone, oldest_ = kNone;

  // What walk() found: the nodes along the tokens, and a child of the last (or a root) that shares some more.
  mutable std::vector<int32_t> path_;
  mutable int32_t partial_ = kNone, partial_tokens_ = 0;
  mutable int32_t limit_ = 0;
  // Memory kept from call to call, by group.
  mutable std::vector<std::vector<int32_t>> present_;  // [k]: pages there among the first k of path_
  std::vector<std::vector<PageId>> found_;
  std::vector<SequenceCache::Run> runs_;
};

}  // namespace banter::kv
