// Attention over the paged cache, prefill and decode alike: the query vectors of some rows of one sequence that share a
// KV head.
//   q, out [rows][heads][head_dim] f32;  K and V pages: cache-inl.h
// Bound: decode by memory, rows · kv_len · 2 · kv_vector_bytes (K and V, once per KV head thanks to query grouping);
// prefill by arithmetic, 4 · queries · kv_len · head_dim flops.
// Mapping: keys in blocks of 64 at absolute positions (block b = [64 b, 64 b + 64)); a block's keys, then its values, are
// widened to float32 in scratch once and used by all queries of the unit, while the next block is brought near. Scores:
// register tile kQueryTile queries × kTileVectors vectors of keys, one fused multiply-add chain per score over the
// dimensions. Values: kQueryTile queries × kTileVectors vectors of
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
  float* widened;   // of the block at hand, the keys [head_dim][kBlock] and after them the values [kBlock][padded_dim]
  float* scores;    // [queries][kBlock]
  float* outputs;   // [queries][padded_dim]
  float* sums;      // [queries][16]: kLanes partial sums of the weights
  float* maxima;    // [queries]
  const float** q;  // [queries]
};

/** Where a block's keys and values come from. Positions outside [first, end) count as zero: their pages may be gone or
 *  unwritten. */
struct BlockSource {
  const AttentionUnit* unit;
  const ops::KvPages* kv;
  int32_t block, first, end;
};

/** Widens a block's keys, or its values. */
template <class Pages>
static void widen(const BlockSource& from, bool values, int32_t padded, float* out) {
  const ops::KvGeometry& geometry = from.kv->geometry;
  const int32_t* table = from.unit->sequence->page_tables[static_cast<size_t>(from.kv->group)].data();
  const int32_t dim = geometry.head_dim, tokens = geometry.page_tokens;
  const size_t offset = geometry.offset(from.unit->params->layer, values ? 1 : 0, from.unit->kv_head);
  for (int32_t part = 0; part < kBlock; part += 16) {  // 16 neighbouring positions never straddle pages
    const int32_t position = from.block * kBlock + part;
    float* keys = out + part;
    float* rows = out + static_cast<size_t>(part) * static_cast<size_t>(padded);
    if (position >= from.end || position + 16 <= from.first) {
      if (values)
        memset(rows, 0, 16 * sizeof(float) * static_cast<size_t>(padded));
      else
        for (int32_t d = 0; d < dim; ++d) memset(keys + static_cast<size_t>(d) * kBlock, 0, 16 * sizeof(float));
      continue;
    }
    const char* region = reinterpret_cast<const char*>(from.kv->page(table[position / tokens])) + offset;
    if (!values) {
      Pages::load_keys(region, position % tokens, tokens, dim, keys);
      continue;
    }
    for (int32_t t = 0; t < 16; ++t) {
      float* row = rows + static_cast<size_t>(t) * static_cast<size_t>(padded);
      if (position + t >= from.end || position + t < from.first)
        memset(row, 0, sizeof(float) * static_cast<size_t>(padded));
      else
        Pages::load_value(region, position % tokens + t, tokens, dim, padded, row);
    }
  }
}

static void widen_block(const BlockSource& from, bool values, int32_t padded, float* out) {
  switch (from.kv->geometry.type) {
    case ops::KvType::kF16:
      return widen<HalfPages>(from, values, padded, out);
    case ops::KvType::kF32:
      return widen<FloatPages>(from, values, padded, out);
    case ops::KvType::kBF16:
      return widen<BfloatPages>(from, values, padded, out);
    case ops::KvType::kI8:
      return widen<Int8Pages>(from, values, padded, out);
    case ops::KvType::kI4:
      return widen<Int4Pages>(from, values, padded, out);
  }
}

/** Brings the next block of K and V into the second-level cache while one is computed with: pages are small and lie
 *  anywhere, so the hardware does not guess them. Line by line between other work, since few can be under way at once;
 *  not into the first level, which the widened halves fill. (Zen 4: decoding at 4 096 tokens takes 0.55 times as long as
 *  without, 0.88 with the first level.) */
