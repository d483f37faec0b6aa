// Host memory for pages that had to leave the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kv/page_pool.h"

namespace banter::kv {

/** Slots of one page each. Engine thread only; memory is taken when the store is made. */
class SwapStore {
 public:
  /** As many slots as `bytes` holds; null when not even one. Errors: OUT_OF_MEMORY. */
  static Result<std::unique_ptr<SwapStore>> create(PagePool& pool, size_t bytes);

  /** Copies the page; -1 when the store is full or the copy failed. */
  int32_t save(PageId page);
  /** Copies the slot into the page and frees the slot, also when the copy failed (false). */
  bool restore(int32_t slot, PageId page);
  void drop(int32_t slot) { free_.push_back(slot); }
  bool is_full() const { return free_.empty(); }
  int32_t capacity() const { return capacity_; }
  /** Measured time to copy a page, in nanoseconds; 0: none was copied yet. */
  double copy_ns() const { return copy_ns_; }
  /** A page was not copied because that takes too long: believed a little less each time, so that one slow copy (something
   *  else ran meanwhile, a card was waking up) does not end swapping for good. */
  void doubt_cost() { copy_ns_ *= 0.97; }
  int32_t used() const { return capacity_ - static_cast<int32_t>(free_.size()); }

 private:
  explicit SwapStore(PagePool& pool) : pool_(pool) {}
  PagePool& pool_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<int32_t> free_;
  int32_t capacity_ = 0;
  double copy_ns_ = 0;
};

}  // namespace banter::kv
