// Many rows times float16 and bfloat16 weights. See linear_gemm.h.
#include "backend_cuda/linear_gemm.h"

namespace banter::cuda {

cudaError_t launch_gemm_halves(ops::FormId form, const ProductArgs& args, const DeviceLimits& device,
                               KernelQueue queue) {
  if (form == ops::FormId::kF16) return launch_gemm_form<ops::FormId::kF16>(args, device, queue);
  if (form == ops::FormId::kBF16) return launch_gemm_form<ops::FormId::kBF16>(args, device, queue);
  return cudaErrorInvalidValue;
}

}  // namespace banter::cuda
