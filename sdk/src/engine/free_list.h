// A lock-free list of free indices, and a push-only list of objects: how threads hand memory around without locks.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/result.h"
#include "engine/host.h"

namespace banter::engine {

/** Indices [0, count), each free or taken (Treiber 1986, with a tag in the head against ABA). Any thread; never blocks,
 *  no allocation after create(). Taken indices keep their links: a chain of them can be walked with next(). */
class FreeList {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  Result<void> create(const HostAllocator& host, uint32_t count) {
    if (Result<void> made = next_.create(host, count); !made) return made;
    for (uint32_t i = 0; i < count; ++i) {
      next_[i].store(i + 1 < count ? i + 1 : kNone, std::memory_order_relaxed);
    }
    head_.store(count == 0 ? kNone : 0, std::memory_order_release);
    return {};
  }

  uint32_t capacity() const { return static_cast<uint32_t>(next_.size()); }

  void prefetch() const { prefetch_for_write(&head_, 1); }
  /** What acquire() would take now. */
  uint32_t peek() const { return static_cast<uint32_t>(head_.load(std::memory_order_relaxed)); }
  /** Takes one index, or kNone. */
  uint32_t acquire() { return acquire_chain(1); }

  /** Takes `count` ≥ 1 indices linked one to the next, all or nothing; returns the first, or kNone. */
  uint32_t acquire_chain(uint32_t count) {
    uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const auto first = static_cast<uint32_t>(head);
      uint32_t last = kNone, rest = first;
      // The links may change under us; then the tag has changed too, and the exchange below fails.
      for (uint32_t i = 0; i < count && rest != kNone; ++i) {
        last = rest;
        rest = next_[last].load(std::memory_order_relaxed);
        if (rest == kNone && i + 1 < count) last = kNone;
      }
      if (last == kNone) {
        const uint64_t now = head_.load(std::memory_order_acquire);
        if (now == head) return kNone;
        head = now;
        continue;
      }
      if (head_.compare_exchange_weak(head, tagged(head, rest), std::memory_order_acq_rel, std::memory_order_acquire)) {
        next_[last].store(kNone, std::memory_order_relaxed);
        return first;
      }
    }
  }

  /** The index after `index` in a taken chain, or kNone. */
  uint32_t next(uint32_t index) const { return next_[index].load(std::memory_order_relaxed); }
  /** Links taken index `index` before taken index `successor`. */
  void link(uint32_t index, uint32_t successor) { next_[index].store(successor, std::memory_order_relaxed); }

  void release(uint32_t index) { release_chain(index, index); }

  /** Gives back a taken chain. */
  void release_chain(uint32_t first, uint32_t last) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      next_[last].store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    } while (
        !head_.compare_exchange_weak(head, tagged(head, first), std::memory_order_acq_rel, std::memory_order_relaxed));
  }

 private:
  static uint64_t tagged(uint64_t head, uint32_t index) { return ((head >> 32) + 1) << 32 | index; }

  HostArray<std::atomic<uint32_t>> next_;
  alignas(64) std::atomic<uint64_t> head_{kNone};
};

/** A stack that any thread pushes to and one thread empties at once. `Link` is a member T* of T. */
template <class T, T* T::*Link>
class PushList {
 public:
  void push(T* object) {
    T* head = head_.load(std::memory_order_relaxed);
    do {
      object->*Link = head;
    } while (!head_.compare_exchange_weak(head, object, std::memory_order_release, std::memory_order_relaxed));
  }
  bool empty() const { return head_.load(std::memory_order_relaxed) == nullptr; }
  /** Everything pushed so far, oldest first, linked through `Link`. */
  T* take_all() {
    T* newest = head_.exchange(nullptr, std::memory_order_acquire);
    T* oldest = nullptr;
    while (newest != nullptr) {
      T* const following = newest->*Link;
      newest->*Link = oldest;
      oldest = newest;
      newest = following;
    }
    return oldest;
  }

 private:
  alignas(64) std::atomic<T*> head_{nullptr};
};

}  // namespace banter::engine
