// Eight lanes in plain C++, for processors without AVX2 and as the readable definition of what the vector types do.
// Included inside a namespace; see kernels_scalar.cpp.

inline constexpr int kLanes = 8;
inline constexpr bool kSignedWide = false;
inline constexpr int kMaxTokens = 1;
inline constexpr bool kHasDot = true;

struct F {
  float v[kLanes];
};
struct I {
  uint32_t v[kLanes];
};
struct W {
  I u;
};

#define BANTER_LANES for (int l = 0; l < kLanes; ++l)

inline F f_set1(float a) {
  F r;
  BANTER_LANES r.v[l] = a;
  return r;
}
inline F f_zero() {
  return f_set1(0.0f);
}
inline F f_load(const float* p) {
  F r;
  __builtin_memcpy(r.v, p, sizeof r.v);
  return r;
}
inline void f_store(float* p, F a) {
  __builtin_memcpy(p, a.v, sizeof a.v);
}
inline F f_fma(F a, F b, F c) {
  BANTER_LANES c.v[l] = __builtin_fmaf(a.v[l], b.v[l], c.v[l]);
  return c;
}
inline F f_nfma(F a, F b, F c) {
  BANTER_LANES c.v[l] = __builtin_fmaf(-a.v[l], b.v[l], c.v[l]);
  return c;
}
inline F f_mul(F a, F b) {
  BANTER_LANES a.v[l] *= b.v[l];
  return a;
}
inline F f_add(F a, F b) {
  BANTER_LANES a.v[l] += b.v[l];
  return a;
}
inline F f_div(F a, F b) {
  BANTER_LANES a.v[l] /= b.v[l];
  return a;
}
/** b where the comparison fails, so a NaN in b survives. */
inline F f_max(F a, F b) {
  BANTER_LANES b.v[l] = a.v[l] > b.v[l] ? a.v[l] : b.v[l];
  return b;
}
inline F f_min(F a, F b) {
  BANTER_LANES b.v[l] = a.v[l] < b.v[l] ? a.v[l] : b.v[l];
  return b;
}
inline uint16_t lane16(const uint8_t* p, int l) {
  return static_cast<uint16_t>(p[2 * l] | p[2 * l + 1] << 8);
}
inline F f_from_half(const uint8_t* p) {
  F r;
  BANTER_LANES r.v[l] = half_to_float(lane16(p, l));
  return r;
}
inline F f_from_bfloat(const uint8_t* p) {
  F r;
  BANTER_LANES r.v[l] = bfloat_to_float(lane16(p, l));
  return r;
}
inline F f_from_i8(const uint8_t* p) {
  F r;
  BANTER_LANES r.v[l] = static_cast<float>(static_cast<int8_t>(p[l]));
  return r;
}
/** The low or high halves of kLanes bytes. */
template <bool kHigh>
inline F f_from_u4(const uint8_t* p) {
  F r;
  BANTER_LANES r.v[l] = static_cast<float>(kHigh ? p[l] >> 4 : p[l] & 15);
  return r;
}
inline F f_from_i(I a) {
  F r;
  BANTER_LANES r.v[l] = static_cast<float>(static_cast<int32_t>(a.v[l]));
  return r;
}
/** Rounds to the nearest integer, ties to even; |a| < 2^22. */
inline I i_round(F a) {
  I r;
  BANTER_LANES {
    constexpr float kMagic = 12582912.0f;  // 1.5 · 2^23: adding it leaves no bits for a fraction
    const float shifted = a.v[l] + kMagic;
    uint32_t bits;
    __builtin_memcpy(&bits, &shifted, 4);
    r.v[l] = bits - 0x4B400000u;
  }
  return r;
}
/** 2^n for integers n in [-126, 127]. */
inline F f_power2(I n) {
  F r;
  BANTER_LANES {
    const uint32_t bits = (n.v[l] + 127u) << 23;
    __builtin_memcpy(&r.v[l], &bits, 4);
  }
  return r;
}
inline F f_abs(F a) {
  BANTER_LANES a.v[l] = __builtin_fabsf(a.v[l]);
  return a;
}
/** The sign of b on the magnitude of a. */
inline F f_copysign(F a, F b) {
  BANTER_LANES a.v[l] = __builtin_copysignf(a.v[l], b.v[l]);
  return a;
}

inline I i_zero() {
  return I{};
}
inline I i_set1(int32_t a) {
  I r;
  BANTER_LANES r.v[l] = static_cast<uint32_t>(a);
  return r;
}
inline I i_broadcast(const void* p) {
  int32_t a;
  __builtin_memcpy(&a, p, 4);
  return i_set1(a);
}
inline I i_load(const uint8_t* p) {
  I r;
  __builtin_memcpy(r.v, p, sizeof r.v);
  return r;
}
inline I i_and(I a, I b) {
  BANTER_LANES a.v[l] &= b.v[l];
  return a;
}
inline I i_or(I a, I b) {
  BANTER_LANES a.v[l] |= b.v[l];
  return a;
}
/** Shifts whose stray bits the caller masks away; left for negative counts. */
template <int kRight>
inline I i_shift(I a) {
  BANTER_LANES {
    if constexpr (kRight >= 0)
      a.v[l] >>= kRight;
    else
      a.v[l] <<= -kRight;
  }
  return a;
}
/** Bytes, without carries between them. */
inline I i_add8(I a, I b) {
  BANTER_LANES a.v[l] += b.v[l];
  return a;
}
inline I i_table(const uint8_t* table16) {
  I r{};
  __builtin_memcpy(r.v, table16, 16);
  return r;
}
inline I i_lookup(I table, I index) {
  uint8_t entries[16];
  __builtin_memcpy(entries, table.v, 16);
  BANTER_LANES {
    const uint32_t n = index.v[l];
    index.v[l] = entries[n & 15] | uint32_t{entries[n >> 8 & 15]} << 8 | uint32_t{entries[n >> 16 & 15]} << 16 |
                 uint32_t{entries[n >> 24 & 15]} << 24;
  }
  return index;
}

template <bool kWide>
inline W prepare(I u) {
  return W{u};
}
/** acc[l] += Σ_j u[l][j] · x[l][j] over the four bytes of each lane, u unsigned, x signed; exact. */
template <bool kWide>
inline I dot(I acc, W w, I x) {
  BANTER_LANES {
    int32_t sum = 0;
    for (int j = 0; j < 4; ++j) {
      sum += static_cast<int32_t>(w.u.v[l] >> (8 * j) & 255u) * static_cast<int8_t>(x.v[l] >> (8 * j));
    }
    acc.v[l] += static_cast<uint32_t>(sum);
  }
  return acc;
}
/** The largest of 32 values' bits without their signs. */
inline uint32_t largest_magnitude_bits(const float* x) {
  uint32_t largest = 0;
  for (int i = 0; i < 32; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, 4);
    bits &= 0x7FFFFFFFu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}
/** q = round(x · inverse), ties to even, for 32 values of which none exceeds 127; sums[h] = Σq of the h-th 16. */
inline void round_block(const float* x, float inverse, int8_t* q, int32_t* sums) {
  for (int i = 0; i < 32; i += kLanes) {
    const I rounded = i_round(f_mul(f_load(x + i), f_set1(inverse)));
    BANTER_LANES {
      const auto value = static_cast<int32_t>(rounded.v[l]);
      q[i + l] = static_cast<int8_t>(value);
      sums[i / 16] += value;
    }
  }
}
/** Tells the compiler that `value` may have changed, for measuring loops. */
template <class T>
inline void keep_value(T& value) {
  __asm__ volatile("" : "+m"(value));
}
#undef BANTER_LANES
