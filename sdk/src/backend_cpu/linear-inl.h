// A panel of 32 weight rows times a tile of activation rows: y[t][r] = Σ_k W[r][k] · x[t][k].
//   panel  packed_weight.h              x  ActivationBlock [tokens][cols / 32], or float [tokens][cols] for float forms
//   y      float, 32 values a token     any number of tokens; y's row stride in floats
// Bound: one token: memory; bytes = panel_bytes a panel, everything else stays in L1. From about 4 tokens on: arithmetic,
//   2 · 32 · cols · tokens operations a panel.
// Mapping: lanes are weight rows; one broadcast brings 4 columns of a token. Tile = kVectors vectors of rows × kTokens:
//   2 × 6 on AVX-512 is 12 integer sums and 12 float sums of 32 registers, and 12 independent chains hide the 4 to 5
//   cycles of a dot product's latency at 2 a cycle.
// Numerics: per block of 32 columns (16 where the type scales 16) the integer sum is exact, −zero · Σq being its start
//   value; then, in column order, f = fma(float(sum), scale · d, f), and f = fma(−minimum, d_sum, f) for types with one.
//   Float forms: 32 columns are summed by fma in order, then added to the total: error ≤ (32 + cols/32) · 2^-24 · Σ|w·x|.
//   Neither depends on the tile, so results are bit-equal for every number of tokens, and on every instruction set.
// Included inside a namespace and a target region, after a simd_*-inl.h.

#if !defined(BANTER_INLINE)
#define BANTER_INLINE inline __attribute__((always_inline))
#endif

inline constexpr int kVectorBytes = 4 * kLanes;

/** Codes of column group 4·kHalf + kGroup for kLanes rows, as 4 unsigned bytes a lane. `at` is offset by the rows. */
template <PackedForm kForm, int kHalf, int kGroup>
BANTER_INLINE I unpack(const uint8_t* at) {
  const uint8_t* const extra = at;
  at += kForm.extra_bits * 128;
  I code;
  if constexpr (kForm.base_bits == 8) {
    code = i_load(at + 128 * (4 * kHalf + kGroup));
  } else if constexpr (kForm.base_bits == 4) {
    code = i_and(i_shift<4 * kHalf>(i_load(at + 128 * kGroup)), i_set1(0x0F0F0F0F));
  } else {
    code = i_and(i_shift<2 * kGroup>(i_load(at + 128 * kHalf)), i_set1(0x03030303));
  }
  if constexpr (kForm.extra_bits == 1) {
    constexpr int kMask = 0x01010101 << kForm.base_bits;
    const I plane = i_load(extra);
    code = i_or(code, i_and(i_shift<4 * kHalf + kGroup - kForm.base_bits>(plane), i_set1(kMask)));
  } else if constexpr (kForm.extra_bits == 2) {
    constexpr int kMask = 0x03030303 << kForm.base_bits;
    const I plane = i_load(extra + 128 * kHalf);
    code = i_or(code, i_and(i_shift<2 * kGroup - kForm.base_bits>(plane), i_set1(kMask)));
  }
  if constexpr (kForm.table != kNoTable) code = i_lookup(i_table(kTables[kForm.table]), code);
  if constexpr (kForm.add != 0) code = i_add8(code, i_set1(0x01010101 * kForm.add));
  return code;
}

/** Integer sums' start value: −zero · Σq. */
template <PackedForm kForm>
BANTER_INLINE I start_value(const ActivationBlock& x, int half) {
  if constexpr (kForm.zero == Zero::k8) return i_broadcast(&x.n8);
  if constexpr (kForm.zero == Zero::k16) return i_broadcast(&x.n16);
  if constexpr (kForm.zero == Zero::k32) return i_broadcast(&x.n32[half]);
  if constexpr (kForm.zero == Zero::k128 && !kSignedWide) return i_broadcast(&x.n128);
  return i_zero();
}

