// Float32 vectors of the instruction set that the including file is compiled for. Included once per ISA, inside that
// ISA's namespace and target pragma, after <immintrin.h>, <math.h>, <stdint.h> and <string.h>: no header may be
// included from here, or its inline functions would be compiled for the ISA and kept by the linker for everyone.
//
// BANTER_VECTOR_BITS is 512, 256 or 0 (scalar: one lane). A Vec has kLanes floats.

#if BANTER_VECTOR_BITS == 512

typedef __m512 Vec;
constexpr int kLanes = 16;
static inline Vec vec_zero() {
  return _mm512_setzero_ps();
}
static inline Vec vec_set(float x) {
  return _mm512_set1_ps(x);
}
static inline Vec vec_load(const float* p) {
  return _mm512_loadu_ps(p);
}
static inline void vec_store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
static inline Vec vec_load_half(const uint16_t* p) {
  return _mm512_maskz_cvtph_ps(0xFFFF,
                               _mm256_loadu_si256((const __m256i*)p));  // the unmasked form trips a warning of g++ 12
}
static inline void vec_store_half(uint16_t* p, Vec v) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline Vec vec_add(Vec a, Vec b) {
  return _mm512_add_ps(a, b);
}
static inline Vec vec_sub(Vec a, Vec b) {
  return _mm512_sub_ps(a, b);
}
static inline Vec vec_mul(Vec a, Vec b) {
  return _mm512_mul_ps(a, b);
}
static inline Vec vec_div(Vec a, Vec b) {
  return _mm512_div_ps(a, b);
}
static inline Vec vec_fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
static inline Vec vec_fnma(Vec a, Vec b, Vec c) {
  return _mm512_fnmadd_ps(a, b, c);
}
static inline Vec vec_max(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
static inline Vec vec_min(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
static inline Vec vec_round(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/** x · 2^n for integral n in [-127, 127]. */
static inline Vec vec_scale_exponent(Vec x, Vec n) {
  return _mm512_scalef_ps(x, n);
}
/** 1 in lanes [first, last), 0 elsewhere, as a selection between a (1) and b (0). */
static inline Vec vec_select_range(int first, int last, Vec a, Vec b) {
  const __mmask16 below_last = last >= 16  ? (__mmask16)0xFFFF
                               : last <= 0 ? (__mmask16)0
                                           : (__mmask16)((1u << last) - 1u);
  const __mmask16 below_first = first >= 16  ? (__mmask16)0xFFFF
                                : first <= 0 ? (__mmask16)0
                                             : (__mmask16)((1u << first) - 1u);
  return _mm512_mask_blend_ps((__mmask16)(below_last & ~below_first), b, a);
}
static inline float vec_sum(Vec v) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
}
static inline float vec_highest(Vec v) {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
}

#elif BANTER_VECTOR_BITS == 256

typedef __m256 Vec;
constexpr int kLanes = 8;
static inline Vec vec_zero() {
  return _mm256_setzero_ps();
}
static inline Vec vec_set(float x) {
  return _mm256_set1_ps(x);
}
static inline Vec vec_load(const float* p) {
  return _mm256_loadu_ps(p);
}
static inline void vec_store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
static inline Vec vec_load_half(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
}
static inline void vec_store_half(uint16_t* p, Vec v) {
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline Vec vec_add(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
static inline Vec vec_sub(Vec a, Vec b) {
  return _mm256_sub_ps(a, b);
}
static inline Vec vec_mul(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
static inline Vec vec_div(Vec a, Vec b) {
  return _mm256_div_ps(a, b);
}
static inline Vec vec_fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
static inline Vec vec_fnma(Vec a, Vec b, Vec c) {
  return _mm256_fnmadd_ps(a, b, c);
}
static inline Vec vec_max(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
static inline Vec vec_min(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
static inline Vec vec_round(Vec a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline Vec vec_scale_exponent(Vec x, Vec n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
}
static inline Vec vec_select_range(int first, int last, Vec a, Vec b) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i below_last = _mm256_cmpgt_epi32(_mm256_set1_epi32(last), lane);
  const __m256i below_first = _mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane);
  return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(_mm256_andnot_si256(below_first, below_last)));
}
static inline float vec_sum(Vec v) {
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
}
static inline float vec_highest(Vec v) {
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
}

#else  // one lane of plain C++

typedef float Vec;
constexpr int kLanes = 1;
static inline Vec vec_zero() {
  return 0.0f;
}
static inline Vec vec_set(float x) {
  return x;
}
static inline Vec vec_load(const float* p) {
  return *p;
}
static inline void vec_store(float* p, Vec v) {
  *p = v;
}
static inline Vec vec_load_half(const uint16_t* p) {
  return half_to_float(*p);
}
static inline void vec_store_half(uint16_t* p, Vec v) {
  *p = float_to_half(v);
}
static inline Vec vec_add(Vec a, Vec b) {
  return a + b;
}
static inline Vec vec_sub(Vec a, Vec b) {
  return a - b;
}
static inline Vec vec_mul(Vec a, Vec b) {
  return a * b;
}
static inline Vec vec_div(Vec a, Vec b) {
  return a / b;
}
static inline Vec vec_fma(Vec a, Vec b, Vec c) {
  return a * b + c;
}
static inline Vec vec_fnma(Vec a, Vec b, Vec c) {
  return c - a * b;
}
static inline Vec vec_max(Vec a, Vec b) {
  return a > b ? a : b;
}
static inline Vec vec_min(Vec a, Vec b) {
  return a < b ? a : b;
}
static inline Vec vec_round(Vec a) {
  return rintf(a);
}
static inline Vec vec_scale_exponent(Vec x, Vec n) {
  return ldexpf(x, (int)n);
}
static inline Vec vec_select_range(int first, int last, Vec a, Vec b) {
  return first <= 0 && last > 0 ? a : b;
}
static inline float vec_sum(Vec v) {
  return v;
}
static inline float vec_highest(Vec v) {
  return v;
}

#endif

/** e^x for x ≤ 88, flushing to 0 below -87: x = n ln 2 + r, |r| ≤ ln 2 / 2, and the Taylor polynomial of degree 7 of
 * e^r (truncation below 6e-9 relative; the result is within 2 units in the last place). */
static inline Vec vec_exp(Vec x) {
  const Vec clamped = vec_max(vec_min(x, vec_set(88.0f)), vec_set(-87.3f));
  const Vec n = vec_round(vec_mul(clamped, vec_set(1.44269504088896341f)));
  // ln 2 in two parts, the first exact in few bits, so that n · part is exact (Cody & Waite 1980).
  Vec r = vec_fnma(n, vec_set(0.693359375f), clamped);
  r = vec_fnma(n, vec_set(-2.12194440054690583e-4f), r);
  Vec p = vec_set(1.0f / 5040.0f);
  p = vec_fma(p, r, vec_set(1.0f / 720.0f));
  p = vec_fma(p, r, vec_set(1.0f / 120.0f));
  p = vec_fma(p, r, vec_set(1.0f / 24.0f));
  p = vec_fma(p, r, vec_set(1.0f / 6.0f));
  p = vec_fma(p, r, vec_set(0.5f));
  p = vec_fma(p, r, vec_set(1.0f));
  p = vec_fma(p, r, vec_set(1.0f));
  return vec_scale_exponent(p, n);
}

/** tanh x = 1 - 2 / (e^2x + 1). */
static inline Vec vec_tanh(Vec x) {
  const Vec clamped = vec_max(vec_min(x, vec_set(20.0f)), vec_set(-20.0f));
  const Vec e = vec_exp(vec_add(clamped, clamped));
  return vec_sub(vec_set(1.0f), vec_div(vec_set(2.0f), vec_add(e, vec_set(1.0f))));
}
