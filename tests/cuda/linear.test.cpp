// Matrix products of every weight type: within the derived bound of the float64 product, and the same bits whichever
// kernel computed a row: for few rows, for many in small tiles, for many in large ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "cuda/matrices_on_device.h"

namespace banter {
namespace {

using formats::TensorType;
using test::Expected;
using test::Matrix;

constexpr double kEpsilon = 1.0 / (1 << 24);
// Multiprocessors that make launchers choose large tiles always, or never.
constexpr int32_t kLargeTiles = 1, kSmallTiles = 1 << 20;

struct Shape {
  int64_t rows, cols;
};

std::string describe(const Matrix& m) {
  return std::string(formats::type_traits(m.type).name) + " " + std::to_string(m.rows) + "x" + std::to_string(m.cols);
}

/** Bound of a product's error: rounding of the activations, and of the arithmetic. */
double bound_of(const Matrix& m, int64_t row, const float* x, const Expected& e) {
  if (formats::type_traits(m.type).block_elements != 1) return e.quantisation + e.rounding;
  const float* w = m.values.data() + row * m.cols;
  double sum = 0, sum_w = 0;
  float largest = 0;
  for (int64_t k = 0; k < m.cols; ++k) {
    sum += std::abs(static_cast<double>(w[k]) * x[k]);
    sum_w += std::abs(static_cast<double>(w[k]));
    largest = std::max(largest, std::abs(x[k]));
  }
  // The card adds products of float16 without rounding to nearest: an ulp each instead of half of one.
  const double arithmetic = static_cast<double>(m.cols + 32) * 2 * kEpsilon * sum;
  // Halves: 11 bits, below 2^-14 of the row's power of two a fixed step of 2^-24; bfloats: 8 bits.
  if (m.type == TensorType::kF16) return arithmetic + sum * 0x1p-11 + sum_w * largest * 0x1p-25;
  if (m.type == TensorType::kBF16) return arithmetic + sum * 0x1p-9;
  return arithmetic;
}

void expect_within_bound(const Matrix& m, const std::vector<float>& x, int32_t tokens, const std::vector<float>& y) {
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t r = 0; r < m.rows; ++r) {
      const Expected e = test::expected_product(m, r, x.data() + t * m.cols);
      ASSERT_NEAR(e.value, y[static_cast<size_t>(t * m.rows + r)], bound_of(m, r, x.data() + t * m.cols, e))
          << describe(m) << ", token " << t << ", row " << r;
    }
  }
}

void expect_bits_equal(const float* a, const float* b, size_t count, const std::string& what) {
  if (std::memcmp(a, b, count * sizeof(float)) == 0) return;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(0, std::memcmp(a + i, b + i, sizeof(float))) << what << ": value " << i << ": " << a[i] << ", " << b[i];
  }
}

class CudaLinear : public testing::TestWithParam<TensorType> {
 protected:
  /** From a lone block to several segments of which the last is short; ragged panels. */
  static std::vector<Shape> shapes() {
    switch (formats::type_traits(GetParam()).block_elements) {
      case 1:
        return {{1, 1}, {7, 31}, {33, 172}, {70, 288}, {40, 1057}};
      case 32:
        return {{1, 32}, {31, 96}, {70, 288}, {33, 544}, {40, 4864}};
      default:
        return {{1, 256}, {33, 768}, {40, 4864}};
    }
  }
};

TEST_P(CudaLinear, FewRowsAreWithinTheBound) {
  constexpr int32_t kRows = 3;
  for (const Shape& shape : shapes()) {
    const Matrix m(GetParam(), shape.rows, shape.cols, 11);
    const std::vector<float> x = test::random_values(static_cast<size_t>(kRows * shape.cols), 5);
    const test::RowsOnDevice rows(x.data(), kRows, shape.cols);
    expect_within_bound(m, x, kRows, multiply_on_device(test::MatrixOnDevice(m), rows, test::card_limits()));
  }
}

TEST_P(CudaLinear, ManyRowsAreWithinTheBound) {
  constexpr int32_t kRows = 19;
  const Shape shape = shapes()[1];
  const Matrix m(GetParam(), shape.rows, shape.cols, 12);
  const std::vector<float> x = test::random_values(static_cast<size_t>(kRows * shape.cols), 6);
  const test::RowsOnDevice rows(x.data(), kRows, shape.cols);
  const test::MatrixOnDevice matrix(m);
  for (const int32_t multiprocessors : {kLargeTiles, kSmallTiles}) {
    cuda::DeviceLimits limits = test::card_limits();
    limits.multiprocessors = multiprocessors;
    expect_within_bound(m, x, kRows, multiply_on_device(matrix, rows, limits));
  }
}

