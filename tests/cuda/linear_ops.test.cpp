// What stands around matrix products on the device: several targets, biases, caps, chosen rows, gated products, grids
// that were rounded up, odd inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/matrices_on_device.h"

namespace banter {
namespace {

using formats::TensorType;
using test::DeviceArray;
using test::Expected;
using test::Matrix;
using test::MatrixOnDevice;
using test::RowsOnDevice;

constexpr double kEpsilon = 1.0 / (1 << 24);

cuda::LinearArgs args_for(const RowsOnDevice& x) {
  cuda::LinearArgs args = {};
  args.x = x.floats();
  args.quantised = x.forms();
  args.rows = x.rows();
  return args;
}

bool bits_equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(CudaLinearOps, TargetsShareALaunchWhereTheirFormsAreEqual) {
  for (const int32_t rows : {2, 11}) {
    const std::vector<float> x = test::random_values(static_cast<size_t>(rows) * 512, 1);
    const RowsOnDevice on_device(x.data(), rows, 512);
    // Equal forms first and last, and ragged: tiles of a launch must find their target.
    const Matrix matrices[] = {Matrix(TensorType::kQ4_0, 70, 512, 2), Matrix(TensorType::kF16, 33, 512, 3),
                               Matrix(TensorType::kQ4_0, 129, 512, 4)};
    const std::vector<float> bias = test::random_values(129, 5);
    const DeviceArray<float> device_bias(bias);
    std::vector<MatrixOnDevice> weights;
    std::vector<DeviceArray<float>> ys;
    cuda::LinearArgs args = args_for(on_device);
    args.targets = 3;
    for (const Matrix& m : matrices) {
      weights.emplace_back(m);
      ys.emplace_back(static_cast<size_t>(rows * m.rows));
    }
    for (int i = 0; i < 3; ++i) {
      args.weights[i] = &weights[static_cast<size_t>(i)].weight();
      args.ys[i] = ys[static_cast<size_t>(i)].data();
      args.biases[i] = i == 1 ? nullptr : device_bias.data();
    }
    ASSERT_EQ(cudaSuccess, cuda::linear(on_device.view(), args, test::card_limits(), nullptr));
    for (size_t i = 0; i < 3; ++i) {
      std::vector<float> alone = multiply_on_device(weights[i], on_device, test::card_limits());
      for (size_t j = 0; j < alone.size() && i != 1; ++j) {
        alone[j] += bias[j % static_cast<size_t>(matrices[i].rows)];
      }
      EXPECT_TRUE(bits_equal(alone, ys[i].read())) << "target " << i << ", " << rows << " rows";
    }
  }
}

TEST(CudaLinearOps, RowsBeyondTheStepAreLeftUntouched) {
  constexpr float kUntouched = -4321.0f;
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_K, TensorType::kF16, TensorType::kF32}) {
    const Matrix m(type, 37, 256, 7);
    const MatrixOnDevice weight(m);
    for (const int32_t grid : {8, 80}) {
      for (const int32_t real : {0, 3, 7, 66}) {
        if (real > grid) continue;
        const std::vector<float> x = test::random_values(static_cast<size_t>(grid) * 256, 8);
        const RowsOnDevice on_device(x.data(), grid, 256);
        const std::vector<float> all = multiply_on_device(weight, on_device, test::card_limits());
        const test::StepOnDevice step(real);
        const DeviceArray<float> y(std::vector<float>(static_cast<size_t>(grid) * 37, kUntouched));
        cuda::LinearArgs args = args_for(on_device);
        args.targets = 1;
        args.weights[0] = &weight.weight();
        args.ys[0] = y.data();
        ASSERT_EQ(cudaSuccess, cuda::linear(step.view(), args, test::card_limits(), nullptr));
        const std::vector<float> values = y.read();
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(i < static_cast<size_t>(real) * 37 ? all[i] : kUntouched, values[i])
              << formats::type_traits(type).name << ", " << real << " of " << grid << " rows, value " << i;
        }
      }
    }
  }
}

