// The tree itself: nodes, the pages they hold, what is evicted when.
#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace banter::kv {

namespace {

constexpr size_t kMostNodes = size_t{1} << 22;

}  // namespace

Result<std::unique_ptr<PrefixIndex>> PrefixIndex::create(PagePool& pool, size_t swap_bytes) {
  std::unique_ptr<SwapStore> swap;
  if (swap_bytes > 0) {
    auto made = SwapStore::create(pool, swap_bytes);
    if (!made) return made.error();
    swap = std::move(*made);
  }
  return std::unique_ptr<PrefixIndex>(new PrefixIndex(pool, std::move(swap)));  // the constructor is private
}

PrefixIndex::PrefixIndex(PagePool& pool, std::unique_ptr<SwapStore> swap) : pool_(pool), swap_(std::move(swap)) {
  for (size_t g = 0; g < pool.groups().size(); ++g) {
    page_tokens_.push_back(pool.pages(static_cast<int32_t>(g)).geometry.page_tokens);
  }
  present_.resize(page_tokens_.size());
  found_.resize(page_tokens_.size());
  runs_.resize(page_tokens_.size());
  node_of_page_.assign(static_cast<size_t>(pool.total_pages()), kNone);
  reserve_nodes(pool.total_pages());
  buckets_.assign(std::bit_ceil(nodes_.capacity() + 1), kNone);
}

/** Room for the nodes of a pool of `pages` pages, and for sequences along them. */
void PrefixIndex::reserve_nodes(int32_t pages) {
  // A page needs at most the nodes from the page before it on.
  const int32_t widest = *std::max_element(page_tokens_.begin(), page_tokens_.end());
  const size_t stored = static_cast<size_t>(pages) + (swap_ ? static_cast<size_t>(swap_->capacity()) : 0);
  const size_t nodes = std::min(kMostNodes, stored * static_cast<size_t>(widest / kUnit));
  nodes_.reserve(nodes);
  free_nodes_.reserve(nodes);
  pages_.reserve(nodes * page_tokens_.size());
  path_.reserve(nodes);
  for (size_t g = 0; g < page_tokens_.size(); ++g) {
    present_[g].reserve(nodes + 1);
    found_[g].reserve(nodes + 1);
  }
}

PrefixIndex::~PrefixIndex() {
  clear();
}

// ---------------------------------------------------------------- nodes