class BlockAhead {
 public:
  /** `steps`: how often fetch() will be called before the block is needed, about. */
  BlockAhead(const BlockSource& next, int32_t steps) {
    const ops::KvGeometry& geometry = next.kv->geometry;
    const int32_t* table = next.unit->sequence->page_tables[static_cast<size_t>(next.kv->group)].data();
    const int32_t start = next.block * kBlock > next.first ? next.block * kBlock : next.first;
    const int32_t end = (next.block + 1) * kBlock < next.end ? (next.block + 1) * kBlock : next.end;
    // Pages of more tokens than a block has hold other blocks' lines too.
    if (start >= end || geometry.page_tokens > kBlock) return;
    run_bytes_ = geometry.head_bytes();
    for (int value = 0; value < 2; ++value)
      for (int32_t page = start / geometry.page_tokens; page <= (end - 1) / geometry.page_tokens; ++page)
        runs_[count_++] = reinterpret_cast<const char*>(next.kv->page(table[page])) +
                          geometry.offset(next.unit->params->layer, value, next.unit->kv_head);
    each_ = static_cast<int32_t>(run_bytes_ / kLine) * count_ / (steps > 0 ? steps : 1) + 1;
  }

  inline void fetch() {
    for (int32_t i = 0; i < each_; ++i, at_ += kLine) {
      if (at_ >= end_) {
        if (run_ == count_) {
          each_ = 0;
          return;
        }
        at_ = runs_[run_++];
        end_ = at_ + run_bytes_;
      }
      __builtin_prefetch(at_, 0, 2);
    }
  }

 private:
  static constexpr size_t kLine = 64;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  size_t run_bytes_ = 0;
  int32_t run_ = 0, count_ = 0, each_ = 0;
  const char* runs_[2 * (kBlock / 16 + 1)];  // K of each page, then V
};

