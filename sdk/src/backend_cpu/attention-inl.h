// Attention over the paged cache, prefill and decode alike: the query vectors of some rows of one sequence that share a
// KV head.
//   q, out [rows][heads][head_dim] f32;  K and V pages: cache-inl.h
// Bound: decode by memory, rows · kv_len · 2 · kv_vector_bytes (K and V, once per KV head thanks to query grouping);
// prefill by arithmetic, 4 · queries · kv_len · head_dim flops.
// Mapping: keys in blocks of 64 at absolute positions (block b = [64 b, 64 b + 64)); a block is widened to float32 in
// scratch once and used by all queries of the unit. Scores: register tile kQueryTile queries × kKeyVectors vectors of
// keys, one fused multiply-add chain per score over the dimensions. Values: kQueryTile queries × kKeyVectors vectors of
// dimensions. Numerics: online softmax in float32 over blocks in rising order. What is done for a query depends on its
// own position only (blocks lie at absolute positions, keys outside the window weigh exactly 0), so results are
// bit-equal however rows are grouped into units and calls. Of a quantised cache with a companion (ops/kv_format.h) a
// block may be read twice: as F16 by the rows that are near, as quantised by those further on.

constexpr int kBlock = kAttentionBlock;
static_assert(kBlock == ops::kKvRecentBlock, "whole blocks are recent or not");
#if BANTER_VECTOR_BITS == 512
constexpr int kQueryTile = 6, kTileVectors = 4;  // 24 accumulators + 4 loads + 1 broadcast of 32 registers
#elif BANTER_VECTOR_BITS == 256
constexpr int kQueryTile = 3, kTileVectors = 4;  // 12 accumulators + 3 of 16 registers
#else
constexpr int kQueryTile = 1, kTileVectors = 4;
#endif

struct AttentionScratch {
  float* keys;      // [head_dim][kBlock]
  float* values;    // [kBlock][padded_dim]
  float* scores;    // [queries][kBlock]
  float* outputs;   // [queries][padded_dim]
  float* sums;      // [queries][16]: kLanes partial sums of the weights
  float* maxima;    // [queries]
  const float** q;  // [queries]
};

/** Widens block `block` of K and V. Positions outside [first, end) become zero: their pages may be gone or unwritten.
 */
template <class Pages>
static void load_block(const AttentionUnit& unit, const ops::KvPages& kv, int32_t block, int32_t first, int32_t end,
                       int32_t padded, const AttentionScratch& s) {
  const ops::KvGeometry& geometry = kv.geometry;
  const int32_t* table = unit.sequence->page_tables[static_cast<size_t>(kv.group)].data();
  const int32_t dim = geometry.head_dim, tokens = geometry.page_tokens;
  const size_t key_offset = geometry.offset(unit.params->layer, 0, unit.kv_head);
  const size_t value_offset = geometry.offset(unit.params->layer, 1, unit.kv_head);
  for (int32_t part = 0; part < kBlock; part += 16) {  // 16 neighbouring positions never straddle pages
    const int32_t position = block * kBlock + part;
    float* keys = s.keys + part;
    float* values = s.values + static_cast<size_t>(part) * static_cast<size_t>(padded);
    if (position >= end || position + 16 <= first) {
      for (int32_t d = 0; d < dim; ++d) memset(keys + static_cast<size_t>(d) * kBlock, 0, 16 * sizeof(float));
      memset(values, 0, 16 * sizeof(float) * static_cast<size_t>(padded));
      continue;
    }
    const char* page = reinterpret_cast<const char*>(kv.page(table[position / tokens]));
    Pages::load_keys(page + key_offset, position % tokens, tokens, dim, keys);
    for (int32_t t = 0; t < 16; ++t) {
      float* row = values + static_cast<size_t>(t) * static_cast<size_t>(padded);
      if (position + t >= end || position + t < first) {
        memset(row, 0, sizeof(float) * static_cast<size_t>(padded));
        continue;
      }
      Pages::load_value(page + value_offset, position % tokens + t, tokens, dim, padded, row);
    }
  }
}

