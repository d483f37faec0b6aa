// Request slots: what a request id points to, from the call until the poll after its terminal event.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "banter/types.h"
#include "engine/blob.h"
#include "engine/free_list.h"
#include "engine/submission.h"

namespace banter::engine {

inline constexpr uint32_t kTailTokens = 48;

/** One request as both sides see it. Written by the submitting thread until its command is posted, then by the engine
 *  thread until its terminal event is posted, then by the polling thread until the slot is free again; the queues
 *  between them order these. Only `state` is touched by several threads at once. */
struct alignas(64) RequestSlot {
  /** generation << 2 | kEnded | kCancel */
  std::atomic<uint64_t> state{0};
  static constexpr uint64_t kCancel = 1, kEnded = 2;

  // Packed: a submission writes to memory that the caches have long forgotten.
  ModelObject* model = nullptr;
  NpcObject* npc = nullptr;
  void* user_data = nullptr;
  uint64_t submitted_ns = 0;
  uint64_t text_bytes = 0;
  RequestKind kind = RequestKind::kSay;
  bool has_sampling = false;
  int8_t priority = 0;
  dialogue::Thinking thinking = dialogue::Thinking::kAuto;
  uint32_t flags = 0;
  uint32_t max_tokens = 0;
  uint32_t deadline_ms = 0;
  uint32_t thinking_budget_tokens = 0;
  uint32_t bias_count = 0;
  uint8_t stop_token_count = 0, stop_string_count = 0, banned_string_count = 0, dry_breaker_count = 0;

  // The variable part, in this order: text or tokens, bias tokens, bias values, stop tokens, then each stop string,
  // each banned string and each DRY breaker behind its length. In `inline_payload` where it fits (chain is none then), else in the chain.
  uint32_t chain = FreeList::kNone;
  static constexpr size_t kInlineBytes = 384;
  std::byte inline_payload[kInlineBytes];
  SamplingSettings sampling;  // where has_sampling

  // The terminal event, so that it always has room.
  banter_event_kind terminal = 0;
  banter_result code = BANTER_OK;
  banter_finish_reason finish_reason = BANTER_FINISH_NONE;
  banter_request_statistics statistics{};
  uint32_t message_len = 0;
  char message[512] = {};
  uint32_t tail_token_count = 0;
  int32_t tail_tokens[kTailTokens] = {};
  std::vector<int32_t> prompt_copy;  // what a PROMPT event points to; engine thread
  std::unique_ptr<Blob> blob;        // a snapshot to load, then one that was saved

  bool cancel_requested() const { return (state.load(std::memory_order_acquire) & kCancel) != 0; }
};

/** All slots of an engine. Ids are generation << 20 | index, so they are never reused and never 0. */
class SlotTable {
 public:
  static constexpr uint32_t kIndexBits = 20;
  static constexpr uint32_t kNone = FreeList::kNone;

  Result<void> create(const HostAllocator& host, uint32_t count) {
    if (Result<void> made = slots_.create(host, count); !made) return made;
    for (uint32_t i = 0; i < count; ++i) slots_[i].state.store(uint64_t{1} << 2, std::memory_order_relaxed);
    return free_.create(host, count);
  }

  void prefetch() const { free_.prefetch(); }
  /** And the slot that acquire() would give now. */
  void prefetch_next() const {
    const uint32_t next = free_.peek();
    if (next < slots_.size()) prefetch_for_write(&slots_[next], offsetof(RequestSlot, inline_payload) + 128);
  }
  uint32_t acquire() { return free_.acquire(); }
  /** The slot's id dies; whoever holds the slot calls it, once. */
  void release(uint32_t index) {
    RequestSlot& slot = slots_[index];
    const uint64_t generation = slot.state.load(std::memory_order_relaxed) >> 2;
    slot.state.store((generation + 1) << 2, std::memory_order_release);
    free_.release(index);
  }

  RequestSlot& operator[](uint32_t index) { return slots_[index]; }
  const RequestSlot& operator[](uint32_t index) const { return slots_[index]; }
  uint32_t size() const { return static_cast<uint32_t>(slots_.size()); }
  banter_request_id id(uint32_t index) const {
    return slots_[index].state.load(std::memory_order_relaxed) >> 2 << kIndexBits | index;
  }

  /** Marks a live request as cancelled; false for an id that has ended or never was. Any thread. */
  bool cancel(banter_request_id id) {
    const auto index = static_cast<uint32_t>(id & ((1u << kIndexBits) - 1));
    if (index >= slots_.size()) return false;
    std::atomic<uint64_t>& word = slots_[index].state;
    uint64_t state = word.load(std::memory_order_acquire);
    do {
      if (state >> 2 != id >> kIndexBits || (state & RequestSlot::kEnded) != 0) return false;
    } while (!word.compare_exchange_weak(state, state | RequestSlot::kCancel, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
    return true;
  }

 private:
  HostArray<RequestSlot> slots_;
  FreeList free_;
};

}  // namespace banter::engine