/** How many groups' pair products, each at most 2 · 127 · largest code, fit a 16-bit sum: 1, 2 or 4. */
constexpr int groups_in_16_bits(PackedForm form) {
  const int largest = form.table == kE2m1       ? 28
                      : form.zero == Zero::k128 ? 128
                                                : (1 << (form.base_bits + form.extra_bits)) - 1 + form.add;
  const int groups = 32767 / (2 * 127 * largest);
  return groups >= 4 ? 4 : groups >= 2 ? 2 : 1;
}

/** One column group. Without VNNI, pair products gather in 16 bits (`pairs`) and go to `sum` after the last group that
 *  fits, which saves a third of the instructions, and half of those for the multipliers. */
template <PackedForm kForm, int kHalf, int kGroup, int kVectors, int kTokens>
BANTER_INLINE void dot_group(const uint8_t* planes, const ActivationBlock* x, int64_t stride,
                             I (&sum)[kVectors][kTokens], [[maybe_unused]] I (&pairs)[kVectors][kTokens]) {
  constexpr bool kWide = kForm.zero == Zero::k128;
  constexpr int kRun = groups_in_16_bits(kForm);
  W w[kVectors];
  for (int v = 0; v < kVectors; ++v) w[v] = prepare<kWide>(unpack<kForm, kHalf, kGroup>(planes + v * kVectorBytes));
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const I q = i_broadcast(x[t * stride].q + 16 * kHalf + 4 * kGroup);
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kHasDot) {
        sum[v][t] = dot<kWide>(sum[v][t], w[v], q);
      } else {
        const I product = multiply_pairs<kWide>(w[v], q);
        pairs[v][t] = kGroup % kRun == 0 ? product : add_pairs(pairs[v][t], product);
        if constexpr (kGroup % kRun == kRun - 1) sum[v][t] = widen_pairs(sum[v][t], pairs[v][t]);
      }
    }
  }
}

/** Half a block: 4 column groups. */
template <PackedForm kForm, int kHalf, int kVectors, int kTokens>
BANTER_INLINE void dot_half(const uint8_t* planes, const ActivationBlock* x, int64_t stride,
                            I (&sum)[kVectors][kTokens]) {
  I pairs[kVectors][kTokens];
  dot_group<kForm, kHalf, 0, kVectors, kTokens>(planes, x, stride, sum, pairs);
  dot_group<kForm, kHalf, 1, kVectors, kTokens>(planes, x, stride, sum, pairs);
  dot_group<kForm, kHalf, 2, kVectors, kTokens>(planes, x, stride, sum, pairs);
  dot_group<kForm, kHalf, 3, kVectors, kTokens>(planes, x, stride, sum, pairs);
}

/** Scale, and minimum to be subtracted, of kLanes rows from row `r` on, for half `half` of block `sub` of its header. */
template <PackedForm kForm>
BANTER_INLINE F load_scale(const uint8_t* header, const uint8_t* block, int64_t sub, int half, int r) {
  if constexpr (kForm.scale == ScaleKind::kPower) return f_from_bfloat(block + 2 * r);
  if constexpr (!kForm.is_super()) return f_from_half(block + 2 * r);
  const F d = f_from_half(header + 2 * r);
  if constexpr (kForm.scale == ScaleKind::kSuper32) return f_mul(d, f_from_i8(header + 64 + 32 * sub + r));
  if constexpr (kForm.scale == ScaleKind::kSuper32Min) return f_mul(d, f_from_i8(block + r));
  if constexpr (kForm.scale == ScaleKind::kSuper16) return f_mul(d, f_from_i8(block + 32 * half + r));
  return f_mul(d, f_from_u4<false>(block + 32 * half + r));
}
template <PackedForm kForm>
BANTER_INLINE F load_minimum(const uint8_t* header, const uint8_t* block, int half, int r) {
  if constexpr (!kForm.is_super()) return f_mul(f_from_half(block + 64 + 2 * r), f_set1(-1.0f));  // added in the file
  const F m = f_from_half(header + 64 + 2 * r);
  if constexpr (kForm.scale == ScaleKind::kSuper32Min) return f_mul(m, f_from_i8(block + 32 + r));
  return f_mul(m, f_from_u4<true>(block + 32 * half + r));
}

