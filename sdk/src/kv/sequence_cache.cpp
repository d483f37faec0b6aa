// One sequence's page tables: growing, taking back, letting go behind sliding windows.
#include <algorithm>
#include <cassert>
#include <limits>
#include <string>
#include <utility>

#include "kv/page_pool.h"

namespace banter::kv {

namespace {

int32_t pages_of(int64_t tokens, int32_t page_tokens) {
  return static_cast<int32_t>((tokens + page_tokens - 1) / page_tokens);
}

}  // namespace

SequenceCache::SequenceCache(PagePool& pool, int32_t max_tokens) : pool_(&pool), max_tokens_(std::max(max_tokens, 0)) {
  const size_t groups = pool.groups().size();
  tables_.resize(groups);
  first_live_.assign(groups, 0);
  end_.assign(groups, 0);
  for (size_t g = 0; g < groups; ++g) {
    const int32_t page_tokens = pool.pages(static_cast<int32_t>(g)).geometry.page_tokens;
    tables_[g].assign(static_cast<size_t>(pages_of(max_tokens_, page_tokens)), kNoPage);
  }
}

SequenceCache::~SequenceCache() {
  if (pool_ != nullptr) clear();
}

SequenceCache::SequenceCache(SequenceCache&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      length_(std::exchange(other.length_, 0)),
      max_tokens_(std::exchange(other.max_tokens_, 0)),
      indexed_(std::exchange(other.indexed_, 0)),
      is_shareable_(std::exchange(other.is_shareable_, true)),
      tables_(std::move(other.tables_)),
      first_live_(std::move(other.first_live_)),
      end_(std::move(other.end_)) {}

SequenceCache& SequenceCache::operator=(SequenceCache&& other) noexcept {
  if (this == &other) return *this;
  if (pool_ != nullptr) clear();
  pool_ = std::exchange(other.pool_, nullptr);
  length_ = std::exchange(other.length_, 0);
  max_tokens_ = std::exchange(other.max_tokens_, 0);
  indexed_ = std::exchange(other.indexed_, 0);
  is_shareable_ = std::exchange(other.is_shareable_, true);
  tables_ = std::move(other.tables_);
  first_live_ = std::move(other.first_live_);
  end_ = std::move(other.end_);
  return *this;
}

Result<void> SequenceCache::reserve(int32_t tokens) {
  const int64_t wanted = int64_t{length_} + std::max(tokens, 0);
  if (wanted > max_tokens_) {
    return Error{BANTER_ERROR_CONTEXT_FULL, "a sequence of " + std::to_string(wanted) +
                                                " tokens exceeds its context of " + std::to_string(max_tokens_)};
  }
  int64_t missing = 0;
  for (size_t g = 0; g < tables_.size(); ++g) {
    const int32_t page_tokens = pool_->pages(static_cast<int32_t>(g)).geometry.page_tokens;
    missing += std::max(0, pages_of(wanted, page_tokens) - end_[g]);
    const int32_t tail = tail_page(g);
    if (wanted > length_ && tail >= 0 && is_shared(g, tail)) ++missing;
  }
  if (missing > pool_->free_pages()) {
    return Error{BANTER_ERROR_KV_POOL_EXHAUSTED, "the KV pool has " + std::to_string(pool_->free_pages()) + " of " +
                                                     std::to_string(pool_->total_pages()) + " pages free and " +
                                                     std::to_string(missing) +
                                                     " are needed; raise the KV budget or end a conversation"};
  }
  for (size_t g = 0; g < tables_.size(); ++g) {
    if (const int32_t tail = tail_page(g); wanted > length_ && tail >= 0 && is_shared(g, tail)) {
      PageId& entry = tables_[g][static_cast<size_t>(tail)];
      const PageId copy = pool_->allocate();
      if (Result<void> copied = pool_->copy_page(entry, copy); !copied) {
        pool_->release(copy);
        return copied;
      }
      pool_->release(std::exchange(entry, copy));
    }
    const int32_t end = pages_of(wanted, pool_->pages(static_cast<int32_t>(g)).geometry.page_tokens);
    for (; end_[g] < end; ++end_[g]) tables_[g][static_cast<size_t>(end_[g])] = pool_->allocate();
  }
  return {};
}

int32_t SequenceCache::tail_page(size_t group) const {
  const int32_t page_tokens = pool_->pages(static_cast<int32_t>(group)).geometry.page_tokens;
  return length_ % page_tokens == 0 ? -1 : length_ / page_tokens;
}

bool SequenceCache::is_shared(size_t group, int32_t index) const {
  return pool_->references(tables_[group][static_cast<size_t>(index)]) > 1;
}

void SequenceCache::adopt(int32_t length, std::span<const Run> runs) {
  assert(length_ == 0 && held_pages() == 0 && length <= max_tokens_ && runs.size() == tables_.size());
  length_ = length;
  for (size_t g = 0; g < tables_.size(); ++g) {
    first_live_[g] = runs[g].first;
    end_[g] = runs[g].first;
    for (const PageId page : runs[g].pages) {
      pool_->retain(page);
      tables_[g][static_cast<size_t>(end_[g]++)] = page;
    }
  }
}

void SequenceCache::replace(int32_t group, int32_t index, PageId page) {
  pool_->retain(page);
  pool_->release(std::exchange(tables_[static_cast<size_t>(group)][static_cast<size_t>(index)], page));
}

void SequenceCache::renumber(std::span<const PageId> moved) {
  for (size_t g = 0; g < tables_.size(); ++g) {
    for (int32_t i = first_live_[g]; i < end_[g]; ++i) {
      PageId& page = tables_[g][static_cast<size_t>(i)];
      if (const PageId to = moved[static_cast<size_t>(page)]; to != kNoPage) page = to;
    }
  }
}

int32_t SequenceCache::writable() const {
  int64_t positions = max_tokens_;
  for (size_t g = 0; g < tables_.size(); ++g) {
    positions = std::min(positions, int64_t{end_[g]} * pool_->pages(static_cast<int32_t>(g)).geometry.page_tokens);
  }
  return static_cast<int32_t>(positions);
}

int32_t SequenceCache::held_pages() const {
  int32_t pages = 0;
  for (size_t g = 0; g < tables_.size(); ++g) pages += end_[g] - first_live_[g];
  return pages;
}

void SequenceCache::advance(int32_t tokens) {
  assert(tokens >= 0 && int64_t{length_} + tokens <= writable() && "advance beyond what was reserved");
  length_ += tokens;
  for (size_t g = 0; g < tables_.size(); ++g) {
    const GroupSpec& group = pool_->groups()[g];
    if (group.window == 0) continue;
    const int32_t page_tokens = pool_->pages(static_cast<int32_t>(g)).geometry.page_tokens;
    // The next row stands at length_ and sees positions from length_ − window + 1 on.
    const int64_t oldest_needed = std::max<int64_t>(0, int64_t{length_} - group.window + 1 - group.restorable);
    const int32_t live = static_cast<int32_t>(oldest_needed / page_tokens);
    for (; first_live_[g] < live; ++first_live_[g]) {
      pool_->release(std::exchange(tables_[g][static_cast<size_t>(first_live_[g])], kNoPage));
    }
  }
}

int32_t SequenceCache::oldest_restorable() const {
  int64_t oldest = 1;
  for (size_t g = 0; g < tables_.size(); ++g) {
    if (first_live_[g] == 0) continue;
    const int64_t first_position = int64_t{first_live_[g]} * pool_->pages(static_cast<int32_t>(g)).geometry.page_tokens;
    oldest = std::max(oldest, first_position + pool_->groups()[g].window - 1);
  }
  return static_cast<int32_t>(std::min<int64_t>(oldest, std::numeric_limits<int32_t>::max()));
}

int32_t SequenceCache::truncate(int32_t length) {
  if (length < length_) length_ = length < oldest_restorable() ? 0 : length;
  for (size_t g = 0; g < tables_.size(); ++g) {
    const int32_t end = pages_of(length_, pool_->pages(static_cast<int32_t>(g)).geometry.page_tokens);
    for (; end_[g] > std::max(end, first_live_[g]); --end_[g]) {
      pool_->release(std::exchange(tables_[g][static_cast<size_t>(end_[g] - 1)], kNoPage));
    }
    if (length_ == 0) first_live_[g] = end_[g] = 0;
  }
  indexed_ = std::min(indexed_, length_);
  if (length_ == 0) is_shareable_ = true;
  return length_;
}

}  // namespace banter::kv
