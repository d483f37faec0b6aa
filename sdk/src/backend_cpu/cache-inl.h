// What the CPU backend's KV pages hold, read and written. A head's region of a page (KvGeometry::offset) holds
//   K: values [head_dim][page_tokens], then scales [kv_scales][page_tokens]
//   V: values [page_tokens][head_dim], then scales [page_tokens][kv_scales]
// so that attention loads the same dimension of 16 neighbouring tokens as one vector and sums over dimensions without
// any horizontal step. Values are f16, bf16, f32 or int8; scales f16. INT4: byte j of the 8 bytes of dimensions
// [16 p, 16 p + 16) holds dimension 16 p + j in its low and 16 p + 8 + j in its high half, each in two's complement;
// K bytes stand as [head_dim / 16][8][page_tokens], V bytes as [page_tokens][head_dim / 16][8].
// Formats and rotation: ops/kv_format.h. Bytes to move: those of the region, once.

#if BANTER_VECTOR_BITS == 512
static inline Vec vec_load_bfloat(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
static inline Vec vec_load_int8(const int8_t* p) {
  return _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)));
}
/** The halves of kLanes bytes. */
static inline void vec_load_nibbles(const uint8_t* p, Vec* low, Vec* high) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
  *low = _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 28), 28));
  *high = _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 24), 28));
}
/** out[i] = the i-th of 16 dimensions in 8 bytes, times scale. */
static inline void widen_nibbles(const uint8_t* p, float scale, float* out) {
  const __m128i eight = _mm_loadl_epi64((const __m128i*)p);
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_unpacklo_epi64(eight, eight));
  const __m512i shift = _mm512_inserti64x4(_mm512_set1_epi32(28), _mm256_set1_epi32(24), 1);
  const Vec values = _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_srai_epi32(_mm512_sllv_epi32(bytes, shift), 28));
  vec_store(out, vec_mul(values, vec_set(scale)));
}
/** The Hadamard transform (not normalised) of the lanes. v · sign + swapped is exactly one addition or subtraction. */
static inline Vec vec_hadamard(Vec v) {
  const Vec odd = _mm512_setr_ps(1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1);
  const Vec pairs = _mm512_setr_ps(1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1);
  const Vec fours = _mm512_setr_ps(1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1);
  const Vec eights = _mm512_setr_ps(1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1);
  v = vec_fma(v, odd, _mm512_permute_ps(v, 0xB1));
  v = vec_fma(v, pairs, _mm512_permute_ps(v, 0x4E));
  v = vec_fma(v, fours, _mm512_shuffle_f32x4(v, v, 0xB1));
  return vec_fma(v, eights, _mm512_shuffle_f32x4(v, v, 0x4E));
}
#elif BANTER_VECTOR_BITS == 256
static inline Vec vec_load_bfloat(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
static inline Vec vec_load_int8(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)));
}
static inline void vec_load_nibbles(const uint8_t* p, Vec* low, Vec* high) {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
  *low = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(bytes, 28), 28));
  *high = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(bytes, 24), 28));
}
static inline Vec vec_hadamard(Vec v) {
  v = vec_fma(v, _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1), _mm256_permute_ps(v, 0xB1));
  v = vec_fma(v, _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1), _mm256_permute_ps(v, 0x4E));
  return vec_fma(v, _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1), _mm256_permute2f128_ps(v, v, 1));
}
#else
static inline Vec vec_load_bfloat(const uint16_t* p) {
  return bfloat_to_float(*p);
}
static inline Vec vec_load_int8(const int8_t* p) {
  return (float)*p;
}
static inline void vec_load_nibbles(const uint8_t* p, Vec* low, Vec* high) {
  *low = (float)((*p & 15) - ((*p & 8) << 1));
  *high = (float)((*p >> 4) - ((*p & 128) >> 3));
}
static inline Vec vec_hadamard(Vec v) {
  return v;
}
#endif

#if BANTER_VECTOR_BITS != 512
static inline void widen_nibbles(const uint8_t* p, float scale, float* out) {
  for (int32_t j = 0; j < 8; j += kLanes) {
    Vec low, high;
    vec_load_nibbles(p + j, &low, &high);
    vec_store(out + j, vec_mul(low, vec_set(scale)));
    vec_store(out + 8 + j, vec_mul(high, vec_set(scale)));
  }
}
#endif

