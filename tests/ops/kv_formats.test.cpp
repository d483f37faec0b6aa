// KV pages of every format: what is stored, what attention makes of it, and that both depend on positions alone. The CPU
// kernels of every instruction set against float64 over the bytes of their pages, and against the reference backend.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "backend_cpu/cpu_backend.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "ops/reference.h"

namespace banter::ops {
namespace {

constexpr KvType kTypes[] = {KvType::kF16, KvType::kF32, KvType::kBF16, KvType::kI8, KvType::kI4};
constexpr KvType kQuantised[] = {KvType::kI8, KvType::kI4};

struct Shape {
  int32_t heads = 4, kv_heads = 2, head_dim = 64, page_tokens = 32, length = 300, window = 0;
};

/** One sequence on a backend: a group of pages and, where asked for, its companion with other pages, both scattered over
 *  slabs of 0xFF, which are not-a-number in every format that has one. */
class Cache {
 public:
  Cache(Backend& backend, const Shape& shape, KvType type, bool has_recent) : shape_(shape), backend_(backend) {
    make(pages_, slab_, tables_[0], type, shape.page_tokens, 0);
    make(recent_, recent_slab_, tables_[1], KvType::kF16, 16, 1);
    has_recent_ = has_recent;
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const auto count = static_cast<size_t>(shape.length * shape.head_dim);
    q.resize(count * static_cast<size_t>(shape.heads));
    k.resize(count * static_cast<size_t>(shape.kv_heads));
    v.resize(k.size());
    for (auto* values : {&q, &k, &v})
      for (float& x : *values) x = normal(random);
    // One component sticks out, as in real keys.
    for (size_t i = 3; i < k.size(); i += static_cast<size_t>(shape.head_dim)) k[i] += 12.0f;
  }

