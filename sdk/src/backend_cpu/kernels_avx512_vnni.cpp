#include "backend_cpu/kernels.h"

#define BANTER_ISA Isa::kAvx512Vnni
#define BANTER_VNNI 1

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header builds "undefined" vectors from themselves and warns of it when it inlines them (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
#endif
namespace banter::cpu::avx512_vnni {
// clang-format off
#include "backend_cpu/simd_avx512-inl.h"
#include "backend_cpu/table-inl.h"
// clang-format on
}  // namespace banter::cpu::avx512_vnni
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace banter::cpu {
const Kernels& avx512_vnni_kernels() {
  return avx512_vnni::kTable;
}
}  // namespace banter::cpu

#else

namespace banter::cpu {
/** Never asked for: available_isas() lists only what the processor has. */
const Kernels& avx512_vnni_kernels() {
  return scalar_kernels();
}
}  // namespace banter::cpu

#endif
