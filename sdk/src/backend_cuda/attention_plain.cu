// Attention over F16 and BF16 pages: attention_kernel.h.
#include "backend_cuda/attention_body.h"

namespace banter::cuda {

cudaError_t launch_attention_plain(const AttentionKernel& kernel, int32_t tiles, int32_t query_rows,
                                   const DeviceLimits& device, KernelQueue queue) {
  return launch_attention<false>(kernel, tiles, query_rows, device, queue);
}

}  // namespace banter::cuda