  /** Both ops over rows [first, first + rows), without a rotary embedding. */
  std::vector<float> step(int32_t first, int32_t rows) {
    const size_t q_dim = static_cast<size_t>(shape_.heads * shape_.head_dim);
    const size_t kv_dim = static_cast<size_t>(shape_.kv_heads * shape_.head_dim);
    std::vector<int32_t> tokens(static_cast<size_t>(rows)), positions(tokens.size());
    std::iota(positions.begin(), positions.end(), first);
    StepSequence sequence{0, rows, first, {}};
    sequence.page_tables[0] = tables_[0];
    sequence.page_tables[1] = tables_[1];
    const auto start = q.begin() + static_cast<ptrdiff_t>(q_dim) * first;
    rotated.assign(start, start + static_cast<ptrdiff_t>(q_dim) * rows);
    std::vector<float> out(rotated.size());
    backend_.begin_step({tokens, positions, std::span(&sequence, 1)});
    backend_.rope_kv({.q = rotated.data(),
                      .k = k.data() + kv_dim * static_cast<size_t>(first),
                      .v = v.data() + kv_dim * static_cast<size_t>(first),
                      .heads = shape_.heads,
                      .kv = &pages_,
                      .layer = 1,
                      .recent = has_recent_ ? &recent_ : nullptr,
                      .k_shift = k_shift.empty() ? nullptr : k_shift.data()});
    backend_.attention({.q = rotated.data(),
                        .out = out.data(),
                        .heads = shape_.heads,
                        .kv = &pages_,
                        .layer = 1,
                        .window = shape_.window,
                        .scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)),
                        .recent = has_recent_ ? &recent_ : nullptr});
    const Result<void> done = backend_.end_step();
    EXPECT_TRUE(done) << done.error().message;
    return out;
  }
  std::vector<float> run(int32_t chunk) {
    std::vector<float> all;
    for (int32_t first = 0; first < shape_.length; first += chunk) {
      const std::vector<float> out = step(first, std::min(chunk, shape_.length - first));
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

  /** A vector as a CPU page holds it: the layout that cache-inl.h describes, decoded value by value. */
  std::vector<double> cpu_vector(bool recent, int value, int32_t head, int32_t t) const {
    const KvPages& kv = recent ? recent_ : pages_;
    const KvGeometry& g = kv.geometry;
    const auto tokens = static_cast<size_t>(g.page_tokens), dim = static_cast<size_t>(g.head_dim);
    const auto slot = static_cast<size_t>(t % g.page_tokens);
    const auto page = static_cast<size_t>(tables_[recent ? 1 : 0][static_cast<size_t>(t / g.page_tokens)]);
    const std::byte* region = kv.slab + page * kv.page_stride + g.offset(1, value, head);
    const auto half_at = [&](const std::byte* base, size_t index) {
      uint16_t bits;
      std::memcpy(&bits, base + 2 * index, 2);
      return bits;
    };
    const size_t groups = static_cast<size_t>(kv_scales(g.type, g.head_dim));
    const std::byte* scales = region + tokens * dim * kv_bytes_of_16(g.type) / 16;
    std::vector<double> out(dim);
    for (size_t d = 0; d < dim; ++d) {
      const size_t at = value == 0 ? d * tokens + slot : slot * dim + d;
      const auto scale = [&](size_t group) {
        return double{half_to_float(half_at(scales, value == 0 ? group * tokens + slot : slot * groups + group))};
      };
      switch (g.type) {
        case KvType::kF16:
          out[d] = half_to_float(half_at(region, at));
          break;
        case KvType::kBF16:
          out[d] = bfloat_to_float(half_at(region, at));
          break;
        case KvType::kF32: {
          float x;
          std::memcpy(&x, region + 4 * at, 4);
          out[d] = x;
          break;
        }
        case KvType::kI8:
          out[d] = scale(d / 32) * static_cast<int8_t>(region[at]);
          break;
        case KvType::kI4: {
          const size_t piece = d / 16, byte = d % 8;
          const size_t index = value == 0 ? (piece * 8 + byte) * tokens + slot : slot * (dim / 2) + piece * 8 + byte;
          const int nibble = static_cast<int>(region[index]) >> (d % 16 >= 8 ? 4 : 0) & 15;
          out[d] = scale(piece) * (nibble >= 8 ? nibble - 16 : nibble);
          break;
        }
      }
    }
    return out;
  }

  /** Attention of one head over what the CPU's pages hold, in float64. `query` as rope_kv left it. */
  std::vector<double> expected(const float* query, int32_t head, int32_t t) const {
    const int32_t kv_head = head / (shape_.heads / shape_.kv_heads), dim = shape_.head_dim;
    const int32_t first = shape_.window == 0 ? 0 : std::max(0, t - shape_.window + 1);
    std::vector<double> sum(static_cast<size_t>(dim));
    std::vector<double> scores;
    double highest = -INFINITY, total = 0;
    for (int32_t key = first; key <= t; ++key) {
      const std::vector<double> x = cpu_vector(has_recent_ && kv_is_recent(key, t), 0, kv_head, key);
      double score = 0;
      for (size_t d = 0; d < x.size(); ++d) score += query[d] * x[d];
      scores.push_back(score / std::sqrt(double{static_cast<double>(dim)}));
      highest = std::max(highest, scores.back());
    }
    for (int32_t key = first; key <= t; ++key) {
      const double weight = std::exp(scores[static_cast<size_t>(key - first)] - highest);
      const std::vector<double> x = cpu_vector(has_recent_ && kv_is_recent(key, t), 1, kv_head, key);
      for (size_t d = 0; d < x.size(); ++d) sum[d] += weight * x[d];
      total += weight;
    }
    for (double& x : sum) x /= total;
    return kv_is_quantised(pages_.geometry.type) ? turned(sum) : sum;
  }

  /** H x, written out from its definition. */
  static std::vector<double> turned(const std::vector<double>& x) {
    const size_t block = static_cast<size_t>(kv_rotation_block(static_cast<int32_t>(x.size())));
    std::vector<double> out(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t j = 0; j < block; ++j) {
        const bool negative = std::popcount((i % block) & j) % 2 != 0;
        out[i] += (negative ? -1.0 : 1.0) * x[i / block * block + j] / std::sqrt(static_cast<double>(block));
      }
    }
    return out;
  }
  std::vector<double> given(const std::vector<float>& values, int32_t head, int32_t t) const {
    const auto start = values.begin() + (t * shape_.kv_heads + head) * shape_.head_dim;
    std::vector<double> x(start, start + shape_.head_dim);
    return kv_is_quantised(pages_.geometry.type) ? turned(x) : x;
  }
  void drop_recent_before(int32_t position) {
    for (int32_t page = 0; page < position / 16; ++page) tables_[1][static_cast<size_t>(page)] = -1;
  }

  std::vector<float> q, k, v, rotated;
  std::vector<float> k_shift;  // [kv_heads][head_dim], or none

 private:
  void make(KvPages& kv, std::vector<std::byte>& slab, std::vector<int32_t>& table, KvType type, int32_t tokens,
            int32_t group) {
    kv.geometry = {type, 2, shape_.kv_heads, shape_.head_dim, tokens};
    kv.page_stride = (kv.geometry.page_bytes() + 63) / 64 * 64;
    kv.group = group;
    const int32_t pages = (shape_.length + tokens - 1) / tokens;
    slab.assign(kv.page_stride * static_cast<size_t>(2 * pages + 1), std::byte{0xFF});
    kv.slab = slab.data();
    for (int32_t i = 0; i < pages; ++i) table.push_back(2 * (pages - i));
  }

  Shape shape_;
  Backend& backend_;
  KvPages pages_, recent_;
  std::vector<std::byte> slab_, recent_slab_;
  std::vector<int32_t> tables_[2];
  bool has_recent_ = false;
};

class KvFormats : public ::testing::Test {
 protected:
  struct Named {
    std::string name;
    std::unique_ptr<Backend> backend;
  };
  std::vector<Named> cpus() {
    std::vector<Named> result;
    for (const cpu::Isa isa : cpu::available_isas()) {
      if (isa == cpu::Isa::kAvx512Vnni) continue;  // the same row kernels as avx512
      result.push_back({std::string(cpu::isa_name(isa)), std::move(*cpu::create_backend(*threads_, isa))});
    }
    return result;
  }
  std::unique_ptr<ThreadPool> threads_ = std::move(*ThreadPool::create({.threads = 2}));
  std::unique_ptr<Backend> reference_ = std::move(*create_reference_backend(*threads_));
};

double rms(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(difference / size);
}

TEST(KvFormat, SizesKeepTheirPromise) {
  for (const int32_t dim : {64, 80, 96, 128, 192, 256}) {
    const double half = static_cast<double>(kv_vector_bytes(KvType::kF16, dim));
    EXPECT_LE(static_cast<double>(kv_vector_bytes(KvType::kI8, dim)), 0.55 * half) << dim;
    EXPECT_LE(static_cast<double>(kv_vector_bytes(KvType::kI4, dim)), 0.32 * half) << dim;
    EXPECT_EQ(kv_vector_bytes(KvType::kBF16, dim), kv_vector_bytes(KvType::kF16, dim));
    EXPECT_EQ(kv_vector_bytes(KvType::kF32, dim), 2 * kv_vector_bytes(KvType::kF16, dim));
  }
  EXPECT_EQ(kv_vector_bytes(KvType::kI8, 80), 80u + 3 * 2);
  EXPECT_EQ(kv_rotation_block(64), 64);
  EXPECT_EQ(kv_rotation_block(80), 16);
  EXPECT_EQ(kv_rotation_block(96), 32);
  EXPECT_EQ(kv_rotation_block(256), 128);
  EXPECT_EQ(kv_rotation_block(24), 0);
  EXPECT_FALSE(kv_fits(KvType::kI8, 24));
  EXPECT_TRUE(kv_fits(KvType::kBF16, 24));
}

TEST(KvFormat, TheNewestAreAtLeastABlockAndAtMostTheWindow) {
  for (int32_t row = 0; row < 500; ++row) {
    int32_t oldest = row;
    while (oldest > 0 && kv_is_recent(oldest - 1, row)) --oldest;
    EXPECT_GE(row - oldest, std::min(row, kKvRecentBlock));
    EXPECT_LT(row - oldest, kKvRecentWindow);
    for (int32_t key = 0; key < oldest; ++key) EXPECT_FALSE(kv_is_recent(key, row));
  }
}

/** Largest error of one stored value, where the largest magnitude that shares its scale is `largest`. */
double store_bound(KvType type, double x, double largest) {
  const double float_error = 1e-5 * largest + 1e-9;  // the rotation's own float32 sums
  switch (type) {
    case KvType::kF32:
      return float_error;
    case KvType::kF16:
      return std::abs(x) / 2048 + 6e-8 + float_error;
    case KvType::kBF16:
      return std::abs(x) / 256 + float_error;
    case KvType::kI8:  // half a step; the scale's own rounding moves 127 of them by up to 1/2048
      return largest / 127 * (0.5 + 127.0 / 2048) + float_error;
    case KvType::kI4:  // a divisor of 9 may clip +largest to 7/9 of it
      return largest * (2.0 / 9 + 1.0 / 2048) + float_error;
  }
  return 0;
}

TEST_F(KvFormats, StoredVectorsAreNearTheGivenOnes) {
  for (const Named& cpu : cpus())
    for (const KvType type : kTypes)
      for (const int32_t dim : {16, 64, 80, 96, 128, 256}) {
        Cache cache(*cpu.backend, {.head_dim = dim, .length = 40}, type, true);
        cache.run(40);
        double squares = 0, errors = 0;
        for (int32_t t = 0; t < 40; ++t)
          for (int32_t head = 0; head < 2; ++head)
            for (const int value : {0, 1}) {
              const std::vector<double> given = cache.given(value == 0 ? cache.k : cache.v, head, t);
              const std::vector<double> stored = cache.cpu_vector(false, value, head, t);
              for (size_t d = 0; d < given.size(); ++d) {
                const size_t group = static_cast<size_t>(std::max(kv_scale_group(type), 1));
                double largest = 0;
                for (size_t i = d / group * group; i < std::min(given.size(), (d / group + 1) * group); ++i)
                  largest = std::max(largest, std::abs(given[i]));
                ASSERT_NEAR(stored[d], given[d], store_bound(type, given[d], largest))
                    << cpu.name << " " << kv_type_name(type) << " " << dim << " token " << t << " dim " << d;
                if (value == 1) squares += given[d] * given[d];
                if (value == 1) errors += (stored[d] - given[d]) * (stored[d] - given[d]);
              }
              if (!kv_is_quantised(type)) continue;
              const std::vector<double> copy = cache.cpu_vector(true, value, head, t);
              for (size_t d = 0; d < given.size(); ++d)
                ASSERT_NEAR(copy[d], given[d], store_bound(KvType::kF16, given[d], 12)) << cpu.name;
            }
        // Of normally distributed numbers: uniform error in a step of 2.07 σ / 127, or of 2 · 1.77 σ / 16 less what
        // choosing a divisor saves.
        const double relative = std::sqrt(errors / squares);
        EXPECT_LT(relative, type == KvType::kI4 ? 0.080 : 0.0055) << cpu.name << " " << kv_type_name(type) << dim;
        EXPECT_GT(relative, type == KvType::kI4 ? 0.060 : type == KvType::kI8 ? 0.003 : -1.0) << cpu.name << dim;
      }
}

/** Numbers that float32 adds and subtracts exactly, so that what is taken off again leaves no trace. */
TEST_F(KvFormats, AShiftOfAllKeysIsTakenOff) {
  std::vector<Named> backends = cpus();
  backends.push_back({"reference", std::move(reference_)});
  for (const Named& named : backends)
    for (const KvType type : kQuantised)
      for (const int32_t dim : {16, 80, 128}) {
        const Shape shape{.head_dim = dim, .length = 200};
        Cache plain(*named.backend, shape, type, true), shifted(*named.backend, shape, type, true);
        const auto width = static_cast<size_t>(shape.kv_heads * dim);
        for (size_t i = 0; i < width; ++i) shifted.k_shift.push_back(static_cast<float>(i % 7) * 40.0f - 100.0f);
        for (size_t i = 0; i < plain.k.size(); ++i) {
          plain.k[i] = std::round(plain.k[i] * 256.0f) / 256.0f;
          shifted.k[i] = plain.k[i] + shifted.k_shift[i % width];
        }
        const std::vector<float> a = plain.run(200), b = shifted.run(200);
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0)
            << named.name << " " << kv_type_name(type) << dim;
        // The test must be able to fail: kept, the shift changes what is stored.
        shifted.k_shift.clear();
        EXPECT_NE(shifted.run(200), a);
      }
}

