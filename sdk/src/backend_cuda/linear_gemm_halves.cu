// Many rows times float16 and bfloat16 weights. See linear_gemm.h.
#include "backend_cuda/linear_gemm.h"

namespace banter::cuda {

cudaError_t launch_gemm_halves(ops::FormId form, const ProductArgs& args, const DeviceLimits& device,
                               cudaStream_t stream) {
  if (form == ops::FormId::kF16) return launch_gemm_form<ops::FormId::kF16>(args, device, stream);
  if (form == ops::FormId::kBF16) return launch_gemm_form<ops::FormId::kBF16>(args, device, stream);
  return cudaErrorInvalidValue;
}

}  // namespace banter::cuda