/** scores[q][key] = q · key for Q queries, all 64 keys. */
template <int Q>
static inline void score_tile(const float* const* q, const float* keys, int32_t dim, float* scores, BlockAhead& ahead) {
  for (int32_t key = 0; key < kBlock; key += kTileVectors * kLanes) {
    Vec sum[Q][kTileVectors];
    for (int i = 0; i < Q; ++i)
      for (int u = 0; u < kTileVectors; ++u) sum[i][u] = vec_zero();
    for (int32_t d = 0; d < dim; ++d) {
      ahead.fetch();
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
static inline void value_tile(const float* weights, const float* values, int32_t padded, float* outputs,
                              BlockAhead& ahead) {
  Vec sum[Q][V];
  for (int i = 0; i < Q; ++i)
    for (int u = 0; u < V; ++u)
      sum[i][u] = vec_load(outputs + static_cast<size_t>(i) * static_cast<size_t>(padded) + u * kLanes);
  for (int32_t key = 0; key < kBlock; ++key) {
    ahead.fetch();
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
static inline void add_values(const float* weights, const float* values, int32_t padded, float* outputs,
                              BlockAhead& ahead) {
  int32_t d = 0;
  for (; d + kTileVectors * kLanes <= padded; d += kTileVectors * kLanes)
    value_tile<Q, kTileVectors>(weights, values + d, padded, outputs + d, ahead);
  for (; d < padded; d += kLanes) value_tile<Q, 1>(weights, values + d, padded, outputs + d, ahead);
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

static AttentionScratch divide_scratch(float* scratch, int32_t padded, int32_t queries) {
  AttentionScratch s;
  s.widened = scratch;
  s.scores = s.widened + static_cast<size_t>(padded) * kBlock;
  s.outputs = s.scores + static_cast<size_t>(queries) * kBlock;
  s.sums = s.outputs + static_cast<size_t>(queries) * static_cast<size_t>(padded);
  s.q = reinterpret_cast<const float**>(s.sums + static_cast<size_t>(queries) * 16);
  s.maxima = reinterpret_cast<float*>(s.q + queries);
  return s;
}

static inline void score_queries(const AttentionScratch& s, int32_t query, int32_t n, int32_t dim, BlockAhead& ahead) {
  float* scores = s.scores + static_cast<size_t>(query) * kBlock;
  switch (n) {
#if BANTER_VECTOR_BITS == 512
    case 6:
      return score_tile<6>(s.q + query, s.widened, dim, scores, ahead);
    case 5:
      return score_tile<5>(s.q + query, s.widened, dim, scores, ahead);
    case 4:
      return score_tile<4>(s.q + query, s.widened, dim, scores, ahead);
#endif
#if BANTER_VECTOR_BITS != 0
    case 3:
      return score_tile<3>(s.q + query, s.widened, dim, scores, ahead);
    case 2:
      return score_tile<2>(s.q + query, s.widened, dim, scores, ahead);
#endif
    default:
      return score_tile<1>(s.q + query, s.widened, dim, scores, ahead);
  }
}

static inline void add_query_values(const AttentionScratch& s, int32_t query, int32_t n, int32_t padded,
                                    BlockAhead& ahead) {
  const float* weights = s.scores + static_cast<size_t>(query) * kBlock;
  float* outputs = s.outputs + static_cast<size_t>(query) * static_cast<size_t>(padded);
  switch (n) {
#if BANTER_VECTOR_BITS == 512
    case 6:
      return add_values<6>(weights, s.widened, padded, outputs, ahead);
    case 5:
      return add_values<5>(weights, s.widened, padded, outputs, ahead);
    case 4:
      return add_values<4>(weights, s.widened, padded, outputs, ahead);
#endif
#if BANTER_VECTOR_BITS != 0
    case 3:
      return add_values<3>(weights, s.widened, padded, outputs, ahead);
    case 2:
      return add_values<2>(weights, s.widened, padded, outputs, ahead);
#endif
    default:
      return add_values<1>(weights, s.widened, padded, outputs, ahead);
  }
}

/** How many of `left` queries the next tile takes: as many as fit, but no tile of a few behind a full one. */
static inline int32_t tile_queries(int32_t left) {
  if (left <= kQueryTile) return left;
  return left < 2 * kQueryTile ? (left + 1) / 2 : kQueryTile;
}

/** One block for the queries of the unit's rows [first_row, end_row) that see some of it. Query i belongs to row
 *  i / group. All scores first, then all values: one widened half of the block at a time stays in the nearest cache. */
static void attend_block(const BlockSource& from, const AttentionScratch& s, int32_t group, int32_t padded,
                         int32_t first_row, int32_t end_row) {
  const ops::AttentionParams& params = *from.unit->params;
  const int32_t dim = params.kv->geometry.head_dim, start = from.block * kBlock;
  const int32_t base = from.unit->sequence->position + from.unit->first;
  // Rows before this block see nothing of it, and with a window neither do rows far behind it.
  const int32_t first = start - base > first_row ? start - base : first_row;
  int32_t end = end_row;
  if (params.window > 0) {
    const int32_t last = start + kBlock - 1 + params.window - 1 - base;  // that still sees the block's last key
    end = last + 1 < end ? last + 1 : end;
  }
  if (first >= end) return;
  const int32_t first_query = first * group, end_query = end * group;

  BlockSource next = from;
  ++next.block;
  const int32_t tiles = (end_query - first_query + kQueryTile - 1) / kQueryTile;
  BlockAhead ahead(next, tiles * (dim + kBlock));
  widen_block(from, false, padded, s.widened);
  for (int32_t query = first_query, n; query < end_query; query += n) {
    n = tile_queries(end_query - query);
    score_queries(s, query, n, dim, ahead);
    for (int32_t i = query; i < query + n; ++i) {
      const int32_t position = base + i / group;
      const int32_t oldest = position - params.window + 1;
      soften(params, params.window > 0 && oldest > start ? oldest - start : 0, position + 1 - start, padded,
             s.scores + static_cast<size_t>(i) * kBlock, s.maxima + i, s.sums + static_cast<size_t>(i) * 16,
             s.outputs + static_cast<size_t>(i) * static_cast<size_t>(padded));
    }
  }
  widen_block(from, true, padded, s.widened);
  for (int32_t query = first_query, n; query < end_query; query += n) {
    n = tile_queries(end_query - query);
    add_query_values(s, query, n, padded, ahead);
  }
}

static void attention_unit(const AttentionUnit& unit, float* scratch) {
  const ops::AttentionParams& params = *unit.params;
  const int32_t dim = params.kv->geometry.head_dim, group = params.heads / params.kv->geometry.kv_heads;
  const int32_t queries = unit.rows * group, padded = (dim + 15) / 16 * 16;
  const bool spread = ops::kv_is_quantised(params.kv->geometry.type);
  const AttentionScratch s = divide_scratch(scratch, padded, queries);
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
      attend_block({&unit, params.recent, block, oldest, end}, s, group, padded, 0, near_rows);
    }
    if (near_rows < unit.rows) {
      attend_block({&unit, params.kv, block, oldest, end}, s, group, padded, near_rows, unit.rows);
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