static void load_pages(const AttentionUnit& unit, const ops::KvPages& kv, int32_t block, int32_t first, int32_t end,
                       int32_t padded, const AttentionScratch& s) {
  switch (kv.geometry.type) {
    case ops::KvType::kF16:
      return load_block<HalfPages>(unit, kv, block, first, end, padded, s);
    case ops::KvType::kF32:
      return load_block<FloatPages>(unit, kv, block, first, end, padded, s);
    case ops::KvType::kBF16:
      return load_block<BfloatPages>(unit, kv, block, first, end, padded, s);
    case ops::KvType::kI8:
      return load_block<Int8Pages>(unit, kv, block, first, end, padded, s);
    case ops::KvType::kI4:
      return load_block<Int4Pages>(unit, kv, block, first, end, padded, s);
  }
}

/** scores[q][key] = q · key for Q queries, all 64 keys. */
template <int Q>
static inline void score_tile(const float* const* q, const float* keys, int32_t dim, float* scores) {
  for (int32_t key = 0; key < kBlock; key += kTileVectors * kLanes) {
    Vec sum[Q][kTileVectors];
    for (int i = 0; i < Q; ++i)
      for (int u = 0; u < kTileVectors; ++u) sum[i][u] = vec_zero();
    for (int32_t d = 0; d < dim; ++d) {
      Vec k[kTileVectors];
      for (int u = 0; u < kTileVectors; ++u) k[u] = vec_load(keys + static_cast<size_t>(d) * kBlock + key + u * kLanes);
      for (int i = 0; i < Q; ++i) {
        const Vec x = vec_set(q[i][d]);
        for (int u = 0; u < kTileVectors; ++u) sum[i][u] = vec_fma(x, k[u], sum[i][u]);
      }
    }
    for (int i = 0; i < Q; ++i)
      for (int u = 0; u < kTileVectors; ++u)
        vec_store(scores + static_cast<size_t>(i) * kBlock + key + u * kLanes, sum[i][u]);
  }
}

/** outputs[q][d] += Σ weight[q][key] · value[key][d] for Q queries and V vectors of dimensions. */
template <int Q, int V>
static inline void value_tile(const float* weights, const float* values, int32_t padded, float* outputs) {
  Vec sum[Q][V];
  for (int i = 0; i < Q; ++i)
    for (int u = 0; u < V; ++u)
      sum[i][u] = vec_load(outputs + static_cast<size_t>(i) * static_cast<size_t>(padded) + u * kLanes);
  for (int32_t key = 0; key < kBlock; ++key) {
    Vec v[V];
    for (int u = 0; u < V; ++u)
      v[u] = vec_load(values + static_cast<size_t>(key) * static_cast<size_t>(padded) + u * kLanes);
    for (int i = 0; i < Q; ++i) {
      const Vec w = vec_set(weights[static_cast<size_t>(i) * kBlock + key]);
      for (int u = 0; u < V; ++u) sum[i][u] = vec_fma(w, v[u], sum[i][u]);
    }
  }
  for (int i = 0; i < Q; ++i)
    for (int u = 0; u < V; ++u)
      vec_store(outputs + static_cast<size_t>(i) * static_cast<size_t>(padded) + u * kLanes, sum[i][u]);
}

template <int Q>
static inline void add_values(const float* weights, const float* values, int32_t padded, float* outputs) {
  int32_t d = 0;
  for (; d + kTileVectors * kLanes <= padded; d += kTileVectors * kLanes)
    value_tile<Q, kTileVectors>(weights, values + d, padded, outputs + d);
  for (; d < padded; d += kLanes) value_tile<Q, 1>(weights, values + d, padded, outputs + d);
}

/** Turns the scores of one query into weights, and rescales what it has summed so far. Visible keys: [first, end) of
 * the block. */
