#include "kv/swap_store.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <string>

namespace banter::kv {

Result<std::unique_ptr<SwapStore>> SwapStore::create(PagePool& pool, size_t bytes) {
  const size_t slots = std::min<size_t>(bytes / pool.page_stride(), std::numeric_limits<int32_t>::max());
  if (slots == 0) return std::unique_ptr<SwapStore>();
  std::unique_ptr<SwapStore> store(new SwapStore(pool));  // the constructor is private
  store->memory_.reset(new (std::nothrow) std::byte[slots * pool.page_stride()]);
  if (store->memory_ == nullptr) {
    return Error{BANTER_ERROR_OUT_OF_MEMORY,
                 "no memory for a swap store of " + std::to_string(bytes >> 20) + " MiB; lower swap_budget_bytes"};
  }
  store->capacity_ = static_cast<int32_t>(slots);
  store->free_.reserve(slots);
  for (size_t i = slots; i > 0; --i) store->free_.push_back(static_cast<int32_t>(i - 1));
  return store;
}

int32_t SwapStore::save(PageId page) {
  if (free_.empty()) return -1;
  const int32_t slot = free_.back();
  const auto start = std::chrono::steady_clock::now();
  if (!pool_.read_page(page, memory_.get() + static_cast<size_t>(slot) * pool_.page_stride())) return -1;
  const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  copy_ns_ = copy_ns_ == 0 ? ns : copy_ns_ * 0.9 + ns * 0.1;
  free_.pop_back();
  return slot;
}

bool SwapStore::restore(int32_t slot, PageId page) {
  free_.push_back(slot);
  return static_cast<bool>(pool_.write_page(page, memory_.get() + static_cast<size_t>(slot) * pool_.page_stride()));
}

}  // namespace banter::kv