TEST_F(KvFormats, AttentionIsThatOfThePages) {
  for (const Named& cpu : cpus())
    for (const KvType type : kTypes)
      for (const int32_t dim : {64, 80, 96, 128, 256})
        for (const bool has_recent : {false, true}) {
          if (has_recent && !kv_is_quantised(type)) continue;
          for (const int32_t window : {0, 150}) {
            const Shape shape{.head_dim = dim, .length = 300, .window = window};
            Cache cache(*cpu.backend, shape, type, has_recent);
            const std::vector<float> out = cache.run(300);
            // As in row_kernels.test.cpp; the outlier of 12 makes scores and their errors as many times larger, and
            // turning the output back adds log2(128) roundings.
            const double bound = 12.0 * 5.0 * 6e-8 * (std::sqrt(dim) * dim + 300 + 16);
            for (const int32_t t : {0, 63, 64, 127, 128, 191, 192, 299})
              for (int32_t head = 0; head < 4; head += 3) {
                const size_t at = static_cast<size_t>((t * 4 + head) * dim);
                const std::vector<double> expected = cache.expected(cache.rotated.data() + at, head, t);
                for (size_t d = 0; d < expected.size(); ++d)
                  ASSERT_NEAR(out[at + d], expected[d], bound)
                      << cpu.name << " " << kv_type_name(type) << " " << dim << " row " << t << " dim " << d;
              }
          }
        }
}

