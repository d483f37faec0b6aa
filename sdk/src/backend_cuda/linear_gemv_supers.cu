// Few rows times the types with super-blocks of 256 columns. See linear_gemv.h.
#include "backend_cuda/linear_gemv.h"

namespace banter::cuda {

cudaError_t launch_gemv_supers(ops::FormId form, const ProductArgs& args, KernelQueue queue) {
  switch (form) {
    case ops::FormId::kQ2_K:
      return launch_gemv_form<ops::FormId::kQ2_K>(args, queue);
    case ops::FormId::kQ3_K:
      return launch_gemv_form<ops::FormId::kQ3_K>(args, queue);
    case ops::FormId::kQ4_K:
      return launch_gemv_form<ops::FormId::kQ4_K>(args, queue);
    case ops::FormId::kQ5_K:
      return launch_gemv_form<ops::FormId::kQ5_K>(args, queue);
    case ops::FormId::kQ6_K:
      return launch_gemv_form<ops::FormId::kQ6_K>(args, queue);
    case ops::FormId::kIQ4_XS:
      return launch_gemv_form<ops::FormId::kIQ4_XS>(args, queue);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace banter::cuda