/** Activations that every form holds exactly: then nothing but float32 rounding may separate us from the product. */
TEST_P(CudaLinear, WeightsAreExact) {
  for (const Shape& shape : shapes()) {
    const Matrix m(GetParam(), shape.rows, shape.cols, 21);
    std::vector<float> x(static_cast<size_t>(shape.cols));
    const std::vector<float> random = test::random_values(x.size(), 9);
    for (size_t k = 0; k < x.size(); ++k) {
      const float unit = std::ldexp(1.0f, static_cast<int>(k / 32 % 4) - 3);
      x[k] = unit * std::clamp(std::nearbyint(random[k] * 40), -127.0f, 127.0f);
      if (k % 32 == 5) x[k] = k % 64 < 32 ? 127 * unit : -127 * unit;
    }
    const test::RowsOnDevice rows(x.data(), 1, shape.cols);
    const std::vector<float> y = multiply_on_device(test::MatrixOnDevice(m), rows, test::card_limits());
    for (int64_t r = 0; r < m.rows; ++r) {
      const Expected e = test::expected_product(m, r, x.data());
      double rounding = e.rounding;
      if (formats::type_traits(m.type).block_elements == 1) rounding *= 2.0 * static_cast<double>(m.cols + 32) / 33;
      ASSERT_LE(std::abs(y[static_cast<size_t>(r)] - e.value), rounding) << describe(m) << ", row " << r;
    }
  }
}

TEST_P(CudaLinear, RowsHaveTheSameBitsHoweverTheyAreCut) {
  constexpr int32_t kRows = 40;
  const bool super = formats::type_traits(GetParam()).block_elements == 256;
  const Matrix m(GetParam(), 45, super ? 512 : 544, 31);
  const std::vector<float> x = test::random_values(static_cast<size_t>(kRows * m.cols), 3);
  const test::MatrixOnDevice matrix(m);
  cuda::DeviceLimits limits = test::card_limits();
  const test::RowsOnDevice all_rows(x.data(), kRows, m.cols);
  limits.multiprocessors = kSmallTiles;
  const std::vector<float> all = multiply_on_device(matrix, all_rows, limits);
  limits.multiprocessors = kLargeTiles;
  const std::vector<float> large = multiply_on_device(matrix, all_rows, limits);
  expect_bits_equal(all.data(), large.data(), all.size(), describe(m) + ", large tiles");
  for (const int32_t chunk : {1, 2, 3, 5, 8, 9, 23, 33}) {
    // Each chunk size once at the front, and once where the rows end: every row count of a kernel, few passes.
    for (const int32_t first : {0, kRows - chunk}) {
      const test::RowsOnDevice rows(x.data() + first * m.cols, chunk, m.cols);
      const std::vector<float> y = multiply_on_device(matrix, rows, limits);
      expect_bits_equal(all.data() + first * m.rows, y.data(), y.size(),
                        describe(m) + ", rows " + std::to_string(first) + " + " + std::to_string(chunk));
    }
  }
}

TEST_P(CudaLinear, SegmentsOfSeveralSuperBlocksAddUpTheSame) {
  constexpr int32_t kRows = 9;
  const Matrix m(GetParam(), 32, 4864, 32);  // 19 super-blocks: segments of two, the last of one
  const std::vector<float> x = test::random_values(static_cast<size_t>(kRows * m.cols), 4);
  const test::MatrixOnDevice matrix(m);
  const test::RowsOnDevice many(x.data(), kRows, m.cols);
  const std::vector<float> all = multiply_on_device(matrix, many, test::card_limits());
  for (const int32_t chunk : {1, 4, 8}) {
    const test::RowsOnDevice rows(x.data(), chunk, m.cols);
    const std::vector<float> y = multiply_on_device(matrix, rows, test::card_limits());
    expect_bits_equal(all.data(), y.data(), y.size(), describe(m) + ", " + std::to_string(chunk) + " rows");
  }
}

TEST_P(CudaLinear, LooksUpRowsExactly) {
  for (const Shape& shape : shapes()) {
    if (shape.cols > 1100) continue;
    const Matrix m(GetParam(), shape.rows, shape.cols, 41);
    const test::MatrixOnDevice table(m);
    std::vector<int32_t> tokens;
    for (int64_t r = m.rows - 1; r >= 0; r -= 3) tokens.push_back(static_cast<int32_t>(r));
    const test::StepOnDevice step({.tokens = tokens, .positions = tokens, .sequences = {}});
    for (const float scale : {1.0f, 8.5f}) {
      const test::DeviceArray<float> out(tokens.size() * static_cast<size_t>(m.cols));
      ASSERT_EQ(cudaSuccess, cuda::embed(step.view(), static_cast<int32_t>(tokens.size()), table.weight(), scale,
                                         out.data(), nullptr));
      const std::vector<float> values = out.read();
      for (size_t i = 0; i < tokens.size(); ++i) {
        std::vector<float> expected(m.values.begin() + tokens[i] * m.cols, m.values.begin() + (tokens[i] + 1) * m.cols);
        for (float& value : expected) value *= scale;
        expect_bits_equal(expected.data(), values.data() + static_cast<int64_t>(i) * m.cols, expected.size(),
                          describe(m) + ", token " + std::to_string(tokens[i]));
      }
    }
  }
}

std::vector<TensorType> types() {
  std::vector<TensorType> result;
  for (const formats::TypeTraits& traits : formats::all_types()) result.push_back(traits.type);
  return result;
}
INSTANTIATE_TEST_SUITE_P(Types, CudaLinear, testing::ValuesIn(types()),
                         [](const auto& info) { return std::string(formats::type_traits(info.param).name); });

}  // namespace
}  // namespace banter
