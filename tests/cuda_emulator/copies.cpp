// Device and pinned memory, copies and their checks.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cuda_emulator/card.h"

namespace banter::cuda_emulator {

bool is_pinned(const void* pointer, size_t bytes) {
  const auto& pinned = card().pinned;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto it = pinned.upper_bound(address);
  if (it == pinned.begin()) return false;
  --it;
  return address + bytes <= it->first + it->second.bytes;
}

bool check_device_range(const void* pointer, size_t bytes, const char* what) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const DeviceMemory& memory = card().memory;
  if (!memory.contains(address)) {
    report_host(FaultKind::kInvalidPointer, pointer, std::string(what) + ": no device memory");
    return false;
  }
  const DeviceMemory::State state = bytes == 0 ? DeviceMemory::State::kLive : memory.state(address, bytes);
  if (state == DeviceMemory::State::kLive) return true;
  char text[160];
  if (state == DeviceMemory::State::kFreed) {
    report_host(FaultKind::kUseAfterFree, pointer, std::string(what) + ": the memory was freed");
  } else {
    report_host(FaultKind::kOutOfBounds, pointer,
                std::string(what) + ": " + std::to_string(bytes) + " bytes at " + memory.describe(address, text));
  }
  return false;
}

namespace {

/** One end of a copy: on the device or not as the kind says. */
bool check_end(const void* pointer, size_t bytes, bool device, bool async, const char* what) {
  if (device) return check_device_range(pointer, bytes, what);
  if (pointer == nullptr || card().memory.contains(reinterpret_cast<uintptr_t>(pointer))) {
    report_host(FaultKind::kInvalidPointer, pointer, std::string(what) + ": no host memory");
    return false;
  }
  if (async && card().config.report_pageable_copies && !is_pinned(pointer, bytes)) {
    report_host(FaultKind::kPageableMemory, pointer, std::string(what) + ": not pinned, or beyond what is");
  }
  return true;
}

}  // namespace

bool check_copy(const Operation& copy, cudaMemcpyKind kind, bool async) {
  const DeviceMemory& memory = card().memory;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) {
    from_device = memory.contains(reinterpret_cast<uintptr_t>(copy.from));
    to_device = memory.contains(reinterpret_cast<uintptr_t>(copy.to));
  }
  if (copy.bytes == 0 || copy.height == 0) return true;
  const size_t from_bytes = (copy.height - 1) * copy.from_pitch + copy.bytes;
  const size_t to_bytes = (copy.height - 1) * copy.to_pitch + copy.bytes;
  return check_end(copy.from, from_bytes, from_device, async, "source of a copy") &&
         check_end(copy.to, to_bytes, to_device, async, "destination of a copy");
}

namespace {

cudaError_t copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                 cudaMemcpyKind kind, cudaStream_t handle) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (width > to_pitch || width > from_pitch) return call.done(cudaErrorInvalidValue);
  Operation operation = {};
  operation.kind = Operation::Kind::kCopy;
  operation.to = to, operation.from = from, operation.bytes = width, operation.height = height;
  operation.to_pitch = to_pitch, operation.from_pitch = from_pitch;
  if (!check_copy(operation, kind, true)) return call.done(cudaErrorInvalidValue);
  operation.from_pinned = is_pinned(from, 1);
  operation.to_pinned = is_pinned(to, 1);
  return call.done(enqueue(*stream, std::move(operation)));
}

cudaError_t allocate_pinned(void** pointer, size_t bytes) {
  Call call(Call::Kind::kAllocate);
  if (call.failed()) return call.error();
  if (const cudaError_t error = forbidden_by_capture(); error != cudaSuccess) return call.done(error);
  if (pointer == nullptr) return call.done(cudaErrorInvalidValue);
  std::unique_ptr<void, decltype(&std::free)> memory(nullptr, &std::free);
  if (bytes != 0) {
    memory.reset(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    if (memory == nullptr) return call.done(cudaErrorMemoryAllocation);
    std::memset(memory.get(), 0xFF, bytes);
    card().pinned[reinterpret_cast<uintptr_t>(memory.get())] = {bytes, false};  // may throw in tests of allocations
  }
  if (memory != nullptr) own(memory.get());
  *pointer = memory.release();
  return call.done(cudaSuccess);
}

}  // namespace
}  // namespace banter::cuda_emulator