size_t PrefixIndex::bucket(int32_t parent, const int32_t* tokens) const {
  // The seed keeps a text from being written to collide.
  uint64_t hash = reinterpret_cast<uintptr_t>(this) ^ (static_cast<uint64_t>(static_cast<uint32_t>(parent)) << 32);
  for (int32_t i = 0; i < kUnit; ++i) {
    hash = (hash ^ static_cast<uint32_t>(tokens[i])) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return static_cast<size_t>(hash ^ (hash >> 32)) & (buckets_.size() - 1);
}

int32_t PrefixIndex::child(int32_t parent, const int32_t* tokens) const {
  for (int32_t i = buckets_[bucket(parent, tokens)]; i != kNone; i = node(i).next_in_bucket) {
    if (node(i).parent == parent && std::equal(tokens, tokens + kUnit, node(i).tokens.begin())) return i;
  }
  return kNone;
}

int32_t PrefixIndex::add_child(int32_t parent, const int32_t* tokens) {
  int32_t index = kNone;
  if (!free_nodes_.empty()) {
    index = free_nodes_.back();
    free_nodes_.pop_back();
  } else if (nodes_.size() < nodes_.capacity()) {
    index = static_cast<int32_t>(nodes_.size());
    nodes_.emplace_back();
    pages_.resize(pages_.size() + page_tokens_.size(), kNoPage);
  } else {
    return kNone;
  }
  Node& made = node(index);
  std::copy(tokens, tokens + kUnit, made.tokens.begin());
  made.parent = parent;
  made.first_child = kNone;
  made.next_sibling = std::exchange(children_of(parent), index);
  made.next_in_bucket = std::exchange(buckets_[bucket(parent, tokens)], index);
  made.newer = made.older = kNone;
  made.held = 0;
  made.last_used = 0;
  return index;
}

/** Removes a node that holds nothing and has no children, and its ancestors that are left so. */
void PrefixIndex::prune(int32_t index) {
  while (index != kNone && node(index).held == 0 && node(index).first_child == kNone) {
    Node& dead = node(index);
    int32_t* link = &children_of(dead.parent);
    while (*link != index) link = &node(*link).next_sibling;
    *link = dead.next_sibling;
    link = &buckets_[bucket(dead.parent, dead.tokens.data())];
    while (*link != index) link = &node(*link).next_in_bucket;
    *link = dead.next_in_bucket;
    free_nodes_.push_back(index);
    index = dead.parent;
  }
}

void PrefixIndex::link_newest(int32_t index, uint64_t now) {
  unlink(index);
  Node& n = node(index);
  n.last_used = now;
  n.older = newest_;
  n.newer = kNone;
  if (newest_ != kNone) node(newest_).newer = index;
  newest_ = index;
  if (oldest_ == kNone) oldest_ = index;
}

void PrefixIndex::unlink(int32_t index) {
  Node& n = node(index);
  if (n.newer != kNone) node(n.newer).older = n.older;
  if (n.older != kNone) node(n.older).newer = n.newer;
  if (newest_ == index) newest_ = n.older;
  if (oldest_ == index) oldest_ = n.newer;
  n.newer = n.older = kNone;
}

// ---------------------------------------------------------------- pages

void PrefixIndex::hold(int32_t index, size_t group, PageId page) {
  pool_.retain(page);
  page_at(index, group) = page;
  node_of_page_[static_cast<size_t>(page)] = index;
  ++node(index).held;
}

/** Lets go of one page or swap slot; the node stays, for the caller to unlink and prune. */
void PrefixIndex::let_go(int32_t index, size_t group) {
  const PageId entry = std::exchange(page_at(index, group), kNoPage);
  if (entry == kNoPage) return;
  --node(index).held;
  if (entry < kNoPage) return swap_->drop(swap_slot(entry));
  node_of_page_[static_cast<size_t>(entry)] = kNone;
  pool_.release(entry);
}

void PrefixIndex::insert(std::span<const int32_t> tokens, SequenceCache& cache, uint64_t now, bool with_tail) {
  const int32_t length = std::min(cache.length(), static_cast<int32_t>(tokens.size()));
  int32_t units = with_tail ? length / kUnit : 0;
  for (const int32_t page : page_tokens_) units = std::max(units, length / page * page / kUnit);
  if (!enabled_ || !cache.is_shareable() || units * kUnit <= cache.indexed()) return;
  cache.set_indexed(units * kUnit);

  path_.clear();
  int32_t parent = kNone;
  for (int32_t unit = 1; unit <= units; ++unit) {
    const int32_t* const at = tokens.data() + static_cast<size_t>(unit - 1) * kUnit;
    int32_t index = child(parent, at);
    if (index == kNone) index = add_child(parent, at);
    if (index == kNone) break;  // no room: what comes later is not shared
    path_.push_back(index);
    parent = index;
    for (size_t g = 0; g < page_tokens_.size(); ++g) {
      const bool is_full = unit * kUnit % page_tokens_[g] == 0;
      if (is_full || (with_tail && unit == units)) take_page(g, is_full, cache);
    }
  }
  touch_path(now);
  if (parent != kNone) prune(parent);
}

/** The page of `cache` that holds the last tokens of path_ goes to its last node, or makes way for the node's. */
void PrefixIndex::take_page(size_t group, bool is_full, SequenceCache& cache) {
  const int32_t index = path_.back();
  const auto units = static_cast<int32_t>(path_.size());
  const int32_t place = (units * kUnit - 1) / page_tokens_[group];
  const PageId page = cache.table(static_cast<int32_t>(group))[static_cast<size_t>(place)];
  if (page == kNoPage) return;  // behind a sliding window
  const PageId known = page_at(index, group);
  if (known == page) return;
  if (known >= 0) {
    if (is_full) cache.replace(static_cast<int32_t>(group), place, known);
    return;
  }
  if (node_of_page_[static_cast<size_t>(page)] != kNone) {
    // The same page with fewer of its tokens: it moves down.
    if (!is_full) return;
    const int32_t before = node_of_page_[static_cast<size_t>(page)];
    let_go(before, group);
    if (node(before).held == 0) unlink(before);
  }
  let_go(index, group);  // a swapped copy of the same
  hold(index, group, page);
  if (!is_full) return;
  // Pages that held the beginning of this one say nothing new.
  for (int32_t unit = place * page_tokens_[group] / kUnit; unit + 1 < units; ++unit) {
    const int32_t above = path_[static_cast<size_t>(unit)];
    if (page_at(above, group) == kNoPage) continue;
    let_go(above, group);
    if (node(above).held == 0) unlink(above);
  }
}

/** Leaves first, so that they are the first to be evicted. */
void PrefixIndex::touch_path(uint64_t now) {
  for (size_t i = path_.size(); i > 0; --i) {
    if (node(path_[i - 1]).held > 0) link_newest(path_[i - 1], now);
  }
}

// ---------------------------------------------------------------- eviction

bool PrefixIndex::evictable(int32_t index) const {
  for (size_t g = 0; g < page_tokens_.size(); ++g) {
    const PageId page = page_at(index, g);
    if (page >= 0 && pool_.references(page) == 1) return true;
  }
  return false;
}

int32_t PrefixIndex::oldest_evictable() const {
  for (int32_t i = oldest_; i != kNone; i = node(i).newer) {
    if (evictable(i)) return i;
  }
  return kNone;
}

uint64_t PrefixIndex::oldest_use() const {
  const int32_t index = oldest_evictable();
  return index == kNone ? std::numeric_limits<uint64_t>::max() : node(index).last_used;
}

bool PrefixIndex::evict() {
  const int32_t index = oldest_evictable();
  if (index == kNone) return false;
  for (size_t g = 0; g < page_tokens_.size(); ++g) {
    const PageId page = page_at(index, g);
    if (page < 0 || pool_.references(page) != 1) continue;
    const int32_t slot = swap_out(page, g);
    let_go(index, g);
    if (slot < 0) continue;
    page_at(index, g) = swapped(slot);
    ++node(index).held;
  }
  if (node(index).held == 0) {
    unlink(index);
    prune(index);
  }
  return true;
}

/** A slot with the page's contents, or -1 where swapping is off, not worth it, or failed. */
int32_t PrefixIndex::swap_out(PageId page, size_t group) {
  if (swap_ == nullptr) return -1;
  const double recompute = recompute_ns_ * page_tokens_[group];
  if (recompute_ns_ > 0 && 2 * swap_->copy_ns() > recompute) {
    swap_->doubt_cost();
    return -1;
  }
  if (swap_->is_full()) drop_oldest_swapped();
  return swap_->save(page);
}

void PrefixIndex::drop_oldest_swapped() {
  for (int32_t i = oldest_; i != kNone; i = node(i).newer) {
    for (size_t g = 0; g < page_tokens_.size(); ++g) {
      if (page_at(i, g) >= kNoPage) continue;
      let_go(i, g);
      // The node that is being evicted holds its page still, so it is not this one that goes.
      if (node(i).held == 0) {
        unlink(i);
        prune(i);
      }
      return;
    }
  }
}

void PrefixIndex::forget(PageId page) {
  const int32_t index = node_of_page_[static_cast<size_t>(page)];
  for (size_t g = 0; g < page_tokens_.size(); ++g) {
    if (page_at(index, g) == page) let_go(index, g);
  }
  if (node(index).held > 0) return;
  unlink(index);
  prune(index);
}

void PrefixIndex::clear() {
  for (int32_t i = oldest_; i != kNone;) {
    const int32_t next = node(i).newer;
    for (size_t g = 0; g < page_tokens_.size(); ++g) let_go(i, g);
    unlink(i);
    i = next;
  }
  nodes_.clear();
  pages_.clear();
  free_nodes_.clear();
  std::fill(buckets_.begin(), buckets_.end(), kNone);
  root_children_ = kNone;
}

int32_t PrefixIndex::cached_pages() const {
  int32_t count = 0;
  for (PageId page = 0; page < pool_.total_pages(); ++page) {
    count += node_of_page_[static_cast<size_t>(page)] != kNone && pool_.references(page) == 1 ? 1 : 0;
  }
  return count;
}

void PrefixIndex::prepare_renumber(int32_t pages) {
  reserve_nodes(pages);
  renumbered_.reserve(std::max(static_cast<size_t>(pages), node_of_page_.size()));
}

void PrefixIndex::renumber(std::span<const PageId> moved, int32_t pages) {
  renumbered_.assign(static_cast<size_t>(pages), kNone);
  for (size_t page = 0; page < node_of_page_.size(); ++page) {
    const int32_t index = node_of_page_[page];
    if (index == kNone) continue;
    const PageId to = page < moved.size() && moved[page] != kNoPage ? moved[page] : static_cast<PageId>(page);
    for (size_t g = 0; g < page_tokens_.size(); ++g) {
      if (page_at(index, g) == static_cast<PageId>(page)) {
        page_at(index, g) = to;
        break;
      }
    }
    renumbered_[static_cast<size_t>(to)] = index;
  }
  node_of_page_.swap(renumbered_);
}

}  // namespace banter::kv