/** Adds a finished integer sum, of a block or of half a block, to the totals. */
template <PackedForm kForm, int kVectors, int kTokens>
BANTER_INLINE void add_scaled(const uint8_t* header, const uint8_t* block, int64_t sub, int half, int first_row,
                              const ActivationBlock* x, int64_t stride, const I (&sum)[kVectors][kTokens],
                              F (&total)[kVectors][kTokens]) {
  F scale[kVectors];
  for (int v = 0; v < kVectors; ++v) scale[v] = load_scale<kForm>(header, block, sub, half, first_row + v * kLanes);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const F d = f_set1(x[t * stride].d);
    for (int v = 0; v < kVectors; ++v) total[v][t] = f_fma(f_from_i(sum[v][t]), f_mul(scale[v], d), total[v][t]);
  }
  if constexpr (kForm.has_min()) {
    F minimum[kVectors];
    for (int v = 0; v < kVectors; ++v) minimum[v] = load_minimum<kForm>(header, block, half, first_row + v * kLanes);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const ActivationBlock& b = x[t * stride];
      // Σq of half a block is −n32 / 32, exactly.
      const F q = f_set1(kForm.per_16() ? b.d * (static_cast<float>(b.n32[half]) * -0.03125f) : b.d_sum);
      for (int v = 0; v < kVectors; ++v) total[v][t] = f_nfma(minimum[v], q, total[v][t]);
    }
  }
}

/** Asks for `kBytes` in the second-level cache. */
template <int kBytes>
BANTER_INLINE void prefetch_bytes(const uint8_t* at) {
  for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(at + line, 0, 2);
}

template <PackedForm kForm, int kVectors, int kTokens>
BANTER_INLINE void quantised_tile(const PanelCall& c, int64_t token, int first_row, bool prefetch,
                                  F (&total)[kVectors][kTokens]) {
  constexpr int kSubs = kForm.is_super() ? kSuperBlocks : 1;
  // Into the second-level cache: on Zen 4, two threads reading with 2 and 4 tokens gain a fifth over prefetching nearer
  // into the first level; 2 KiB and 16 KiB ahead were slower. One token alone keeps the hardware's prefetchers ahead, as
  // long as it reads in strict order, and only loses by ours.
  constexpr int kAhead = 5120;
  prefetch = prefetch && kTokens > 1;
  const int64_t blocks = c.cols / kBlock;
  const auto* x = static_cast<const ActivationBlock*>(c.x) + token * blocks;
  const uint8_t* block = c.panel;
  for (int64_t b = 0; b < blocks;) {
    const uint8_t* header = block;
    if (prefetch) prefetch_bytes<kForm.header_bytes()>(header + kAhead);
    block += kForm.header_bytes();
    for (int sub = 0; sub < kSubs; ++sub, ++b, ++x, block += kForm.block_bytes()) {
      if (prefetch) prefetch_bytes<kForm.block_bytes()>(block + kAhead);
      const uint8_t* planes = block + kForm.scale_bytes() + first_row * 4;
      I sum[kVectors][kTokens];
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        for (int v = 0; v < kVectors; ++v) sum[v][t] = start_value<kForm>(x[t * blocks], 0);
      }
      dot_half<kForm, 0, kVectors, kTokens>(planes, x, blocks, sum);
      if constexpr (kForm.per_16()) {
        add_scaled<kForm, kVectors, kTokens>(header, block, sub, 0, first_row, x, blocks, sum, total);
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          for (int v = 0; v < kVectors; ++v) sum[v][t] = start_value<kForm>(x[t * blocks], 1);
        }
      }
      dot_half<kForm, 1, kVectors, kTokens>(planes, x, blocks, sum);
      add_scaled<kForm, kVectors, kTokens>(header, block, sub, 1, first_row, x, blocks, sum, total);
    }
  }
}

template <FormId kId>
BANTER_INLINE F load_float_weight(const uint8_t* at) {
  if constexpr (kId == FormId::kF32) return f_load(reinterpret_cast<const float*>(at));
  if constexpr (kId == FormId::kF16) return f_from_half(at);
  return f_from_bfloat(at);
}

