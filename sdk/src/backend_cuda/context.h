// The CUDA context that the backend computes in: the card's primary one, or one that the game gives (banter_cuda_context).
//
// A context is what the driver keeps memory, streams and kernels in. Each thread has a stack of them; calls of the runtime act
// in the topmost, or, where there is none, in the primary context of the card that cudaSetDevice() chose. So a context of the
// game's is pushed around our calls, on whichever thread they come from, and popped after them. The driver's functions that
// this takes are asked of the runtime: nothing links the driver's library.
//
// A context that is scheduled with the game's rendering is made once, and all models share it: a device has the external queues
// that the game reserved for it, one, and a process one such context.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend_cuda/cuda_backend.h"
#include "backend_cuda/driver.h"
#include "base/result.h"

namespace banter::cuda {

class Context {
 public:
  /** For a device and context that choose_device() approved of; `wanted` is null for the primary context. Any thread.
   *  Errors: UNSUPPORTED when the driver or the card cannot do what is wanted, BACKEND when a call fails. */
  static Result<std::shared_ptr<const Context>> open(const DeviceChoice& choice, const banter_cuda_context* wanted);
  /** Ends a context that open() made. Nothing that was made in it may be left. */
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  friend class Current;
  explicit Context(int32_t device) : device_(device) {}
  Result<void> join_graphics(const banter_cuda_context& wanted);
  Result<void> create_queue(const banter_cuda_context& wanted);
  Result<void> inspect() const;
  Result<void> note_id();
  cudaError_t enter() const noexcept;
  cudaError_t push() const noexcept;
  void pop() const noexcept;
  friend class SharedContexts;

  const int32_t device_;
  Driver driver_;
  DriverContext* handle_ = nullptr;  // null: the primary context
  bool is_ours_ = false;             // handle_ was made here
  unsigned long long id_ = 0;        // the driver's, never given twice; 0: it does not tell
  /** A push failed once, or led to another context: this one ended, or the card is lost. It is never used again. */
  mutable std::atomic<bool> is_lost_ = false;

  // CUDA in graphics with Vulkan
  void* vulkan_device_ = nullptr;
  void* external_queue_ = nullptr;
  void (*destroy_queue_)(void* device, void* queue, const void* allocator) = nullptr;
  std::vector<std::byte> queue_data_;
};

/** Makes a context current on this thread for as long as it lives; what was current before is so again afterwards (but for the
 *  primary context, which a thread that had none keeps). Meanwhile streams that the game captures on other threads are its own
 *  affair: neither do they forbid our calls, nor are they ended by them. Ends on the thread that it began on, before the context
 *  does. */
class Current {
 public:
  explicit Current(const Context& context) noexcept;
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  /** Whether calls may be made now. */
  explicit operator bool() const { return status_ == cudaSuccess; }
  /** BACKEND, when it is false. */
  Error error() const;
  /** The game's context is gone, and everything that was made in it. Giving it back would reach other contexts' memory. */
  bool is_lost() const { return context_.is_lost_; }

 private:
  const Context& context_;
  const cudaError_t status_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // the thread's own meanwhile
  bool changed_mode_ = false;
};

}  // namespace banter::cuda
