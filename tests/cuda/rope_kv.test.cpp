// Q/K norm, rotary embedding and what is written to pages: against float64 formulas and the reference backend.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "base/thread_pool.h"
#include "cuda/kv_on_device.h"
#include "ops/reference.h"

namespace banter::test {
namespace {

using ops::KvType;

constexpr KvType kTypes[] = {KvType::kF16, KvType::kBF16, KvType::kI8, KvType::kI4};

struct RopeCase {
  int32_t dim, pairs;
  bool is_adjacent, has_norm;
};

/** rope(norm(x)) in float64, by the table's own numbers. */
std::vector<double> rope_of(const RopeCase& c, const float* x, const float* weight, const std::vector<float>& table,
                            int32_t position) {
  std::vector<double> out(x, x + c.dim);
  if (c.has_norm) {
    double sum = 0;
    for (const double value : out) sum += value * value;
    const double scale = 1.0 / std::sqrt(sum / c.dim + double{1e-5f});
    for (size_t d = 0; d < out.size(); ++d) out[d] *= scale * weight[d];
  }
  for (int32_t k = 0; k < c.pairs; ++k) {
    double& a = out[static_cast<size_t>(c.is_adjacent ? 2 * k : k)];
    double& b = out[static_cast<size_t>(c.is_adjacent ? 2 * k + 1 : k + c.pairs)];
    const double cosine = table[static_cast<size_t>((position * c.pairs + k) * 2)];
    const double sine = table[static_cast<size_t>((position * c.pairs + k) * 2 + 1)];
    const double first = a, second = b;
    a = first * cosine - second * sine;
    b = first * sine + second * cosine;
  }
  return out;
}

TEST(CudaRopeKv, NormsAndTurnsLikeTheFormula) {
  const RopeCase cases[] = {{64, 32, false, true}, {64, 32, true, false},    {80, 40, false, true},
                            {80, 20, false, true}, {96, 48, true, true},     {128, 64, false, true},
                            {128, 16, true, true}, {256, 128, false, false}, {256, 64, false, true},
                            {48, 0, false, true}};
  for (const RopeCase& c : cases) {
    KvShape shape{.heads = 3, .kv_heads = 1, .head_dim = c.dim, .lengths = {21, 5}};
    KvOnDevice kv(shape);
    const auto given_q = kv.q, given_k = kv.k;
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> q_norm(static_cast<size_t>(c.dim)), k_norm(q_norm.size());
    for (float& x : q_norm) x = normal(random);
    for (float& x : k_norm) x = normal(random);
    std::vector<float> table(static_cast<size_t>(21 * c.pairs * 2));
    for (float& x : table) x = normal(random);  // whatever the table says
    const DeviceArray<float> d_q(q_norm), d_k(k_norm), d_table(table);
    cuda::RopeKvArgs args = {};
    args.q_norm = c.has_norm ? d_q.data() : nullptr;
    args.k_norm = c.has_norm ? d_k.data() : nullptr;
    args.epsilon = 1e-5f;
    args.cos_sin = c.pairs > 0 ? d_table.data() : nullptr;
    args.pairs = c.pairs;
    args.adjacent_pairs = c.is_adjacent;
    kv.write({{1, 0, 5}, {0, 0, 21}}, args);
    kv.read_pages();
    for (int32_t s = 0; s < 2; ++s)
      for (int32_t t = 0; t < shape.lengths[static_cast<size_t>(s)]; ++t) {
        for (int32_t head = 0; head < 3; ++head) {
          const size_t at = static_cast<size_t>((t * 3 + head) * c.dim);
          const auto expected = rope_of(c, &given_q[static_cast<size_t>(s)][at], q_norm.data(), table, t);
          // Norm: some 12 roundings; a turn: 3 of numbers up to 4 times 4.
          for (size_t d = 0; d < expected.size(); ++d)
            ASSERT_NEAR(kv.q[static_cast<size_t>(s)][at + d], expected[d], 20 * 0x1p-24 * 16)
                << c.dim << " " << c.pairs << " position " << t << " dimension " << d;
        }
        const size_t at = static_cast<size_t>(t * c.dim);
        const auto expected = rope_of(c, &given_k[static_cast<size_t>(s)][at], k_norm.data(), table, t);
        const std::vector<double> key = kv.cached(false, s, 0, 0, t), value = kv.cached(false, s, 1, 0, t);
        for (size_t d = 0; d < expected.size(); ++d) {
          ASSERT_NEAR(key[d], expected[d], std::abs(expected[d]) * 0x1p-11 + 20 * 0x1p-24 * 16) << c.dim;
          ASSERT_EQ(value[d], half_to_float(float_to_half(kv.v[static_cast<size_t>(s)][at + d]))) << c.dim;
        }
      }
  }
}

/** Largest error of one stored value, where the largest magnitude that shares its scale is `largest`. */
double store_bound(KvType type, double x, double largest) {
  const double float_error = 2e-6 * largest + 1e-7;  // the rotation's own float32 sums
  switch (type) {
    case KvType::kF16:
      return std::abs(x) / 2048 + 6e-8 + float_error;
    case KvType::kBF16:
      return std::abs(x) / 256 + float_error;
    case KvType::kI8:  // half a step; the scale's own rounding moves 127 of them by up to 1/2048
      return largest / 127 * (0.5 + 127.0 / 2048) + float_error;
    default:  // a divisor of 9 may clip +largest to 7/9 of it
      return largest * (2.0 / 9 + 1.0 / 2048) + float_error;
  }
}

TEST(CudaRopeKv, StoredVectorsAreNearTheGivenOnes) {
  for (const KvType type : kTypes)
    for (const int32_t dim : {16, 48, 64, 80, 96, 128, 256}) {
      const bool is_quantised = ops::kv_is_quantised(type);
      KvOnDevice kv({.type = type,
                     .heads = 2,
                     .kv_heads = 2,
                     .head_dim = dim,
                     .page_tokens = 48,
                     .lengths = {53, 20},
                     .has_recent = is_quantised});
      const auto given_q = kv.q;
      kv.write({{0, 0, 50}, {1, 0, 20}});
      kv.write({{0, 50, 3}});
      kv.read_pages();
      double squares = 0, errors = 0;
      for (int32_t s = 0; s < 2; ++s)
        for (int32_t t = 0; t < kv.shape().lengths[static_cast<size_t>(s)]; ++t)
          for (int32_t head = 0; head < 2; ++head)
            for (const int value : {0, 1}) {
              const auto& from = (value == 0 ? kv.k : kv.v)[static_cast<size_t>(s)];
              const auto start = from.begin() + (t * 2 + head) * dim;
              std::vector<double> given(start, start + dim);
              if (is_quantised) given = turned(given);
              const std::vector<double> stored = kv.cached(false, s, value, head, t);
              const auto group = static_cast<size_t>(std::max(ops::kv_scale_group(type), 1));
              for (size_t d = 0; d < given.size(); ++d) {
                double largest = 0;
                for (size_t i = d / group * group; i < std::min(given.size(), (d / group + 1) * group); ++i)
                  largest = std::max(largest, std::abs(given[i]));
                ASSERT_NEAR(stored[d], given[d], store_bound(type, given[d], largest))
                    << ops::kv_type_name(type) << " " << dim << " token " << t << " dim " << d;
                if (value == 1) squares += given[d] * given[d];
                if (value == 1) errors += (stored[d] - given[d]) * (stored[d] - given[d]);
              }
              if (!is_quantised) continue;
              const std::vector<double> copy = kv.cached(true, s, value, head, t);
              for (size_t d = 0; d < given.size(); ++d)
                ASSERT_NEAR(copy[d], given[d], store_bound(KvType::kF16, given[d], 12));
            }
      // Of normally distributed numbers: uniform error in a step of 2.07 σ / 127, or of 2 · 1.77 σ / 16 less what
      // choosing a divisor saves.
      const double relative = std::sqrt(errors / squares);
      EXPECT_LT(relative, type == KvType::kI4 ? 0.080 : 0.0055) << ops::kv_type_name(type) << " " << dim;
      EXPECT_GT(relative, type == KvType::kI4 ? 0.060 : type == KvType::kI8 ? 0.0028 : -1.0) << dim;
      // Queries are turned like keys.
      for (size_t i = 0; i < 4; ++i) {
        const auto start = given_q[0].begin() + static_cast<ptrdiff_t>(i) * dim;
        std::vector<double> given(start, start + dim);
        if (is_quantised) given = turned(given);
        for (size_t d = 0; d < given.size(); ++d)
          ASSERT_NEAR(kv.q[0][i * static_cast<size_t>(dim) + d], given[d], 5e-6) << dim;
      }
    }
}

/** The same vectors in the reference backend's pages: [token][values, scales]. */
class ReferencePages {
 public:
  ReferencePages(KvType type, int32_t dim, const std::vector<float>& k, const std::vector<float>& v, int32_t rows)
      : threads_(std::move(*ThreadPool::create({.threads = 1}))),
        backend_(std::move(*ops::create_reference_backend(*threads_))) {
    pages_.geometry = {type, 1, 1, dim, (rows + 15) / 16 * 16};
    pages_.page_stride = (pages_.geometry.page_bytes() + 63) / 64 * 64;
    slab_.resize(pages_.page_stride);
    pages_.slab = slab_.data();
    std::vector<int32_t> tokens(static_cast<size_t>(rows)), positions(tokens.size()), table = {0};
    std::iota(positions.begin(), positions.end(), 0);
    ops::StepSequence sequence{0, rows, 0, {}};
    sequence.page_tables[0] = table;
    std::vector<float> q(k.size());
    backend_->begin_step({tokens, positions, std::span(&sequence, 1)});
    backend_->rope_kv({.q = q.data(), .k = k.data(), .v = v.data(), .heads = 1, .kv = &pages_});
    EXPECT_TRUE(backend_->end_step());
  }
  std::vector<double> vector(int value, int32_t t) const {
    const ops::KvGeometry& g = pages_.geometry;
    const std::byte* at =
        slab_.data() + g.offset(0, value, 0) + static_cast<size_t>(t) * ops::kv_vector_bytes(g.type, g.head_dim);
    return KvOnDevice::decode(g.type, g.head_dim, at,
                              at + static_cast<size_t>(g.head_dim) * ops::kv_bytes_of_16(g.type) / 16);
  }

