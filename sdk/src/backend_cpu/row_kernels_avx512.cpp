// Norm, rotary embedding and attention for avx512.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend_cpu/row_kernels.h"
#include "base/half.h"

// g++ 12 takes the undefined pass-through operand inside its own intrinsics for a fault of ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")

namespace banter::cpu {
namespace rows_avx512 {

// The order matters: blank lines keep it.
#define BANTER_VECTOR_BITS 512
#include "backend_cpu/vector-inl.h"

#include "backend_cpu/norm-inl.h"

#include "backend_cpu/cache-inl.h"

#include "backend_cpu/rope-inl.h"

#include "backend_cpu/attention-inl.h"

}  // namespace rows_avx512

const RowKernels& row_kernels_avx512() {
  static constexpr RowKernels kernels = {rows_avx512::norm_row, rows_avx512::rope_kv_row, rows_avx512::attention_unit};
  return kernels;
}

}  // namespace banter::cpu

#pragma GCC pop_options
#pragma GCC diagnostic pop
