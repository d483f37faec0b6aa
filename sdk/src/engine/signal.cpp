#include "engine/signal.h"

#include <ctime>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#error "engine/signal.cpp: Banter builds on Linux only so far; add this system's wait-on-address call."
#endif

namespace banter::engine {

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, uint32_t timeout_ms) {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(timeout_ms / 1000);
  limit.tv_nsec = static_cast<long>(timeout_ms % 1000) * 1000000L;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, timeout_ms == UINT32_MAX ? nullptr : &limit, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, bool all) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, all ? INT32_MAX : 1, nullptr, nullptr, 0);
}

void Signal::wait_for(uint32_t timeout_ms) {
  uint32_t expected = kIdle;
  if (state_.compare_exchange_strong(expected, kSleeping, std::memory_order_acq_rel)) {
    do {
      futex_wait(state_, kSleeping, timeout_ms);
    } while (timeout_ms == UINT32_MAX && state_.load(std::memory_order_acquire) == kSleeping);
  }
  state_.exchange(kIdle, std::memory_order_acq_rel);
}

}  // namespace banter::engine