/** x = H x / sqrt(block) in blocks of kv_rotation_block(dim) dimensions; its own inverse. */
static inline void rotate_for_cache(float* x, int32_t dim) {
  const int32_t block = ops::kv_rotation_block(dim);
  const Vec norm = vec_set(1.0f / sqrtf((float)block));
  for (float* end = x + dim; x < end; x += block) {
    for (int32_t i = 0; i < block; i += kLanes) vec_store(x + i, vec_mul(vec_hadamard(vec_load(x + i)), norm));
    for (int32_t stride = kLanes; stride < block; stride *= 2)
      for (int32_t start = 0; start < block; start += 2 * stride)
        for (int32_t i = start; i < start + stride; i += kLanes) {
          const Vec a = vec_load(x + i), b = vec_load(x + i + stride);
          vec_store(x + i, vec_add(a, b));
          vec_store(x + i + stride, vec_sub(a, b));
        }
  }
}

// ---------------------------------------------------------------- formats without scales

/** Largest finite half: values beyond are clamped, since an infinity in the cache would poison masked positions. */
static inline float clamp_to_half(float x) {
  return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
}
/** The same for bfloat16, whose largest finite value is 0x7F7F0000. */
static inline float clamp_to_bfloat(float x) {
  constexpr float kLargest = 3.3895313892515355e38f;
  return x > kLargest ? kLargest : x < -kLargest ? -kLargest : x;
}

struct HalfValue {
  typedef uint16_t Stored;
  static inline Vec load(const Stored* p) { return vec_load_half(p); }
  static inline float value(Stored x) { return half_to_float(x); }
  static inline Stored store(float x) { return float_to_half(clamp_to_half(x)); }
};
struct BfloatValue {
  typedef uint16_t Stored;
  static inline Vec load(const Stored* p) { return vec_load_bfloat(p); }
  static inline float value(Stored x) { return bfloat_to_float(x); }
  static inline Stored store(float x) { return float_to_bfloat(clamp_to_bfloat(x)); }
};
struct FloatValue {
  typedef float Stored;
  static inline Vec load(const Stored* p) { return vec_load(p); }
  static inline float value(Stored x) { return x; }
  static inline Stored store(float x) { return x; }
};

/** Pages of plain numbers. Every format has these four: one token's vector x [dim] written at `slot` of a region, the
 *  keys of 16 tokens from `slot` on read as out [dim][kBlock], one token's values as out [padded]. */
template <class V>
struct PlainPages {
  typedef typename V::Stored Stored;
  static inline void store_key(char* region, int32_t slot, int32_t tokens, int32_t dim, const float* x) {
    Stored* out = reinterpret_cast<Stored*>(region) + slot;
    for (int32_t d = 0; d < dim; ++d) out[(size_t)d * (size_t)tokens] = V::store(x[d]);
  }
  static inline void store_value(char* region, int32_t slot, int32_t, int32_t dim, const float* x) {
    Stored* out = reinterpret_cast<Stored*>(region) + (size_t)slot * (size_t)dim;
    for (int32_t d = 0; d < dim; ++d) out[d] = V::store(x[d]);
  }
  static inline void load_keys(const char* region, int32_t slot, int32_t tokens, int32_t dim, float* out) {
    const Stored* in = reinterpret_cast<const Stored*>(region) + slot;
    for (int32_t d = 0; d < dim; ++d)
      for (int32_t i = 0; i < 16; i += kLanes)
        vec_store(out + (size_t)d * kAttentionBlock + i, V::load(in + (size_t)d * (size_t)tokens + i));
  }
  static inline void load_value(const char* region, int32_t slot, int32_t, int32_t dim, int32_t padded, float* out) {
    const Stored* in = reinterpret_cast<const Stored*>(region) + (size_t)slot * (size_t)dim;
    int32_t d = 0;
    for (; d + kLanes <= dim; d += kLanes) vec_store(out + d, V::load(in + d));
    for (; d < dim; ++d) out[d] = V::value(in[d]);
    for (; d < padded; ++d) out[d] = 0.0f;
  }
};

// ---------------------------------------------------------------- formats with scales; dim is a multiple of 16

/** levels[i] = round(x[i] / scale) in [low, high], as numbers. Not-a-number becomes `high`. count: a multiple of 16. */
static inline void round_levels(const float* x, int32_t count, float scale, float low, float high, float* levels) {
  const Vec inverse = vec_set(scale == 0.0f ? 0.0f : 1.0f / scale);
  for (int32_t i = 0; i < count; i += kLanes)
    vec_store(levels + i, vec_max(vec_min(vec_round(vec_mul(vec_load(x + i), inverse)), vec_set(high)), vec_set(low)));
}

