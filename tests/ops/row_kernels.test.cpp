// Norm, rotary embedding with KV write, and attention of every instruction set, against float64 formulas; and that a
// row's result does not depend on how rows are grouped.
#include "backend_cpu/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backend_cpu/cpu_backend.h"
#include "base/half.h"

namespace banter::cpu {
namespace {

struct Named {
  const char* name;
  const RowKernels* kernels;
};

std::vector<Named> tables() {
  std::vector<Named> result{{"scalar", &row_kernels_scalar()}};
  for (const Isa isa : available_isas()) {
    if (isa == Isa::kAvx2) result.push_back({"avx2", &row_kernels_avx2()});
    if (isa == Isa::kAvx512) result.push_back({"avx512", &row_kernels_avx512()});
  }
  return result;
}

struct Shape {
  int32_t heads, kv_heads, head_dim, page_tokens, length, window;
  float softcap;
};

/** A sequence whose cache was filled through rope_kv, with pages scattered over a slab that holds NaN elsewhere. */
struct Fixture {
  Shape shape;
  std::mt19937 random{7};
  std::vector<float> q, k, v;  // [length][heads or kv_heads][head_dim], before rotation
  std::vector<std::byte> slab;
  std::vector<int32_t> table;
  ops::KvPages kv;
  ops::StepSequence sequence;

  explicit Fixture(const Shape& s) : shape(s) {
    std::normal_distribution<float> normal;
    q.resize(static_cast<size_t>(s.length * s.heads * s.head_dim));
    k.resize(static_cast<size_t>(s.length * s.kv_heads * s.head_dim));
    v.resize(k.size());
    for (auto* values : {&q, &k, &v})
      for (float& x : *values) x = normal(random);
    kv.geometry = {ops::KvType::kF16, 2, s.kv_heads, s.head_dim, s.page_tokens};
    kv.page_stride = (kv.geometry.page_bytes() + 63) / 64 * 64;
    const int32_t pages = (s.length + s.page_tokens - 1) / s.page_tokens;
    slab.assign(kv.page_stride * static_cast<size_t>(2 * pages + 1), std::byte{0xFF});  // halves 0xFFFF are NaN
    kv.slab = slab.data();
    for (int32_t i = 0; i < pages; ++i) table.push_back(2 * (pages - i));
    sequence.page_tables[0] = table;
  }

  ops::StepSequence at(int32_t position, int32_t rows) const {
    ops::StepSequence s = sequence;
    s.position = position;
    s.rows = rows;
    return s;
  }

  /** Writes all keys and values (without rotation) to layer 1. */
  void fill(const RowKernels& kernels) {
    alignas(64) float scratch[512];
    std::vector<float> unused = q;
    ops::RopeKvParams params{unused.data(), k.data(), v.data()};
    params.heads = shape.heads;
    params.kv = &kv;
    params.layer = 1;
    for (int32_t t = 0; t < shape.length; ++t) kernels.rope_kv(params, {}, at(t, 1), t, t, scratch);
  }

  ops::AttentionParams params(float* out) const {
    ops::AttentionParams p{q.data(), out};
    p.heads = shape.heads;
    p.kv = &kv;
    p.layer = 1;
    p.window = shape.window;
    p.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    p.softcap = shape.softcap;
    return p;
  }

  /** Rows [position, position + rows) in units of `unit_rows`. q and out are indexed by position: first_row = position.
   */
  void attend(const RowKernels& kernels, std::vector<float>& out, int32_t position, int32_t rows,
              int32_t unit_rows) const {
    const ops::AttentionParams p = params(out.data());
    ops::StepSequence s = at(position, rows);
    s.first_row = position;
    std::vector<float> storage(attention_scratch_floats(shape.head_dim, unit_rows * shape.heads / shape.kv_heads) + 16);
    float* scratch = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
    for (int32_t head = 0; head < shape.kv_heads; ++head)
      for (int32_t first = 0; first < rows; first += unit_rows)
        kernels.attention({&p, &s, head, first, std::min(unit_rows, rows - first)}, scratch);
  }

  double cached(const std::vector<float>& values, int32_t t, int32_t head, int32_t d) const {
    return half_to_float(float_to_half(values[static_cast<size_t>((t * shape.kv_heads + head) * shape.head_dim + d)]));
  }

