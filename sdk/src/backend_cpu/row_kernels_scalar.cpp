// Norm, rotary embedding and attention for scalar.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend_cpu/row_kernels.h"
#include "base/half.h"

namespace banter::cpu {
namespace rows_scalar {

// The order matters: blank lines keep it.
#define BANTER_VECTOR_BITS 0
#include "backend_cpu/vector-inl.h"

#include "backend_cpu/norm-inl.h"

#include "backend_cpu/cache-inl.h"

#include "backend_cpu/rope-inl.h"

#include "backend_cpu/attention-inl.h"

}  // namespace rows_scalar

const RowKernels& row_kernels_scalar() {
  static constexpr RowKernels kernels = {rows_scalar::norm_row, rows_scalar::rope_kv_row, rows_scalar::attention_unit};
  return kernels;
}

}  // namespace banter::cpu
