#include "backend_cpu/row_kernels.h"

namespace banter::cpu {

size_t attention_scratch_floats(int32_t head_dim, int32_t queries) {
  const size_t dim = static_cast<size_t>(head_dim), padded = (dim + 15) / 16 * 16, n = static_cast<size_t>(queries);
  // keys, values, scores, outputs, sums; then one pointer (two floats) and one maximum a query, see attention-inl.h.
  return dim * kAttentionBlock + padded * kAttentionBlock + n * (kAttentionBlock + padded + 16) + 3 * n + 16;
}

}  // namespace banter::cpu
