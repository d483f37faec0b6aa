// A running block: its threads as fibers, its warps, its barrier, its shared memory. One launch runs at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda_emulator/control.h"
#include "cuda_emulator/fiber.h"
#include "cuda_emulator/shared_shadow.h"

namespace banter::cuda_emulator {

inline constexpr int kLanes = 32;
inline constexpr int kMaxWarps = 32;

/** A kernel launch, ready to run. */
struct Launch {
  KernelCall call;
  size_t argument_bytes = 0;
  dim3 grid, block;
  size_t shared_bytes = 0;
};

/** The file's name without its folders. */
inline const char* file_of(Place place) {
  const char* const slash = std::strrchr(place.file, '/');
  return slash != nullptr ? slash + 1 : place.file;
}

struct AsyncCopy {
  std::byte* to;
  const std::byte* from;  // null: zeros
  int32_t group;
};

struct Thread {
  Fiber* fiber = nullptr;
  uint3 index = {0, 0, 0};  // threadIdx
  uint16_t number = 0;
  uint8_t lane = 0, warp = 0;
  int32_t open_group = 0;  // number of cp_async groups closed so far
  std::vector<AsyncCopy> copies;
};

/** What a lane gives to a collective and gets from it. */
struct Slot {
  uint64_t in[5];
  uint64_t out[2];
};

struct Warp;
using Complete = void (*)(Warp& warp, uint32_t mask);

/** Lanes of a warp that wait in one collective. */
struct Gathering {
  uint32_t mask = 0, arrived = 0;
  Complete complete = nullptr;
  int variant = 0;
  Place place = {nullptr, 0};
  const char* name = nullptr;
};

struct Warp {
  uint32_t lanes = 0;  // that exist
  uint32_t unstarted = 0, runnable = 0, at_barrier = 0, exited = 0;
  uint32_t epoch = 1;  // counts __syncwarp of all lanes
  int gatherings = 0;
  Gathering gathering[kLanes];
  Slot slots[kLanes];
};

class Block {
 public:
  /** Runs all blocks of the launch. False: a fault ended it. */
  bool run(const Launch& launch);

  // For what threads call.
  Thread& thread() { return *current_; }
  const Thread& thread_at(uint16_t number) const { return threads_[number]; }
  Warp& warp() { return warps_[current_->warp]; }
  const Launch& launch() const { return *launch_; }
  std::byte* shared() const { return shared_; }
  SharedShadow& shadow() { return shadow_; }
  uint32_t barrier_epoch() const { return barrier_epoch_; }
  Stamp stamp() { return {barrier_epoch_, warp().epoch, current_->number, current_->warp}; }

  /** The warp collective: waits for the mask's lanes, the last of which runs `complete`. */
  void gather(const char* name, Complete complete, int variant, uint32_t mask, Place place);
  int barrier(BarrierReduction reduction, int predicate, Place place);
  /** Reports and ends the launch. Does not return. */
  [[noreturn]] [[gnu::format(printf, 4, 5)]] void fault(FaultKind kind, uintptr_t address, const char* format, ...);

  // Read by the hooks at every access.
  uintptr_t stack_low = 0;

 private:
  static void fiber_main();
  void start_block(uint3 index);
  void enter(Thread& thread);
  void thread_exits();
  void run_next();
  Thread* pick();
  uint32_t choose(uint32_t bits);
  Fiber* take_fiber();
  [[gnu::noinline]] static void run_thread();
  void report_fault() const;

  const Launch* launch_ = nullptr;
  Thread* current_ = nullptr;
  Thread threads_[kLanes * kMaxWarps];
  Warp warps_[kMaxWarps];
  uint32_t ready_warps_ = 0;  // with a lane that is unstarted or runnable
  int thread_count_ = 0, warp_count_ = 0, alive_ = 0;
  int barrier_waiting_ = 0;
  Place barrier_place_ = {nullptr, 0};
  int barrier_reduction_ = 0, barrier_sum_ = 0, barrier_result_ = 0;
  uint32_t barrier_epoch_ = 1;  // grows over all blocks and launches
  std::byte* shared_ = nullptr;
  SharedShadow shadow_;

  Fiber main_;
  std::vector<Fiber*> fibers_, free_fibers_;
  uint64_t random_ = 1;
  // The fault that ends the launch. No strings: the stack it happens on is given up.
  bool faulted_ = false;
  FaultKind fault_kind_ = FaultKind::kTrap;
  uintptr_t fault_address_ = 0;
  char fault_text_[400] = "";
};

/** The block whose thread runs on this OS thread; null in host code. */
extern thread_local constinit Block* running_block;

inline constexpr size_t kSharedCapacity = 228 * 1024;

}  // namespace banter::cuda_emulator
