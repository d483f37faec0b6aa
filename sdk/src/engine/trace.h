// A timeline of steps and requests, recorded while the engine works and written out afterwards.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "banter/types.h"
#include "base/result.h"
#include "engine/host.h"
#include "engine/metrics.h"
#include "engine/signal.h"

namespace banter::engine {

/** One thing that happened. Times are now_ns(). */
struct TraceRecord {
  enum Kind : uint32_t {
    kStep,  // from, to, rested; rows of prefill and of decode, sequences; KV pages used, cached; requests queued and running
    kChunk,      // of a request: rows [position, position + rows) computed from, to; recomputed or not
    kPreempted,  // of a request: from
    kRequest     // written when it ends, or at the end of the recording: everything about its life
  };
  Kind kind = kStep;
  uint32_t figures[5] = {};
  uint64_t request = 0;
  uint64_t times[5] = {};
};

/** The life of a request, for kRequest. A time of 0: it did not come to that. */
struct TraceRequest {
  uint64_t id = 0;
  uint64_t submitted_ns = 0, started_ns = 0, first_token_ns = 0, last_token_ns = 0, ended_ns = 0;
  banter_event_kind terminal = 0;  // 0: it still runs
  uint32_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  bool is_load = false;
};

/** The newest `capacity` records. */
class TraceRing {
 public:
  Result<void> create(const HostAllocator& host, size_t capacity);
  void add(const TraceRecord& record) { records_[count_++ % records_.size()] = record; }
  /** Records kept, and dropped because they were too many. */
  size_t size() const { return count_ < records_.size() ? static_cast<size_t>(count_) : records_.size(); }
  uint64_t dropped() const { return count_ - size(); }
  /** The i-th oldest of those kept. */
  const TraceRecord& operator[](size_t i) const { return records_[(dropped() + i) % records_.size()]; }

  uint64_t started_ns = 0, ended_ns = 0;

 private:
  mutable HostArray<TraceRecord> records_;
  uint64_t count_ = 0;
};

/** Starts and stops recordings. Off, it costs the engine thread one load per step and one per request. */
class Tracer {
 public:
  ~Tracer() { delete wanted_.load(std::memory_order_relaxed); }

  // Threads of the host; they wait for the step in progress:
  /** Errors: STATE (recording already), OUT_OF_MEMORY. */
  Result<void> start(const HostAllocator& host, size_t capacity, Signal& engine);
  /** Ends the recording. Errors: STATE (none runs). */
  Result<std::unique_ptr<TraceRing>> stop(Signal& engine);

  // Engine thread:
  bool on() const { return ring_ != nullptr; }
  /** Somebody waits in start() or stop(). */
  bool is_awaited() const { return wanted_.load(std::memory_order_acquire) != ring_; }
  /** Takes up or lays down the ring, between two steps. `finish` is called before it is laid down, to add what is open. */
  template <class F>
  void adopt(F&& finish) {
    TraceRing* const wanted = wanted_.load(std::memory_order_acquire);
    if (wanted == ring_) return;
    if (ring_ != nullptr) finish();
    hand_over(wanted);
  }
  void step(const StepFigures& step, const KvPages& pages, uint64_t queued, uint64_t running);
  void chunk(uint64_t request, uint64_t from_ns, uint64_t to_ns, uint32_t position, uint32_t rows, bool recomputed);
  void preempted(uint64_t request);
  void request(const TraceRequest& request);

 private:
  void hand_over(TraceRing* ring);
  void wait_until_held(const TraceRing* ring, bool held, Signal& engine);

  TraceRing* ring_ = nullptr;  // engine thread
  std::atomic<TraceRing*> wanted_{nullptr};
  std::atomic<TraceRing*> held_{nullptr};  // what ring_ is, for the others
  std::atomic<uint32_t> hand_overs_{0};
  std::mutex mutex_;  // of start() and stop()
};

/** Receives `size` bytes; false ends the writing. */
using TraceSink = bool (*)(const char* bytes, size_t size, void* user_data);

/** Writes a recording as JSON of the Trace Event Format (chrome://tracing, Perfetto). Allocates. False: the sink refused.
 *  Track "steps": one span for each step. For each request an asynchronous track with the spans request ⊃ queued, prefill
 *  chunks and decode. Counters: KV pages, requests. Times are microseconds since the start of the recording. */
bool write_trace(const TraceRing& ring, TraceSink sink, void* user_data);

}  // namespace banter::engine