 private:
  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<ops::Backend> backend_;
  ops::KvPages pages_;
  std::vector<std::byte> slab_;
};

TEST(CudaRopeKv, PagesHoldWhatTheReferenceHolds) {
  for (const KvType type : kTypes)
    for (const int32_t dim : {64, 80}) {
      constexpr int32_t kRows = 45;
      KvOnDevice kv({.type = type, .heads = 1, .kv_heads = 1, .head_dim = dim, .lengths = {kRows}});
      // Multiples of 1/64: blocks of 16 and 64 turn without rounding, so that both backends quantise the same numbers.
      for (auto* values : {&kv.k[0], &kv.v[0]})
        for (float& x : *values) x = std::round(x * 64) / 64;
      kv.write_all();
      kv.read_pages();
      const ReferencePages reference(type, dim, kv.k[0], kv.v[0], kRows);
      size_t differing = 0, all = 0;
      for (int32_t t = 0; t < kRows; ++t)
        for (const int value : {0, 1}) {
          const std::vector<double> ours = kv.cached(false, 0, value, 0, t), theirs = reference.vector(value, t);
          for (size_t d = 0; d < ours.size(); ++d) differing += ours[d] != theirs[d] ? 1 : 0;
          all += ours.size();
        }
      // INT4 sums the squared errors of its divisors in another order: two that are equal but for rounding may change
      // places.
      EXPECT_LE(differing, type == KvType::kI4 ? all / 200 : 0u) << ops::kv_type_name(type) << " " << dim;
    }
}

TEST(CudaRopeKv, QuantisedKeysLoseTheirShift) {
  for (const KvType type : kTypes) {
    const bool is_quantised = ops::kv_is_quantised(type);
    const KvShape shape{
        .type = type, .heads = 2, .kv_heads = 2, .head_dim = 80, .lengths = {19}, .has_recent = is_quantised};
    KvOnDevice shifted(shape), plain(shape);
    std::vector<float> shift(160);
    for (size_t i = 0; i < shift.size(); ++i)
      shift[i] = 0.37f * static_cast<float>(i % 7) - 0.2f * static_cast<float>(i / 80);
    const DeviceArray<float> d_shift(shift);
    cuda::RopeKvArgs args = {};
    args.k_shift = d_shift.data();
    shifted.write({{0, 0, 19}}, args);
    for (size_t i = 0; is_quantised && i < plain.k[0].size(); ++i) plain.k[0][i] -= shift[i % 160];
    plain.write_all();
    shifted.read_pages();
    plain.read_pages();
    EXPECT_EQ(shifted.q[0], plain.q[0]);
    for (int32_t t = 0; t < 19; ++t)
      for (int32_t head = 0; head < 2; ++head)
        for (const int value : {0, 1})
          for (const bool from_recent : {false, is_quantised})
            ASSERT_EQ(shifted.cached(from_recent, 0, value, head, t), plain.cached(from_recent, 0, value, head, t))
                << ops::kv_type_name(type) << " position " << t;
  }
}

TEST(CudaRopeKv, RefusesWhatItDoesNotServe) {
  const StepOnDevice step(1);
  const auto answer = [&](KvType type, int32_t dim, int32_t tokens, int32_t pairs) {
    cuda::RopeKvArgs args = {};
    args.heads = 1;
    args.pairs = pairs;
    args.kv.geometry = {type, 1, 1, dim, tokens};
    return cuda::rope_kv(step.view(), 0, args, nullptr);
  };
  EXPECT_EQ(answer(KvType::kI4, 64, 16, 32), cudaSuccess);  // no rows
  EXPECT_EQ(answer(KvType::kF32, 64, 16, 32), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kF16, 76, 16, 32), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kI8, 72, 16, 32), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kF16, 272, 16, 32), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kF16, 64, 20, 32), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kF16, 64, 16, 33), cudaErrorInvalidValue);
}

