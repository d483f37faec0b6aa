// Rounding 32 activations to 8 bits with 256-bit vectors, which AVX-512 processors have too: at most a dozen instructions
// more than with 512, on data that is 1/500 of the products' work. Included by simd_avx2-inl.h and simd_avx512-inl.h.

#define BANTER_OP inline __attribute__((always_inline))

/** The largest of 32 values' bits without their signs. */
BANTER_OP uint32_t largest_magnitude_bits(const float* x) {
  const auto load = [&](int i) {
    return _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)), _mm256_set1_epi32(0x7FFFFFFF));
  };
  const __m256i eight = _mm256_max_epi32(_mm256_max_epi32(load(0), load(8)), _mm256_max_epi32(load(16), load(24)));
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
}

/** q = round(x · inverse), ties to even, for 32 values of which none exceeds 127; sums[h] = Σq of the h-th 16. */
BANTER_OP void round_block(const float* x, float inverse, int8_t* q, int32_t* sums) {
  const __m256 factor = _mm256_set1_ps(inverse);
  const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), factor));
  const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), factor));
  const __m256i c = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16), factor));
  const __m256i d = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 24), factor));
  // Packing works within 128-bit lanes, so the eight groups of four come out as a0 b0 c0 d0 a1 b1 c1 d1.
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_permutevar8x32_epi32(packed, order));
  const __m256i pairs = _mm256_hadd_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
  const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  const __m128i final_sums = _mm_hadd_epi32(both, both);
  sums[0] = _mm_cvtsi128_si32(final_sums);
  sums[1] = _mm_extract_epi32(final_sums, 1);
}
#undef BANTER_OP
