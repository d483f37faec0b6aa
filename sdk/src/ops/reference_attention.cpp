// The reference backend's rotary embedding and attention.
#include <cassert>
#include <cmath>

#include "ops/reference_backend.h"

namespace banter::ops {

namespace {

// v = rope(norm(v)) − shift for one head vector, then with `spread` the rotation of quantised pages, written to `out`
// (may be v). Sums and angles in float64.
void norm_and_rotate(const float* v, const float* norm, float epsilon, const RopeSpec* rope, int32_t position,
                     const float* shift, int32_t head_dim, bool spread, double* scratch, float* out) {
  double scale = 1.0;
  if (norm != nullptr) {
    double sum = 0;
    for (int32_t i = 0; i < head_dim; ++i) sum += static_cast<double>(v[i]) * v[i];
    scale = 1.0 / std::sqrt(sum / head_dim + epsilon);
  }
  for (int32_t i = 0; i < head_dim; ++i) scratch[i] = norm == nullptr ? v[i] : v[i] * scale * norm[i];
  if (rope != nullptr) {
    const size_t pairs = rope->inverse_frequency.size();
    for (size_t k = 0; k < pairs; ++k) {
      const double angle = position * rope->inverse_frequency[k];
      const double cosine = std::cos(angle) * rope->magnitude, sine = std::sin(angle) * rope->magnitude;
      double& a = scratch[rope->adjacent_pairs ? 2 * k : k];
      double& b = scratch[rope->adjacent_pairs ? 2 * k + 1 : k + pairs];
      const double x = a, y = b;
      a = x * cosine - y * sine;
      b = x * sine + y * cosine;
    }
  }
  for (int32_t i = 0; shift != nullptr && i < head_dim; ++i) scratch[i] -= shift[i];
  if (spread) rotate_hadamard(scratch, head_dim);
  for (int32_t i = 0; i < head_dim; ++i) out[i] = static_cast<float>(scratch[i]);
}

}  // namespace

void ReferenceBackend::rope_kv(const RopeKvParams& params) {
  const KvPages& kv = *params.kv;
  const int32_t head_dim = kv.geometry.head_dim, kv_heads = kv.geometry.kv_heads;
  const RopeSpec* rope = params.rope == nullptr ? nullptr : &static_cast<const ReferenceRope*>(params.rope)->spec;
  assert(rope == nullptr || rope->inverse_frequency.size() * 2 <= static_cast<size_t>(head_dim));
  const bool spread = kv_is_quantised(kv.geometry.type);
  pool_.for_each(step_.rows(), [&](int32_t row, int32_t thread) {
    const StepSequence& sequence = step_.sequences[static_cast<size_t>(sequence_of_row_[static_cast<size_t>(row)])];
    const int32_t position = step_.positions[static_cast<size_t>(row)];
    std::vector<double>& work = scratch(thread).scores;
    std::vector<float>& rotated = scratch(thread).row;
    if (work.size() < static_cast<size_t>(head_dim)) work.resize(static_cast<size_t>(head_dim));
    if (rotated.size() < static_cast<size_t>(head_dim)) rotated.resize(static_cast<size_t>(head_dim));
    for (int32_t h = 0; h < params.heads; ++h) {
      float* q = params.q + (static_cast<size_t>(row) * params.heads + h) * head_dim;
      norm_and_rotate(q, params.q_norm, params.epsilon, rope, position, nullptr, head_dim, spread, work.data(), q);
    }
    for (int32_t h = 0; h < kv_heads; ++h) {
      const size_t start = (static_cast<size_t>(row) * kv_heads + h) * head_dim;
      const auto store = [&](int value) {
        store_kv(kv, sequence, params.layer, value, h, position, rotated.data());
        if (spread && params.recent != nullptr) {
          store_kv(*params.recent, sequence, params.layer, value, h, position, rotated.data());
        }
      };
      const float* const shift =
          spread && params.k_shift != nullptr ? params.k_shift + static_cast<size_t>(h) * head_dim : nullptr;
      norm_and_rotate(params.k + start, params.k_norm, params.epsilon, rope, position, shift, head_dim, spread,
                      work.data(), rotated.data());
      store(0);
      norm_and_rotate(params.v + start, nullptr, 0.0f, nullptr, position, nullptr, head_dim, spread, work.data(),
                      rotated.data());
      store(1);
    }
  });
}

// One head of one row. Scores first, then their maximum, then weights: the textbook order.
void ReferenceBackend::attend(const AttentionParams& params, const StepSequence& sequence, int32_t row, int32_t head,
                              int32_t thread) {
  const KvPages& kv = *params.kv;
  const int32_t head_dim = kv.geometry.head_dim;
  const int32_t kv_head = head / (params.heads / kv.geometry.kv_heads);
  const int32_t position = step_.positions[static_cast<size_t>(row)];
  const int32_t first = params.window == 0 ? 0 : std::max(0, position - params.window + 1);
  const int32_t count = position - first + 1;
  const size_t start = (static_cast<size_t>(row) * params.heads + head) * head_dim;
  const float* q = params.q + start;
  std::vector<double>& work = scratch(thread).scores;
  const size_t needed = static_cast<size_t>(count) + 2 * static_cast<size_t>(head_dim);
  if (work.size() < needed) work.resize(needed);
  double* scores = work.data();
  double* vector = scores + count;
  double* sum = vector + head_dim;
  double highest = -INFINITY;
  const bool spread = kv_is_quantised(kv.geometry.type);
  const auto pages = [&](int32_t key) -> const KvPages& {
    return spread && params.recent != nullptr && kv_is_recent(key, position) ? *params.recent : kv;
  };
  for (int32_t i = 0; i < count; ++i) {
    if (!load_kv(pages(first + i), sequence, params.layer, 0, kv_head, first + i, vector)) return;
    double score = 0;
    for (int32_t d = 0; d < head_dim; ++d) score += q[d] * vector[d];
    score *= params.scale;
    if (params.softcap != 0.0f) score = params.softcap * std::tanh(score / params.softcap);
    scores[i] = score;
    highest = std::max(highest, score);
  }
  double total = 0;
  std::fill(sum, sum + head_dim, 0.0);
  for (int32_t i = 0; i < count; ++i) {
    if (!load_kv(pages(first + i), sequence, params.layer, 1, kv_head, first + i, vector)) return;
    const double weight = std::exp(scores[i] - highest);
    total += weight;
    for (int32_t d = 0; d < head_dim; ++d) sum[d] += weight * vector[d];
  }
  for (int32_t d = 0; d < head_dim; ++d) sum[d] /= total;
  if (spread) rotate_hadamard(sum, head_dim);
  for (int32_t d = 0; d < head_dim; ++d) params.out[start + d] = static_cast<float>(sum[d]);
}

void ReferenceBackend::attention(const AttentionParams& params) {
  assert(params.heads % params.kv->geometry.kv_heads == 0);
  pool_.for_each(step_.rows() * params.heads, [&](int32_t unit, int32_t thread) {
    const int32_t row = unit / params.heads;
    attend(params, step_.sequences[static_cast<size_t>(sequence_of_row_[static_cast<size_t>(row)])], row,
           unit % params.heads, thread);
  });
}

}  // namespace banter::ops