struct Int8Pages {
  static constexpr int32_t kGroup = ops::kv_scale_group(ops::KvType::kI8);
  static_assert(kGroup == 32, "the loops below cut vectors into 32s and a rest of 16");

  /** One group of 32 or 16 values; returns its scale. */
  static inline uint16_t quantise(const float* x, int32_t count, float* levels) {
    const Vec limit = vec_set(65504.0f);
    float clamped[kGroup];
    Vec largest = vec_zero();
    for (int32_t i = 0; i < count; i += kLanes) {
      const Vec v = vec_max(vec_min(vec_load(x + i), limit), vec_sub(vec_zero(), limit));
      vec_store(clamped + i, v);
      largest = vec_max(largest, vec_max(v, vec_sub(vec_zero(), v)));
    }
    const uint16_t scale = float_to_half(vec_highest(largest) / 127.0f);
    round_levels(clamped, count, half_to_float(scale), -127.0f, 127.0f, levels);
    return scale;
  }
  static inline void store_key(char* region, int32_t slot, int32_t tokens, int32_t dim, const float* x) {
    int8_t* out = reinterpret_cast<int8_t*>(region) + slot;
    uint16_t* scales = reinterpret_cast<uint16_t*>(region + (size_t)dim * (size_t)tokens) + slot;
    float levels[kGroup];
    for (int32_t start = 0; start < dim; start += kGroup, scales += tokens) {
      const int32_t count = dim - start < kGroup ? dim - start : kGroup;
      *scales = quantise(x + start, count, levels);
      for (int32_t d = 0; d < count; ++d) out[(size_t)(start + d) * (size_t)tokens] = (int8_t)levels[d];
    }
  }
  static inline void store_value(char* region, int32_t slot, int32_t tokens, int32_t dim, const float* x) {
    const int32_t groups = ops::kv_scales(ops::KvType::kI8, dim);
    int8_t* out = reinterpret_cast<int8_t*>(region) + (size_t)slot * (size_t)dim;
    uint16_t* scales = reinterpret_cast<uint16_t*>(region + (size_t)dim * (size_t)tokens) + slot * groups;
    float levels[kGroup];
    for (int32_t start = 0; start < dim; start += kGroup) {
      const int32_t count = dim - start < kGroup ? dim - start : kGroup;
      *scales++ = quantise(x + start, count, levels);
      for (int32_t d = 0; d < count; ++d) out[start + d] = (int8_t)levels[d];
    }
  }
  static inline void load_keys(const char* region, int32_t slot, int32_t tokens, int32_t dim, float* out) {
    const int8_t* in = reinterpret_cast<const int8_t*>(region) + slot;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(region + (size_t)dim * (size_t)tokens) + slot;
    for (int32_t start = 0; start < dim; start += kGroup, scales += tokens) {
      const int32_t end = dim - start < kGroup ? dim : start + kGroup;
      for (int32_t i = 0; i < 16; i += kLanes) {
        const Vec scale = vec_load_half(scales + i);
        for (int32_t d = start; d < end; ++d)
          vec_store(out + (size_t)d * kAttentionBlock + i,
                    vec_mul(vec_load_int8(in + (size_t)d * (size_t)tokens + i), scale));
      }
    }
  }
  static inline void load_value(const char* region, int32_t slot, int32_t tokens, int32_t dim, int32_t, float* out) {
    const int32_t groups = ops::kv_scales(ops::KvType::kI8, dim);
    const int8_t* in = reinterpret_cast<const int8_t*>(region) + (size_t)slot * (size_t)dim;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(region + (size_t)dim * (size_t)tokens) + slot * groups;
    for (int32_t start = 0; start < dim; start += kGroup) {
      const int32_t end = dim - start < kGroup ? dim : start + kGroup;
      const Vec scale = vec_set(half_to_float(*scales++));
      for (int32_t d = start; d < end; d += kLanes) vec_store(out + d, vec_mul(vec_load_int8(in + d), scale));
    }
  }
};

struct Int4Pages {
  static_assert(ops::kv_scale_group(ops::KvType::kI4) == 16, "a scale belongs to the 16 values of 8 bytes");

