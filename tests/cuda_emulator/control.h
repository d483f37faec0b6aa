// What tests say to the emulated card and learn from it. See README.md.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct CUctx_st;  // a context of the driver

namespace banter::cuda_emulator {

enum class FaultKind : uint8_t {
  kOutOfBounds,       // device memory: outside every allocation, or across the end of one
  kUseAfterFree,      // device memory that was freed; a double free
  kHostMemory,        // a kernel touches memory that is neither its stack, shared or device memory nor a constant
  kDeviceMemory,      // host code touches device memory
  kWriteToConstant,   // a kernel writes its arguments or a constant
  kSharedBounds,      // shared memory beyond what the launch gave
  kMisaligned,        // an access not aligned to its size or type
  kUninitialised,     // shared memory read before anything was written there
  kRace,              // shared memory: two threads of a block, at least one writes, nothing orders them
  kAsyncNotWaited,    // shared memory under an asynchronous copy that was not waited for
  kDivergentBarrier,  // __syncthreads: not every thread of the block comes to this one
  kWarpMismatch,      // a warp collective: a lane of the mask is missing, or names another mask or collective
  kShuffleSource,     // a shuffle reads a lane that takes no part
  kIndexOutOfBounds,  // an index outside a C++ array; a shift by too much
  kUnsupported,       // an instruction that this compute capability has not
  kTrap,              // __trap()
  kLaunchLimits,      // a launch outside the card's limits
  kBadHandle,         // a stream, event or graph that does not exist (any more)
  kPageableMemory,    // an asynchronous copy from or to host memory that is not pinned
  kInvalidPointer,    // a copy, memset or free whose pointers are not what the call needs
};

struct Fault {
  FaultKind kind;
  std::string kernel;  // its name or address; empty: host code
  uint32_t block[3] = {0, 0, 0};
  uint32_t thread[3] = {0, 0, 0};
  uintptr_t address = 0;  // of the memory, 0: none
  std::string message;
};
const char* to_string(FaultKind kind);
/** One line: what happened, where. */
std::string to_string(const Fault& fault);

enum class Order : uint8_t { kForward, kReverse, kShuffled };

struct Config {
  int devices = 1;
  cudaError_t count_error = cudaSuccess;  // what cudaGetDeviceCount answers, e.g. cudaErrorInsufficientDriver
  int driver_version = 13000;
  int compute_capability = 86;
  int compiled_for = 0;  // the compute capability that kernels were compiled for; 0: the card's
  cudaError_t kernels_error =
      cudaSuccess;  // what is answered to who asks for a kernel, e.g. cudaErrorUnsupportedPtxVersion
  int multiprocessors = 8;
  size_t memory_bytes = size_t{4} << 30;
  size_t shared_per_block = 47 * 1024;  // without cudaFuncSetAttribute
  size_t shared_per_block_optin = 47 * 1024;
  int threads_per_block = 1024;
  Order block_order = Order::kForward;    // also that of the warps and lanes of a block
  uint64_t seed = 1;                      // of kShuffled
  bool vulkan_shares_graphics = false;    // contexts can be made that are scheduled with Vulkan
  size_t shared_in_graphics = 48 * 1024;  // of a block there
  bool ended_are_entered = false;         // a context that has ended can be made current; what is done in it fails
  const char* missing_in_driver = "";     // a function of the driver's that an older one lacks
  bool report_pageable_copies = true;     // kPageableMemory
  bool check_shared_memory = true;        // kUninitialised and kRace
};

/** Forgets faults, injected failures, a lost device and counters, and sets the card's properties. Allocations, streams
 *  and so on stay; queued work is dropped. */
void reset(const Config& config = {});
const Config& config();

/** Kernel sources were compiled with the hooks that see every memory access; without them (sanitizer builds) only what
 *  the runtime and the collectives see is found. */
bool memory_checks();

std::vector<Fault> faults();
/** The faults so far, which are forgotten: for tests that plant one. A device lost by one works again. */
std::vector<Fault> take_faults();

/** The n-th runtime call from now (1 = the next) fails: allocations with cudaErrorMemoryAllocation, others with
 *  cudaErrorLaunchFailure. Calls that release something do so and report failure all the same. sticky: and every call
 *  after it (a lost device) until reset(). */
void fail_call(int64_t n, bool sticky = false);
/** As fail_call, counting allocations of device and pinned memory only. */
void fail_allocation(int64_t n);
/** Runtime calls since reset(). */
int64_t calls_made();
int64_t launches_made();

/** What the data of a Vulkan device's external queue begins with, on this card. */
inline constexpr char kQueueData[] = "the emulated card's queue";

/** A context as a game makes it, current nowhere. A game may end it at any time, with all that is in it; its handle then stays
 *  known as that of an ended one. */
CUctx_st* create_context(int device = 0);
void destroy_context(CUctx_st* context);
/** Ends it and makes another one, which happens to get the same handle. */
void renew_context(CUctx_st* context);
/** As a game makes it current on this thread, and no more. */
void push_context(CUctx_st* context);
void pop_context();
/** Topmost of this thread's stack; null: it is empty, calls go to the primary context. */
CUctx_st* current_context();

/** What exists now: for tests of what a backend gives back. */
struct Live {
  size_t device_bytes = 0, pinned_bytes = 0;
  int device_allocations = 0, pinned_allocations = 0, streams = 0, events = 0, graphs = 0;
  int contexts = 0;                   // beside the primary one
  int in_contexts = 0;                // of all of the above, how many are in them
  bool primary_context_used = false;  // something was made in it since reset()
};
Live live();

/** Operations that were queued and have not run. */
size_t pending_operations();

}  // namespace banter::cuda_emulator
