// Eight lanes of AVX2, FMA and F16C. Included inside a namespace and a target region; see kernels_avx2.cpp.

inline constexpr int kLanes = 8;
inline constexpr bool kSignedWide = true;
inline constexpr int kMaxTokens = 4;
inline constexpr bool kHasDot = false;

using F = __m256;
using I = __m256i;
/** A weight operand. 8-bit codes are kept as (magnitude, sign): maddubs saturates at 16 bits, and 2 · 128 · 127 fits.
 */
struct W {
  I u, sign;
};

#define BANTER_OP inline __attribute__((always_inline))

BANTER_OP F f_set1(float a) {
  return _mm256_set1_ps(a);
}
BANTER_OP F f_zero() {
  return _mm256_setzero_ps();
}
BANTER_OP F f_load(const float* p) {
  return _mm256_loadu_ps(p);
}
BANTER_OP void f_store(float* p, F a) {
  _mm256_storeu_ps(p, a);
}
BANTER_OP F f_fma(F a, F b, F c) {
  return _mm256_fmadd_ps(a, b, c);
}
BANTER_OP F f_nfma(F a, F b, F c) {
  return _mm256_fnmadd_ps(a, b, c);
}
BANTER_OP F f_mul(F a, F b) {
  return _mm256_mul_ps(a, b);
}
BANTER_OP F f_add(F a, F b) {
  return _mm256_add_ps(a, b);
}
BANTER_OP F f_div(F a, F b) {
  return _mm256_div_ps(a, b);
}
BANTER_OP F f_max(F a, F b) {
  return _mm256_max_ps(a, b);
}
BANTER_OP F f_min(F a, F b) {
  return _mm256_min_ps(a, b);
}
BANTER_OP F f_from_half(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
BANTER_OP F f_from_bfloat(const uint8_t* p) {
  const I wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
BANTER_OP F f_from_i8(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
template <bool kHigh>
BANTER_OP F f_from_u4(const uint8_t* p) {
  const I wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtepi32_ps(kHigh ? _mm256_srli_epi32(wide, 4) : _mm256_and_si256(wide, _mm256_set1_epi32(15)));
}
BANTER_OP F f_from_i(I a) {
  return _mm256_cvtepi32_ps(a);
}
BANTER_OP I i_round(F a) {
  return _mm256_cvtps_epi32(a);
}
BANTER_OP F f_power2(I n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
BANTER_OP F f_abs(F a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
BANTER_OP F f_copysign(F a, F b) {
  const F sign = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, b));
}
BANTER_OP I i_zero() {
  return _mm256_setzero_si256();
}
BANTER_OP I i_set1(int32_t a) {
  return _mm256_set1_epi32(a);
}
BANTER_OP I i_broadcast(const void* p) {
  int32_t a;
  __builtin_memcpy(&a, p, 4);
  return _mm256_set1_epi32(a);
}
BANTER_OP I i_load(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
BANTER_OP I i_and(I a, I b) {
  return _mm256_and_si256(a, b);
}
BANTER_OP I i_or(I a, I b) {
  return _mm256_or_si256(a, b);
}
template <int kRight>
BANTER_OP I i_shift(I a) {
  if constexpr (kRight > 0)
    return _mm256_srli_epi16(a, kRight);
  else if constexpr (kRight < 0)
    return _mm256_slli_epi16(a, -kRight);
  else
    return a;
}
BANTER_OP I i_add8(I a, I b) {
  return _mm256_add_epi8(a, b);
}
BANTER_OP I i_table(const uint8_t* table16) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table16)));
}
BANTER_OP I i_lookup(I table, I index) {
  return _mm256_shuffle_epi8(table, index);
}

template <bool kWide>
BANTER_OP W prepare(I u) {
  if constexpr (kWide) {
    const I sign = _mm256_xor_si256(u, _mm256_set1_epi8(-128));
    return W{_mm256_abs_epi8(sign), sign};
  } else {
    return W{u, u};
  }
}
/** 16-bit sums of neighbouring products of the weight's and x's bytes. */
template <bool kWide>
BANTER_OP I multiply_pairs(W w, I x) {
  if constexpr (kWide) x = _mm256_sign_epi8(x, w.sign);
  return _mm256_maddubs_epi16(w.u, x);
}
BANTER_OP I add_pairs(I a, I b) {
  return _mm256_add_epi16(a, b);
}
BANTER_OP I widen_pairs(I sum, I pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
template <bool kWide>
BANTER_OP I dot(I acc, W w, I x) {
  return widen_pairs(acc, multiply_pairs<kWide>(w, x));
}
/** Tells the compiler that `value` may have changed, for measuring loops. */
template <class T>
BANTER_OP void keep_value(T& value) {
  __asm__ volatile("" : "+x"(value));
}
#undef BANTER_OP

#include "backend_cpu/simd_quantize-inl.h"