TEST(CudaLinearOps, LogitsOfChosenRowsAreCapped) {
  const std::vector<float> x = test::random_values(9 * 256, 1);
  const DeviceArray<float> device_x(x);
  const std::vector<int32_t> rows = {8, 0, 3, 3};
  const test::StepOnDevice step(9, rows);
  for (const TensorType type : {TensorType::kQ6_K, TensorType::kF16, TensorType::kF32}) {
    const Matrix m(type, 101, 256, 2);
    const MatrixOnDevice head(m);
    const test::FormsOnDevice forms(4, 256);
    ASSERT_EQ(cudaSuccess,
              cuda::quantise(step.view(), device_x.data(), 4, 256, step.view().logit_rows, forms.forms(), nullptr));
    for (const float cap : {0.0f, 2.0f}) {
      const DeviceArray<float> logits(4 * 101);
      cuda::LinearArgs args = {};
      args.x = device_x.data();
      args.quantised = forms.forms();
      args.rows = 4;
      args.logit_rows = true;
      args.targets = 1;
      args.weights[0] = &head.weight();
      args.ys[0] = logits.data();
      args.softcap = cap;
      ASSERT_EQ(cudaSuccess, cuda::linear(step.view(), args, test::card_limits(), nullptr));
      const std::vector<float> values = logits.read();
      for (size_t i = 0; i < 4; ++i) {
        for (int64_t r = 0; r < 101; ++r) {
          const float* row = x.data() + rows[i] * 256;
          const Expected e = test::expected_product(m, r, row);
          const double expected = cap > 0 ? cap * std::tanh(e.value / cap) : e.value;  // tanh's slope is at most 1
          double bound = e.quantisation + 16 * e.rounding + cap * 4 * kEpsilon;
          for (int64_t k = 0; k < 256 && type == TensorType::kF16; ++k) {
            bound += std::abs(m.values[static_cast<size_t>(r * 256 + k)] * row[k]) * 0x1p-11 + 0x1p-24;
          }
          EXPECT_NEAR(expected, values[i * 101 + static_cast<size_t>(r)], bound) << i << " " << r;
        }
      }
      EXPECT_EQ(0, std::memcmp(&values[2 * 101], &values[3 * 101], 101 * sizeof(float)));
    }
  }
}

/** The exponent z of an activation g / (1 + e^-z): GELU's ½ (1 + tanh u) is the logistic function of 2u. */
double exponent_of(ops::Activation activation, double g) {
  return activation == ops::Activation::kSilu ? g : 2 * std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
}

struct Gated {
  std::vector<float> out;
  std::vector<int8_t> q;
  std::vector<cuda::ActivationScale> scales;
  std::vector<uint16_t> half, bfloat;
};

Gated run_gated(const MatrixOnDevice& gate, const MatrixOnDevice& up, const RowsOnDevice& x, int32_t real,
                ops::Activation activation) {
  const int64_t ff = gate.weight().rows;
  const auto values = static_cast<size_t>(x.rows() * ff);
  const DeviceArray<float> out(std::vector<float>(values, -5.0f)), scratch(values);
  const test::FormsOnDevice forms(x.rows(), ff);
  const test::StepOnDevice step(real);
  cuda::GatedArgs args = {};
  args.gate = &gate.weight();
  args.up = &up.weight();
  args.x = x.floats();
  args.quantised = x.forms();
  args.rows = x.rows();
  args.activation = activation;
  args.out = out.data();
  args.scratch = scratch.data();
  args.quantised_out = forms.forms();
  EXPECT_EQ(cudaSuccess, cuda::gated(step.view(), args, test::card_limits(), nullptr));
  return {out.read(), forms.q(), forms.scales(), forms.half(), forms.bfloat()};
}

class CudaGated : public testing::TestWithParam<std::pair<TensorType, TensorType>> {};