  /** The definition, in float64, over the halves that the cache holds. */
  std::vector<double> expected(int32_t t, int32_t head) const {
    const int32_t kv_head = head / (shape.heads / shape.kv_heads);
    const int32_t first = shape.window == 0 ? 0 : std::max(0, t - shape.window + 1);
    std::vector<double> weights;
    double highest = -INFINITY, sum = 0;
    for (int32_t key = first; key <= t; ++key) {
      double score = 0;
      for (int32_t d = 0; d < shape.head_dim; ++d)
        score += static_cast<double>(q[static_cast<size_t>((t * shape.heads + head) * shape.head_dim + d)]) *
                 cached(k, key, kv_head, d);
      score /= std::sqrt(shape.head_dim);
      if (shape.softcap > 0) score = shape.softcap * std::tanh(score / shape.softcap);
      weights.push_back(score);
      highest = std::max(highest, score);
    }
    for (double& w : weights) sum += w = std::exp(w - highest);
    std::vector<double> out(static_cast<size_t>(shape.head_dim));
    for (int32_t key = first; key <= t; ++key)
      for (int32_t d = 0; d < shape.head_dim; ++d)
        out[static_cast<size_t>(d)] += weights[static_cast<size_t>(key - first)] / sum * cached(v, key, kv_head, d);
    return out;
  }
};

const Shape kShapes[] = {{4, 2, 64, 16, 200, 0, 0}, {14, 2, 64, 32, 150, 0, 0},  {8, 8, 80, 16, 90, 0, 0},
                         {6, 3, 96, 48, 131, 0, 0}, {4, 1, 128, 16, 140, 0, 50}, {4, 1, 256, 16, 200, 70, 0},
                         {8, 4, 8, 16, 100, 0, 0},  {5, 5, 21, 16, 70, 0, 30},   {7, 1, 64, 16, 333, 64, 0},
                         {2, 1, 64, 16, 1, 0, 0},   {16, 2, 128, 64, 300, 33, 5}};

TEST(Attention, MatchesTheDefinitionOnEveryIsa) {
  for (const Named& table : tables())
    for (const Shape& shape : kShapes) {
      Fixture fixture(shape);
      fixture.fill(*table.kernels);
      std::vector<float> out(fixture.q.size(), NAN);
      const int32_t unit = std::max(1, kAttentionQueries / (shape.heads / shape.kv_heads));
      fixture.attend(*table.kernels, out, 0, shape.length, unit);
      // Scores carry head_dim rounded products of size |q||k| / sqrt(head_dim) ≈ sqrt(head_dim); weights inherit that
      // absolute error, values are of size 1 (at most 5), exp and the sums add a few units more.
      const double bound = 5.0 * 6e-8 * (std::sqrt(shape.head_dim) * shape.head_dim + shape.length + 16.0);
      for (int32_t t = 0; t < shape.length; t += 7)
        for (int32_t h = 0; h < shape.heads; ++h) {
          const std::vector<double> expected = fixture.expected(t, h);
          for (int32_t d = 0; d < shape.head_dim; ++d)
            ASSERT_NEAR(out[static_cast<size_t>((t * shape.heads + h) * shape.head_dim + d)],
                        expected[static_cast<size_t>(d)], bound)
                << table.name << " head_dim " << shape.head_dim << " row " << t << " head " << h << " dim " << d;
        }
    }
}

TEST(Attention, DoesNotDependOnHowRowsAreGrouped) {
  for (const Named& table : tables())
    for (const Shape& shape : kShapes) {
      Fixture fixture(shape);
      fixture.fill(*table.kernels);
      std::vector<float> whole(fixture.q.size()), single(whole), chunked(whole);
      const int32_t unit = std::max(1, kAttentionQueries / (shape.heads / shape.kv_heads));
      fixture.attend(*table.kernels, whole, 0, shape.length, unit);
      for (int32_t t = 0; t < shape.length; ++t) fixture.attend(*table.kernels, single, t, 1, 1);  // decode
      for (int32_t t = 0; t < shape.length; t += 37)
        fixture.attend(*table.kernels, chunked, t, std::min(37, shape.length - t), 5);
      EXPECT_EQ(0, std::memcmp(whole.data(), single.data(), whole.size() * sizeof(float)))
          << table.name << " " << shape.head_dim;
      EXPECT_EQ(0, std::memcmp(whole.data(), chunked.data(), whole.size() * sizeof(float)))
          << table.name << " " << shape.head_dim;
    }
}

TEST(Attention, NeverTouchesPagesBehindTheWindow) {
  for (const Named& table : tables()) {
    Fixture fixture({4, 2, 64, 16, 300, 40, 0});
    fixture.fill(*table.kernels);
    std::vector<float> before(fixture.q.size()), after(before);
    fixture.attend(*table.kernels, before, 290, 10, 10);
    for (size_t page = 0; page < (290 - 39) / 16; ++page) fixture.table[page] = -1;
    fixture.attend(*table.kernels, after, 290, 10, 10);
    EXPECT_EQ(0, std::memcmp(before.data(), after.data(), before.size() * sizeof(float))) << table.name;
  }
}

TEST(RopeKv, NormsRotatesAndWrites) {
  for (const Named& table : tables())
    for (const bool adjacent : {false, true}) {
      Fixture fixture({4, 2, 80, 16, 20, 0, 0});
      std::vector<float> cosine(24), sine(24), q_norm(80), k_norm(80);  // 48 of 80 dimensions rotate
      for (size_t i = 0; i < 24; ++i) {
        cosine[i] = std::cos(static_cast<float>(i) * 0.7f);
        sine[i] = std::sin(static_cast<float>(i) * 0.7f);
      }
      for (size_t i = 0; i < 80; ++i) {
        q_norm[i] = 0.5f + static_cast<float>(i) * 0.01f;
        k_norm[i] = 1.5f - static_cast<float>(i) * 0.01f;
      }
      const auto expected = [&](const float* x, const std::vector<float>& norm) {
        double sum = 0;
        std::vector<double> r(80);
        for (size_t i = 0; i < 80; ++i) sum += static_cast<double>(x[i]) * x[i];
        for (size_t i = 0; i < 80; ++i) r[i] = x[i] / std::sqrt(sum / 80 + 1e-6) * norm[i];
        for (size_t i = 0; i < 24; ++i) {
          double& a = r[adjacent ? 2 * i : i];
          double& b = r[adjacent ? 2 * i + 1 : i + 24];
          const double u = a * cosine[i] - b * sine[i];
          b = a * sine[i] + b * cosine[i];
          a = u;
        }
        return r;
      };
      std::vector<float> q = fixture.q;
      ops::RopeKvParams params{q.data(), fixture.k.data(), fixture.v.data()};
      params.q_norm = q_norm.data();
      params.k_norm = k_norm.data();
      params.epsilon = 1e-6f;
      params.heads = 4;
      params.kv = &fixture.kv;
      params.layer = 1;
      alignas(64) float scratch[80];
      const int32_t t = 19;
      table.kernels->rope_kv(params, {cosine.data(), sine.data(), 24, adjacent}, fixture.at(t, 1), t, t, scratch);
      for (size_t h = 0; h < 4; ++h) {
        const std::vector<double> e = expected(&fixture.q[(19 * 4 + h) * 80], q_norm);
        for (size_t d = 0; d < 80; ++d) ASSERT_NEAR(q[(19 * 4 + h) * 80 + d], e[d], 2e-6) << table.name;
      }
      for (size_t h = 0; h < 2; ++h) {
        const std::vector<double> e = expected(&fixture.k[(19 * 2 + h) * 80], k_norm);
        const std::byte* page = fixture.slab.data() + static_cast<size_t>(fixture.table[1]) * fixture.kv.page_stride;
        const auto* keys =
            reinterpret_cast<const uint16_t*>(page + fixture.kv.geometry.offset(1, 0, static_cast<int32_t>(h)));
        const auto* values =
            reinterpret_cast<const uint16_t*>(page + fixture.kv.geometry.offset(1, 1, static_cast<int32_t>(h)));
        for (size_t d = 0; d < 80; ++d) {
          ASSERT_NEAR(half_to_float(keys[d * 16 + 3]), e[d], std::abs(e[d]) * 5e-4 + 1e-6) << table.name;
          ASSERT_EQ(values[3 * 80 + d], float_to_half(fixture.v[(19 * 2 + h) * 80 + d]));
        }
      }
    }
}

TEST(RopeKv, ClampsWhatAHalfCannotHold) {
  Fixture fixture({1, 1, 16, 16, 1, 0, 0});
  fixture.k[0] = 1e9f;
  fixture.v[0] = -1e9f;
  fixture.fill(row_kernels_scalar());
  std::vector<float> out(16);
  fixture.attend(row_kernels_scalar(), out, 0, 1, 1);
  EXPECT_FLOAT_EQ(out[0], -65504.0f);
}

TEST(Norm, AddsTheResidualAndScales) {
  std::mt19937 random{3};
  std::normal_distribution<float> normal;
  for (const Named& table : tables())
    for (const int32_t dim : {1, 7, 64, 288, 896, 1000})
      for (const int variant : {0, 1, 2}) {  // no delta, delta, normed delta
        const size_t n = static_cast<size_t>(dim);
        std::vector<float> residual(2 * n), delta(2 * n), delta_norm(n), weight(n), out(2 * n);
        for (auto* values : {&residual, &delta, &delta_norm, &weight})
          for (float& x : *values) x = normal(random);
        const auto norm64 = [&](const std::vector<double>& x, const std::vector<float>& w) {
          double sum = 0;
          for (const double e : x) sum += e * e;
          std::vector<double> r(n);
          for (size_t i = 0; i < n; ++i) r[i] = x[i] / std::sqrt(sum / dim + 1e-5) * w[i];
          return r;
        };
        std::vector<double> sum(residual.begin() + dim, residual.end()), d(delta.begin() + dim, delta.end());
        if (variant == 2) d = norm64(d, delta_norm);
        if (variant != 0)
          for (size_t i = 0; i < n; ++i) sum[i] += d[i];
        const std::vector<double> expected = norm64(sum, weight);
        ops::NormParams params{residual.data()};
        params.delta = variant == 0 ? nullptr : delta.data();
        params.delta_norm = variant == 2 ? delta_norm.data() : nullptr;
        params.norm = weight.data();
        params.out = out.data();
        params.rows = 2;
        params.dim = dim;
        table.kernels->norm(params, 1);
        for (size_t i = 0; i < n; ++i) {
          ASSERT_NEAR(residual[n + i], sum[i], 1e-5) << table.name << " dim " << dim;
          ASSERT_NEAR(out[n + i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << table.name << " dim " << dim;
        }
      }
}

}  // namespace
}  // namespace banter::cpu
