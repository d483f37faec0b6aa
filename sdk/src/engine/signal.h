// Sleeping and waking without locks: a system call happens only when somebody really sleeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace banter::engine {

/** Sleeps while `word` is `expected`, at most `timeout_ms` (UINT32_MAX: no limit). May return early. */
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, uint32_t timeout_ms);
void futex_wake(std::atomic<uint32_t>& word, bool all);

/** Wakes one sleeping thread. post() by any thread, reset() and wait() by the one that sleeps. */
class Signal {
 public:
  /** Everything written before it is seen by the woken thread. One atomic exchange, and a system call only when the
   *  other side sleeps. */
  void post() {
    if (state_.exchange(kPosted, std::memory_order_acq_rel) == kSleeping) futex_wake(state_, false);
  }
  /** Forgets posts so far; call it before looking for work, so that work posted later ends the next wait(). */
  void reset() { state_.exchange(kIdle, std::memory_order_acq_rel); }
  /** Sleeps until a post() since the latest reset(). */
  void wait() { wait_for(UINT32_MAX); }
  void wait_for(uint32_t timeout_ms);

 private:
  enum : uint32_t { kIdle, kPosted, kSleeping };
  std::atomic<uint32_t> state_{kIdle};
};

}  // namespace banter::engine
