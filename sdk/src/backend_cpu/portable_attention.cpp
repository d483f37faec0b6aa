#include <algorithm>
#include <cmath>

#include "backend_cpu/op_context.h"
#include "base/half.h"

namespace banter::cpu {
namespace {

constexpr int32_t kMaxHeadDim = 1024;

/** One row and head: softmax with a running maximum, positions in order. */
void attend(const ops::AttentionParams& p, const ops::StepSequence& sequence, int32_t position, int32_t head,
            const float* q, float* out) {
  const ops::KvGeometry& geometry = p.kv->geometry;
  const int32_t dim = geometry.head_dim;
  const int32_t kv_head = head / (p.heads / geometry.kv_heads);
  const size_t vector_bytes = ops::kv_vector_bytes(geometry.type, dim);
  float total[kMaxHeadDim] = {};
  float maximum = -INFINITY;
  float weight_sum = 0;
  const int32_t begin = p.window > 0 ? std::max(0, position - p.window + 1) : 0;
  for (int32_t t = begin; t <= position; ++t) {
    const int32_t page = sequence.page_tables[p.kv->group][t / geometry.page_tokens];
    if (page < 0) continue;
    const std::byte* base = p.kv->slab + static_cast<size_t>(page) * p.kv->page_stride +
                            static_cast<size_t>(t % geometry.page_tokens) * vector_bytes;
    const auto* key = reinterpret_cast<const uint16_t*>(base + geometry.offset(p.layer, 0, kv_head));
    const auto* value = reinterpret_cast<const uint16_t*>(base + geometry.offset(p.layer, 1, kv_head));
    float score = 0;
    for (int32_t i = 0; i < dim; ++i) score += q[i] * half_to_float(key[i]);
    score *= p.scale;
    if (p.softcap > 0) score = p.softcap * std::tanh(score / p.softcap);
    if (score > maximum) {
      const float shrink = std::exp(maximum - score);
      weight_sum *= shrink;
      for (int32_t i = 0; i < dim; ++i) total[i] *= shrink;
      maximum = score;
    }
    const float weight = std::exp(score - maximum);
    weight_sum += weight;
    for (int32_t i = 0; i < dim; ++i) total[i] += weight * half_to_float(value[i]);
  }
  for (int32_t i = 0; i < dim; ++i) out[i] = total[i] / weight_sum;
}

}  // namespace

// q, out [rows][heads][dim]. A unit is a row and a head.
void attention(const OpContext& context, const ops::AttentionParams& params) {
  const int32_t dim = params.kv->geometry.head_dim;
  for (const ops::StepSequence& sequence : context.step.sequences) {
    context.pool.for_each(sequence.rows * params.heads, [&](int32_t unit, int32_t) {
      const int32_t row = unit / params.heads;
      const size_t at = (static_cast<size_t>(sequence.first_row) * params.heads + unit) * static_cast<size_t>(dim);
      attend(params, sequence, sequence.position + row, unit % params.heads, params.q + at, params.out + at);
    });
  }
}

}  // namespace banter::cpu