TEST_F(KvFormats, CuttingASequenceDoesNotChangeABit) {
  std::vector<Named> backends = cpus();
  backends.push_back({"reference", std::move(*create_reference_backend(*threads_))});
  for (const Named& named : backends)
    for (const KvType type : kTypes)
      for (const int32_t window : {0, 140}) {
        const bool is_reference = named.name == "reference";
        const Shape shape{.heads = 6, .head_dim = is_reference ? 16 : 80, .length = 290, .window = window};
        Cache whole(*named.backend, shape, type, kv_is_quantised(type));
        const std::vector<float> expected = whole.run(shape.length);
        for (const int32_t chunk : {1, 7, 64, 100}) {
          Cache cut(*named.backend, shape, type, kv_is_quantised(type));
          const std::vector<float> out = cut.run(chunk);
          ASSERT_EQ(out.size(), expected.size());
          EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0)
              << named.name << " " << kv_type_name(type) << " chunk " << chunk << " window " << window;
        }
      }
}

TEST_F(KvFormats, TheCompanionIsReadNoFurtherThanItsWindow) {
  std::vector<Named> backends = cpus();
  backends.push_back({"reference", std::move(*create_reference_backend(*threads_))});
  for (const Named& named : backends)
    for (const KvType type : kQuantised) {
      for (const int32_t first : {255, 256, 290}) {
        Cache whole(*named.backend, {.head_dim = 16}, type, true), gone(*named.backend, {.head_dim = 16}, type, true);
        for (int32_t done = 0; done < first; done += std::min(64, first - done)) {
          whole.step(done, std::min(64, first - done));
          gone.step(done, std::min(64, first - done));
        }
        gone.drop_recent_before(first - kKvRecentWindow + 1);
        const std::vector<float> expected = whole.step(first, 10), out = gone.step(first, 10);
        EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0) << named.name << first;
      }
    }
}

