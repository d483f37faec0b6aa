#include "backend_cpu/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "backend_cpu/kernels.h"
#include "backend_cpu/memory.h"

namespace banter::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/** Work a second of all threads together: `work(thread share)` returns what it did. Best of runs within `budget` seconds;
 *  one unit a thread, so every thread takes one as long as a unit outlasts a wake-up. */
template <class Work>
double best_rate(ThreadPool& pool, double budget, Work work) {
  double best = 0;
  const Clock::time_point begin = Clock::now();
  do {
    std::atomic<int64_t> done{0};
    const Clock::time_point start = Clock::now();
    pool.for_each(pool.threads(), [&](int32_t unit, int32_t) {
      done.fetch_add(static_cast<int64_t>(work(unit)), std::memory_order_relaxed);
    });
    best = std::max(best, static_cast<double>(done.load()) / seconds_since(start));
  } while (seconds_since(begin) < budget);
  return best;
}

}  // namespace

Roofline measure_roofline(ThreadPool& pool, Isa isa) {
  const Kernels& kernels = kernels_of(isa);
  Roofline roofline;
  // A few milliseconds a run: long against a wake-up, short against the interruptions of a busy machine.
  const int64_t rounds = isa == Isa::kScalar ? 20'000 : 1'000'000;
  roofline.int8_ops = 2 * best_rate(pool, 0.25, [&](int32_t) { return kernels.int8_rounds(rounds); });
  roofline.fp32_ops = 2 * best_rate(pool, 0.25, [&](int32_t) { return kernels.fp32_rounds(rounds); });
  constexpr size_t kBytes = size_t{256} << 20;  // more than any last-level cache that matters
  auto* memory = static_cast<uint8_t*>(allocate_pages(kBytes));
  if (memory == nullptr) return roofline;
  std::memset(memory, 1, kBytes);
  const size_t share = kBytes / static_cast<size_t>(pool.threads()) / 256 * 256;
  std::atomic<uint32_t> sink{0};
  roofline.read_bytes = best_rate(pool, 0.5, [&](int32_t unit) {
    sink.fetch_or(kernels.read_bytes(memory + static_cast<size_t>(unit) * share, share), std::memory_order_relaxed);
    return static_cast<double>(share);
  });
  free_pages(memory, kBytes);
  return roofline;
}

}  // namespace banter::cpu