  /** 16 values to 8 bytes, `step` apart; returns their scale. */
  static inline uint16_t quantise(const float* x, uint8_t* out, size_t step) {
    const Vec limit = vec_set(65504.0f);
    float clamped[16], levels[16];
    Vec highest = vec_set(-INFINITY), lowest = highest;
    for (int32_t i = 0; i < 16; i += kLanes) {
      const Vec v = vec_max(vec_min(vec_load(x + i), limit), vec_sub(vec_zero(), limit));
      vec_store(clamped + i, v);
      highest = vec_max(highest, v);
      lowest = vec_max(lowest, vec_sub(vec_zero(), v));
    }
    const float above = vec_highest(highest), below = vec_highest(lowest);
    const float largest = above > below ? above : -below;  // of the largest magnitude, with its sign
    uint16_t best = 0;
    float least = INFINITY;
    for (const float divisor : ops::kKvInt4Divisors) {
      const uint16_t half = float_to_half(-largest / divisor);
      const float scale = half_to_float(half);
      round_levels(clamped, 16, scale, -8.0f, 7.0f, levels);
      Vec squares = vec_zero();
      for (int32_t i = 0; i < 16; i += kLanes) {
        const Vec off = vec_fnma(vec_load(levels + i), vec_set(scale), vec_load(clamped + i));
        squares = vec_fma(off, off, squares);
      }
      const float error = vec_sum(squares);
      if (error < least) {
        least = error;
        best = half;
      }
    }
    round_levels(clamped, 16, half_to_float(best), -8.0f, 7.0f, levels);
    for (int32_t j = 0; j < 8; ++j)
      out[(size_t)j * step] = (uint8_t)(((int)levels[j] & 15) | (((int)levels[8 + j] & 15) << 4));
    return best;
  }
  static inline void store_key(char* region, int32_t slot, int32_t tokens, int32_t dim, const float* x) {
    const size_t step = (size_t)tokens;
    uint8_t* out = reinterpret_cast<uint8_t*>(region) + slot;
    uint16_t* scales = reinterpret_cast<uint16_t*>(region + (size_t)(dim / 2) * step) + slot;
    for (int32_t d = 0; d < dim; d += 16, out += 8 * step, scales += step) *scales = quantise(x + d, out, step);
  }
  static inline void store_value(char* region, int32_t slot, int32_t tokens, int32_t dim, const float* x) {
    uint8_t* out = reinterpret_cast<uint8_t*>(region) + (size_t)slot * (size_t)(dim / 2);
    uint16_t* scales = reinterpret_cast<uint16_t*>(region + (size_t)(dim / 2) * (size_t)tokens) + slot * (dim / 16);
    for (int32_t d = 0; d < dim; d += 16, out += 8) *scales++ = quantise(x + d, out, 1);
  }
  static inline void load_keys(const char* region, int32_t slot, int32_t tokens, int32_t dim, float* out) {
    const size_t step = (size_t)tokens;
    const uint8_t* in = reinterpret_cast<const uint8_t*>(region) + slot;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(region + (size_t)(dim / 2) * step) + slot;
    for (int32_t d = 0; d < dim; d += 16, in += 8 * step, scales += step, out += 16 * kAttentionBlock)
      for (int32_t i = 0; i < 16; i += kLanes) {
        const Vec scale = vec_load_half(scales + i);
        for (int32_t j = 0; j < 8; ++j) {
          Vec low, high;
          vec_load_nibbles(in + (size_t)j * step + i, &low, &high);
          vec_store(out + j * kAttentionBlock + i, vec_mul(low, scale));
          vec_store(out + (8 + j) * kAttentionBlock + i, vec_mul(high, scale));
        }
      }
  }
  static inline void load_value(const char* region, int32_t slot, int32_t tokens, int32_t dim, int32_t, float* out) {
    const uint8_t* in = reinterpret_cast<const uint8_t*>(region) + (size_t)slot * (size_t)(dim / 2);
    const uint16_t* scales =
        reinterpret_cast<const uint16_t*>(region + (size_t)(dim / 2) * (size_t)tokens) + slot * (dim / 16);
    for (int32_t d = 0; d < dim; d += 16) widen_nibbles(in + d / 2, half_to_float(*scales++), out + d);
  }
};

typedef PlainPages<HalfValue> HalfPages;
typedef PlainPages<BfloatValue> BfloatPages;
typedef PlainPages<FloatValue> FloatPages;
