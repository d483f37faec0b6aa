// The reference backend's rotary embedding, KV cache and attention against their formulas, written out in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/half.h"
#include "base/thread_pool.h"
#include "ops/reference.h"
#include "support/quantize.h"

namespace banter::ops {
namespace {

constexpr int32_t kPageTokens = 16;

struct Shape {
  int32_t heads = 4, kv_heads = 2, head_dim = 12, layers = 2;
  KvType type = KvType::kF32;
};

/** A slab and one sequence's shuffled pages in it, with an op or two run over any cut of its rows. */
class Sequence {
 public:
  Sequence(Backend& backend, const Shape& shape, int32_t length) : backend_(backend), shape_(shape) {
    kv_.geometry = {shape.type, shape.layers, shape.kv_heads, shape.head_dim, kPageTokens};
    kv_.page_stride = (kv_.geometry.page_bytes() + 63) / 64 * 64;
    const size_t pages = static_cast<size_t>((length + kPageTokens - 1) / kPageTokens);
    // NaN wherever nobody has written: reading it would show.
    slab_.assign((pages + 3) * kv_.page_stride, std::byte{0xFF});
    kv_.slab = slab_.data();
    table_.resize(pages);
    std::iota(table_.begin(), table_.end(), 2);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(7));
    const size_t rows = static_cast<size_t>(length);
    q = test::random_values(rows * shape.heads * shape.head_dim, 1);
    k = test::random_values(rows * shape.kv_heads * shape.head_dim, 2);
    v = test::random_values(rows * shape.kv_heads * shape.head_dim, 3);
  }

  /** rope_kv and attention over rows [first, first + rows) in one step. */
  std::vector<float> step(int32_t first, int32_t rows, const Rope* rope, const float* q_norm, const float* k_norm,
                          int32_t window, float softcap) {
    const size_t q_dim = static_cast<size_t>(shape_.heads * shape_.head_dim);
    const size_t kv_dim = static_cast<size_t>(shape_.kv_heads * shape_.head_dim);
    std::vector<int32_t> tokens(static_cast<size_t>(rows)), positions(tokens.size());
    std::iota(positions.begin(), positions.end(), first);
    StepSequence sequence{0, rows, first, {}};
    sequence.page_tables[0] = table_;
    rotated.assign(q.begin() + static_cast<ptrdiff_t>(q_dim) * first,
                   q.begin() + static_cast<ptrdiff_t>(q_dim) * (first + rows));
    std::vector<float> out(rotated.size());
    backend_.begin_step({tokens, positions, std::span(&sequence, 1)});
    backend_.rope_kv({.q = rotated.data(),
                      .k = k.data() + kv_dim * static_cast<size_t>(first),
                      .v = v.data() + kv_dim * static_cast<size_t>(first),
                      .q_norm = q_norm,
                      .k_norm = k_norm,
                      .epsilon = 0.01f,
                      .rope = rope,
                      .heads = shape_.heads,
                      .kv = &kv_,
                      .layer = 1});
    backend_.attention({.q = rotated.data(),
                        .out = out.data(),
                        .heads = shape_.heads,
                        .kv = &kv_,
                        .layer = 1,
                        .window = window,
                        .scale = 0.3f,
                        .softcap = softcap});
    const Result<void> done = backend_.end_step();
    EXPECT_EQ(static_cast<bool>(done), !expects_failure) << (done ? "" : done.error().message);
    return out;
  }

  /** Element i of a cached vector as stored. */
  double cached(int value, int32_t head, int32_t t, int32_t i) const {
    const std::byte* vector = slab_.data() +
                              static_cast<size_t>(table_[static_cast<size_t>(t / kPageTokens)]) * kv_.page_stride +
                              kv_.geometry.offset(1, value, head) +
                              static_cast<size_t>(t % kPageTokens) * kv_vector_bytes(shape_.type, shape_.head_dim);
    if (shape_.type == KvType::kF32) {
      float x;
      std::memcpy(&x, vector + 4 * i, 4);
      return x;
    }
    uint16_t x;
    std::memcpy(&x, vector + 2 * i, 2);
    return half_to_float(x);
  }
  void drop_page(size_t index) { table_[index] = -1; }

  std::vector<float> q, k, v, rotated;
  bool expects_failure = false;

