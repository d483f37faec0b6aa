// Q/K norm, rotary embedding and KV write (ops::RopeKvParams): one row.
//   q [heads][head_dim], k, v [kv_heads][head_dim] f32; cosine, sine [pairs] f32
// Pages: cache-inl.h. Bound: latency of scattered stores of one value, kv_heads · head_dim per row; a thousandth of the
// row's matrix products.

static inline void rotate_head(float* x, const RowRotation& r) {
  if (r.adjacent) {
    for (int32_t k = 0; k < r.pairs; ++k) {
      const float a = x[2 * k], b = x[2 * k + 1];
      x[2 * k] = a * r.cosine[k] - b * r.sine[k];
      x[2 * k + 1] = a * r.sine[k] + b * r.cosine[k];
    }
    return;
  }
  int32_t k = 0;
  for (; k + kLanes <= r.pairs; k += kLanes) {
    const Vec a = vec_load(x + k), b = vec_load(x + r.pairs + k), c = vec_load(r.cosine + k), s = vec_load(r.sine + k);
    vec_store(x + k, vec_sub(vec_mul(a, c), vec_mul(b, s)));
    vec_store(x + r.pairs + k, vec_add(vec_mul(a, s), vec_mul(b, c)));
  }
  for (; k < r.pairs; ++k) {
    const float a = x[k], b = x[r.pairs + k];
    x[k] = a * r.cosine[k] - b * r.sine[k];
    x[r.pairs + k] = a * r.sine[k] + b * r.cosine[k];
  }
}

/** One head's vector x [dim] of the token at `position`: `value` 0 = K, 1 = V. */
static inline void store_vector(const ops::KvPages& kv, const ops::StepSequence& sequence, int32_t layer, int value,
                                int32_t head, int32_t position, const float* x) {
  const ops::KvGeometry& geometry = kv.geometry;
  const int32_t tokens = geometry.page_tokens, slot = position % tokens, dim = geometry.head_dim;
  const int32_t page = sequence.page_tables[static_cast<size_t>(kv.group)].data()[position / tokens];
  char* region = reinterpret_cast<char*>(kv.page(page)) + geometry.offset(layer, value, head);
#define BANTER_STORE(Pages) \
  value == 0 ? Pages::store_key(region, slot, tokens, dim, x) : Pages::store_value(region, slot, tokens, dim, x)
  switch (geometry.type) {
    case ops::KvType::kF16:
      BANTER_STORE(HalfPages);
      break;
    case ops::KvType::kF32:
      BANTER_STORE(FloatPages);
      break;
    case ops::KvType::kBF16:
      BANTER_STORE(BfloatPages);
      break;
    case ops::KvType::kI8:
      BANTER_STORE(Int8Pages);
      break;
    case ops::KvType::kI4:
      BANTER_STORE(Int4Pages);
      break;
  }
#undef BANTER_STORE
}

static void rope_kv_row(const ops::RopeKvParams& params, const RowRotation& rotation, const ops::StepSequence& sequence,
                        int32_t row, int32_t position, float* scratch) {
  const ops::KvGeometry& geometry = params.kv->geometry;
  const int32_t dim = geometry.head_dim;
  const bool spread = ops::kv_is_quantised(geometry.type);
  for (int32_t h = 0; h < params.heads; ++h) {
    float* q = params.q + (static_cast<size_t>(row) * static_cast<size_t>(params.heads) + static_cast<size_t>(h)) *
                              static_cast<size_t>(dim);
    if (params.q_norm != nullptr) scale_by(q, inverse_rms(q, dim, params.epsilon), params.q_norm, q, dim);
    rotate_head(q, rotation);
    if (spread) rotate_for_cache(q, dim);
  }
  for (int32_t h = 0; h < geometry.kv_heads; ++h) {
    const size_t at = (static_cast<size_t>(row) * static_cast<size_t>(geometry.kv_heads) + static_cast<size_t>(h)) *
                      static_cast<size_t>(dim);
    memcpy(scratch, params.k + at, sizeof(float) * static_cast<size_t>(dim));
    if (params.k_norm != nullptr)
      scale_by(scratch, inverse_rms(scratch, dim, params.epsilon), params.k_norm, scratch, dim);
    rotate_head(scratch, rotation);
    if (!spread) {
      store_vector(*params.kv, sequence, params.layer, 0, h, position, scratch);
      store_vector(*params.kv, sequence, params.layer, 1, h, position, params.v + at);
      continue;
    }
    if (params.k_shift != nullptr) {
      const float* const shift = params.k_shift + static_cast<size_t>(h) * static_cast<size_t>(dim);
      for (int32_t d = 0; d < dim; ++d) scratch[d] -= shift[d];
    }
    for (int value = 0; value < 2; ++value) {
      if (value == 1) memcpy(scratch, params.v + at, sizeof(float) * static_cast<size_t>(dim));
      rotate_for_cache(scratch, dim);
      store_vector(*params.kv, sequence, params.layer, value, h, position, scratch);
      if (params.recent != nullptr) store_vector(*params.recent, sequence, params.layer, value, h, position, scratch);
    }
  }
}
