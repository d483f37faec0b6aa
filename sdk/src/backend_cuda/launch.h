// The one way to launch a kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "backend_cuda/device.h"

namespace banter::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  // at most kSharedLimit
};

/** Queues `kernel(argument)` on the stream. Every kernel takes one struct by value, at most 4 KiB, so that a call says
 *  what each argument is. An empty grid is no launch. Errors: the runtime's; a lost device reports through all calls. */
template <class Args>
cudaError_t launch(void (*kernel)(Args), const LaunchShape& shape, cudaStream_t stream, const Args& args) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return cudaSuccess;
  if (shape.shared_bytes > kSharedLimit) return cudaErrorInvalidConfiguration;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, args);
}

}  // namespace banter::cuda
