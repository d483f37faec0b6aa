#include "engine/kv_allocator.h"

#include <algorithm>

namespace banter::engine {

KvAllocator::~KvAllocator() {
  while (npcs_ != nullptr) forget(*npcs_);
}

void KvAllocator::remember(NpcObject& npc) {
  NpcState& state = *npc.state;
  state.previous = nullptr;
  state.next = npcs_;
  if (npcs_ != nullptr) npcs_->state->previous = &npc;
  npcs_ = &npc;
}

void KvAllocator::forget(NpcObject& npc) {
  NpcState& state = *npc.state;
  if (state.previous != nullptr) {
    state.previous->state->next = state.next;
  } else if (npcs_ == &npc) {
    npcs_ = state.next;
  }
  if (state.next != nullptr) state.next->state->previous = state.previous;
  state.previous = state.next = nullptr;
  state.cache.reset();
  state.cached.clear();
}

int32_t KvAllocator::known_tokens(const Generation& generation) const {
  const int32_t own = generation.cache->length();
  if (generation.admitted) return own;
  return std::max(own, index_.match(generation.tokens, static_cast<int32_t>(generation.tokens.size()) - 1));
}

/** At least the last token is computed again: its logits are needed. */
void KvAllocator::find_prefix(Generation& generation, uint64_t step) {
  const auto most = static_cast<int32_t>(generation.tokens.size()) - 1;
  if (index_.match(generation.tokens, most) > generation.cache->length()) {
    index_.attach(generation.tokens, most, *generation.cache, step);
  }
}

void KvAllocator::begin_step() {
  ++stamp_;
  held_ = promised_ = 0;
}

void KvAllocator::count(const Generation& generation) {
  for (size_t g = 0; g < pool_.groups().size(); ++g) {
    for (const kv::PageId page : generation.cache->held(static_cast<int32_t>(g))) {
      if (std::exchange(seen_[static_cast<size_t>(page)], stamp_) != stamp_) ++held_;
    }
  }
}

KvPages KvAllocator::pages(std::span<Generation* const> running) {
  begin_step();
  for (const Generation* generation : running) {
    if (generation->cache != nullptr) count(*generation);
  }
  KvPages pages;
  pages.total = static_cast<uint64_t>(pool_.total_pages());
  pages.used = static_cast<uint64_t>(held_);
  pages.cached = static_cast<uint64_t>(pool_.total_pages() - pool_.free_pages()) - pages.used;
  pages.swapped = static_cast<uint64_t>(index_.swapped_pages());
  return pages;
}

bool KvAllocator::admit(std::span<const Ranked> ranked, size_t at, uint64_t step) {
  Generation& generation = *ranked[at].generation;
  if (!generation.admitted) find_prefix(generation, step);
  count(generation);
  const auto tokens = static_cast<int32_t>(generation.tokens.size());
  const int64_t need = std::max(0, pool_.pages_for(tokens, chunk_tokens_) - generation.cache->held_pages());
  if (!generation.admitted) {
    // Everything that is not held or promised ahead of it can be had.
    if (pool_.total_pages() - held_ - promised_ < need) return false;
    generation.admitted = true;
    if (generation.reply_tokens.empty()) generation.cached_tokens = static_cast<uint32_t>(generation.cache->length());
  }
  promised_ += need;
  return true;
}

bool KvAllocator::reserve(std::span<const Ranked> ranked, size_t at, int32_t rows) {
  while (!ranked[at].generation->cache->reserve(rows)) {
    if (!reclaim() && !preempt_behind(ranked, at) && !keep_own_tail(*ranked[at].generation->cache)) return false;
  }
  return true;
}

/** With no page left for a copy, a sequence writes on in its last page, which the index then forgets. */
bool KvAllocator::keep_own_tail(const kv::SequenceCache& cache) {
  bool any = false;
  for (size_t g = 0; g < pool_.groups().size(); ++g) {
    const int32_t tail = cache.tail_page(g);
    if (tail < 0) continue;
    const kv::PageId page = cache.table(static_cast<int32_t>(g))[static_cast<size_t>(tail)];
    if (page == kv::kNoPage || pool_.references(page) != 2 || !index_.holds(page)) continue;
    index_.forget(page);
    any = true;
  }
  return any;
}

NpcObject* KvAllocator::oldest_idle() const {
  NpcObject* oldest = nullptr;
  for (NpcObject* npc = npcs_; npc != nullptr; npc = npc->state->next) {
    const NpcState& state = *npc->state;
    if (state.running != nullptr || !state.cache || state.cache->held_pages() == 0) continue;
    if (oldest == nullptr || state.last_used < oldest->state->last_used) oldest = npc;
  }
  return oldest;
}

bool KvAllocator::reclaim() {
  NpcObject* const idle = oldest_idle();
  const uint64_t page_used = index_.oldest_use();
  if (idle == nullptr || page_used <= idle->state->last_used) return index_.evict() || drafts_.drop_oldest();
  // What the index knows of it stays there until its own turn comes.
  idle->state->cache->clear();
  idle->state->cached.clear();
  return true;
}

/** Takes its pages; false: it has none. */
bool KvAllocator::preempt(Generation& victim) {
  if (victim.cache->held_pages() == 0) return false;
  victim.cache->clear();
  if (victim.admitted) ++victim.preemptions;
  victim.admitted = false;
  return true;
}

bool KvAllocator::preempt_behind(std::span<const Ranked> ranked, size_t at) {
  for (size_t i = ranked.size() - 1; i > at; --i) {
    if (!preempt(*ranked[i].generation)) continue;
    ranked[i].candidate->rows = 0;  // its turn comes later in this order: not this step
    return true;
  }
  return false;
}

Result<void> KvAllocator::resize(size_t bytes, std::span<Generation* const> running) {
  const int32_t pages = pool_.pages_in(bytes);
  size_t left = running.size();
  while (pool_.total_pages() - pool_.free_pages() > pages) {
    if (reclaim()) continue;
    if (left == 0) break;
    preempt(*running[--left]);
  }
  // All memory first: once pages have moved nothing may fail.
  const int32_t most = std::max(pages, pool_.total_pages());
  index_.prepare_renumber(most);
  seen_.reserve(static_cast<size_t>(most));
  std::vector<kv::PageId> moved;
  Result<void> resized = pool_.resize(pages, moved);
  for (Generation* generation : running) {
    if (generation->own_cache) generation->own_cache->renumber(moved);
  }
  for (NpcObject* npc = npcs_; npc != nullptr; npc = npc->state->next) {
    if (npc->state->cache) npc->state->cache->renumber(moved);
  }
  index_.renumber(moved, pool_.total_pages());
  seen_.assign(static_cast<size_t>(pool_.total_pages()), 0);
  stamp_ = 0;
  return resized;
}

}  // namespace banter::engine
