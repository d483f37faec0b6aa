// The CUDA context that the backend computes in: the card's primary one, or one that the game gives (banter_cuda_context).
//
// A context is what the driver keeps memory, streams and kernels in. Each thread has a stack of them; calls of the runtime act
// in the topmost, or, where there is none, in the primary context of the card that cudaSetDevice() chose. So a context of the
// game's is pushed around our calls, on whichever thread they come from, and popped after them. The driver's functions that
// this takes are asked of the runtime: nothing links the driver's library.
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
  /** For a device and context that choose_device() approved of; `wanted` is null for the primary context.
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
  cudaError_t push() const noexcept;

  const int32_t device_;
  Driver driver_;
  DriverContext* handle_ = nullptr;  // null: the primary context
  bool is_ours_ = false;             // handle_ was made here
  /** A push failed once: the context ended, or the card is lost. Its handle is never used again. */
  mutable std::atomic<bool> is_lost_ = false;

  // CUDA in graphics with Vulkan
  void* vulkan_device_ = nullptr;
  void* external_queue_ = nullptr;
  void (*destroy_queue_)(void* device, void* queue, const void* allocator) = nullptr;
  std::vector<std::byte> queue_data_;
};

/** Makes a context current on this thread for as long as it lives; what was current before is so again afterwards (but for the
 *  primary context, which a thread that had none keeps). Ends on the thread that it began on, before the context does. */
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
};

}  // namespace banter::cuda