 private:
  Backend& backend_;
  Shape shape_;
  KvPages kv_;
  std::vector<std::byte> slab_;
  std::vector<int32_t> table_;
};

class ReferenceAttentionTest : public ::testing::Test {
 protected:
  std::unique_ptr<Rope> rope(int32_t dims, bool adjacent, float magnitude = 1.0f) {
    RopeSpec spec;
    for (int32_t i = 0; i < dims; i += 2)
      spec.inverse_frequency.push_back(std::pow(100.0, -static_cast<double>(i) / dims));
    spec.magnitude = magnitude;
    spec.adjacent_pairs = adjacent;
    spec.max_positions = 4096;
    return std::move(*backend_->create_rope(spec));
  }
  std::unique_ptr<ThreadPool> threads_ = std::move(*ThreadPool::create({.threads = 2}));
  std::unique_ptr<Backend> backend_ = std::move(*create_reference_backend(*threads_));
};

/** rope(norm(x)) of one head vector; a pair is a complex number turned by multiplication. */
std::vector<double> rotate(const float* x, int32_t head_dim, int32_t dims, bool adjacent, double magnitude,
                           int32_t position, const float* norm) {
  double squares = 0;
  for (int32_t i = 0; i < head_dim; ++i) squares += double{x[i]} * double{x[i]};
  const double by = norm == nullptr ? 1.0 : std::sqrt(squares / head_dim + double{0.01f});
  std::vector<double> y(static_cast<size_t>(head_dim));
  for (int32_t i = 0; i < head_dim; ++i) {
    y[static_cast<size_t>(i)] = norm == nullptr ? double{x[i]} : x[i] / by * norm[i];
  }
  for (int32_t pair = 0; pair < dims / 2; ++pair) {
    const size_t a = static_cast<size_t>(adjacent ? 2 * pair : pair);
    const size_t b = static_cast<size_t>(adjacent ? 2 * pair + 1 : pair + dims / 2);
    const std::complex<double> turned =
        std::complex(y[a], y[b]) * std::polar(magnitude, position * std::pow(100.0, -2.0 * pair / dims));
    y[a] = turned.real();
    y[b] = turned.imag();
  }
  return y;
}

TEST_F(ReferenceAttentionTest, RopeTurnsPairsAndFillsTheCache) {
  const Shape shape;
  const std::vector<float> q_norm = test::random_values(12, 4), k_norm = test::random_values(12, 5);
  for (const bool adjacent : {false, true}) {
    for (const int32_t dims : {12, 8, 2}) {
      for (const bool has_norm : {false, true}) {
        Sequence sequence(*backend_, shape, 40);
        const std::unique_ptr<Rope> r = rope(dims, adjacent, 1.25f);
        sequence.step(0, 40, r.get(), has_norm ? q_norm.data() : nullptr, has_norm ? k_norm.data() : nullptr, 0, 0.0f);
        for (int32_t t = 0; t < 40; ++t) {
          for (int32_t h = 0; h < shape.heads; ++h) {
            const size_t at = static_cast<size_t>((t * shape.heads + h) * 12);
            const std::vector<double> expected =
                rotate(sequence.q.data() + at, 12, dims, adjacent, 1.25, t, has_norm ? q_norm.data() : nullptr);
            for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(sequence.rotated[at + i], expected[i], 1e-6);
          }
          for (int32_t h = 0; h < shape.kv_heads; ++h) {
            const size_t at = static_cast<size_t>((t * shape.kv_heads + h) * 12);
            const std::vector<double> expected =
                rotate(sequence.k.data() + at, 12, dims, adjacent, 1.25, t, has_norm ? k_norm.data() : nullptr);
            for (int32_t i = 0; i < 12; ++i) {
              EXPECT_NEAR(sequence.cached(0, h, t, i), expected[static_cast<size_t>(i)], 1e-6);
              EXPECT_EQ(sequence.cached(1, h, t, i), sequence.v[at + static_cast<size_t>(i)]);
            }
          }
        }
      }
    }
  }
}

/** softmax(softcap(scale · q·K)) V from the cache's own numbers. */
double attended(const Sequence& sequence, const Shape& shape, int32_t t, int32_t head, int32_t i, int32_t window,
                double softcap) {
  const int32_t kv_head = head / (shape.heads / shape.kv_heads);
  const int32_t first = window == 0 ? 0 : std::max(0, t - window + 1);
  double above = 0, below = 0;
  for (int32_t s = first; s <= t; ++s) {
    double score = 0;
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      score += sequence.rotated[static_cast<size_t>((t * shape.heads + head) * shape.head_dim + d)] *
               sequence.cached(0, kv_head, s, d);
    }
    score *= double{0.3f};
    if (softcap != 0) score = softcap * std::tanh(score / softcap);
    above += std::exp(score) * sequence.cached(1, kv_head, s, i);
    below += std::exp(score);
  }
  return above / below;
}

