#include "backend_cpu/kernels.h"

#define BANTER_ISA Isa::kScalar
#include "base/half.h"

#define BANTER_INLINE inline  // vectors are arrays here: inlining all of it takes minutes and a megabyte

namespace banter::cpu {
namespace scalar {
// clang-format off
#include "backend_cpu/simd_scalar-inl.h"
#include "backend_cpu/table-inl.h"
// clang-format on
}  // namespace scalar

const Kernels& scalar_kernels() {
  return scalar::kTable;
}

}  // namespace banter::cpu
