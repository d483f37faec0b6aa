// Many rows times the types with super-blocks of 256 columns. See linear_gemm.h.
#include "backend_cuda/linear_gemm.h"

namespace banter::cuda {

cudaError_t launch_gemm_supers(ops::FormId form, const ProductArgs& args, const DeviceLimits& device,
                               KernelQueue queue) {
  switch (form) {
    case ops::FormId::kQ2_K:
      return launch_gemm_form<ops::FormId::kQ2_K>(args, device, queue);
    case ops::FormId::kQ3_K:
      return launch_gemm_form<ops::FormId::kQ3_K>(args, device, queue);
    case ops::FormId::kQ4_K:
      return launch_gemm_form<ops::FormId::kQ4_K>(args, device, queue);
    case ops::FormId::kQ5_K:
      return launch_gemm_form<ops::FormId::kQ5_K>(args, device, queue);
    case ops::FormId::kQ6_K:
      return launch_gemm_form<ops::FormId::kQ6_K>(args, device, queue);
    case ops::FormId::kIQ4_XS:
      return launch_gemm_form<ops::FormId::kIQ4_XS>(args, device, queue);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace banter::cuda
