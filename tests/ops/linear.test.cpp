// Matrix products of every weight type on every instruction set this machine has: against float64 products of the exact
// weights within a derived bound, bit-equal between instruction sets, batch sizes, chunkings and thread counts.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "ops/matrix_cases.h"

namespace banter {
namespace {

using cpu::Isa;
using formats::TensorType;
using test::Expected;
using test::Matrix;

std::unique_ptr<ThreadPool> make_pool(int32_t threads) {
  auto pool = ThreadPool::create({.threads = threads, .low_priority = false});
  EXPECT_TRUE(pool);
  return std::move(*pool);
}

std::unique_ptr<ops::Backend> make_backend(ThreadPool& pool, Isa isa) {
  auto backend = cpu::create_backend(pool, isa);
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

std::unique_ptr<ops::Weight> upload(ops::Backend& backend, const Matrix& m,
                                    ops::WeightUse use = ops::WeightUse::kLinear) {
  auto weight = backend.upload(m.type, m.rows, m.cols, m.blocks, use);
  EXPECT_TRUE(weight) << weight.error().message;
  return std::move(*weight);
}

/** y [rows][matrix.rows] of rows [first, first + rows) of x. */
std::vector<float> multiply(ops::Backend& backend, const ops::Weight& weight, const float* x, int32_t rows,
                            const float* bias = nullptr) {
  std::vector<float> y(static_cast<size_t>(rows * weight.rows), -1234.0f);
  const ops::LinearTarget target{&weight, bias, y.data()};
  backend.begin_step({});
  backend.linear({.x = x, .rows = rows, .targets = {&target, 1}});
  const Result<void> end = backend.end_step();
  EXPECT_TRUE(end) << end.error().message;
  return y;
}

std::string describe(const Matrix& m, Isa isa) {
  return std::string(formats::type_traits(m.type).name) + " " + std::to_string(m.rows) + "x" + std::to_string(m.cols) +
         " on " + std::string(cpu::isa_name(isa));
}

void expect_bits_equal(const float* a, const float* b, size_t count, const std::string& what) {
  if (std::memcmp(a, b, count * sizeof(float)) == 0) return;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(0, std::memcmp(a + i, b + i, sizeof(float)))
        << what << ": value " << i << " is " << a[i] << " and " << b[i];
  }
}

struct Shape {
  int64_t rows, cols;
};

class Linear : public testing::TestWithParam<TensorType> {
 protected:
  /** Shapes with this type's block length: odd row counts around a panel, one block to a real feed-forward width. */
  static std::vector<Shape> shapes() {
    switch (formats::type_traits(GetParam()).block_elements) {
      case 1:
        return {{1, 1}, {7, 31}, {33, 172}, {64, 33}, {70, 288}, {40, 2049}};
      case 32:
        return {{1, 32}, {7, 64}, {31, 96}, {32, 896}, {33, 160}, {70, 288}, {40, 4864}};
      default:
        return {{1, 256}, {31, 512}, {33, 256}, {70, 768}, {40, 4864}};
    }
  }
};

TEST_P(Linear, EqualsTheFloat64ProductWithinTheBoundOnEveryIsa) {
  constexpr int32_t kRows = 19;
  const auto pool = make_pool(2);
  double worst = 0;
  for (const Shape& shape : shapes()) {
    const Matrix m(GetParam(), shape.rows, shape.cols, 11);
    const std::vector<float> x = test::random_values(static_cast<size_t>(kRows * shape.cols), 5);
    std::vector<float> first;
    for (const Isa isa : cpu::available_isas()) {
      const auto backend = make_backend(*pool, isa);
      const auto weight = upload(*backend, m);
      const std::vector<float> y = multiply(*backend, *weight, x.data(), kRows);
      for (int64_t t = 0; t < kRows; ++t) {
        for (int64_t r = 0; r < m.rows; ++r) {
          const Expected e = test::expected_product(m, r, x.data() + t * m.cols);
          const double error = std::abs(y[static_cast<size_t>(t * m.rows + r)] - e.value);
          const double bound = e.quantisation + e.rounding;
          worst = std::max(worst, error / bound);
          ASSERT_LE(error, bound) << describe(m, isa) << ", token " << t << ", row " << r << ": expected " << e.value;
        }
      }
      if (first.empty()) first = y;
      expect_bits_equal(first.data(), y.data(), y.size(), describe(m, isa) + " against scalar");
    }
  }
  RecordProperty("largest_error_of_bound", std::to_string(worst));
}

/** Activations that 8 bits hold exactly: then nothing but float32 rounding may separate us from the exact product. */
TEST_P(Linear, WeightsAreExact) {
  const auto pool = make_pool(1);
  for (const Shape& shape : shapes()) {
    const Matrix m(GetParam(), shape.rows, shape.cols, 21);
    std::vector<float> x(static_cast<size_t>(shape.cols));
    const std::vector<float> random = test::random_values(x.size(), 9);
    for (size_t k = 0; k < x.size(); ++k) {
      const float unit = std::ldexp(1.0f, static_cast<int>(k / 32 % 7) - 3);
      x[k] = unit * std::clamp(std::nearbyint(random[k] * 40), -127.0f, 127.0f);
      if (k % 32 == 5) x[k] = k % 64 < 32 ? 127 * unit : -127 * unit;
    }
    for (const Isa isa : cpu::available_isas()) {
      const auto backend = make_backend(*pool, isa);
      const auto weight = upload(*backend, m);
      const std::vector<float> y = multiply(*backend, *weight, x.data(), 1);
      for (int64_t r = 0; r < m.rows; ++r) {
        const Expected e = test::expected_product(m, r, x.data());
        ASSERT_LE(std::abs(y[static_cast<size_t>(r)] - e.value), e.rounding) << describe(m, isa) << ", row " << r;
      }
    }
  }
}

TEST_P(Linear, DoesNotDependOnBatchChunkingOrThreads) {
  constexpr int32_t kRows = 19;
  const auto one = make_pool(1);
  const auto two = make_pool(2);
  const Shape shape = shapes()[4 % shapes().size()];
  const Matrix m(GetParam(), 70, shape.cols, 31);
  const std::vector<float> x = test::random_values(static_cast<size_t>(kRows * m.cols), 3);
  for (const Isa isa : cpu::available_isas()) {
    const auto alone = make_backend(*one, isa);
    const auto weight = upload(*alone, m);
    const std::vector<float> all = multiply(*alone, *weight, x.data(), kRows);
    for (int threads = 1; threads <= 2; ++threads) {
      const auto backend = make_backend(threads == 1 ? *one : *two, isa);
      const auto same = upload(*backend, m);
      for (int32_t chunk = 1; chunk <= kRows; ++chunk) {
        for (int32_t first = 0; first < kRows; first += chunk) {
          const int32_t rows = std::min(chunk, kRows - first);
          const std::vector<float> y = multiply(*backend, *same, x.data() + first * m.cols, rows);
          expect_bits_equal(all.data() + first * m.rows, y.data(), y.size(),
                            describe(m, isa) + ", " + std::to_string(threads) + " threads, rows " +
                                std::to_string(first) + " + " + std::to_string(rows));
        }
      }
    }
  }
}

TEST_P(Linear, LooksUpRowsExactly) {
  const auto pool = make_pool(2);
  for (const Shape& shape : shapes()) {
    const Matrix m(GetParam(), shape.rows, shape.cols, 41);
    const auto backend = make_backend(*pool, Isa::kScalar);
    const auto table = upload(*backend, m, ops::WeightUse::kBoth);
    std::vector<int32_t> tokens;
    for (int64_t r = m.rows - 1; r >= 0; r -= 3) tokens.push_back(static_cast<int32_t>(r));
    std::vector<float> out(tokens.size() * static_cast<size_t>(m.cols));
    backend->begin_step({.tokens = tokens, .positions = tokens, .sequences = {}});
    backend->embed({.table = table.get(), .out = out.data()});
    ASSERT_TRUE(backend->end_step());
    for (size_t i = 0; i < tokens.size(); ++i) {
      expect_bits_equal(m.values.data() + tokens[i] * m.cols, out.data() + static_cast<int64_t>(i) * m.cols,
                        static_cast<size_t>(m.cols), describe(m, Isa::kScalar));
    }
  }
}

std::vector<TensorType> types() {
  std::vector<TensorType> result;
  for (const formats::TypeTraits& traits : formats::all_types()) result.push_back(traits.type);
  return result;
}
INSTANTIATE_TEST_SUITE_P(Types, Linear, testing::ValuesIn(types()),
                         [](const auto& info) { return std::string(formats::type_traits(info.param).name); });

}  // namespace
}  // namespace banter
