#include "engine/event_queue.h"

#include <cstddef>

#include "engine/signal.h"

namespace banter::engine {

Result<void> EventQueue::create(const HostAllocator& host, uint32_t max_events, SlotTable& slots) {
  slots_ = &slots;
  if (Result<void> made = free_.create(host, max_events); !made) return made;
  if (Result<void> made = blocks_.create(host, max_events); !made) return made;
  const size_t most = size_t{max_events} + slots.size();
  if (Result<void> made = delivered_.create(host, most); !made) return made;
  queue_ = std::make_unique<Queue>((most / Traits::BLOCK_SIZE + 2) * Traits::BLOCK_SIZE);
  producer_ = std::make_unique<moodycamel::ProducerToken>(*queue_);
  if (!producer_->valid()) return Error{BANTER_ERROR_OUT_OF_MEMORY, "No memory for the event queue."};
  return {};
}

EventBlock* EventQueue::allocate() {
  uint32_t index = free_.acquire();
  if (index == FreeList::kNone) {
    // Say that we wait before looking once more: a poll between the two looks would otherwise go unnoticed.
    wants_poll_.store(true, std::memory_order_seq_cst);
    index = free_.acquire();
    if (index == FreeList::kNone) {
      // Whoever sleeps in banter_wait may hold all blocks, of the poll before: its next poll gives them back.
      version_.fetch_add(1, std::memory_order_seq_cst);
      if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake(version_, true);
      return nullptr;
    }
    wants_poll_.store(false, std::memory_order_seq_cst);
  }
  EventBlock* block = &blocks_[index];
  block->progress = 0;
  block->dropped_turns = block->dropped_tokens = 0;
  block->text_len = block->token_count = 0;
  block->far_tokens = nullptr;
  block->data[0] = '\0';
  return block;
}

void EventQueue::push(EventBlock* block) {
  enqueue({static_cast<uint32_t>(block - blocks_.data()), false});
}

void EventQueue::push_terminal(uint32_t slot) {
  enqueue({slot, true});
}

void EventQueue::enqueue(Record record) {
  // Cannot fail: the queue has room for every block and every slot.
  (void)queue_->try_enqueue(*producer_, record);
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  version_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake(version_, true);
}

BANTER_GAME_THREAD void EventQueue::prefetch(const Record& record) const {
  if (record.terminal) {
    prefetch_for_write(&(*slots_)[record.index], sizeof(uint64_t) * 4);
    prefetch_for_write(&(*slots_)[record.index].terminal,
                       offsetof(RequestSlot, message) - offsetof(RequestSlot, terminal));
  } else {
    prefetch_for_write(&blocks_[record.index], offsetof(EventBlock, data) + 16);
  }
}

BANTER_GAME_THREAD void EventQueue::fill(const Record& record, banter_event& event) {
  static const char kEmpty[] = "";
  event.text = kEmpty;
  if (!record.terminal) {
    const EventBlock& block = blocks_[record.index];
    event.kind = block.kind;
    event.request = block.request;
    event.model = reinterpret_cast<banter_model*>(block.model);
    event.npc = reinterpret_cast<banter_npc*>(block.npc);
    event.user_data = block.user_data;
    event.text = block.data;
    event.text_len = block.text_len;
    event.tokens = block.token_count == 0 ? nullptr : block.tokens();
    event.token_count = block.token_count;
    event.progress = block.progress;
    event.dropped_turns = block.dropped_turns;
    event.dropped_tokens = block.dropped_tokens;
    return;
  }
  const RequestSlot& slot = (*slots_)[record.index];
  event.kind = slot.terminal;
  event.code = slot.code;
  event.request = slots_->id(record.index);
  event.model = reinterpret_cast<banter_model*>(slot.model);
  event.npc = reinterpret_cast<banter_npc*>(slot.npc);
  event.user_data = slot.user_data;
  event.text = slot.message;
  event.text_len = slot.message_len;
  event.tokens = slot.tail_token_count == 0 ? nullptr : slot.tail_tokens;
  event.token_count = slot.tail_token_count;
  event.finish_reason = slot.finish_reason;
  event.progress = slot.terminal == BANTER_EVENT_MODEL_READY ? 1.0f : 0.0f;
  if (slot.terminal == BANTER_EVENT_DONE || slot.terminal == BANTER_EVENT_CANCELLED ||
      slot.terminal == BANTER_EVENT_SNAPSHOT) {
    event.statistics = &slot.statistics;
  }
  if (slot.terminal == BANTER_EVENT_SNAPSHOT && slot.blob != nullptr) {
    event.bytes = slot.blob->bytes.data();
    event.byte_count = slot.blob->bytes.size();
  }
}

bool EventQueue::wait(uint32_t timeout_ms) {
  const uint64_t deadline = now_ns() + uint64_t{timeout_ms} * 1000000;
  for (;;) {
    const uint32_t version = version_.load(std::memory_order_seq_cst);
    if (waiting_.load(std::memory_order_seq_cst) > 0 || wants_poll_.load(std::memory_order_seq_cst)) return true;
    if (timeout_ms == 0) return false;
    uint32_t left_ms = UINT32_MAX;
    if (timeout_ms != UINT32_MAX) {
      const uint64_t now = now_ns();
      if (now >= deadline) return false;
      left_ms = static_cast<uint32_t>((deadline - now + 999999) / 1000000);
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (version_.load(std::memory_order_seq_cst) == version) futex_wait(version_, version, left_ms);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

}  // namespace banter::engine
