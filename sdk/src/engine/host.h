// What the host gave us: its allocator and its log.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "banter/types.h"
#include "base/result.h"

namespace banter::engine {

/** The host's allocator, or the C++ library's. Copied by value; thread-safe as the host's is. */
class HostAllocator {
 public:
  HostAllocator() = default;
  HostAllocator(banter_alloc_fn alloc, banter_free_fn free, void* user_data)
      : alloc_(alloc), free_(free), user_data_(user_data) {}

  /** Null when there is no memory. `alignment` is a power of two. */
  void* allocate(size_t bytes, size_t alignment) const noexcept;
  void deallocate(void* memory, size_t bytes, size_t alignment) const noexcept;

  /** A new T, or null. */
  template <class T, class... Args>
  T* make(Args&&... args) const {
    void* memory = allocate(sizeof(T), alignof(T));
    if (memory == nullptr) return nullptr;
    return ::new (memory) T(std::forward<Args>(args)...);
  }
  template <class T>
  void destroy(T* object) const noexcept {
    if (object == nullptr) return;
    object->~T();
    deallocate(object, sizeof(T), alignof(T));
  }

 private:
  banter_alloc_fn alloc_ = nullptr;
  banter_free_fn free_ = nullptr;
  void* user_data_ = nullptr;
};

/** An array of value-initialised T in the host's memory, sized once. */
template <class T>
class HostArray {
 public:
  HostArray() = default;
  ~HostArray() {
    if (data_ == nullptr) return;
    std::destroy_n(data_, size_);
    host_.deallocate(data_, size_ * sizeof(T), kAlignment);
  }
  HostArray(const HostArray&) = delete;
  HostArray& operator=(const HostArray&) = delete;

  /** Once. OUT_OF_MEMORY when the host has none. Touches all of it, so that no page fault comes later. */
  Result<void> create(const HostAllocator& host, size_t count) {
    if (count == 0) return {};
    if (count > SIZE_MAX / sizeof(T)) return Error{BANTER_ERROR_OUT_OF_MEMORY, "Out of memory."};
    void* memory = host.allocate(count * sizeof(T), kAlignment);
    if (memory == nullptr) {
      return Error{BANTER_ERROR_OUT_OF_MEMORY, "The engine's queues need " + std::to_string(count * sizeof(T)) +
                                                   " bytes more than the host's allocator has; ask for fewer requests, "
                                                   "events or text bytes."};
    }
    host_ = host;
    data_ = static_cast<T*>(memory);
    size_ = count;
    std::uninitialized_value_construct_n(data_, size_);
    return {};
  }

  size_t size() const { return size_; }
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  static constexpr size_t kAlignment = alignof(T) > 64 ? alignof(T) : 64;
  HostAllocator host_;
  T* data_ = nullptr;
  size_t size_ = 0;
};

/** The host's log; silent without a callback. Any thread. */
class Log {
 public:
  Log() = default;
  Log(banter_log_fn log, void* user_data) : log_(log), user_data_(user_data) {}
  void write(banter_log_level level, const char* message) const {
    if (log_ != nullptr) log_(level, message, user_data_);
  }
  void write(banter_log_level level, const std::string& message) const { write(level, message.c_str()); }

 private:
  banter_log_fn log_ = nullptr;
  void* user_data_ = nullptr;
};

/** Marks what the game's threads call once a frame: the linker puts these functions side by side, and so into few pages and
 *  cache lines, which are cold by then. */
#if defined(__GNUC__)
#define BANTER_GAME_THREAD [[gnu::hot]]
#else
#define BANTER_GAME_THREAD
#endif

/** Asks for the cache lines of [address, address + bytes): misses then overlap instead of adding up. A game's call comes
 *  once a frame, and finds nothing of ours in the caches. */
inline void prefetch_for_write(const void* address, size_t bytes) {
#if defined(__GNUC__)
  const auto start = reinterpret_cast<uintptr_t>(address) & ~uintptr_t{63};
  const auto end = reinterpret_cast<uintptr_t>(address) + bytes;
  for (uintptr_t line = start; line < end; line += 64) __builtin_prefetch(reinterpret_cast<const void*>(line), 1);
#else
  (void)address, (void)bytes;
#endif
}

/** Nanoseconds of the steady clock. No system call where the clock is mapped into the process (Linux vDSO). */
uint64_t now_ns();

}  // namespace banter::engine
