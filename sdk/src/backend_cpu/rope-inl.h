// Q/K norm, rotary embedding and KV write (ops::RopeKvParams): one row.
//   q [heads][head_dim], k, v [kv_heads][head_dim] f32; cosine, sine [pairs] f32
// A head's region of a page holds K as [head_dim][page_tokens]: attention then loads the same dimension of 16
// neighbouring tokens as one vector, and sums over dimensions without any horizontal step. V stands as
// [page_tokens][head_dim]. Both are f16, or f32 where the pool says so. Bound: latency of scattered 2-byte stores, kv_heads · head_dim per row; a thousandth of
// the row's matrix products.

/** Largest finite half: values beyond are clamped, since an infinity in the cache would poison masked positions. */
static inline float clamp_to_half(float x) {
  return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
}

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

static inline void store_cached(uint16_t* p, float x) {
  *p = float_to_half(clamp_to_half(x));
}
static inline void store_cached(float* p, float x) {
  *p = x;
}

/** One head's k and v [dim] to slot `slot` of its K and V regions. */
template <class Element>
static inline void store_head(char* k_region, char* v_region, const float* k, const float* v, int32_t slot,
                              int32_t tokens, int32_t dim) {
  Element* keys = reinterpret_cast<Element*>(k_region) + slot;
  for (int32_t d = 0; d < dim; ++d) store_cached(keys + static_cast<size_t>(d) * static_cast<size_t>(tokens), k[d]);
  Element* values = reinterpret_cast<Element*>(v_region) + static_cast<size_t>(slot) * static_cast<size_t>(dim);
  for (int32_t d = 0; d < dim; ++d) store_cached(values + d, v[d]);
}

static void rope_kv_row(const ops::RopeKvParams& params, const RowRotation& rotation, const ops::StepSequence& sequence,
                        int32_t row, int32_t position, float* scratch) {
  const ops::KvPages& kv = *params.kv;
  const ops::KvGeometry& geometry = kv.geometry;
  const int32_t dim = geometry.head_dim;
  for (int32_t h = 0; h < params.heads; ++h) {
    float* q = params.q + (static_cast<size_t>(row) * static_cast<size_t>(params.heads) + static_cast<size_t>(h)) *
                              static_cast<size_t>(dim);
    if (params.q_norm != nullptr) scale_by(q, inverse_rms(q, dim, params.epsilon), params.q_norm, q, dim);
    rotate_head(q, rotation);
  }
  const int32_t tokens = geometry.page_tokens, slot = position % tokens;
  const int32_t page = sequence.page_tables[static_cast<size_t>(kv.group)].data()[position / tokens];
  char* base = reinterpret_cast<char*>(kv.slab) + static_cast<size_t>(page) * kv.page_stride;
  for (int32_t h = 0; h < geometry.kv_heads; ++h) {
    const size_t at = (static_cast<size_t>(row) * static_cast<size_t>(geometry.kv_heads) + static_cast<size_t>(h)) *
                      static_cast<size_t>(dim);
    memcpy(scratch, params.k + at, sizeof(float) * static_cast<size_t>(dim));
    if (params.k_norm != nullptr)
      scale_by(scratch, inverse_rms(scratch, dim, params.epsilon), params.k_norm, scratch, dim);
    rotate_head(scratch, rotation);
    char* k_region = base + geometry.offset(params.layer, 0, h);
    char* v_region = base + geometry.offset(params.layer, 1, h);
    if (geometry.type == ops::KvType::kF32)
      store_head<float>(k_region, v_region, scratch, params.v + at, slot, tokens, dim);
    else
      store_head<uint16_t>(k_region, v_region, scratch, params.v + at, slot, tokens, dim);
  }
}
