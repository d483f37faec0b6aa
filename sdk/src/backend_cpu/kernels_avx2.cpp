#include "backend_cpu/kernels.h"

#define BANTER_ISA Isa::kAvx2

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace banter::cpu::avx2 {
// clang-format off
#include "backend_cpu/simd_avx2-inl.h"
#include "backend_cpu/table-inl.h"
// clang-format on
}  // namespace banter::cpu::avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace banter::cpu {
const Kernels& avx2_kernels() {
  return avx2::kTable;
}
}  // namespace banter::cpu

#else

namespace banter::cpu {
/** Never asked for: available_isas() lists only what the processor has. */
const Kernels& avx2_kernels() {
  return scalar_kernels();
}
}  // namespace banter::cpu

#endif
