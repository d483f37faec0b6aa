// The reference backend's normalisation.
#include <cmath>

#include "ops/reference_backend.h"

namespace banter::ops {

namespace {

// 1 / sqrt(mean(x²) + epsilon).
double inverse_rms(const float* x, int32_t n, float epsilon) {
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return 1.0 / std::sqrt(sum / n + epsilon);
}

}  // namespace

void ReferenceBackend::norm(const NormParams& params) {
  pool_.for_each(params.rows, [&](int32_t row, int32_t) {
    const int32_t dim = params.dim;
    const size_t start = static_cast<size_t>(row) * static_cast<size_t>(dim);
    float* residual = params.residual + start;
    if (params.delta != nullptr) {
      const float* delta = params.delta + start;
      const double scale = params.delta_norm == nullptr ? 1.0 : inverse_rms(delta, dim, params.epsilon);
      for (int32_t i = 0; i < dim; ++i) {
        const double weight = params.delta_norm == nullptr ? 1.0 : static_cast<double>(params.delta_norm[i]);
        residual[i] = static_cast<float>(residual[i] + delta[i] * scale * weight);
      }
    }
    if (params.out == nullptr) return;
    const double scale = inverse_rms(residual, dim, params.epsilon);
    for (int32_t i = 0; i < dim; ++i) params.out[start + i] = static_cast<float>(residual[i] * scale * params.norm[i]);
  });
}

}  // namespace banter::ops