TEST_P(CudaGated, EqualsGateTimesUpOfTwoProductsForFewRowsAndMany) {
  const Matrix g(GetParam().first, 108, 256, 2);
  const Matrix u(GetParam().second, 108, 256, 3);
  const MatrixOnDevice gate(g), up(u);
  const std::vector<float> x = test::random_values(13 * 256, 1, 3.0f);
  for (const ops::Activation activation : {ops::Activation::kSilu, ops::Activation::kGeluTanh}) {
    const RowsOnDevice many(x.data(), 13, 256), few(x.data(), 5, 256);
    const Gated all = run_gated(gate, up, many, 12, activation);
    const Gated some = run_gated(gate, up, few, 5, activation);
    const std::vector<float> gates = multiply_on_device(gate, many, test::card_limits());
    const std::vector<float> ups = multiply_on_device(up, many, test::card_limits());
    for (size_t i = 0; i < all.out.size(); ++i) {
      if (i >= 12 * 108) {
        EXPECT_EQ(-5.0f, all.out[i]) << "a row that is not there";
        continue;
      }
      const double z = exponent_of(activation, gates[i]);
      const double expected = gates[i] / (1 + std::exp(-z)) * ups[i];
      // z itself is rounded a few times, which moves e^z by as many half-ulps of z.
      EXPECT_NEAR(expected, all.out[i], std::abs(expected) * (std::abs(z) * 6 + 16) * kEpsilon + 1e-30);
    }
    EXPECT_EQ(0, std::memcmp(all.out.data(), some.out.data(), some.out.size() * sizeof(float)));
    // The forms are those that quantise() makes of the same rows.
    const RowsOnDevice again(all.out.data(), 5, 108);
    const size_t values = 5 * 128;
    std::vector<int8_t> q(values);
    std::vector<uint16_t> half(values), bfloat(values);
    ASSERT_EQ(cudaSuccess, cudaMemcpy(q.data(), again.forms().q, values, cudaMemcpyDeviceToHost));
    ASSERT_EQ(cudaSuccess, cudaMemcpy(half.data(), again.forms().half, 2 * values, cudaMemcpyDeviceToHost));
    ASSERT_EQ(cudaSuccess, cudaMemcpy(bfloat.data(), again.forms().bfloat, 2 * values, cudaMemcpyDeviceToHost));
    for (const Gated* result : {&all, &some}) {
      EXPECT_EQ(0, std::memcmp(q.data(), result->q.data(), values));
      EXPECT_EQ(0, std::memcmp(half.data(), result->half.data(), 2 * values));
      EXPECT_EQ(0, std::memcmp(bfloat.data(), result->bfloat.data(), 2 * values));
    }
    std::vector<cuda::ActivationScale> scales(4 * 6);
    ASSERT_EQ(cudaSuccess, cudaMemcpy(scales.data(), again.forms().scales, scales.size() * 8, cudaMemcpyDeviceToHost));
    for (size_t block = 0; block < 4; ++block) {
      for (size_t row = 0; row < 5; ++row) {
        EXPECT_EQ(0, std::memcmp(&scales[block * 6 + row], &some.scales[block * 6 + row], 8));
        EXPECT_EQ(0, std::memcmp(&scales[block * 6 + row], &all.scales[block * 14 + row], 8));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, CudaGated,
    testing::Values(std::pair{TensorType::kQ4_K, TensorType::kQ4_K}, std::pair{TensorType::kQ8_0, TensorType::kQ8_0},
                    std::pair{TensorType::kQ4_K, TensorType::kQ5_0}, std::pair{TensorType::kF16, TensorType::kF16},
                    std::pair{TensorType::kF32, TensorType::kF32}, std::pair{TensorType::kBF16, TensorType::kF32}),
    [](const auto& info) {
      return std::string(formats::type_traits(info.param.first).name) + "_" +
             std::string(formats::type_traits(info.param.second).name);
    });

TEST(CudaLinearOps, BfloatsWithoutMatrixInstructionsKeepTheirBits) {
  constexpr int32_t kRows = 11;
  const Matrix m(TensorType::kBF16, 45, 301, 5);
  const MatrixOnDevice weight(m);
  const std::vector<float> x = test::random_values(static_cast<size_t>(kRows * m.cols), 6);
  cuda::DeviceLimits limits = test::card_limits();
  limits.compute_capability = 75;
  const RowsOnDevice many(x.data(), kRows, m.cols);
  const std::vector<float> all = multiply_on_device(weight, many, limits);
  for (int64_t t = 0; t < kRows; ++t) {
    for (int64_t r = 0; r < m.rows; ++r) {
      const Expected e = test::expected_product(m, r, x.data() + t * m.cols);
      EXPECT_NEAR(e.value, all[static_cast<size_t>(t * m.rows + r)], 8 * e.rounding);
    }
  }
  for (int32_t t = 0; t < kRows; ++t) {
    const RowsOnDevice one(x.data() + t * m.cols, 1, m.cols);
    const std::vector<float> y = multiply_on_device(weight, one, limits);
    EXPECT_EQ(0, std::memcmp(all.data() + t * m.rows, y.data(), y.size() * sizeof(float))) << t;
  }
}

TEST(CudaLinearOps, ExtremeActivations) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Not the very largest float: max / 127 is rounded, so 127 times it may be infinite.
  const float cases[] = {1e38f, std::numeric_limits<float>::denorm_min(), 1e-37f, 1e-29f, 0.0f};
  for (const TensorType type :
       {TensorType::kQ8_0, TensorType::kQ4_1, TensorType::kQ2_K, TensorType::kF16, TensorType::kBF16}) {
    const Matrix m(type, 33, 256, 2);
    const MatrixOnDevice weight(m);
    for (const float value : cases) {
      std::vector<float> x(10 * 256, 0.0f);
      x[9 * 256 + 77] = value;
      for (const int32_t first : {0, 9}) {
        const RowsOnDevice rows(x.data() + first * 256, 10 - first, 256);
        const std::vector<float> y = multiply_on_device(weight, rows, test::card_limits());
        for (int64_t r = 0; r < 33; ++r) {
          const double expected = static_cast<double>(m.values[static_cast<size_t>(r * 256 + 77)]) * value;
          const double tolerance = std::abs(value) * (type == TensorType::kBF16 ? 1e-3 : 1e-4) + 1e-30;
          ASSERT_NEAR(expected, y[y.size() - 33 + static_cast<size_t>(r)], tolerance) << value << " row " << r;
        }
      }
    }
    for (const float value : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(10 * 256, 1.0f);
      x[9 * 256 + 200] = value;
      for (const int32_t first : {0, 9}) {
        const RowsOnDevice rows(x.data() + first * 256, 10 - first, 256);
        const std::vector<float> y = multiply_on_device(weight, rows, test::card_limits());
        for (size_t i = 0; i < y.size(); ++i) {
          ASSERT_EQ(i < y.size() - 33, std::isfinite(y[i])) << "lost " << value << ", or gave it to another row";
        }
      }
    }
  }
}

}  // namespace
}  // namespace banter
