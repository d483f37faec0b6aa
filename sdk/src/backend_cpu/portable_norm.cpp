#include <algorithm>
#include <cmath>

#include "backend_cpu/op_context.h"

namespace banter::cpu {
namespace {

/** 1 / sqrt(mean(x²) + epsilon), summed in double. */
float inverse_rms(const float* x, int32_t dim, float epsilon) {
  double sum = 0;
  for (int32_t i = 0; i < dim; ++i) sum += static_cast<double>(x[i]) * x[i];
  return static_cast<float>(1.0 / std::sqrt(sum / dim + epsilon));
}

void norm_row(const ops::NormParams& p, int32_t row) {
  const size_t at = static_cast<size_t>(row) * static_cast<size_t>(p.dim);
  float* residual = p.residual + at;
  if (p.delta != nullptr) {
    const float* delta = p.delta + at;
    const float scale = p.delta_norm != nullptr ? inverse_rms(delta, p.dim, p.epsilon) : 1.0f;
    for (int32_t i = 0; i < p.dim; ++i) {
      residual[i] += p.delta_norm != nullptr ? delta[i] * scale * p.delta_norm[i] : delta[i];
    }
  }
  if (p.out == nullptr) return;
  const float scale = inverse_rms(residual, p.dim, p.epsilon);
  for (int32_t i = 0; i < p.dim; ++i) p.out[at + i] = residual[i] * scale * p.norm[i];
}

}  // namespace

// residual, delta, out [rows][dim]; weights [dim]. Bound: memory, up to 16 bytes a value. A unit is 8 rows.
void norm(const OpContext& context, const ops::NormParams& params) {
  constexpr int32_t kRows = 8;
  context.pool.for_each((params.rows + kRows - 1) / kRows, [&](int32_t unit, int32_t) {
    for (int32_t row = unit * kRows; row < std::min(params.rows, (unit + 1) * kRows); ++row) norm_row(params, row);
  });
}

}  // namespace banter::cpu