template <FormId kId, int kVectors, int kTokens>
BANTER_INLINE void float_tile(const PanelCall& c, int64_t token, int first_row, bool prefetch,
                              F (&total)[kVectors][kTokens]) {
  constexpr int kElement = kId == FormId::kF32 ? 4 : 2;
  constexpr int kRowBytes = kPanelRows * kElement;
  constexpr int kAhead = 4096;
  const float* x = static_cast<const float*>(c.x) + token * c.cols;
  const uint8_t* w = c.panel + first_row * kElement;
  for (int64_t begin = 0; begin < c.cols; begin += kBlock) {
    const int64_t end = begin + kBlock < c.cols ? begin + kBlock : c.cols;
    F sum[kVectors][kTokens];
    for (int v = 0; v < kVectors; ++v) {
      for (int t = 0; t < kTokens; ++t) sum[v][t] = f_zero();
    }
    for (int64_t k = begin; k < end; ++k, w += kRowBytes) {
      if (prefetch) {
        for (int at = 0; at < kRowBytes; at += 64) __builtin_prefetch(w + kAhead + at);
      }
      F row[kVectors];
      for (int v = 0; v < kVectors; ++v) row[v] = load_float_weight<kId>(w + v * kLanes * kElement);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const F value = f_set1(x[t * c.cols + k]);
        for (int v = 0; v < kVectors; ++v) sum[v][t] = f_fma(row[v], value, sum[v][t]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      for (int t = 0; t < kTokens; ++t) total[v][t] = f_add(total[v][t], sum[v][t]);
    }
  }
}

/** Rows [first_row, first_row + kVectors · kLanes) of the panel for kTokens tokens. */
template <FormId kId, int kVectors, int kTokens>
void tile(const PanelCall& c, int64_t token, int first_row, bool prefetch) {
  F total[kVectors][kTokens];
  for (int v = 0; v < kVectors; ++v) {
    for (int t = 0; t < kTokens; ++t) total[v][t] = f_zero();
  }
  if constexpr (is_quantised(kId)) {
    quantised_tile<packed_form(kId), kVectors, kTokens>(c, token, first_row, prefetch, total);
  } else {
    float_tile<kId, kVectors, kTokens>(c, token, first_row, prefetch, total);
  }
  for (int t = 0; t < kTokens; ++t) {
    float* y = c.y + static_cast<size_t>(token + t) * c.y_stride + first_row;
    for (int v = 0; v < kVectors; ++v) {
      const int left = c.rows - first_row - v * kLanes;
      if (left >= kLanes) {
        f_store(y + v * kLanes, total[v][t]);
      } else if (left > 0) {
        float values[kLanes];
        f_store(values, total[v][t]);
        for (int l = 0; l < left; ++l) y[v * kLanes + l] = values[l];
      }
    }
  }
}

template <FormId kId, int kTokens>
BANTER_INLINE void all_rows(const PanelCall& c, int64_t token, bool prefetch) {
  // A lone token takes every row at once, to read memory front to back; tiles take what the registers hold.
  constexpr int kVectors = kTokens == 1 ? kPanelRows / kLanes : 2;
  for (int row = 0; row < c.rows; row += kVectors * kLanes) {
    tile<kId, kVectors, kTokens>(c, token, row, prefetch && row == 0);
  }
}

template <FormId kId>
void panel(const PanelCall& c) {
  int64_t token = 0;
  const auto left = [&] { return c.tokens - token; };
  const auto first = [&] { return c.prefetch && token == 0; };
  if constexpr (kMaxTokens >= 6) {
    for (; left() >= 6; token += 6) all_rows<kId, 6>(c, token, first());
    if (left() == 5) all_rows<kId, 5>(c, token, first()), token += 5;
  }
  if constexpr (kMaxTokens >= 4) {
    for (; left() >= 4; token += 4) all_rows<kId, 4>(c, token, first());
    if (left() >= 3) all_rows<kId, 3>(c, token, first()), token += 3;
    if (left() >= 2) all_rows<kId, 2>(c, token, first()), token += 2;
  }
  for (; left() >= 1; ++token) all_rows<kId, 1>(c, token, first());
}