using namespace banter::cuda_emulator;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  Call call(Call::Kind::kAllocate);
  if (call.failed()) return call.error();
  if (const cudaError_t error = forbidden_by_capture(); error != cudaSuccess) return call.done(error);
  if (pointer == nullptr) return call.done(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return call.done(cudaSuccess);
  Card& c = card();
  if (c.memory.live_bytes() + bytes > c.config.memory_bytes) return call.done(cudaErrorMemoryAllocation);
  *pointer = c.memory.allocate(bytes);
  if (*pointer != nullptr) own(*pointer);
  return call.done(*pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* pointer) {
  Call call(Call::Kind::kRelease);
  if (pointer == nullptr) return call.done(cudaSuccess);
  if (const cudaError_t error = forbidden_by_capture(); error != cudaSuccess) return call.done(error);
  if (!is_of_current(pointer, "device memory")) return call.done(cudaErrorInvalidValue);
  card().owners.erase(pointer);
  if (card().memory.release(pointer) != 0) return call.done(cudaSuccess);
  report_host(FaultKind::kUseAfterFree, pointer, "cudaFree of no live allocation");
  return call.done(cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return allocate_pinned(pointer, bytes);
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return allocate_pinned(pointer, bytes);
}

cudaError_t cudaFreeHost(void* pointer) {
  Call call(Call::Kind::kRelease);
  if (pointer == nullptr) return call.done(cudaSuccess);
  auto& pinned = card().pinned;
  const auto it = pinned.find(reinterpret_cast<uintptr_t>(pointer));
  if (it == pinned.end() || it->second.registered) {
    report_host(FaultKind::kUseAfterFree, pointer, "cudaFreeHost of no live allocation");
    return call.done(cudaErrorInvalidValue);
  }
  if (!is_of_current(pointer, "pinned memory")) return call.done(cudaErrorInvalidValue);
  card().owners.erase(pointer);
  std::memset(pointer, 0xFF, it->second.bytes);
  pinned.erase(it);
  std::free(pointer);
  return call.done(cudaSuccess);
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  Call call(Call::Kind::kAllocate);
  if (call.failed()) return call.error();
  if (pointer == nullptr || bytes == 0) return call.done(cudaErrorInvalidValue);
  if (is_pinned(pointer, 1)) return call.done(cudaErrorHostMemoryAlreadyRegistered);
  card().pinned[reinterpret_cast<uintptr_t>(pointer)] = {bytes, true};
  return call.done(cudaSuccess);
}

cudaError_t cudaHostUnregister(void* pointer) {
  Call call(Call::Kind::kRelease);
  auto& pinned = card().pinned;
  const auto it = pinned.find(reinterpret_cast<uintptr_t>(pointer));
  if (it == pinned.end() || !it->second.registered) return call.done(cudaErrorHostMemoryNotRegistered);
  pinned.erase(it);
  return call.done(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Call call;
  if (call.failed()) return call.error();
  const Card& c = card();
  *total = c.config.memory_bytes;
  *free = c.config.memory_bytes - std::min(c.memory.live_bytes(), c.config.memory_bytes);
  return call.done(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  Call call;
  if (call.failed()) return call.error();
  *attributes = {};
  if (card().memory.contains(reinterpret_cast<uintptr_t>(pointer))) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(pointer);
  } else {
    attributes->type = is_pinned(pointer, 1) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    attributes->hostPointer = const_cast<void*>(pointer);
  }
  return call.done(cudaSuccess);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  Call call;
  if (call.failed()) return call.error();
  if (const cudaError_t error = forbidden_by_capture(); error != cudaSuccess) return call.done(error);
  Operation operation = {};
  operation.kind = Operation::Kind::kCopy;
  operation.to = to, operation.from = from;
  operation.bytes = operation.to_pitch = operation.from_pitch = bytes;
  if (!check_copy(operation, kind, false)) return call.done(cudaErrorInvalidValue);
  drain_legacy();
  if (card().device_error == cudaSuccess) execute(operation);
  return call.done(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, to_pitch, from, from_pitch, width, height, kind, stream);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (!check_device_range(to, bytes, "cudaMemset")) return call.done(cudaErrorInvalidValue);
  Operation operation = {};
  operation.kind = Operation::Kind::kSet;
  operation.to = to, operation.value = value, operation.bytes = bytes;
  return call.done(enqueue(*stream, std::move(operation)));
}
