#include "backend_cpu/row_kernels.h"

namespace banter::cpu {

size_t attention_scratch_floats(int32_t head_dim, int32_t queries) {
  const size_t padded = (static_cast<size_t>(head_dim) + 15) / 16 * 16, n = static_cast<size_t>(queries);
  // Keys or values, scores, outputs, sums; then one pointer (two floats) and one maximum a query, see attention-inl.h.
  return padded * kAttentionBlock + n * (kAttentionBlock + padded + 16) + 3 * n + 16;
}

}  // namespace banter::cpu
