// Sixteen lanes of AVX-512 F, BW, VL and DQ, with VNNI where BANTER_VNNI is 1. Included inside a namespace and a target
// region; see kernels_avx512.cpp and kernels_avx512_vnni.cpp.

inline constexpr int kLanes = 16;
inline constexpr bool kSignedWide = BANTER_VNNI == 0;
inline constexpr int kMaxTokens = 6;
inline constexpr bool kHasDot = BANTER_VNNI != 0;

using F = __m512;
using I = __m512i;
#if BANTER_VNNI
struct W {
  I u;
};
#else
/** A weight operand. 8-bit codes are kept as (magnitude, negative): maddubs saturates at 16 bits, 2 · 128 · 127 fits.
 */
struct W {
  I u;
  __mmask64 negative;
};
#endif

#define BANTER_OP inline __attribute__((always_inline))

BANTER_OP F f_set1(float a) {
  return _mm512_set1_ps(a);
}
BANTER_OP F f_zero() {
  return _mm512_setzero_ps();
}
BANTER_OP F f_load(const float* p) {
  return _mm512_loadu_ps(p);
}
BANTER_OP void f_store(float* p, F a) {
  _mm512_storeu_ps(p, a);
}
BANTER_OP F f_fma(F a, F b, F c) {
  return _mm512_fmadd_ps(a, b, c);
}
BANTER_OP F f_nfma(F a, F b, F c) {
  return _mm512_fnmadd_ps(a, b, c);
}
BANTER_OP F f_mul(F a, F b) {
  return _mm512_mul_ps(a, b);
}
BANTER_OP F f_add(F a, F b) {
  return _mm512_add_ps(a, b);
}
BANTER_OP F f_div(F a, F b) {
  return _mm512_div_ps(a, b);
}
BANTER_OP F f_max(F a, F b) {
  return _mm512_max_ps(a, b);
}
BANTER_OP F f_min(F a, F b) {
  return _mm512_min_ps(a, b);
}
BANTER_OP F f_from_half(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
BANTER_OP F f_from_bfloat(const uint8_t* p) {
  const I wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
BANTER_OP F f_from_i8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
template <bool kHigh>
BANTER_OP F f_from_u4(const uint8_t* p) {
  const I wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_cvtepi32_ps(kHigh ? _mm512_srli_epi32(wide, 4) : _mm512_and_si512(wide, _mm512_set1_epi32(15)));
}
BANTER_OP F f_from_i(I a) {
  return _mm512_cvtepi32_ps(a);
}
BANTER_OP I i_round(F a) {
  return _mm512_cvtps_epi32(a);
}
BANTER_OP F f_power2(I n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}
BANTER_OP F f_abs(F a) {
  return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}
BANTER_OP F f_copysign(F a, F b) {
  const F sign = _mm512_set1_ps(-0.0f);
  return _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, b));
}
BANTER_OP I i_zero() {
  return _mm512_setzero_si512();
}
BANTER_OP I i_set1(int32_t a) {
  return _mm512_set1_epi32(a);
}
BANTER_OP I i_broadcast(const void* p) {
  int32_t a;
  __builtin_memcpy(&a, p, 4);
  return _mm512_set1_epi32(a);
}
BANTER_OP I i_load(const uint8_t* p) {
  return _mm512_loadu_si512(p);
}
BANTER_OP I i_and(I a, I b) {
  return _mm512_and_si512(a, b);
}
BANTER_OP I i_or(I a, I b) {
  return _mm512_or_si512(a, b);
}
template <int kRight>
BANTER_OP I i_shift(I a) {
  if constexpr (kRight > 0)
    return _mm512_srli_epi16(a, kRight);
  else if constexpr (kRight < 0)
    return _mm512_slli_epi16(a, -kRight);
  else
    return a;
}
BANTER_OP I i_add8(I a, I b) {
  return _mm512_add_epi8(a, b);
}
BANTER_OP I i_table(const uint8_t* table16) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table16)));
}
BANTER_OP I i_lookup(I table, I index) {
  return _mm512_shuffle_epi8(table, index);
}

#if BANTER_VNNI
template <bool kWide>
BANTER_OP W prepare(I u) {
  return W{u};
}
template <bool kWide>
BANTER_OP I dot(I acc, W w, I x) {
  return _mm512_dpbusd_epi32(acc, w.u, x);
}
#else
template <bool kWide>
BANTER_OP W prepare(I u) {
  if constexpr (kWide) {
    const I value = _mm512_xor_si512(u, _mm512_set1_epi8(-128));
    return W{_mm512_abs_epi8(value), _mm512_movepi8_mask(value)};
  } else {
    return W{u, 0};
  }
}
/** 16-bit sums of neighbouring products of the weight's and x's bytes. */
template <bool kWide>
BANTER_OP I multiply_pairs(W w, I x) {
  if constexpr (kWide) x = _mm512_mask_sub_epi8(x, w.negative, _mm512_setzero_si512(), x);
  return _mm512_maddubs_epi16(w.u, x);
}
BANTER_OP I add_pairs(I a, I b) {
  return _mm512_add_epi16(a, b);
}
BANTER_OP I widen_pairs(I sum, I pairs) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
template <bool kWide>
BANTER_OP I dot(I acc, W w, I x) {
  return widen_pairs(acc, multiply_pairs<kWide>(w, x));
}
#endif
/** Tells the compiler that `value` may have changed, for measuring loops. */
template <class T>
BANTER_OP void keep_value(T& value) {
  __asm__ volatile("" : "+v"(value));
}
#undef BANTER_OP

#include "backend_cpu/simd_quantize-inl.h"