static inline void soften(const ops::AttentionParams& params, int32_t first, int32_t end, int32_t padded, float* scores,
                          float* maximum, float* sums, float* output) {
  const Vec scale = vec_set(params.scale), lowest = vec_set(-INFINITY);
  Vec highest = lowest;
  for (int32_t i = 0; i < kBlock; i += kLanes) {
    Vec x = vec_mul(vec_load(scores + i), scale);
    if (params.softcap > 0) x = vec_mul(vec_tanh(vec_div(x, vec_set(params.softcap))), vec_set(params.softcap));
    x = vec_select_range(first - i, end - i, x, lowest);
    vec_store(scores + i, x);
    highest = vec_max(highest, x);
  }
  const float before = *maximum, block = vec_highest(highest);
  const float now = before > block ? before : block;
  if (!(now > -INFINITY)) {  // nothing but NaN or -inf: weigh nothing, the caller sees a sum of 0
    memset(scores, 0, kBlock * sizeof(float));
    return;
  }
  const Vec m = vec_set(now);
  const bool rescale = before != now;
  float factor_lane[kLanes];
  vec_store(factor_lane, vec_exp(vec_set(before - now)));
  const Vec factor = vec_set(before > -INFINITY ? factor_lane[0] : 0.0f);
  Vec sum = vec_load(sums);
  if (rescale) sum = vec_mul(sum, factor);
  for (int32_t i = 0; i < kBlock; i += kLanes) {
    // Masked keys: exp clamps at e^-87, so they are zeroed by selection rather than by the exponential.
    const Vec w = vec_select_range(first - i, end - i, vec_exp(vec_sub(vec_load(scores + i), m)), vec_zero());
    vec_store(scores + i, w);
    sum = vec_add(sum, w);
  }
  vec_store(sums, sum);
  *maximum = now;
  if (rescale)
    for (int32_t d = 0; d < padded; d += kLanes) vec_store(output + d, vec_mul(vec_load(output + d), factor));
}

static AttentionScratch divide_scratch(float* scratch, int32_t dim, int32_t padded, int32_t queries) {
  AttentionScratch s;
  s.keys = scratch;
  s.values = s.keys + static_cast<size_t>(dim) * kBlock;
  s.scores = s.values + static_cast<size_t>(padded) * kBlock;
  s.outputs = s.scores + static_cast<size_t>(queries) * kBlock;
  s.sums = s.outputs + static_cast<size_t>(queries) * static_cast<size_t>(padded);
  s.q = reinterpret_cast<const float**>(s.sums + static_cast<size_t>(queries) * 16);
  s.maxima = reinterpret_cast<float*>(s.q + queries);
  return s;
}

/** One block for the queries of the unit's rows [first_row, end_row) that see some of it. Query i belongs to row
 *  i / group. */
static void attend_block(const AttentionUnit& unit, const AttentionScratch& s, int32_t block, int32_t group,
                         int32_t padded, int32_t first_row, int32_t end_row) {
  const ops::AttentionParams& params = *unit.params;
  const int32_t dim = params.kv->geometry.head_dim, start = block * kBlock;
  const int32_t base = unit.sequence->position + unit.first;
  // Rows before this block see nothing of it, and with a window neither do rows far behind it.
  int32_t from = start - base > first_row ? start - base : first_row, to = end_row;
  if (params.window > 0) {
    const int32_t last =
        start + kBlock - 1 + params.window - 1 - base;  // last row that still sees the block's last key
    to = last + 1 < to ? last + 1 : to;
  }
  int32_t query = from * group;
  const int32_t end_query = to * group;
  while (query < end_query) {
    const int32_t n = end_query - query < kQueryTile ? end_query - query : kQueryTile;
    float* scores = s.scores + static_cast<size_t>(query) * kBlock;
    float* outputs = s.outputs + static_cast<size_t>(query) * static_cast<size_t>(padded);
    switch (n) {
#if BANTER_VECTOR_BITS == 512
      case 6:
        score_tile<6>(s.q + query, s.keys, dim, scores);
        break;
      case 5:
        score_tile<5>(s.q + query, s.keys, dim, scores);
        break;
      case 4:
        score_tile<4>(s.q + query, s.keys, dim, scores);
        break;
#endif
#if BANTER_VECTOR_BITS != 0
      case 3:
        score_tile<3>(s.q + query, s.keys, dim, scores);
        break;
      case 2:
        score_tile<2>(s.q + query, s.keys, dim, scores);
        break;
#endif
      default:
        score_tile<1>(s.q + query, s.keys, dim, scores);
        break;
    }
    for (int32_t i = 0; i < n; ++i) {
      const int32_t position = base + (query + i) / group;
      const int32_t first =
          params.window > 0 && position - params.window + 1 > start ? position - params.window + 1 - start : 0;
      soften(params, first, position + 1 - start, padded, scores + static_cast<size_t>(i) * kBlock,
             s.maxima + query + i, s.sums + static_cast<size_t>(query + i) * 16,
             outputs + static_cast<size_t>(i) * static_cast<size_t>(padded));
    }
    switch (n) {
#if BANTER_VECTOR_BITS == 512
      case 6:
        add_values<6>(scores, s.values, padded, outputs);
        break;
      case 5:
        add_values<5>(scores, s.values, padded, outputs);
        break;
      case 4:
        add_values<4>(scores, s.values, padded, outputs);
        break;
#endif
#if BANTER_VECTOR_BITS != 0
      case 3:
        add_values<3>(scores, s.values, padded, outputs);
        break;
      case 2:
        add_values<2>(scores, s.values, padded, outputs);
        break;
#endif
      default:
        add_values<1>(scores, s.values, padded, outputs);
        break;
    }
    query += n;
  }
}

