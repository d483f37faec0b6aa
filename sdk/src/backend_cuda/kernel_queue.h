// Where kernels go.
#pragma once

#include <cuda_runtime.h>

namespace banter::cuda {

/** A graph under construction, whose kernels run one after the other. */
struct KernelChain {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t last = nullptr;
};

/** A stream, where they run; or a chain, to be run later, which outlives this. */
class KernelQueue {
 public:
  KernelQueue(cudaStream_t stream) : stream_(stream) {}  // NOLINT(google-explicit-constructor)
  KernelQueue(KernelChain& chain) : chain_(&chain) {}    // NOLINT(google-explicit-constructor)

  cudaStream_t stream() const { return stream_; }
  KernelChain* chain() const { return chain_; }

 private:
  cudaStream_t stream_ = nullptr;
  KernelChain* chain_ = nullptr;
};

}  // namespace banter::cuda
