// The emulated card and its runtime: state that the parts of the emulator share, behind one lock.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cuda_emulator/block.h"
#include "cuda_emulator/control.h"
#include "cuda_emulator/memory.h"

// What the runtime's and the driver's handles point to.
struct CUgraphNode_st {};
struct CUctx_st {
  int device = 0;
  unsigned long long id = 0;  // never that of another
  bool in_graphics = false;
  bool ended = false;
};
struct CUevent_st {
  uint64_t recorded = 0;          // number of the latest record that was queued; 0: none
  uint64_t completed = 0;         // and of the latest that ran
  cudaStream_t stream = nullptr;  // of the latest record
  bool timing = true;
  double time = 0;          // milliseconds, of the latest that ran
  bool of_capture = false;  // recorded in a stream under capture
  cudaStream_t capture_origin = nullptr;
};

namespace banter::cuda_emulator {

/** One thing that a stream does. */
struct Operation {
  enum class Kind : uint8_t { kLaunch, kCopy, kSet, kRecord, kWait, kHost, kGraph };
  Kind kind;
  uint64_t number = 0;  // in the order of issue, over all streams
  Launch launch;
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0, to_pitch = 0, from_pitch = 0, height = 1;  // `bytes` a row
  bool from_pinned = false, to_pinned = false;                 // host memory that was pinned when the copy was queued
  int value = 0;
  std::shared_ptr<CUevent_st> event;
  uint64_t record = 0;
  void (*host)(void*) = nullptr;
  void* host_data = nullptr;
  std::shared_ptr<const std::vector<Operation>> graph;
};

}  // namespace banter::cuda_emulator

struct CUgraph_st {
  std::shared_ptr<std::vector<banter::cuda_emulator::Operation>> operations;
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // of those that were added one by one
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<banter::cuda_emulator::Operation>> operations;
};
struct CUstream_st {
  std::deque<banter::cuda_emulator::Operation> queue;
  bool blocking = true;  // with the legacy default stream
  int priority = 0;
  // Capture: the stream where it began owns what is captured.
  CUstream_st* capture_origin = nullptr;  // null: none
  cudaStreamCaptureStatus capture_status = cudaStreamCaptureStatusNone;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  uint64_t capture_thread = 0;
  std::shared_ptr<std::vector<banter::cuda_emulator::Operation>> captured;
  std::set<CUstream_st*> joined;    // other streams that take part
  std::set<CUstream_st*> unjoined;  // of these, the ones with work that the origin has not waited for
};

namespace banter::cuda_emulator {

struct PinnedRange {
  size_t bytes;
  bool registered;  // cudaHostRegister: not ours to free
};

struct Card {
  std::recursive_mutex mutex;
  Config config;
  DeviceMemory memory;
  std::unique_ptr<Block> block;
  std::map<uintptr_t, PinnedRange> pinned;
  std::unordered_set<CUstream_st*> streams;
  std::unordered_map<CUevent_st*, std::shared_ptr<CUevent_st>> events;
  std::unordered_set<CUgraph_st*> graphs;
  std::unordered_set<CUgraphExec_st*> graph_execs;
  CUstream_st legacy;
  std::vector<Fault> faults;
  cudaError_t device_error = cudaSuccess;  // sticky
  bool lost = false;                       // by injection
  int64_t calls = 0, launches = 0, fail_at = 0, allocations = 0, fail_allocation_at = 0;
  bool fail_sticky = false;
  uint64_t operations = 0, records = 0;
  std::unordered_map<const void*, size_t> shared_limits;  // by kernel
  std::unordered_map<const void*, Launch> launched;       // the latest of each kernel, for its arguments' types
  std::vector<std::unique_ptr<CUctx_st>> contexts;        // ended ones, too
  std::unordered_map<const void*, CUctx_st*> owners;      // of what is in these contexts: handles, starts of memory
  bool primary_used = false;
};
Card& card();

/** What every runtime function begins with: holds the lock; `error` is what it must return at once, if anything. */
class Call {
 public:
  enum class Kind : uint8_t { kPlain, kAllocate, kRelease, kQuery };
  explicit Call(Kind kind = Kind::kPlain);
  bool failed() const { return error_ != cudaSuccess; }
  cudaError_t error() const { return error_; }
  /** Remembers an error for cudaGetLastError. */
  cudaError_t done(cudaError_t result);

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  cudaError_t error_ = cudaSuccess;
};

/** Whether every card can carry such a launch out; reports if not. */
bool within_limits(const cudaLaunchConfig_t& config, const void* kernel, size_t argument_bytes);
/** What the code that runs may use: the compute capability that it was compiled for. */
int32_t code_capability();

void report(Fault fault);
void report_host(FaultKind kind, const void* address, std::string message);
/** "kernel_name" where the program's symbol table knows it, else its address. */
std::string symbol_of(const void* code);
/** Whether the address is of the program's constants: what it has loaded that cannot be written. */
bool is_constant(uintptr_t address);

// ---- contexts.cpp
/** Notes that something was made in the current context. */
void own(const void* made);
/** Whether it is of the current context; reports if not. Null and the default stream are of all. */
bool is_of_current(const void* made, const char* what);

// ---- streams.cpp
/** The stream of a handle; null: none such (reported). */
CUstream_st* find_stream(cudaStream_t handle);
/** Queues, or appends to the capture that the stream is under. */
cudaError_t enqueue(CUstream_st& stream, Operation operation);
/** A stream waits for an event that was recorded under capture: it takes part from now on. */
cudaError_t join_capture(CUstream_st& stream, CUevent_st& event);
/** Runs the stream's operations with numbers up to `number`, and what these wait for. */
void drain(CUstream_st& stream, uint64_t number = UINT64_MAX);
void drain_all();
/** What cudaMemcpy and its like do first. */
void drain_legacy();
void execute(const Operation& operation);
/** cudaErrorStreamCapture… if a capture forbids calls that wait or allocate; such a call ends the capture. */
cudaError_t forbidden_by_capture();
uint64_t this_thread();

// ---- copies.cpp
bool is_pinned(const void* pointer, size_t bytes);
/** Whether the copy's ends are what `kind` says and inside live memory; reports if not. */
bool check_copy(const Operation& copy, cudaMemcpyKind kind, bool async);
bool check_device_range(const void* pointer, size_t bytes, const char* what);

}  // namespace banter::cuda_emulator
