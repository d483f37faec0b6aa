// Norms and the forms of activations on the device, against their definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "cuda/matrices_on_device.h"

namespace banter {
namespace {

using test::DeviceArray;

constexpr double kEpsilon = 1.0 / (1 << 24);

/** The forms of rows of x, read back, are what QuantisedRows says. `first_only` rows were written. */
void expect_forms(const std::vector<float>& x, int32_t rows, int32_t cols, const test::FormsOnDevice& forms) {
  const cuda::QuantisedRows& f = forms.forms();
  const std::vector<int8_t> q = forms.q();
  const std::vector<cuda::ActivationScale> scales = forms.scales();
  const std::vector<uint16_t> half = forms.half(), bfloat = forms.bfloat();
  const std::vector<float> half_scale = forms.half_scale();
  for (int32_t r = 0; r < rows; ++r) {
    const float* row = x.data() + static_cast<size_t>(r) * cols;
    float row_largest = 0;
    for (int32_t c = 0; c < cols; ++c) row_largest = std::max(row_largest, std::abs(row[c]));
    int exponent = 0;
    if (row_largest > 0) exponent = std::max(std::ilogb(row_largest), -126);
    ASSERT_EQ(std::ldexp(1.0f, exponent), half_scale[static_cast<size_t>(r)]) << "row " << r;
    for (int32_t b = 0; b < f.stride / 32; ++b) {
      const auto at = static_cast<size_t>(r * f.stride + 32 * b);
      const auto value = [&](int32_t i) { return 32 * b + i < cols ? row[32 * b + i] : 0.0f; };
      float largest = 0;
      for (int32_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(value(i)));
      const bool zero = largest < 1e-30f;
      const cuda::ActivationScale& scale = scales[static_cast<size_t>(b * f.capacity + r)];
      ASSERT_EQ(zero ? 0.0f : largest / 127.0f, scale.d) << "row " << r << " block " << b;
      int32_t sums[2] = {0, 0};
      for (int32_t i = 0; i < 32; ++i) {
        const float exact = zero ? 0.0f : value(i) * (127.0f / largest);
        const auto expected = static_cast<int32_t>(std::nearbyint(exact));
        ASSERT_EQ(expected, q[at + static_cast<size_t>(i)]) << "row " << r << " column " << 32 * b + i;
        sums[i / 16] += expected;
        ASSERT_EQ(float_to_bfloat(value(i)), bfloat[at + static_cast<size_t>(i)]);
        const auto scaled = static_cast<float>(std::ldexp(static_cast<double>(value(i)), -exponent));
        ASSERT_EQ(float_to_half(scaled), half[at + static_cast<size_t>(i)]) << value(i);
      }
      ASSERT_EQ(sums[0], scale.n[0]);
      ASSERT_EQ(sums[1], scale.n[1]);
    }
  }
}

TEST(CudaRows, FormsAreExactlyTheirDefinition) {
  for (const int32_t cols : {1, 31, 32, 33, 260, 1024, 2600}) {
    constexpr int32_t kRows = 5;
    std::vector<float> x = test::random_values(static_cast<size_t>(kRows * cols), 3, 2.0f);
    std::fill_n(x.begin() + cols, cols, 0.0f);                                         // a row of zeros
    for (int32_t c = 0; c < cols; ++c) x[static_cast<size_t>(2 * cols + c)] *= 1e30f;  // far beyond float16
    for (int32_t c = 0; c < cols; ++c) x[static_cast<size_t>(3 * cols + c)] *= 1e-36f;
    x[static_cast<size_t>(4 * cols)] = 3.0e38f;
    const DeviceArray<float> device_x(x);
    const test::FormsOnDevice forms(kRows, cols);
    const test::StepOnDevice step(kRows);
    ASSERT_EQ(cudaSuccess, cuda::quantise(step.view(), device_x.data(), kRows, cols, nullptr, forms.forms(), nullptr));
    expect_forms(x, kRows, cols, forms);
  }
}

TEST(CudaRows, OnlyTheWantedFormsOfTheExistingRowsAreWritten) {
  const std::vector<float> x = test::random_values(4 * 64, 3);
  const DeviceArray<float> device_x(x);
  const test::StepOnDevice step(2);
  for (int wanted = 0; wanted < 3; ++wanted) {
    const test::FormsOnDevice forms(4, 64), untouched(4, 64);
    cuda::QuantisedRows some = forms.forms();
    if (wanted != 0) some.q = nullptr;
    if (wanted != 1) some.half = nullptr;
    if (wanted != 2) some.bfloat = nullptr;
    ASSERT_EQ(cudaSuccess, cuda::quantise(step.view(), device_x.data(), 4, 64, nullptr, some, nullptr));
    const size_t written = 2 * 64;
    const auto same = [&](const auto& a, const auto& b, size_t from) {
      return std::equal(a.begin() + static_cast<int64_t>(from), a.end(), b.begin() + static_cast<int64_t>(from));
    };
    EXPECT_TRUE(same(forms.q(), untouched.q(), wanted == 0 ? written : 0));
    EXPECT_TRUE(same(forms.half(), untouched.half(), wanted == 1 ? written : 0));
    EXPECT_TRUE(same(forms.bfloat(), untouched.bfloat(), wanted == 2 ? written : 0));
    EXPECT_EQ(wanted != 0, same(forms.q(), untouched.q(), 0));
  }
}

struct NormCase {
  bool delta, delta_norm, out;
};

TEST(CudaRows, NormsAreTheFloat64OnesWithinRounding) {
  for (const int32_t dim : {1, 33, 64, 288, 1000, 2600}) {
    for (const NormCase c :
         {NormCase{false, false, true}, {true, false, true}, {true, true, true}, {true, true, false}}) {
      constexpr int32_t kRows = 3, kReal = 2;
      const auto count = static_cast<size_t>(kRows * dim);
      const std::vector<float> residual = test::random_values(count, 1, 3.0f);
      const std::vector<float> delta = test::random_values(count, 2);
      const std::vector<float> norm = test::random_values(static_cast<size_t>(dim), 3);
      const std::vector<float> delta_norm = test::random_values(static_cast<size_t>(dim), 4);
      const DeviceArray<float> d_residual(residual), d_delta(delta), d_norm(norm), d_delta_norm(delta_norm);
      const DeviceArray<float> d_out(std::vector<float>(count, 77.0f));
      const test::FormsOnDevice forms(kRows, dim);
      const test::StepOnDevice step(kReal);
      ops::NormParams params = {.residual = d_residual.data()};
      if (c.delta) params.delta = d_delta.data();
      if (c.delta_norm) params.delta_norm = d_delta_norm.data();
      params.norm = d_norm.data();
      if (c.out) params.out = d_out.data();
      params.rows = kRows;
      params.dim = dim;
      params.epsilon = 1e-6f;
      ASSERT_EQ(cudaSuccess, cuda::norm(step.view(), params, c.out ? forms.forms() : cuda::QuantisedRows{}, nullptr));
      const std::vector<float> sums = d_residual.read(), out = d_out.read();
      for (int32_t r = 0; r < kRows; ++r) {
        const size_t row = static_cast<size_t>(r) * static_cast<size_t>(dim);
        double squares = 0;
        for (size_t i = row; i < row + static_cast<size_t>(dim); ++i) squares += double{delta[i]} * delta[i];
        const double delta_scale = c.delta_norm ? 1 / std::sqrt(squares / dim + 1e-6) : 1;
        squares = 0;
        for (size_t i = row; i < row + static_cast<size_t>(dim); ++i) {
          double expected = residual[i];
          const double weight = c.delta_norm ? double{delta_norm[i - row]} : 1.0;
          if (c.delta && r < kReal) expected += delta[i] * delta_scale * weight;
          const double magnitude = std::abs(double{residual[i]}) + std::abs(delta[i] * delta_scale * weight);
          ASSERT_NEAR(expected, sums[i], magnitude * 24 * kEpsilon) << "dim " << dim << " row " << r;
          squares += double{sums[i]} * sums[i];
        }
        const double scale = 1 / std::sqrt(squares / dim + 1e-6);
        for (size_t i = row; i < row + static_cast<size_t>(dim); ++i) {
          if (!c.out || r >= kReal) {
            ASSERT_EQ(77.0f, out[i]);
            continue;
          }
          const double expected = sums[i] * scale * norm[i - row];
          ASSERT_NEAR(expected, out[i], std::abs(expected) * 24 * kEpsilon) << "dim " << dim << " row " << r;
        }
      }
      if (c.out) expect_forms(out, kReal, dim, forms);
    }
  }
}

TEST(CudaRows, ARowsNormDoesNotDependOnTheOthers) {
  constexpr int32_t kRows = 4, kDim = 700;
  const std::vector<float> x = test::random_values(kRows * kDim, 1, 3.0f);
  const std::vector<float> weights = test::random_values(kDim, 3);
  const DeviceArray<float> norm(weights);
  const auto run = [&](int32_t first, int32_t rows) {
    const DeviceArray<float> residual(std::vector<float>(x.begin() + first * kDim, x.begin() + (first + rows) * kDim));
    const DeviceArray<float> out(static_cast<size_t>(rows * kDim));
    const test::StepOnDevice step(rows);
    ops::NormParams params = {.residual = residual.data()};
    params.norm = norm.data();
    params.out = out.data();
    params.rows = rows;
    params.dim = kDim;
    EXPECT_EQ(cudaSuccess, cuda::norm(step.view(), params, {}, nullptr));
    return out.read();
  };
  const std::vector<float> all = run(0, kRows);
  for (int32_t r = 0; r < kRows; ++r) {
    const std::vector<float> one = run(r, 1);
    EXPECT_EQ(0, std::memcmp(one.data(), all.data() + r * kDim, kDim * sizeof(float)));
  }
}

}  // namespace
}  // namespace banter
