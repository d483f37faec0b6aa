// What one thread of this machine can do at most, measured: the denominators of every kernel's efficiency.
// Included inside a namespace and a target region, after a simd_*-inl.h.

// Twelve independent sums: latency 4 to 5 at 2 a cycle needs 10. Named variables, since GCC keeps an array in memory when
// its elements pass through keep_value().
#define BANTER_TWELVE(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)

/** Multiply-adds in eight bits, done by `rounds` rounds of 12. */
inline double int8_rounds(int64_t rounds) {
#define BANTER_STEP(n) I sum##n = i_zero();
  BANTER_TWELVE(BANTER_STEP)
#undef BANTER_STEP
  I x = i_set1(0x01020301);
  const I codes = i_set1(0x01010101);
  for (int64_t i = 0; i < rounds; ++i) {
    // keep_value(x), or the compiler would multiply once and add twelve times.
#define BANTER_STEP(n) \
  keep_value(x);       \
  sum##n = dot<false>(sum##n, prepare<false>(codes), x);
    BANTER_TWELVE(BANTER_STEP)
#undef BANTER_STEP
#define BANTER_STEP(n) keep_value(sum##n);
    BANTER_TWELVE(BANTER_STEP)
#undef BANTER_STEP
  }
  return static_cast<double>(rounds) * 12 * kLanes * 4;
}

/** Multiply-adds in float32, as above. */
inline double fp32_rounds(int64_t rounds) {
#define BANTER_STEP(n) F sum##n = f_zero();
  BANTER_TWELVE(BANTER_STEP)
#undef BANTER_STEP
  F a = f_set1(1e-8f);
  const F b = f_set1(1.0f);
  for (int64_t i = 0; i < rounds; ++i) {
#define BANTER_STEP(n) \
  keep_value(a);       \
  sum##n = f_fma(a, b, sum##n);
    BANTER_TWELVE(BANTER_STEP)
#undef BANTER_STEP
#define BANTER_STEP(n) keep_value(sum##n);
    BANTER_TWELVE(BANTER_STEP)
#undef BANTER_STEP
  }
  return static_cast<double>(rounds) * 12 * kLanes;
}
#undef BANTER_TWELVE

/** Reads `bytes` (a multiple of 256) in order, prefetching as the product kernels do. */
inline uint32_t read_bytes(const uint8_t* at, size_t bytes) {
  I sums[4] = {i_zero(), i_zero(), i_zero(), i_zero()};
  const uint8_t* const end = at + bytes;
  for (; at < end; at += 256) {
    for (int line = 0; line < 256; line += 64) __builtin_prefetch(at + 4096 + line);
    for (int line = 0; line < 256; line += 4 * kVectorBytes) {
      for (int v = 0; v < 4; ++v) sums[v] = i_or(sums[v], i_load(at + line + v * kVectorBytes));
    }
  }
  const I all = i_or(i_or(sums[0], sums[1]), i_or(sums[2], sums[3]));
  uint32_t first;
  __builtin_memcpy(&first, &all, sizeof first);
  return first;
}
