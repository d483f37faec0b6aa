#include "cuda_emulator/card.h"

#include <cstdio>
#include <cstdlib>

namespace banter::cuda_emulator {

Card& card() {
  static auto* const instance = new Card;  // lives to the end of the program: faults may come at any time
  return *instance;
}

namespace {
thread_local constinit cudaError_t last_error = cudaSuccess;
}

Call::Call(Kind kind) : lock_(card().mutex) {
  Card& c = card();
  if (kind == Kind::kQuery) return;
  ++c.calls;
  if (kind == Kind::kAllocate) ++c.allocations;
  const bool injected = c.calls == c.fail_at || (kind == Kind::kAllocate && c.allocations == c.fail_allocation_at);
  if (c.lost) error_ = cudaErrorLaunchFailure;
  if (c.device_error != cudaSuccess) error_ = c.device_error;
  if (const CUctx_st* const context = current_context(); context != nullptr && context->ended) {
    error_ = cudaErrorContextIsDestroyed;
  }
  if (injected) {
    error_ = kind == Kind::kAllocate ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure;
    if (c.fail_sticky && c.calls == c.fail_at) {
      c.lost = true;
      error_ = cudaErrorLaunchFailure;
    }
  }
  if (error_ != cudaSuccess) last_error = error_;
}

cudaError_t Call::done(cudaError_t result) {
  const Card& c = card();
  if (error_ != cudaSuccess) result = error_;
  if (result == cudaSuccess && c.device_error != cudaSuccess) result = c.device_error;
  if (result != cudaSuccess && result != cudaErrorNotReady) last_error = result;
  return result;
}

void report(Fault fault) {
  card().faults.push_back(std::move(fault));
}

void report_host(FaultKind kind, const void* address, std::string message) {
  Fault fault;
  fault.kind = kind;
  fault.address = reinterpret_cast<uintptr_t>(address);
  fault.message = std::move(message);
  report(std::move(fault));
}

const char* to_string(FaultKind kind) {
  static constexpr const char* kNames[] = {"out of bounds",
                                           "use after free",
                                           "host memory in a kernel",
                                           "device memory in host code",
                                           "write to a constant",
                                           "shared bounds",
                                           "misaligned",
                                           "uninitialised shared memory",
                                           "race",
                                           "copy not waited for",
                                           "divergent barrier",
                                           "warp mismatch",
                                           "shuffle source",
                                           "index out of bounds",
                                           "unsupported",
                                           "trap",
                                           "launch limits",
                                           "bad handle",
                                           "pageable memory",
                                           "invalid pointer"};
  return kNames[static_cast<size_t>(kind)];
}

std::string to_string(const Fault& fault) {
  char place[160];
  if (fault.kernel.empty()) {
    std::snprintf(place, sizeof place, " (address %#zx)", static_cast<size_t>(fault.address));
    return std::string(to_string(fault.kind)) + ": " + fault.message + (fault.address != 0 ? place : "");
  }
  std::snprintf(place, sizeof place, " (block %u,%u,%u thread %u,%u,%u address %#zx)", fault.block[0], fault.block[1],
                fault.block[2], fault.thread[0], fault.thread[1], fault.thread[2], static_cast<size_t>(fault.address));
  return std::string(to_string(fault.kind)) + " in " + fault.kernel + ": " + fault.message + place;
}

// ---------------------------------------------------------------- control.h

void reset(const Config& config) {
  Card& c = card();
  const std::lock_guard lock(c.mutex);
  c.config = config;
  c.faults.clear();
  c.device_error = cudaSuccess;
  c.lost = c.fail_sticky = false;
  c.calls = c.launches = c.allocations = c.fail_at = c.fail_allocation_at = 0;
  for (CUstream_st* stream : c.streams) stream->queue.clear();
  c.legacy.queue.clear();
  for (auto& [key, event] : c.events) event->completed = event->recorded;
  c.shared_limits.clear();
  c.primary_used = false;
  last_error = cudaSuccess;
}

const Config& config() {
  return card().config;
}

std::vector<Fault> faults() {
  const std::lock_guard lock(card().mutex);
  return card().faults;
}

std::vector<Fault> take_faults() {
  Card& c = card();
  const std::lock_guard lock(c.mutex);
  c.device_error = cudaSuccess;
  last_error = cudaSuccess;
  return std::exchange(c.faults, {});
}

void fail_call(int64_t n, bool sticky) {
  Card& c = card();
  const std::lock_guard lock(c.mutex);
  c.fail_at = c.calls + n;
  c.fail_sticky = sticky;
}

void fail_allocation(int64_t n) {
  Card& c = card();
  const std::lock_guard lock(c.mutex);
  c.fail_allocation_at = c.allocations + n;
}

int64_t calls_made() {
  const std::lock_guard lock(card().mutex);
  return card().calls;
}
int64_t launches_made() {
  const std::lock_guard lock(card().mutex);
  return card().launches;
}

Live live() {
  Card& c = card();
  const std::lock_guard lock(c.mutex);
  Live live;
  live.device_bytes = c.memory.live_bytes();
  live.device_allocations = static_cast<int>(c.memory.allocations());
  for (const auto& [address, range] : c.pinned) live.pinned_bytes += range.bytes;
  live.pinned_allocations = static_cast<int>(c.pinned.size());
  live.streams = static_cast<int>(c.streams.size());
  live.events = static_cast<int>(c.events.size());
  live.graphs = static_cast<int>(c.graphs.size() + c.graph_execs.size());
  for (const auto& context : c.contexts) live.contexts += context->ended ? 0 : 1;
  live.in_contexts = static_cast<int>(c.owners.size());
  live.primary_context_used = c.primary_used;
  return live;
}

size_t pending_operations() {
  Card& c = card();
  const std::lock_guard lock(c.mutex);
  size_t pending = c.legacy.queue.size();
  for (const CUstream_st* stream : c.streams) pending += stream->queue.size();
  return pending;
}

}  // namespace banter::cuda_emulator

using banter::cuda_emulator::card;

cudaError_t cudaGetLastError() {
  const std::lock_guard lock(card().mutex);
  const cudaError_t sticky = card().lost ? cudaErrorLaunchFailure : card().device_error;
  const cudaError_t error = sticky != cudaSuccess ? sticky : banter::cuda_emulator::last_error;
  banter::cuda_emulator::last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(card().mutex);
  const cudaError_t sticky = card().lost ? cudaErrorLaunchFailure : card().device_error;
  return sticky != cudaSuccess ? sticky : banter::cuda_emulator::last_error;
}
