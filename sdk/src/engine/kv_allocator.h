// Who holds KV pages: admission, what is given up when they run out, and what idle characters keep.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/draft_cache.h"
#include "engine/generation.h"
#include "engine/objects.h"
#include "engine/scheduler.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"

namespace banter::engine {

/** A running generation and its place in this step. */
struct Ranked {
  Candidate* candidate = nullptr;
  Generation* generation = nullptr;
};

/** Pages of one model's pool. Engine thread only.
 *
 *  A generation is admitted when the pages that its tokens need are free, or held only by the prefix index, by idle
 *  characters, for speculation, or by generations behind it in rank. When pages run out in a step, the least recently used ones go first:
 *  of idle characters and of prefixes that nobody uses (to the swap store, where there is one); then caches in which
 *  replies of other models, whose draft model this is, guess ahead. Then generations are
 *  preempted from the lowest rank up: their pages stay in the prefix index while there is room, so that going on costs
 *  little, and are computed again otherwise, with the same result. The first in rank can therefore always go on: it fits
 *  the pool alone, because no context is longer than that. */
class KvAllocator {
 public:
  KvAllocator(kv::PagePool& pool, kv::PrefixIndex& index, DraftCacheList& drafts, int32_t chunk_tokens)
      : pool_(pool),
        index_(index),
        drafts_(drafts),
        chunk_tokens_(chunk_tokens),
        seen_(static_cast<size_t>(pool.total_pages()), 0) {}
  /** Idle characters' pages go back to the pool. */
  ~KvAllocator();

  /** A character with a state, which keeps its pages here. */
  void remember(NpcObject& npc);
  void forget(NpcObject& npc);

  /** Tokens of the generation that need not be computed: what its cache or the index has. */
  int32_t known_tokens(const Generation& generation) const;

  /** Before a step's admissions, which come in rank order, one for every running generation. */
  void begin_step();
  /** May ranked[at] hold the pages that it needs? */
  bool admit(std::span<const Ranked> ranked, size_t at, uint64_t step);
  /** Makes room for `rows` more tokens of ranked[at]; false: not in this step. */
  bool reserve(std::span<const Ranked> ranked, size_t at, int32_t rows);
  /** Changes the pool to about `bytes`, while everybody talks: what is idle and cached goes first, then the last of
   *  `running` lose their pages. Pages that are held move. Errors: as kv::PagePool::resize(). */
  Result<void> resize(size_t bytes, std::span<Generation* const> running);
  /** For one that waits although it stands in the step's order: what it holds counts. */
  void count(const Generation& generation);

  /** Whose pages they are: of `running`, kept by the index and idle characters, or swapped out. Between steps. */
  KvPages pages(std::span<Generation* const> running);

 private:
  void find_prefix(Generation& generation, uint64_t step);
  bool reclaim();
  bool keep_own_tail(const kv::SequenceCache& cache);
  static bool preempt(Generation& victim);
  bool preempt_behind(std::span<const Ranked> ranked, size_t at);
  NpcObject* oldest_idle() const;

  kv::PagePool& pool_;
  kv::PrefixIndex& index_;
  DraftCacheList& drafts_;
  int32_t chunk_tokens_;
  NpcObject* npcs_ = nullptr;
  // Of this step: pages held by the generations counted so far, and pages promised to them.
  std::vector<uint32_t> seen_;  // by page: the step that counted it last
  uint32_t stamp_ = 0;
  int64_t held_ = 0, promised_ = 0;
};

}  // namespace banter::engine
