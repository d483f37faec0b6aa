// Norm, rotary embedding with KV write, and attention: kernels that work on rows, one table per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/backend.h"

namespace banter::cpu {

/** Cosines and sines of one row's position: [n_rot / 2] each, magnitude included. */
struct RowRotation {
  const float* cosine = nullptr;
  const float* sine = nullptr;
  int32_t pairs = 0;
  bool adjacent = false;
};

/** Query rows of one sequence that share a KV head; see attention-inl.h. */
struct AttentionUnit {
  const ops::AttentionParams* params = nullptr;
  const ops::StepSequence* sequence = nullptr;
  int32_t kv_head = 0;
  int32_t first = 0;  // rows of the sequence, relative to its first row
  int32_t rows = 0;   // rows · (heads / kv_heads) ≤ kAttentionQueries, or rows = 1
};

inline constexpr int32_t kAttentionQueries = 64;  // query vectors that share one pass over the cache
inline constexpr int32_t kAttentionBlock = 64;    // keys that are read together; blocks lie at absolute positions

/** Floats of scratch that attention needs for a unit of `queries` vectors. */
size_t attention_scratch_floats(int32_t head_dim, int32_t queries);

struct RowKernels {
  /** One row of ops::NormParams. */
  void (*norm)(const ops::NormParams& params, int32_t row);
  /** One row of ops::RopeKvParams; K and V go to `position` of `sequence`. `scratch`: head_dim floats, 64-byte aligned.
   */
  void (*rope_kv)(const ops::RopeKvParams& params, const RowRotation& rotation, const ops::StepSequence& sequence,
                  int32_t row, int32_t position, float* scratch);
  /** One unit; `scratch` of attention_scratch_floats(), 64-byte aligned. */
  void (*attention)(const AttentionUnit& unit, float* scratch);
};

const RowKernels& row_kernels_scalar();
const RowKernels& row_kernels_avx2();
const RowKernels& row_kernels_avx512();

}  // namespace banter::cpu
