// Stackful fibers: the threads of a block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace banter::cuda_emulator {

/** A point of execution with its own stack (the launcher's, or a fiber's). */
struct Fiber {
  void* stack_pointer = nullptr;  // while suspended
  std::byte* stack = nullptr;     // lowest address
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
};

inline constexpr size_t kFiberStack = 256 * 1024;

/** Maps a stack with a guard page below. The entry function must never return. */
void make_fiber(Fiber& fiber, void (*entry)());
/** Sets a fiber back to its entry function, whatever it was doing. */
void restart_fiber(Fiber& fiber, void (*entry)());
/** Suspends `from` (the one that runs) and continues `to`. */
void switch_fiber(Fiber& from, Fiber& to);
/** To be called first in an entry function. */
void fiber_started();

}  // namespace banter::cuda_emulator
