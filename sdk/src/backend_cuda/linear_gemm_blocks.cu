// Many rows times the types whose blocks of 32 columns stand alone. See linear_gemm.h.
#include "backend_cuda/linear_gemm.h"

namespace banter::cuda {

cudaError_t launch_gemm_blocks(ops::FormId form, const ProductArgs& args, const DeviceLimits& device,
                               KernelQueue queue) {
  switch (form) {
    case ops::FormId::kQ8_0:
      return launch_gemm_form<ops::FormId::kQ8_0>(args, device, queue);
    case ops::FormId::kQ4_0:
      return launch_gemm_form<ops::FormId::kQ4_0>(args, device, queue);
    case ops::FormId::kQ4_1:
      return launch_gemm_form<ops::FormId::kQ4_1>(args, device, queue);
    case ops::FormId::kQ5_0:
      return launch_gemm_form<ops::FormId::kQ5_0>(args, device, queue);
    case ops::FormId::kQ5_1:
      return launch_gemm_form<ops::FormId::kQ5_1>(args, device, queue);
    case ops::FormId::kIQ4_NL:
      return launch_gemm_form<ops::FormId::kIQ4_NL>(args, device, queue);
    case ops::FormId::kMXFP4:
      return launch_gemm_form<ops::FormId::kMXFP4>(args, device, queue);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace banter::cuda