static void attention_unit(const AttentionUnit& unit, float* scratch) {
  const ops::AttentionParams& params = *unit.params;
  const int32_t dim = params.kv->geometry.head_dim, group = params.heads / params.kv->geometry.kv_heads;
  const int32_t queries = unit.rows * group, padded = (dim + 15) / 16 * 16;
  const bool spread = ops::kv_is_quantised(params.kv->geometry.type);
  const AttentionScratch s = divide_scratch(scratch, dim, padded, queries);
  const size_t row_stride = static_cast<size_t>(params.heads) * static_cast<size_t>(dim);
  const size_t first_row = static_cast<size_t>(unit.sequence->first_row + unit.first);
  for (int32_t i = 0; i < queries; ++i) {
    s.q[i] = params.q + (first_row + static_cast<size_t>(i / group)) * row_stride +
             static_cast<size_t>(unit.kv_head * group + i % group) * static_cast<size_t>(dim);
    s.maxima[i] = -INFINITY;
  }
  memset(s.outputs, 0, sizeof(float) * static_cast<size_t>(queries) * static_cast<size_t>(padded));
  memset(s.sums, 0, sizeof(float) * static_cast<size_t>(queries) * 16);

  const int32_t first_position = unit.sequence->position + unit.first, end = first_position + unit.rows;
  const int32_t oldest =
      params.window > 0 && first_position - params.window + 1 > 0 ? first_position - params.window + 1 : 0;
  for (int32_t block = oldest / kBlock; block * kBlock < end; ++block) {
    int32_t near_rows = 0;  // the first rows, for which the block is recent
    if (params.recent != nullptr && spread) {
      const int32_t last_near = (block + 2) * kBlock - first_position;
      near_rows = last_near < 0 ? 0 : last_near < unit.rows ? last_near : unit.rows;
    }
    if (near_rows > 0) {
      load_pages(unit, *params.recent, block, oldest, end, padded, s);
      attend_block(unit, s, block, group, padded, 0, near_rows);
    }
    if (near_rows < unit.rows) {
      load_pages(unit, *params.kv, block, oldest, end, padded, s);
      attend_block(unit, s, block, group, padded, near_rows, unit.rows);
    }
  }
  for (int32_t i = 0; i < queries; ++i) {
    float* out = params.out + (first_row + static_cast<size_t>(i / group)) * row_stride +
                 static_cast<size_t>(unit.kv_head * group + i % group) * static_cast<size_t>(dim);
    const float inverse = 1.0f / vec_sum(vec_load(s.sums + static_cast<size_t>(i) * 16));
    const float* output = s.outputs + static_cast<size_t>(i) * static_cast<size_t>(padded);
    for (int32_t d = 0; d < dim; ++d) out[d] = output[d] * inverse;
    if (spread) rotate_for_cache(out, dim);
  }
}
