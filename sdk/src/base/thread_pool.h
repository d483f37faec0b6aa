// Worker threads of one engine: a parallel-for that hands out small units dynamically and blocks instead of spinning long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"

namespace banter {

struct ThreadPoolConfig {
  int32_t threads = 1;         // including the caller of run(); ≥ 1
  uint64_t affinity_mask = 0;  // bit i = logical CPU i; 0 = the system's choice
  bool low_priority = true;    // workers and the engine thread yield to the game's threads
};

/** A fork-join pool. run() may be called by one thread at a time (the engine thread). */
class ThreadPool {
 public:
  static Result<std::unique_ptr<ThreadPool>> create(const ThreadPoolConfig& config);
  virtual ~ThreadPool() = default;
  virtual int32_t threads() const = 0;
  /** Calls body(unit, thread) for every unit in [0, units), each exactly once, on any of threads() threads (thread index
   *  in [0, threads())); returns when all are done, with their writes visible. No allocation. With one thread, or one
   *  unit, no synchronisation at all. Never slower than one thread alone by more than a wake-up: units that no worker has
   *  claimed are run by the caller. */
  using Body = void (*)(void* context, int32_t unit, int32_t thread);
  virtual void run(int32_t units, Body body, void* context) = 0;

  template <class F>
  void for_each(int32_t units, F&& f) {
    run(
        units,
        [](void* context, int32_t unit, int32_t thread) {
          (*static_cast<std::remove_reference_t<F>*>(context))(unit, thread);
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }
};

/** Threads to use when the host does not say: physical performance cores, less two for the game where there are more
 *  than four; at least 1. */
int32_t default_thread_count();

/** Applies affinity and low priority to the calling thread (best effort) and names it for debuggers. */
void configure_this_thread(const char* name, uint64_t affinity_mask, bool low_priority);

}  // namespace banter
