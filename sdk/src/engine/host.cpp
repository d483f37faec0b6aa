#include "engine/host.h"

#include <chrono>

namespace banter::engine {

void* HostAllocator::allocate(size_t bytes, size_t alignment) const noexcept {
  if (alloc_ != nullptr) return alloc_(bytes, alignment, user_data_);
  return ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
}

void HostAllocator::deallocate(void* memory, size_t bytes, size_t alignment) const noexcept {
  if (memory == nullptr) return;
  if (free_ != nullptr) {
    free_(memory, bytes, alignment, user_data_);
  } else {
    ::operator delete (memory, std::align_val_t{alignment});
  }
}

BANTER_GAME_THREAD uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace banter::engine