TEST(CudaRopeKv, WhatNoFormatCanHoldStaysFinite) {
  for (const KvType type : kTypes) {
    const bool is_quantised = ops::kv_is_quantised(type);
    KvOnDevice kv(
        {.type = type, .heads = 2, .kv_heads = 2, .head_dim = 16, .lengths = {3}, .has_recent = is_quantised});
    for (size_t i = 0; i < 16; ++i) {
      kv.k[0][i] = 1e30f;
      kv.v[0][i] = i % 2 == 0 ? -1e9f : 0.0f;
      kv.v[0][16 + i] = i == 5 && is_quantised ? NAN : 1.0f;
      kv.k[0][32 + i] = kv.v[0][32 + i] = 0.0f;
    }
    kv.write({{0, 0, 2}});
    kv.read_pages();
    for (int32_t head = 0; head < 2; ++head)
      for (const int value : {0, 1}) {
        for (const double x : kv.cached(false, 0, value, head, 0))
          ASSERT_TRUE(std::isfinite(x)) << ops::kv_type_name(type);
        if (is_quantised && !(head == 1 && value == 1)) {
          for (const double x : kv.cached(true, 0, value, head, 0)) ASSERT_TRUE(std::isfinite(x));
        }
      }
    for (const int value : {0, 1})
      for (const double x : kv.cached(false, 0, value, 0, 1)) EXPECT_EQ(x, 0.0);
    // The second head reads the not-a-number from the companion.
    const std::vector<float> out = kv.attend({{0, 1, 1}}, {});
    for (size_t d = 0; d < (is_quantised ? 16u : 32u); ++d)
      EXPECT_TRUE(std::isfinite(out[d])) << ops::kv_type_name(type);
    if (!is_quantised) {  // the third position was not written: still as it was
      for (const double x : kv.cached(false, 0, 0, 0, 2)) EXPECT_TRUE(std::isnan(x));
    }
  }
}

}  // namespace
}  // namespace banter::test
