// The reference backend's ops over weight matrices: look-ups, products, gated products, logits.
#include <cassert>
#include <cmath>

#include "ops/reference_backend.h"

namespace banter::ops {

namespace {

// Eight partial sums in a fixed order: the same bits for every batch, and enough independent additions for the compiler
// to use vector registers. float32 · float32 is exact in float64.
double dot(const double* a, const double* b, int64_t n) {
  double s[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int j = 0; j < 8; ++j) s[j] += a[i + j] * b[i + j];
  }
  for (; i < n; ++i) s[0] += a[i] * b[i];
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

// Hendrycks & Gimpel 2016, GELU, in its tanh form; SiLU is x · sigmoid(x).
double activate(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1.0 + std::exp(-x));
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  return 0.5 * x * (1.0 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
}

int32_t units(int64_t rows, int32_t per_unit) {
  return static_cast<int32_t>((rows + per_unit - 1) / per_unit);
}

}  // namespace

void ReferenceBackend::load_rows(const float* x, int32_t rows, int64_t cols, const int32_t* row_indices) {
  x_.resize(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  for (int32_t r = 0; r < rows; ++r) {
    const float* source =
        x + static_cast<size_t>(row_indices == nullptr ? r : row_indices[r]) * static_cast<size_t>(cols);
    double* target = x_.data() + static_cast<size_t>(r) * static_cast<size_t>(cols);
    for (int64_t i = 0; i < cols; ++i) target[i] = source[i];
  }
}

const double* ReferenceBackend::load_weights(const Weight& weight, int64_t first, int64_t count, int32_t thread) {
  ThreadScratch& s = scratch(thread);
  const size_t cols = static_cast<size_t>(weight.cols);
  if (s.row.size() < cols) s.row.resize(cols);
  if (s.weights.size() < cols * kUnitRows) s.weights.resize(cols * kUnitRows);
  for (int64_t r = 0; r < count; ++r) {
    static_cast<const ReferenceWeight&>(weight).dequantize_row(first + r, s.row.data());
    double* target = s.weights.data() + static_cast<size_t>(r) * cols;
    for (size_t i = 0; i < cols; ++i) target[i] = s.row[i];
  }
  return s.weights.data();
}

void ReferenceBackend::embed(const EmbedParams& params) {
  const auto& table = static_cast<const ReferenceWeight&>(*params.table);
  pool_.for_each(step_.rows(), [&](int32_t row, int32_t) {
    const int32_t token = step_.tokens[static_cast<size_t>(row)];
    assert(token >= 0 && token < table.rows);
    float* out = params.out + static_cast<size_t>(row) * static_cast<size_t>(table.cols);
    table.dequantize_row(token, out);
    for (int64_t i = 0; i < table.cols; ++i) out[i] *= params.scale;
  });
}

void ReferenceBackend::linear(const LinearParams& params) {
  if (params.targets.empty()) return;
  const int64_t cols = params.targets[0].weight->cols;
  load_rows(params.x, params.rows, cols, nullptr);
  for (const LinearTarget& target : params.targets) {
    assert(target.weight->cols == cols);
    const int64_t out_dim = target.weight->rows;
    pool_.for_each(units(out_dim, kUnitRows), [&](int32_t unit, int32_t thread) {
      const int64_t first = int64_t{unit} * kUnitRows;
      const int64_t count = std::min<int64_t>(kUnitRows, out_dim - first);
      const double* weights = load_weights(*target.weight, first, count, thread);
      for (int32_t r = 0; r < params.rows; ++r) {
        const double* x = x_.data() + static_cast<size_t>(r) * static_cast<size_t>(cols);
        float* y = target.y + static_cast<size_t>(r) * static_cast<size_t>(out_dim) + first;
        for (int64_t o = 0; o < count; ++o) {
          const double bias = target.bias == nullptr ? 0.0 : static_cast<double>(target.bias[first + o]);
          y[o] = static_cast<float>(dot(weights + o * cols, x, cols) + bias);
        }
      }
    });
  }
}

void ReferenceBackend::gated(const GatedParams& params) {
  const int64_t cols = params.gate->cols, out_dim = params.gate->rows;
  assert(params.up->cols == cols && params.up->rows == out_dim);
  load_rows(params.x, params.rows, cols, nullptr);
  constexpr int32_t kHalf = kUnitRows / 2;  // the unit's scratch holds rows of both matrices
  pool_.for_each(units(out_dim, kHalf), [&](int32_t unit, int32_t thread) {
    const int64_t first = int64_t{unit} * kHalf;
    const int64_t count = std::min<int64_t>(kHalf, out_dim - first);
    std::vector<double>& up = scratch(thread).scores;
    if (up.size() < static_cast<size_t>(cols * kHalf)) up.resize(static_cast<size_t>(cols * kHalf));
    const double* loaded = load_weights(*params.up, first, count, thread);
    std::copy(loaded, loaded + count * cols, up.begin());
    const double* gate = load_weights(*params.gate, first, count, thread);
    for (int32_t r = 0; r < params.rows; ++r) {
      const double* x = x_.data() + static_cast<size_t>(r) * static_cast<size_t>(cols);
      float* out = params.out + static_cast<size_t>(r) * static_cast<size_t>(out_dim) + first;
      for (int64_t o = 0; o < count; ++o) {
        const double g = activate(params.activation, dot(gate + o * cols, x, cols));
        out[o] = static_cast<float>(g * dot(up.data() + o * cols, x, cols));
      }
    }
  });
}

void ReferenceBackend::logits(const LogitsParams& params) {
  const int64_t cols = params.head->cols, vocabulary = params.head->rows;
  const int32_t rows = static_cast<int32_t>(params.row_indices.size());
  load_rows(params.x, rows, cols, params.row_indices.data());
  const double cap = params.softcap;
  const int64_t begin = vocabulary * params.part / params.parts, end = vocabulary * (params.part + 1) / params.parts;
  pool_.for_each(units(end - begin, kUnitRows), [&](int32_t unit, int32_t thread) {
    const int64_t first = begin + int64_t{unit} * kUnitRows;
    const int64_t count = std::min<int64_t>(kUnitRows, end - first);
    const double* weights = load_weights(*params.head, first, count, thread);
    for (int32_t r = 0; r < rows; ++r) {
      const double* x = x_.data() + static_cast<size_t>(r) * static_cast<size_t>(cols);
      float* out = params.logits + static_cast<size_t>(r) * static_cast<size_t>(vocabulary) + first;
      for (int64_t o = 0; o < count; ++o) {
        const double value = dot(weights + o * cols, x, cols);
        out[o] = static_cast<float>(cap == 0.0 ? value : cap * std::tanh(value / cap));
      }
    }
  });
}

}  // namespace banter::ops