TEST_F(ReferenceAttentionTest, AttentionIsTheSoftmaxOfWhatItSees) {
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    for (const int32_t kv_heads : {4, 2, 1}) {
      for (const int32_t window : {0, 1, 5, 16, 100}) {
        for (const float softcap : {0.0f, 2.0f}) {
          const Shape shape{.kv_heads = kv_heads, .type = type};
          Sequence sequence(*backend_, shape, 50);
          const std::unique_ptr<Rope> r = rope(12, false);
          const std::vector<float> out = sequence.step(0, 50, r.get(), nullptr, nullptr, window, softcap);
          for (int32_t t = 0; t < 50; t += 7) {
            for (int32_t h = 0; h < shape.heads; ++h) {
              for (int32_t i = 0; i < 12; ++i) {
                const double expected = attended(sequence, shape, t, h, i, window, double{softcap});
                EXPECT_NEAR(out[static_cast<size_t>((t * shape.heads + h) * 12 + i)], expected, 1e-6);
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(ReferenceAttentionTest, AHalfCacheRoundsToNearest) {
  const Shape shape{.type = KvType::kF16};
  Sequence sequence(*backend_, shape, 20);
  sequence.step(0, 20, nullptr, nullptr, nullptr, 0, 0.0f);
  for (int32_t t = 0; t < 20; ++t) {
    for (int32_t i = 0; i < 12; ++i) {
      const size_t at = static_cast<size_t>(t * 2 * 12 + i);
      EXPECT_EQ(sequence.cached(0, 0, t, i), half_to_float(float_to_half(sequence.k[at])));
      EXPECT_EQ(sequence.cached(1, 0, t, i), half_to_float(float_to_half(sequence.v[at])));
    }
  }
}

TEST_F(ReferenceAttentionTest, CuttingASequenceDoesNotChangeABit) {
  const Shape shape;
  const std::unique_ptr<Rope> r = rope(8, true);
  const std::vector<float> norm = test::random_values(12, 4);
  Sequence whole(*backend_, shape, 45);
  const std::vector<float> expected = whole.step(0, 45, r.get(), norm.data(), norm.data(), 20, 0.0f);
  for (const int32_t chunk : {1, 4, 17}) {
    Sequence cut(*backend_, shape, 45);
    for (int32_t first = 0; first < 45; first += chunk) {
      const int32_t rows = std::min(chunk, 45 - first);
      const std::vector<float> out = cut.step(first, rows, r.get(), norm.data(), norm.data(), 20, 0.0f);
      EXPECT_EQ(std::memcmp(out.data(), expected.data() + first * 48, out.size() * sizeof(float)), 0);
    }
  }
}

TEST_F(ReferenceAttentionTest, PagesBehindTheWindowAreNotTouched) {
  const Shape shape;
  Sequence sequence(*backend_, shape, 45);
  const std::vector<float> expected = sequence.step(0, 45, nullptr, nullptr, nullptr, 10, 0.0f);
  sequence.drop_page(0);
  const std::vector<float> row = sequence.step(44, 1, nullptr, nullptr, nullptr, 10, 0.0f);
  EXPECT_EQ(std::memcmp(row.data(), expected.data() + 44 * 48, 48 * sizeof(float)), 0);
  // A page inside the window that is not held is a fault of the caller; the step says so and nothing breaks.
  sequence.expects_failure = true;
  sequence.drop_page(2);
  sequence.step(44, 1, nullptr, nullptr, nullptr, 10, 0.0f);
}

}  // namespace
}  // namespace banter::ops