TEST_F(KvFormats, CpuAndReferenceAgree) {
  for (const Named& cpu : cpus())
    for (const KvType type : kTypes)
      for (const int32_t dim : {16, 64, 80}) {
        const Shape shape{.head_dim = dim, .length = 200};
        Cache ours(*cpu.backend, shape, type, kv_is_quantised(type));
        Cache theirs(*reference_, shape, type, kv_is_quantised(type));
        const std::vector<float> out = ours.run(200), expected = theirs.run(200);
        // The same formulas; where a rotated value lies within float32 rounding of the middle between two levels, one
        // of thousands, they may choose differently.
        EXPECT_LT(rms(out, expected), kv_is_quantised(type) ? 1e-3 : 1e-5)
            << cpu.name << " " << kv_type_name(type) << " " << dim;
      }
}

TEST_F(KvFormats, FormatsAreAsExactAsTheyAreLarge) {
  for (const int32_t dim : {64, 128}) {
    const Shape shape{.head_dim = dim, .length = 200};
    const std::vector<float> exact = Cache(*reference_, shape, KvType::kF32, false).run(200);
    const auto error = [&](KvType type, bool has_recent) {
      return rms(Cache(*reference_, shape, type, has_recent).run(200), exact);
    };
    const double half = error(KvType::kF16, false), bfloat = error(KvType::kBF16, false);
    const double int8 = error(KvType::kI8, false), int4 = error(KvType::kI4, false);
    EXPECT_LT(half, 1e-3);
    EXPECT_LT(bfloat, 8e-3);
    EXPECT_GT(bfloat, half);
    EXPECT_LT(int8, 0.02);
    EXPECT_LT(int4, 0.2);
    EXPECT_GT(int4, int8);
    EXPECT_LT(error(KvType::kI8, true), int8);  // the newest tokens are read as F16
    EXPECT_LT(error(KvType::kI4, true), int4);
    const Shape brief{.head_dim = dim, .length = 128};
    const std::vector<float> short_exact = Cache(*reference_, brief, KvType::kF32, false).run(128);
    EXPECT_LT(rms(Cache(*reference_, brief, KvType::kI4, true).run(128), short_exact), 1e-3);  // all are new
  }
}

TEST_F(KvFormats, WhatNoFormatCanHoldStaysFinite) {
  std::vector<Named> backends = cpus();
  backends.push_back({"reference", std::move(*create_reference_backend(*threads_))});
  for (const Named& named : backends)
    for (const KvType type : kQuantised) {
      Cache cache(*named.backend, {.head_dim = 16, .length = 1}, type, false);
      for (size_t i = 0; i < 16; ++i) {
        cache.k[i] = 1e30f;
        cache.v[i] = i % 2 == 0 ? -1e9f : 0.0f;
        cache.v[16 + i] = i == 5 ? NAN : 1.0f;  // the second head's
      }
      for (const float x : cache.run(1)) EXPECT_TRUE(std::isfinite(x)) << named.name << " " << kv_type_name(type);
      Cache zeros(*named.backend, {.head_dim = 16, .length = 1}, type, false);
      std::fill(zeros.v.begin(), zeros.v.end(), 0.0f);
      for (const float x : zeros.run(1)) EXPECT_EQ(x, 0.0f) << named.name << " " << kv_type_name(type);
    }
}

}  // namespace
}  // namespace banter::ops
