#include "engine/draft_cache.h"

#include <algorithm>

namespace banter::engine {

bool DraftCacheList::drop_oldest() {
  for (DraftCache* cache : caches_) {
    if (cache->pages_.held_pages() == 0) continue;
    cache->pages_.clear();
    return true;
  }
  return false;
}

DraftCache::DraftCache(DraftCacheList& list, kv::PagePool& pool, int32_t max_tokens)
    : list_(list), pages_(pool, max_tokens) {
  list_.caches_.push_back(this);
}

DraftCache::~DraftCache() {
  std::erase(list_.caches_, this);
}

kv::SequenceCache& DraftCache::use() {
  const auto at = std::find(list_.caches_.begin(), list_.caches_.end(), this);
  std::rotate(at, at + 1, list_.caches_.end());
  return pages_;
}

}  // namespace banter::engine
