// What an engine does with its time: figures for banter_engine_get_statistics() and the metrics line.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "banter/types.h"

namespace banter::engine {

/** KV pages of a model (or of several: add). Those of no field are free. */
struct KvPages {
  uint64_t total = 0;
  uint64_t used = 0;     // by requests that run
  uint64_t cached = 0;   // kept for whoever comes with the same text; given up when pages run short
  uint64_t swapped = 0;  // not in the pool, but in host memory
  KvPages& operator+=(const KvPages& other) {
    total += other.total, used += other.used, cached += other.cached, swapped += other.swapped;
    return *this;
  }
};

/** A step that was computed. */
struct StepFigures {
  uint64_t started_ns = 0, ended_ns = 0;
  uint64_t rested_ns = 0;  // of that, left to the game
  uint32_t prefill_rows = 0, decode_rows = 0;
  uint32_t sequences = 0;
};

/** Figures of some time: see the fields of banter_engine_statistics. */
struct EngineRates {
  double prefill_tokens_per_second = 0, decode_tokens_per_second = 0;
  double rows_per_step = 0, sequences_per_step = 0;
  double prefill_share = 0, decode_share = 0, mixed_share = 0, idle_share = 0;
};

/** How far one request has come, beyond what its Generation says. Engine thread. */
struct RequestProgress {
  uint32_t furthest = 0;  // tokens of the sequence that were ever computed, or found in the cache
  uint32_t prefilled = 0, recomputed = 0;
  uint32_t preemptions_told = 0;
  bool started = false;

  /** Tokens [at, at + rows) were computed (the first time: those before were in the cache), of a prompt of `prompt` tokens and its reply. */
  void computed(uint32_t at, uint32_t rows, uint32_t prompt);
  /** The sequence now has `length` computed tokens: others take the place of the rest. */
  void truncated(uint32_t length);
};

/** Sums since the creation of the engine, and over the last five seconds. One thread writes, any thread reads: without
 *  locks and in bounded time, figures of one and the same moment unless steps end faster than they can be read. */
class Metrics {
 public:
  Metrics();

  // Engine thread:
  void step(const StepFigures& step);
  void request_started() { add(running_, 1); }
  void request_ended(bool had_started) {
    if (had_started) running_.store(running_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  void preempted() { add(preemptions_, 1); }
  void recomputed(uint32_t tokens) { add(recomputed_, tokens); }
  void speculated(uint32_t drafted, uint32_t accepted) { add(drafted_, drafted), add(accepted_, accepted); }
  void kv_pages(const KvPages& pages);

  // Any thread:
  uint64_t requests_running() const { return running_.load(std::memory_order_relaxed); }
  KvPages kv_pages() const;
  /** Fills in the fields from `requests_queued` on; requests_active must be there. @param now  now_ns() */
  void read(uint64_t now, banter_engine_statistics& out) const;

 private:
  enum Sum : uint8_t {
    kPrefillTokens,
    kDecodeTokens,
    kSequences,
    kPrefillSteps,
    kDecodeSteps,
    kMixedSteps,
    kPrefillNs,
    kDecodeNs,
    kMixedNs,
    kSums
  };
  using Sums = std::array<uint64_t, kSums>;
  using AtomicSums = std::array<std::atomic<uint64_t>, kSums>;
  struct Bucket {
    std::atomic<uint64_t> period{0};  // number of its half second; 0: unused
    AtomicSums sums{};
  };
  struct Reading {
    Sums total{}, recent{};
  };
  static constexpr uint64_t kPeriodNs = 500'000'000;
  static constexpr size_t kPeriods = 10;

  static void add(std::atomic<uint64_t>& figure, uint64_t more) {
    figure.store(figure.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);  // one writer
  }
  Reading read_sums(uint64_t first_period) const;
  static EngineRates rates(const Sums& sums, uint64_t elapsed_ns);

  uint64_t created_ns_;
  std::atomic<uint64_t> version_{0};  // odd while a step is being added
  AtomicSums total_{};
  std::array<Bucket, kPeriods + 1> buckets_;
  std::atomic<uint64_t> running_{0}, preemptions_{0}, recomputed_{0}, drafted_{0}, accepted_{0};
  std::atomic<uint64_t> pages_total_{0}, pages_used_{0}, pages_cached_{0}, pages_swapped_{0};
};

/** Statistics as one JSON object; returns its length, which may exceed the memory. */
size_t to_json(const banter_engine_statistics& statistics, std::span<char> memory);
size_t to_json(const banter_request_statistics& statistics, std::span<char> memory);

}  // namespace banter::engine
