// Events from the engine thread to whoever polls.
#pragma once

#include <concurrentqueue.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "banter/types.h"
#include "base/result.h"
#include "engine/free_list.h"
#include "engine/host.h"
#include "engine/slots.h"

namespace banter::engine {

/** What an event that does not end its request carries. `text` is zero-terminated in the block, `tokens` follow it. */
struct EventBlock {
  static constexpr uint32_t kBytes = 512;
  static constexpr uint32_t kDataBytes = kBytes - 72;

  banter_event_kind kind;
  uint32_t slot;
  banter_request_id request;
  ModelObject* model;
  NpcObject* npc;
  void* user_data;
  float progress;
  uint32_t dropped_turns, dropped_tokens;
  uint32_t text_len, token_count;
  const int32_t* far_tokens;  // a PROMPT event's tokens: memory of the request's slot
  alignas(8) char data[kDataBytes];

  const int32_t* tokens() const {
    return far_tokens != nullptr ? far_tokens : reinterpret_cast<const int32_t*>(data + (text_len + 1 + 3) / 4 * 4);
  }
};
static_assert(sizeof(EventBlock) == EventBlock::kBytes);

/** The queue. One engine thread pushes, one thread at a time polls; neither locks or allocates. Blocks are the limit
 *  for events that do not end their request; terminal events live in their request's slot, so there is always room. */
class EventQueue {
 public:
  Result<void> create(const HostAllocator& host, uint32_t max_events, SlotTable& slots);

  // Engine thread:
  /** Room for one more event, or null when `max_events` wait: then wants_poll() is set, and the next poll that gives
   *  room back says so. */
  EventBlock* allocate();
  void push(EventBlock* block);
  /** The request's slot holds a terminal event. */
  void push_terminal(uint32_t slot);

  // Polling thread:
  struct Polled {
    banter_result code = BANTER_OK;
    uint32_t count = 0;
    bool wake_engine = false;
  };
  /** Gives back the previous poll's events, calling `freed(slot)` for each request that is over, then takes new ones. */
  template <class F>
  Polled poll(std::byte* out, size_t stride, uint32_t capacity, F&& freed);
  /** Sleeps until an event waits, or the engine for a poll to give blocks back; false when neither came in time. */
  bool wait(uint32_t timeout_ms);

 private:
  struct Record {
    uint32_t index;
    bool terminal;
  };
  struct Traits : moodycamel::ConcurrentQueueDefaultTraits {
    static const size_t BLOCK_SIZE = 256;
    static const size_t EXPLICIT_INITIAL_INDEX_SIZE = 8192;  // × BLOCK_SIZE: all blocks and slots together
  };
  using Queue = moodycamel::ConcurrentQueue<Record, Traits>;
  static constexpr size_t kBatch = 32;

  void enqueue(Record record);
  void fill(const Record& record, banter_event& event);
  void prefetch(const Record& record) const;
  /** Forgets the delivered events; true when blocks came free that the engine waits for. */
  template <class F>
  bool give_back(F&& freed);

  // What a poll that finds nothing looks at, in one cache line.
  alignas(64) std::atomic<int64_t> waiting_{0};  // events
  std::atomic<bool> polling_{false};
  std::atomic<bool> wants_poll_{false};
  uint32_t delivered_count_ = 0;
  std::atomic<uint32_t> version_{0};  // changes with every event; banter_wait sleeps on it
  std::atomic<uint32_t> sleepers_{0};

  alignas(64) SlotTable* slots_ = nullptr;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<moodycamel::ProducerToken> producer_;
  HostArray<Record> delivered_;
  HostArray<EventBlock> blocks_;
  FreeList free_;
};

template <class F>
bool EventQueue::give_back(F&& freed) {
  for (uint32_t i = 0; i < delivered_count_; ++i) {
    if (delivered_[i].terminal) prefetch_for_write(&(*slots_)[delivered_[i].index], sizeof(uint64_t) * 4);
  }
  uint32_t first = FreeList::kNone, last = FreeList::kNone;
  for (uint32_t i = 0; i < delivered_count_; ++i) {
    const Record record = delivered_[i];
    if (record.terminal) {
      freed(record.index);
      slots_->release(record.index);
    } else {
      if (last == FreeList::kNone) {
        last = record.index;
      } else {
        free_.link(record.index, first);
      }
      first = record.index;
    }
  }
  delivered_count_ = 0;
  if (first == FreeList::kNone) return false;
  free_.release_chain(first, last);
  return wants_poll_.exchange(false, std::memory_order_seq_cst);
}

template <class F>
EventQueue::Polled EventQueue::poll(std::byte* out, size_t stride, uint32_t capacity, F&& freed) {
  Polled polled;
  if (polling_.exchange(true, std::memory_order_acquire)) {
    polled.code = BANTER_ERROR_BUSY;
    return polled;
  }
  if (delivered_count_ > 0) polled.wake_engine = give_back(freed);
  if (waiting_.load(std::memory_order_acquire) <= 0) {
    polling_.store(false, std::memory_order_release);
    return polled;
  }
  const auto limit = static_cast<uint32_t>(delivered_.size());
  if (capacity > limit) capacity = limit;
  while (polled.count < capacity) {
    Record records[kBatch];
    const size_t wanted = std::min<size_t>(kBatch, capacity - polled.count);
    const size_t taken = queue_->try_dequeue_bulk_from_producer(*producer_, records, wanted);
    for (size_t i = 0; i < taken; ++i) prefetch(records[i]);
    for (size_t i = 0; i < taken; ++i) {
      banter_event event{};
      fill(records[i], event);
      std::byte* const at = out + polled.count * stride;
      std::memcpy(at, &event, std::min(sizeof event, stride));
      if (stride > sizeof event) std::memset(at + sizeof event, 0, stride - sizeof event);
      delivered_[delivered_count_++] = records[i];
      ++polled.count;
    }
    if (taken < wanted) break;
  }
  waiting_.fetch_sub(polled.count, std::memory_order_acq_rel);
  polling_.store(false, std::memory_order_release);
  return polled;
}

}  // namespace banter::engine
