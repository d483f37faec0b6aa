// RMS norm with residual (ops::NormParams): one row.
//   residual, delta, out [dim] f32; delta_norm, norm [dim] f32
// Bound: memory. Bytes per row = 4 · dim · (2 reads + 2 writes); the rows of a step stay in the second-level cache.
// Numerics: the mean square is summed in 4 · kLanes partial sums in a fixed order, so it depends on the ISA only.

/** 1 / sqrt(mean(x²) + epsilon). */
static inline float inverse_rms(const float* x, int32_t dim, float epsilon) {
  Vec sums[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
  int32_t i = 0;
  for (; i + 4 * kLanes <= dim; i += 4 * kLanes)
    for (int32_t u = 0; u < 4; ++u) {
      const Vec v = vec_load(x + i + u * kLanes);
      sums[u] = vec_fma(v, v, sums[u]);
    }
  float total = vec_sum(vec_add(vec_add(sums[0], sums[1]), vec_add(sums[2], sums[3])));
  for (; i < dim; ++i) total += x[i] * x[i];
  return 1.0f / sqrtf(total / static_cast<float>(dim) + epsilon);
}

/** out = x · scale · weight. */
static inline void scale_by(const float* x, float scale, const float* weight, float* out, int32_t dim) {
  const Vec s = vec_set(scale);
  int32_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) vec_store(out + i, vec_mul(vec_mul(vec_load(x + i), s), vec_load(weight + i)));
  for (; i < dim; ++i) out[i] = x[i] * scale * weight[i];
}

static void norm_row(const ops::NormParams& params, int32_t row) {
  const int32_t dim = params.dim;
  float* residual = params.residual + static_cast<size_t>(row) * static_cast<size_t>(dim);
  if (params.delta != nullptr) {
    const float* delta = params.delta + static_cast<size_t>(row) * static_cast<size_t>(dim);
    if (params.delta_norm != nullptr) {
      const float scale = inverse_rms(delta, dim, params.epsilon);
      const Vec s = vec_set(scale);
      int32_t i = 0;
      for (; i + kLanes <= dim; i += kLanes) {
        const Vec normed = vec_mul(vec_mul(vec_load(delta + i), s), vec_load(params.delta_norm + i));
        vec_store(residual + i, vec_add(vec_load(residual + i), normed));
      }
      for (; i < dim; ++i) residual[i] += delta[i] * scale * params.delta_norm[i];
    } else {
      int32_t i = 0;
      for (; i + kLanes <= dim; i += kLanes)
        vec_store(residual + i, vec_add(vec_load(residual + i), vec_load(delta + i)));
      for (; i < dim; ++i) residual[i] += delta[i];
    }
  }
  if (params.out == nullptr) return;
  float* out = params.out + static_cast<size_t>(row) * static_cast<size_t>(dim);
  scale_by(residual, inverse_rms(residual, dim, params.epsilon), params.norm, out, dim);
}
