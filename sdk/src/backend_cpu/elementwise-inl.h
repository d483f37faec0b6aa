// Quantising activations, gating and soft-capping. Included inside a namespace and a target region, after linear-inl.h.

/** Float rows to ActivationBlocks. Bound: caches; 4 bytes in, 2 out a value. See kernels.h for the rule. */
BANTER_INLINE void quantize_block(const float* x, ActivationBlock& out) {
  // Magnitudes compare as integers, NaN above infinity above all others: no float comparison loses a NaN.
  const uint32_t largest = largest_magnitude_bits(x);
  float maximum;
  __builtin_memcpy(&maximum, &largest, 4);
  const bool finite = largest < 0x7F800000u;
  int32_t half[2] = {0, 0};
  if (finite && maximum >= 1e-30f) {  // below, 127 / maximum could overflow
    round_block(x, 127.0f / maximum, out.q, half);
    out.d = maximum / 127.0f;
  } else {
    __builtin_memset(out.q, 0, sizeof out.q);
    out.d = finite ? 0.0f : __builtin_nanf("");
  }
  const int32_t sum = half[0] + half[1];
  out.d_sum = out.d * static_cast<float>(sum);
  out.n8 = -8 * sum;
  out.n16 = -16 * sum;
  out.n128 = -128 * sum;
  out.n32[0] = -32 * half[0];
  out.n32[1] = -32 * half[1];
  out.unused = 0;
}

inline void quantize(const float* x, int64_t cols, ActivationBlock* out) {
  for (int64_t b = 0; b < cols / kBlock; ++b) quantize_block(x + b * kBlock, out[b]);
}

/** e^x to about 1 ulp for x in [-87, 88], clamped outside; NaN stays NaN. e^x = 2^n · e^r, |r| ≤ ln2 / 2, with e^r by its
 *  Taylor polynomial of degree 7 (remainder r^8 / 8! < 2^-27). */
BANTER_INLINE F f_exp(F x) {
  x = f_min(f_set1(88.0f), f_max(f_set1(-87.0f), x));
  const I n = i_round(f_mul(x, f_set1(1.44269504f)));
  const F whole = f_from_i(n);
  F r = f_nfma(whole, f_set1(0.693359375f), x);  // ln 2 in two parts, the first exact with n
  r = f_nfma(whole, f_set1(-2.12194440e-4f), r);
  F p = f_set1(1.0f / 5040);
  p = f_fma(p, r, f_set1(1.0f / 720));
  p = f_fma(p, r, f_set1(1.0f / 120));
  p = f_fma(p, r, f_set1(1.0f / 24));
  p = f_fma(p, r, f_set1(1.0f / 6));
  p = f_fma(p, r, f_set1(0.5f));
  p = f_fma(p, r, f_set1(1.0f));
  p = f_fma(p, r, f_set1(1.0f));
  return f_mul(p, f_power2(n));
}

/** silu(g) = g / (1 + e^-g); gelu_tanh(g) = g / (1 + e^-2u), u = √(2/π) · (g + 0.044715 g³), as ½(1 + tanh u) is the
 *  logistic function of 2u. */
template <ops::Activation kActivation>
BANTER_INLINE F activated(F g) {
  F z = f_mul(g, f_set1(-1.0f));
  if constexpr (kActivation == ops::Activation::kGeluTanh) {
    const F inner = f_fma(f_mul(f_mul(g, g), f_set1(0.044715f)), g, g);
    z = f_mul(inner, f_set1(-1.5957691216f));  // −2 √(2/π)
  }
  return f_div(g, f_add(f_set1(1.0f), f_exp(z)));
}

/** Runs f on `count` values in vectors; the last few through a copy. Two inputs, one output that may be an input. */
template <class Function>
BANTER_INLINE void for_values(const float* a, const float* b, float* out, size_t count, Function f) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f_store(out + i, f(f_load(a + i), f_load(b + i)));
  if (i == count) return;
  float last_a[kLanes] = {};
  float last_b[kLanes] = {};
  __builtin_memcpy(last_a, a + i, (count - i) * sizeof(float));
  __builtin_memcpy(last_b, b + i, (count - i) * sizeof(float));
  f_store(last_a, f(f_load(last_a), f_load(last_b)));
  __builtin_memcpy(out + i, last_a, (count - i) * sizeof(float));
}

struct SiluGate {
  BANTER_INLINE F operator()(F g, F u) const { return f_mul(activated<ops::Activation::kSilu>(g), u); }
};
struct GeluGate {
  BANTER_INLINE F operator()(F g, F u) const { return f_mul(activated<ops::Activation::kGeluTanh>(g), u); }
};
/** cap · tanh(v / cap), tanh |a| = (1 − e) / (1 + e), e = e^(−2|a|): absolute error ≤ cap · 2^-23. */
struct SoftCap {
  F cap, inverse;
  BANTER_INLINE F operator()(F v, F) const {
    const F a = f_mul(v, inverse);
    const F e = f_exp(f_mul(f_abs(a), f_set1(-2.0f)));
    const F tanh = f_div(f_nfma(f_set1(1.0f), e, f_set1(1.0f)), f_add(f_set1(1.0f), e));
    return f_mul(f_copysign(tanh, a), cap);
  }
};

inline void gate(ops::Activation activation, const float* gate, const float* up, float* out, size_t count) {
  if (activation == ops::Activation::kSilu) {
    for_values(gate, up, out, count, SiluGate{});
  } else {
    for_values(gate, up, out, count, GeluGate{});
  }
}

inline void softcap(float* values, size_t count, float cap) {
  for_values(values, values, values, count, SoftCap{f_set1(cap), f_set1(1.0f / cap)});
}
