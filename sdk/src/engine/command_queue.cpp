#include "engine/command_queue.h"

#include <bit>

namespace banter::engine {

Result<void> CommandQueue::create(const HostAllocator& host, uint32_t capacity) {
  // A producer keeps the blocks it once used, so each may come to hold as many as the whole capacity needs, and is in the
  // middle of two.
  const size_t blocks = kProducers * (capacity / Traits::BLOCK_SIZE + 2);
  queue_ = std::make_unique<Queue>(blocks * Traits::BLOCK_SIZE);
  if (Result<void> made = producers_.create(host, kProducers); !made) return made;
  for (uint32_t i = 0; i < kProducers; ++i) {
    producers_[i].token.emplace(*queue_);
    if (!producers_[i].token->valid()) return Error{BANTER_ERROR_OUT_OF_MEMORY, "No memory for the command queue."};
  }
  const uint64_t ring = std::bit_ceil(uint64_t{capacity} + 1);
  mask_ = ring - 1;
  return arrived_.create(host, ring);
}

BANTER_GAME_THREAD bool CommandQueue::claim(Lease& lease) {
  const uint32_t start = first_choice(lease);
  for (uint32_t i = 0; i < kProducers; ++i) {
    Producer& producer = producers_[(start + i) % kProducers];
    if (producer.busy.load(std::memory_order_relaxed)) continue;
    if (producer.busy.exchange(true, std::memory_order_acquire)) continue;
    lease.busy_ = &producer.busy;
    lease.producer_ = (start + i) % kProducers;
    return true;
  }
  return false;
}

BANTER_GAME_THREAD bool CommandQueue::post(Lease& lease, Command command) {
  Entry entry{next_number_.fetch_add(1, std::memory_order_acq_rel), command};
  const bool posted = queue_->try_enqueue(*producers_[lease.producer_].token, entry);
  lease.release();
  return posted;
}

void CommandQueue::collect() {
  Entry entries[64];
  for (;;) {
    const size_t count = queue_->try_dequeue_bulk(entries, 64);
    for (size_t i = 0; i < count; ++i) arrived_[entries[i].number & mask_] = entries[i].command;
    if (count == 0) return;
  }
}

std::optional<Command> CommandQueue::take(uint64_t limit) {
  Command& place = arrived_[next_taken_ & mask_];
  if (next_taken_ >= limit || place.kind == Command::kNothing) return std::nullopt;
  const Command command = place;
  place = Command{};
  ++next_taken_;
  return command;
}

}  // namespace banter::engine
