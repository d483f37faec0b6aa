// The one way to launch a kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "backend_cuda/device.h"
#include "backend_cuda/kernel_queue.h"

namespace banter::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  // at most kSharedLimit
};

/** Puts `kernel(argument)` into the queue. Every kernel takes one struct by value, at most 4 KiB, so that a call says
 *  what each argument is. An empty grid is no launch. Errors: the runtime's; a lost device reports through all calls. */
template <class Args>
cudaError_t launch(void (*kernel)(Args), const LaunchShape& shape, KernelQueue queue, const Args& args) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return cudaSuccess;
  if (shape.shared_bytes > kSharedLimit) return cudaErrorInvalidConfiguration;
  if (KernelChain* const chain = queue.chain(); chain != nullptr) {
    void* parameters[] = {const_cast<Args*>(&args)};  // copied at once
    cudaKernelNodeParams node = {};
    node.func = reinterpret_cast<void*>(kernel);
    node.gridDim = shape.grid;
    node.blockDim = shape.block;
    node.sharedMemBytes = static_cast<unsigned>(shape.shared_bytes);
    node.kernelParams = parameters;
    cudaGraphNode_t added = nullptr;
    const size_t before = chain->last == nullptr ? 0 : 1;
    const cudaError_t status = cudaGraphAddKernelNode(&added, chain->graph, &chain->last, before, &node);
    if (status == cudaSuccess) chain->last = added;
    return status;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = queue.stream();
  return cudaLaunchKernelEx(&config, kernel, args);
}

}  // namespace banter::cuda
