// Commands from any thread to the engine thread, in the order in which the calls happened.
#pragma once

#include <concurrentqueue.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "engine/host.h"

namespace banter::engine {

struct Command {
  enum Kind : uint32_t { kNothing, kRequest, kTurn };
  Kind kind = kNothing;
  uint32_t index = 0;  // of a request slot or a turn slot
};

/** A bounded queue over moodycamel::ConcurrentQueue with a fixed set of producer tokens.
 *
 *  ConcurrentQueue keeps the order of one producer only, and a thread may get another token at each call. So every
 *  command carries a number from one counter, and the engine thread takes them in that order: what one thread did first,
 *  or what happened before by any other means, arrives first. A number is drawn only when nothing can fail any more. */
class CommandQueue {
 public:
  static constexpr uint32_t kProducers = 16;

  /** @param capacity  most commands posted and not yet taken: callers hold a slot for each, so post() cannot overflow */
  Result<void> create(const HostAllocator& host, uint32_t capacity);

  /** The right to post, for a moment. */
  class Lease {
   public:
    Lease() = default;
    ~Lease() { release(); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    friend class CommandQueue;
    void release() {
      if (busy_ != nullptr) busy_->store(false, std::memory_order_release);
      busy_ = nullptr;
    }
    std::atomic<bool>* busy_ = nullptr;
    uint32_t producer_ = 0;
  };
  /** Brings what claim() and post() will touch into the cache. */
  void prefetch(const Lease& lease) const {
    prefetch_for_write(&producers_[first_choice(lease)], sizeof(Producer));
    prefetch_for_write(&next_number_, 1);
  }
  /** False when as many threads as there are producer tokens are posting at this very moment. */
  bool claim(Lease& lease);
  /** Posts; false cannot happen while callers hold slots (see create()). Returns the lease. */
  bool post(Lease& lease, Command command);

  /** A number: commands posted before this call have smaller ones. */
  uint64_t barrier() const { return next_number_.load(std::memory_order_acquire); }

  // Engine thread:
  /** Moves what has arrived into place. */
  void collect();
  /** The next command with a number below `limit`; nothing when it has not arrived. */
  std::optional<Command> take(uint64_t limit);
  /** All commands with numbers below `barrier` have been taken. */
  bool reached(uint64_t barrier) const { return next_taken_ >= barrier; }

 private:
  struct Entry {
    uint64_t number;
    Command command;
  };
  struct Traits : moodycamel::ConcurrentQueueDefaultTraits {
    static const size_t BLOCK_SIZE = 256;
    static const size_t EXPLICIT_INITIAL_INDEX_SIZE = 1024;  // × BLOCK_SIZE: more than all slots, so it never grows
  };
  using Queue = moodycamel::ConcurrentQueue<Entry, Traits>;
  struct alignas(64) Producer {
    std::atomic<bool> busy{false};
    std::optional<moodycamel::ProducerToken> token;
  };
  static uint32_t first_choice(const Lease& lease) {
    // Threads start at different producers: their stacks lie apart.
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&lease) >> 16) % kProducers;
  }

  std::unique_ptr<Queue> queue_;
  HostArray<Producer> producers_;
  alignas(64) std::atomic<uint64_t> next_number_{0};
  alignas(64) uint64_t next_taken_ = 0;
  HostArray<Command> arrived_;  // ring by number
  uint64_t mask_ = 0;
};

}  // namespace banter::engine
