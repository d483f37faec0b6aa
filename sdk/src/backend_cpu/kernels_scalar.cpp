#include "backend_cpu/kernels.h"
#include "base/half.h"

#define BANTER_INLINE inline  // vectors are arrays here: inlining all of it takes minutes and a megabyte

namespace banter::cpu {
namespace scalar {
#include "backend_cpu/elementwise-inl.h"
#include "backend_cpu/linear-inl.h"
#include "backend_cpu/simd_scalar-inl.h"
BANTER_KERNEL_TABLE(Isa::kScalar);
}  // namespace scalar

const Kernels& scalar_kernels() {
  return scalar::kTable;
}

}  // namespace banter::cpu
