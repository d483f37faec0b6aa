// Owners of what the CUDA runtime hands out, and its errors as ours.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"

namespace banter::cuda {

/** OK, or OUT_OF_MEMORY or BACKEND with what was done and what the runtime says. */
Result<void> check(cudaError_t status, const char* what);
Error out_of_memory(size_t bytes, const char* what);

/** Memory of the device (plain cudaMalloc) or page-locked memory of the host, given back when destroyed. */
template <cudaError_t (*kAllocate)(void**, size_t), cudaError_t (*kFree)(void*)>
class Memory {
 public:
  Memory() = default;
  ~Memory() { reset(); }
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  /** Frees what there was and allocates anew; contents are undefined. After an error there is none. */
  Result<void> allocate(size_t bytes, const char* what) {
    reset();
    void* memory = nullptr;
    const cudaError_t status = kAllocate(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // not sticky: the next call starts clean
      return out_of_memory(bytes, what);
    }
    if (status != cudaSuccess) return check(status, what);
    data_ = memory;
    bytes_ = bytes;
    return {};
  }
  void reset() {
    if (data_ != nullptr) static_cast<void>(kFree(data_));
    data_ = nullptr;
    bytes_ = 0;
  }
  /** Forgets it without giving it back: its context is gone. */
  void abandon() {
    data_ = nullptr;
    bytes_ = 0;
  }
  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

inline cudaError_t allocate_device(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes);
}
inline cudaError_t allocate_pinned(void** memory, size_t bytes) {
  return cudaMallocHost(memory, bytes);
}
using DeviceMemory = Memory<allocate_device, cudaFree>;
using PinnedMemory = Memory<allocate_pinned, cudaFreeHost>;

/** A stream, as unimportant as the device knows: the game's own work goes first. */
class Stream {
 public:
  Stream() = default;
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Result<void> create();
  cudaStream_t get() const { return stream_; }
  void abandon() { stream_ = nullptr; }  // as Memory's

 private:
  cudaStream_t stream_ = nullptr;
};

/** An event whose waiter sleeps, so that a waiting engine thread leaves the processor to the game. */
class Event {
 public:
  Event() = default;
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /** The first time; again it does nothing. */
  Result<void> create();
  Result<void> record(const Stream& stream);
  Result<void> wait();
  void abandon() { event_ = nullptr; }  // as Memory's

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace banter::cuda
