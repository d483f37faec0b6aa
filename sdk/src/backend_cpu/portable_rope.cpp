#include <cmath>

#include "backend_cpu/op_context.h"
#include "base/half.h"

namespace banter::cpu {
namespace {

void normalise(float* x, const float* weight, int32_t dim, float epsilon) {
  double sum = 0;
  for (int32_t i = 0; i < dim; ++i) sum += static_cast<double>(x[i]) * x[i];
  const auto scale = static_cast<float>(1.0 / std::sqrt(sum / dim + epsilon));
  for (int32_t i = 0; i < dim; ++i) x[i] *= scale * weight[i];
}

void turn(float* x, const float* cosines, const float* sines, int32_t pairs, bool adjacent) {
  for (int32_t k = 0; k < pairs; ++k) {
    float& a = adjacent ? x[2 * k] : x[k];
    float& b = adjacent ? x[2 * k + 1] : x[k + pairs];
    const float turned_a = a * cosines[k] - b * sines[k];
    b = a * sines[k] + b * cosines[k];
    a = turned_a;
  }
}

void store_half(const float* x, int32_t dim, std::byte* out) {
  auto* to = reinterpret_cast<uint16_t*>(out);
  for (int32_t i = 0; i < dim; ++i) to[i] = float_to_half(x[i]);
}

constexpr int32_t kMaxHeadDim = 1024;

void rope_row(const OpContext& context, const ops::RopeKvParams& p, const ops::StepSequence& sequence, int32_t row) {
  const ops::KvGeometry& geometry = p.kv->geometry;
  const int32_t dim = geometry.head_dim;
  const auto* rope = static_cast<const CpuRope*>(p.rope);
  const int32_t pairs = rope != nullptr ? static_cast<int32_t>(rope->spec().inverse_frequency.size()) : 0;
  const float* cosines = rope != nullptr ? rope->turns(context) + static_cast<size_t>(row) * 2 * pairs : nullptr;
  const auto rotate = [&](float* x, const float* weight) {
    if (weight != nullptr) normalise(x, weight, dim, p.epsilon);
    if (rope != nullptr) turn(x, cosines, cosines + pairs, pairs, rope->spec().adjacent_pairs);
  };
  for (int32_t h = 0; h < p.heads; ++h) rotate(p.q + (static_cast<size_t>(row) * p.heads + h) * dim, p.q_norm);
  const int32_t position = context.step.positions[row];
  const int32_t page = sequence.page_tables[p.kv->group][position / geometry.page_tokens];
  if (page < 0) return;
  std::byte* base = p.kv->slab + static_cast<size_t>(page) * p.kv->page_stride;
  const size_t slot = static_cast<size_t>(position % geometry.page_tokens) * ops::kv_vector_bytes(geometry.type, dim);
  for (int32_t h = 0; h < geometry.kv_heads; ++h) {
    const size_t from = (static_cast<size_t>(row) * geometry.kv_heads + h) * dim;
    float key[kMaxHeadDim];
    for (int32_t i = 0; i < dim; ++i) key[i] = p.k[from + i];
    rotate(key, p.k_norm);
    store_half(key, dim, base + geometry.offset(p.layer, 0, h) + slot);
    store_half(p.v + from, dim, base + geometry.offset(p.layer, 1, h) + slot);
  }
}

}  // namespace

const float* CpuRope::turns(const OpContext& context) const {
  if (step_number_ == context.step_number) return turns_.data();
  const size_t pairs = spec_.inverse_frequency.size();
  turns_.resize(static_cast<size_t>(context.step.rows()) * 2 * pairs);
  for (int32_t row = 0; row < context.step.rows(); ++row) {
    float* out = turns_.data() + static_cast<size_t>(row) * 2 * pairs;
    for (size_t k = 0; k < pairs; ++k) {
      const double angle = context.step.positions[row] * spec_.inverse_frequency[k];
      out[k] = static_cast<float>(std::cos(angle) * spec_.magnitude);
      out[pairs + k] = static_cast<float>(std::sin(angle) * spec_.magnitude);
    }
  }
  step_number_ = context.step_number;
  return turns_.data();
}

// q [rows][heads][dim] in place; k, v [rows][kv_heads][dim] to the pages. A unit is a row.
void rope_kv(const OpContext& context, const ops::RopeKvParams& params) {
  if (params.rope != nullptr) static_cast<const CpuRope*>(params.rope)->turns(context);  // before the threads read it
  for (const ops::StepSequence& sequence : context.step.sequences) {
    context.pool.for_each(
        sequence.rows, [&](int32_t unit, int32_t) { rope_row(context, params, sequence, sequence.first_row + unit); });
  }
}

}  // namespace banter::cpu
