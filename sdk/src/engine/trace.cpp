#include "engine/trace.h"

namespace banter::engine {

Result<void> TraceRing::create(const HostAllocator& host, size_t capacity) {
  return records_.create(host, capacity);
}

Result<void> Tracer::start(const HostAllocator& host, size_t capacity, Signal& engine) {
  const std::lock_guard lock(mutex_);
  if (wanted_.load(std::memory_order_relaxed) != nullptr) {
    return Error{BANTER_ERROR_STATE, "A trace is being recorded already; stop it first."};
  }
  auto ring = std::make_unique<TraceRing>();
  if (Result<void> made = ring->create(host, capacity); !made) return made;
  ring->started_ns = now_ns();
  TraceRing* const raw = ring.release();
  wanted_.store(raw, std::memory_order_release);
  wait_until_held(raw, true, engine);
  return {};
}

Result<std::unique_ptr<TraceRing>> Tracer::stop(Signal& engine) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<TraceRing> ring(wanted_.exchange(nullptr, std::memory_order_acq_rel));
  if (ring == nullptr) return Error{BANTER_ERROR_STATE, "No trace is being recorded."};
  wait_until_held(ring.get(), false, engine);
  ring->ended_ns = now_ns();
  return ring;
}

void Tracer::wait_until_held(const TraceRing* ring, bool held, Signal& engine) {
  for (;;) {
    const uint32_t version = hand_overs_.load(std::memory_order_acquire);
    if ((held_.load(std::memory_order_acquire) == ring) == held) return;
    engine.post();
    futex_wait(hand_overs_, version, 100);
  }
}

void Tracer::hand_over(TraceRing* ring) {
  ring_ = ring;
  held_.store(ring, std::memory_order_release);
  hand_overs_.fetch_add(1, std::memory_order_release);
  futex_wake(hand_overs_, true);
}

void Tracer::step(const StepFigures& step, const KvPages& pages, uint64_t queued, uint64_t running) {
  if (ring_ == nullptr) return;
  TraceRecord record;
  record.kind = TraceRecord::kStep;
  record.times[0] = step.started_ns;
  record.times[1] = step.ended_ns;
  record.times[2] = pages.used;
  record.times[3] = pages.cached;
  record.times[4] = step.rested_ns;
  record.figures[0] = step.prefill_rows;
  record.figures[1] = step.decode_rows;
  record.figures[2] = step.sequences;
  record.figures[3] = static_cast<uint32_t>(queued);
  record.figures[4] = static_cast<uint32_t>(running);
  ring_->add(record);
}

void Tracer::chunk(uint64_t request, uint64_t from_ns, uint64_t to_ns, uint32_t position, uint32_t rows,
                   bool recomputed) {
  if (ring_ == nullptr) return;
  TraceRecord record;
  record.kind = TraceRecord::kChunk;
  record.request = request;
  record.times[0] = from_ns;
  record.times[1] = to_ns;
  record.figures[0] = position;
  record.figures[1] = rows;
  record.figures[2] = recomputed ? 1 : 0;
  ring_->add(record);
}

void Tracer::preempted(uint64_t request) {
  if (ring_ == nullptr) return;
  TraceRecord record;
  record.kind = TraceRecord::kPreempted;
  record.request = request;
  record.times[0] = now_ns();
  ring_->add(record);
}

void Tracer::request(const TraceRequest& request) {
  if (ring_ == nullptr) return;
  TraceRecord record;
  record.kind = TraceRecord::kRequest;
  record.request = request.id;
  record.times[0] = request.submitted_ns;
  record.times[1] = request.started_ns;
  record.times[2] = request.first_token_ns;
  record.times[3] = request.last_token_ns;
  record.times[4] = request.ended_ns;
  record.figures[0] = static_cast<uint32_t>(request.terminal);
  record.figures[1] = request.prompt_tokens;
  record.figures[2] = request.cached_tokens;
  record.figures[3] = request.generated_tokens;
  record.figures[4] = request.is_load ? 1 : 0;
  ring_->add(record);
}

}  // namespace banter::engine
