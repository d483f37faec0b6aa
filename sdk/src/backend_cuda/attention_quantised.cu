// Attention over INT8 and INT4 pages, and their F16 companions: attention_kernel.h.
#include "backend_cuda/attention_body.h"

namespace banter::cuda {

cudaError_t launch_attention_quantised(const AttentionKernel& kernel, int32_t tiles, int32_t query_rows,
                                       const DeviceLimits& device, KernelQueue queue) {
  return launch_attention<true>(kernel, tiles, query_rows, device, queue);
}

}  // namespace banter::cuda
