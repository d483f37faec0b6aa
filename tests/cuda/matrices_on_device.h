// Weights and activations in device memory, for tests of matrix products.
#pragma once

#include <cstdint>
#include <vector>

#include "backend_cuda/kernels.h"
#include "backend_cuda/weight_packing.h"
#include "cuda/card.h"
#include "cuda/device_array.h"
#include "cuda/step_on_device.h"
#include "ops/matrix_cases.h"

namespace banter::test {

/** A matrix packed and sent to the device. Behind its panels there is nothing: a kernel that reads past them is caught. */
class MatrixOnDevice {
 public:
  explicit MatrixOnDevice(const Matrix& matrix) {
    weight_.type = matrix.type;
    weight_.rows = matrix.rows;
    weight_.cols = matrix.cols;
    weight_.form = ops::form_of(matrix.type);
    weight_.panel_bytes = cuda::device_panel_bytes(weight_.form, matrix.cols);
    std::vector<uint8_t> panels(weight_.panel_bytes * static_cast<size_t>(weight_.panel_count()), 0xEE);
    for (int64_t panel = 0; panel < weight_.panel_count(); ++panel) {
      cuda::pack_device_panel(matrix.type, matrix.rows, matrix.cols, matrix.blocks.data(), panel,
                              panels.data() + static_cast<size_t>(panel) * weight_.panel_bytes);
    }
    panels_ = DeviceArray<uint8_t>(panels);
    weight_.panels = panels_.data();
  }
  const cuda::DeviceWeight& weight() const { return weight_; }

 private:
  DeviceArray<uint8_t> panels_;
  cuda::DeviceWeight weight_;
};

/** Memory for all forms of `rows` rows, filled with what must not be read. */
class FormsOnDevice {
 public:
  FormsOnDevice(int32_t rows, int64_t cols) {
    const int64_t stride = (cols + 31) / 32 * 32;
    const int64_t capacity = (rows + 1) / 2 * 2;
    const auto values = static_cast<size_t>(rows * stride);
    q_ = DeviceArray<int8_t>(values);
    scales_ = DeviceArray<cuda::ActivationScale>(static_cast<size_t>(stride / 32 * capacity), 0xFF);
    half_ = DeviceArray<uint16_t>(values, 0xFF);
    half_scale_ = DeviceArray<float>(static_cast<size_t>(rows), 0xFF);
    bfloat_ = DeviceArray<uint16_t>(values, 0xFF);
    forms_ = {.q = q_.data(),
              .scales = scales_.data(),
              .half = half_.data(),
              .half_scale = half_scale_.data(),
              .bfloat = bfloat_.data(),
              .stride = static_cast<int32_t>(stride),
              .capacity = static_cast<int32_t>(capacity)};
  }
  const cuda::QuantisedRows& forms() const { return forms_; }
  std::vector<int8_t> q() const { return q_.read(); }
  std::vector<cuda::ActivationScale> scales() const { return scales_.read(); }
  std::vector<uint16_t> half() const { return half_.read(); }
  std::vector<float> half_scale() const { return half_scale_.read(); }
  std::vector<uint16_t> bfloat() const { return bfloat_.read(); }

 private:
  DeviceArray<int8_t> q_;
  DeviceArray<cuda::ActivationScale> scales_;
  DeviceArray<uint16_t> half_, bfloat_;
  DeviceArray<float> half_scale_;
  cuda::QuantisedRows forms_;
};

/** Activations on the device, as floats and in all forms. */
class RowsOnDevice {
 public:
  RowsOnDevice(const float* x, int32_t rows, int64_t cols)
      : step_(rows), floats_(std::vector<float>(x, x + rows * cols)), forms_(rows, cols), rows_(rows) {
    EXPECT_EQ(cudaSuccess, cuda::quantise(step_.view(), floats_.data(), rows, static_cast<int32_t>(cols), nullptr,
                                          forms_.forms(), nullptr));
  }
  cuda::StepView view() const { return step_.view(); }
  const float* floats() const { return floats_.data(); }
  const cuda::QuantisedRows& forms() const { return forms_.forms(); }
  int32_t rows() const { return rows_; }

 private:
  StepOnDevice step_;
  DeviceArray<float> floats_;
  FormsOnDevice forms_;
  int32_t rows_;
};

/** y [rows][weight rows] = W x + bias, on a card of these limits. */
inline std::vector<float> multiply_on_device(const MatrixOnDevice& matrix, const RowsOnDevice& x,
                                             const cuda::DeviceLimits& limits, const float* device_bias = nullptr) {
  const DeviceArray<float> y(static_cast<size_t>(x.rows() * matrix.weight().rows));
  cuda::LinearArgs args = {};
  args.x = x.floats();
  args.quantised = x.forms();
  args.rows = x.rows();
  args.targets = 1;
  args.weights[0] = &matrix.weight();
  args.biases[0] = device_bias;
  args.ys[0] = y.data();
  EXPECT_EQ(cudaSuccess, cuda::linear(x.view(), args, limits, nullptr));
  return y.read();
}

}  // namespace banter::test
