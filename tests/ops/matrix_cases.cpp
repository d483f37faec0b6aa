#include "ops/matrix_cases.h"

#include <algorithm>

namespace banter::test {
namespace {

constexpr double kEpsilon = 1.0 / (1 << 24);

bool is_float(formats::TensorType type) {
  return formats::type_traits(type).block_elements == 1;
}

}  // namespace

Expected expected_product(const Matrix& matrix, int64_t row, const float* x) {
  const float* w = matrix.values.data() + row * matrix.cols;
  Expected e;
  double magnitude = 0;
  for (int64_t begin = 0; begin < matrix.cols; begin += 32) {
    const int64_t end = std::min(matrix.cols, begin + 32);
    float largest = 0;
    float low = w[begin];
    float high = w[begin];
    double sum_x = 0;
    double sum_w = 0;
    double sum_wx = 0;
    for (int64_t k = begin; k < end; ++k) {
      largest = std::max(largest, std::abs(x[k]));
      low = std::min(low, w[k]);
      high = std::max(high, w[k]);
      sum_x += std::abs(static_cast<double>(x[k]));
      sum_w += std::abs(static_cast<double>(w[k]));
      sum_wx += std::abs(static_cast<double>(w[k]) * x[k]);
      e.value += static_cast<double>(w[k]) * x[k];
    }
    if (is_float(matrix.type)) {
      magnitude += sum_wx;
    } else {
      // d / 2, and a little: 127 / max is rounded before x is multiplied, so ties may fall to either side.
      e.quantisation += sum_w * largest / 127.0 * (0.5 + 127.0 * 4 * kEpsilon);
      magnitude += sum_x * (std::max(std::abs(low), std::abs(high)) + 2.0 * (high - low));
    }
  }
  const double blocks = static_cast<double>((matrix.cols + 31) / 32);
  // Float: 32 roundings in a block and one a block after it. Quantised: two multiply-adds a block (four for scales of 16),
  // each factor rounded up to three times before.
  e.rounding = kEpsilon * magnitude * (is_float(matrix.type) ? 33 + blocks : 4 * blocks + 8);
  return e;
}

}  // namespace banter::test
