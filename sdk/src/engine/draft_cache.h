// What speculation keeps in a draft model's pool: caches that may go at any time, because only speed depends on them.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/page_pool.h"

namespace banter::engine {

class DraftCache;

/** The draft caches of one pool, least recently used first. Engine thread only. */
class DraftCacheList {
 public:
  /** Takes the pages of the one that was not used for longest; false: none has any. */
  bool drop_oldest();

 private:
  friend class DraftCache;
  std::vector<DraftCache*> caches_;
};

/** One reply's. List and pool must outlive it. */
class DraftCache {
 public:
  /** @param max_tokens  as of kv::SequenceCache */
  DraftCache(DraftCacheList& list, kv::PagePool& pool, int32_t max_tokens);
  ~DraftCache();
  DraftCache(const DraftCache&) = delete;
  DraftCache& operator=(const DraftCache&) = delete;

  /** The pages, about to be used. They may have been taken since: its length is 0 then. */
  kv::SequenceCache& use();
  /** As kv::SequenceCache::truncate(); not a use. */
  void truncate(int32_t length) { pages_.truncate(length); }

 private:
  friend class DraftCacheList;
  DraftCacheList& list_;
  kv::SequenceCache pages_;
};

}  // namespace banter::engine
