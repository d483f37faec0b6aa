// Norm, rotary embedding and attention for avx2.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend_cpu/row_kernels.h"
#include "base/half.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

namespace banter::cpu {
namespace rows_avx2 {

// The order matters: blank lines keep it.
#define BANTER_VECTOR_BITS 256
#include "backend_cpu/vector-inl.h"

#include "backend_cpu/norm-inl.h"

#include "backend_cpu/cache-inl.h"

#include "backend_cpu/rope-inl.h"

#include "backend_cpu/attention-inl.h"

}  // namespace rows_avx2

const RowKernels& row_kernels_avx2() {
  static constexpr RowKernels kernels = {rows_avx2::norm_row, rows_avx2::rope_kv_row, rows_avx2::attention_unit};
  return kernels;
}

}  // namespace banter::cpu

#pragma GCC pop_options
