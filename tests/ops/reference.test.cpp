// The reference backend's matrix ops and norms against their formulas, written out in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "ops/reference.h"
#include "support/quantize.h"

namespace banter::ops {
namespace {

using formats::TensorType;

// The reference rounds once, when it stores: half a unit in the last place, 2^-24 of the value, and what float64 sums of
// `scale` in another order may differ by, far below.
void expect_rounded(float actual, double expected, double scale) {
  EXPECT_NEAR(actual, expected, std::abs(expected) * std::ldexp(1.0, -24) + scale * 1e-12 + 1e-40);
}

class ReferenceTest : public ::testing::Test {
 protected:
  std::unique_ptr<Weight> upload(TensorType type, int64_t rows, int64_t cols, const std::vector<float>& values) {
    const std::vector<std::byte> blocks = test::quantize(type, values);
    Result<std::unique_ptr<Weight>> weight = backend_->upload(type, rows, cols, blocks, WeightUse::kBoth);
    EXPECT_TRUE(weight) << weight.error().message;
    return std::move(*weight);
  }
  void begin(int32_t rows) {
    tokens_.assign(static_cast<size_t>(rows), 0);
    positions_.assign(static_cast<size_t>(rows), 0);
    backend_->begin_step({.tokens = tokens_, .positions = positions_, .sequences = {}});
  }
  void end() { EXPECT_TRUE(backend_->end_step()); }

  std::unique_ptr<ThreadPool> threads_ = std::move(*ThreadPool::create({.threads = 2}));
  std::unique_ptr<Backend> backend_ = std::move(*create_reference_backend(*threads_));
  std::vector<int32_t> tokens_, positions_;
};

double product(const float* w, const float* x, size_t n, double& scale) {
  double sum = 0;
  scale = 0;
  for (size_t i = n; i > 0; --i) {  // the other way round than the backend
    sum += double{w[i - 1]} * double{x[i - 1]};
    scale += std::abs(double{w[i - 1]} * double{x[i - 1]});
  }
  return sum;
}

TEST_F(ReferenceTest, LinearOfEveryType) {
  constexpr int32_t kRows = 3;
  for (const formats::TypeTraits& traits : formats::all_types()) {
    for (const int64_t out : {1, 7, 20}) {
      const int64_t in = traits.block_elements == 1 ? 43 : 2 * int64_t{traits.block_elements};
      const std::vector<float> values = test::random_values(static_cast<size_t>(out * in), 1, 0.1f);
      const std::unique_ptr<Weight> weight = upload(traits.type, out, in, values);
      EXPECT_EQ(weight->rows, out);
      EXPECT_EQ(weight->cols, in);
      const std::vector<float> w = test::dequantize_all(traits.type, test::quantize(traits.type, values));
      const std::vector<float> x = test::random_values(static_cast<size_t>(kRows * in), 2);
      const std::vector<float> bias = test::random_values(static_cast<size_t>(out), 3);
      std::vector<float> plain(static_cast<size_t>(kRows * out)), biased(plain.size());
      begin(kRows);
      const LinearTarget targets[] = {{weight.get(), nullptr, plain.data()},
                                      {weight.get(), bias.data(), biased.data()}};
      backend_->linear({.x = x.data(), .rows = kRows, .targets = targets});
      end();
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t o = 0; o < out; ++o) {
          double scale;
          const double y = product(w.data() + o * in, x.data() + r * in, static_cast<size_t>(in), scale);
          const size_t at = static_cast<size_t>(r * out + o);
          expect_rounded(plain[at], y, scale);
          expect_rounded(biased[at], y + bias[static_cast<size_t>(o)], scale);
        }
      }
    }
  }
}

TEST_F(ReferenceTest, EmbedScalesRowsOfTokens) {
  const std::vector<float> values = test::random_values(10 * 32, 4);
  const std::unique_ptr<Weight> table = upload(TensorType::kQ8_0, 10, 32, values);
  const std::vector<float> w = test::dequantize_all(TensorType::kQ8_0, test::quantize(TensorType::kQ8_0, values));
  tokens_ = {9, 0, 3, 9};
  positions_ = {0, 1, 2, 3};
  std::vector<float> out(4 * 32);
  backend_->begin_step({.tokens = tokens_, .positions = positions_, .sequences = {}});
  backend_->embed({.table = table.get(), .out = out.data(), .scale = 3.0f});
  end();
  for (size_t r = 0; r < 4; ++r) {
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(out[r * 32 + i], w[static_cast<size_t>(tokens_[r]) * 32 + i] * 3.0f);
    }
  }
}

double rms(const float* x, size_t n, double epsilon) {
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += double{x[i]} * double{x[i]};
  return std::sqrt(squares / static_cast<double>(n) + epsilon);
}

TEST_F(ReferenceTest, NormInAllItsForms) {
  constexpr size_t kRows = 3, kDim = 50;
  const std::vector<float> start = test::random_values(kRows * kDim, 5), delta = test::random_values(kRows * kDim, 6);
  const std::vector<float> weight = test::random_values(kDim, 7), delta_weight = test::random_values(kDim, 8);
  for (const bool has_delta : {false, true}) {
    for (const bool has_delta_norm : {false, true}) {
      for (const bool has_out : {false, true}) {
        std::vector<float> residual = start, out(kRows * kDim, -7.0f);
        begin(kRows);
        backend_->norm({.residual = residual.data(),
                        .delta = has_delta ? delta.data() : nullptr,
                        .delta_norm = has_delta_norm ? delta_weight.data() : nullptr,
                        .norm = has_out ? weight.data() : nullptr,
                        .out = has_out ? out.data() : nullptr,
                        .rows = kRows,
                        .dim = kDim,
                        .epsilon = 0.01f});
        end();
        for (size_t r = 0; r < kRows; ++r) {
          const double of_delta = rms(delta.data() + r * kDim, kDim, 0.01f);
          for (size_t i = 0; i < kDim; ++i) {
            const size_t at = r * kDim + i;
            const double added = !has_delta       ? 0.0
                                 : has_delta_norm ? delta[at] / of_delta * delta_weight[i]
                                                  : double{delta[at]};
            expect_rounded(residual[at], start[at] + added, 10.0);
            const double expected = residual[at] / rms(residual.data() + r * kDim, kDim, 0.01f) * weight[i];
            if (has_out) {
              expect_rounded(out[at], expected, 10.0);
            } else {
              EXPECT_EQ(out[at], -7.0f);
            }
          }
        }
      }
    }
  }
}

TEST_F(ReferenceTest, GatedWithBothActivations) {
  constexpr int64_t kRows = 2, kIn = 64, kOut = 11;
  const std::vector<float> wg = test::random_values(kOut * kIn, 9, 0.3f),
                           wu = test::random_values(kOut * kIn, 10, 0.3f);
  const std::vector<float> x = test::random_values(kRows * kIn, 11);
  const std::unique_ptr<Weight> gate = upload(TensorType::kF32, kOut, kIn, wg);
  const std::unique_ptr<Weight> up = upload(TensorType::kF32, kOut, kIn, wu);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    std::vector<float> out(kRows * kOut);
    begin(kRows);
    backend_->gated({.gate = gate.get(),
                     .up = up.get(),
                     .x = x.data(),
                     .out = out.data(),
                     .rows = kRows,
                     .activation = activation});
    end();
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < kOut; ++o) {
        double scale_g, scale_u;
        const double g = product(wg.data() + o * kIn, x.data() + r * kIn, kIn, scale_g);
        const double u = product(wu.data() + o * kIn, x.data() + r * kIn, kIn, scale_u);
        const double pi = std::acos(-1.0);
        const double a = activation == Activation::kSilu
                             ? g / (1 + std::exp(-g))
                             : g / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (g + 0.044715 * std::pow(g, 3))));
        expect_rounded(out[static_cast<size_t>(r * kOut + o)], a * u, scale_g * scale_u);
      }
    }
  }
}

TEST_F(ReferenceTest, ActivationsSurviveExtremes) {
  const std::vector<float> one = {1.0f};
  const std::unique_ptr<Weight> w = upload(TensorType::kF32, 1, 1, one);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    for (const float x : {-1e4f, -100.0f, 0.0f, 100.0f, 1e4f}) {
      float out = -1;
      begin(1);
      backend_->gated({.gate = w.get(), .up = w.get(), .x = &x, .out = &out, .rows = 1, .activation = activation});
      end();
      EXPECT_NEAR(out, x > 0 ? double{x} * x : 0.0, 1e-30 + 1e-6 * x * x);
    }
  }
}

TEST_F(ReferenceTest, LogitsOfChosenRows) {
  constexpr int64_t kIn = 40, kVocabulary = 33;
  const std::vector<float> w = test::random_values(kVocabulary * kIn, 12), x = test::random_values(6 * kIn, 13);
  const std::unique_ptr<Weight> head = upload(TensorType::kF32, kVocabulary, kIn, w);
  const std::vector<int32_t> rows = {4, 1, 1};
  for (const float cap : {0.0f, 5.0f}) {
    const int32_t parts = cap == 0 ? 1 : 4;
    std::vector<float> logits(rows.size() * kVocabulary);
    begin(6);
    for (int32_t part = 0; part < parts; ++part) {
      backend_->logits({.head = head.get(),
                        .x = x.data(),
                        .row_indices = rows,
                        .logits = logits.data(),
                        .softcap = cap,
                        .part = part,
                        .parts = parts});
    }
    end();
    for (size_t r = 0; r < rows.size(); ++r) {
      for (int64_t o = 0; o < kVocabulary; ++o) {
        double scale;
        const double y = product(w.data() + o * kIn, x.data() + rows[r] * kIn, kIn, scale);
        expect_rounded(logits[r * kVocabulary + static_cast<size_t>(o)], cap == 0 ? y : cap * std::tanh(y / cap),
                       scale);
      }
    }
  }
}

TEST_F(ReferenceTest, RowsDoNotSeeEachOther) {
  constexpr int32_t kRows = 9;
  constexpr int64_t kIn = 96, kOut = 37;
  const std::unique_ptr<Weight> weight = upload(TensorType::kQ4_0, kOut, kIn, test::random_values(kOut * kIn, 14));
  const std::vector<float> x = test::random_values(kRows * kIn, 15);
  std::vector<float> together(kRows * kOut), alone(kOut);
  begin(kRows);
  const LinearTarget all[] = {{weight.get(), nullptr, together.data()}};
  backend_->linear({.x = x.data(), .rows = kRows, .targets = all});
  for (int32_t r = 0; r < kRows; ++r) {
    const LinearTarget one[] = {{weight.get(), nullptr, alone.data()}};
    backend_->linear({.x = x.data() + r * kIn, .rows = 1, .targets = one});
    EXPECT_EQ(std::memcmp(alone.data(), together.data() + r * kOut, kOut * sizeof(float)), 0);
  }
  end();
}

TEST_F(ReferenceTest, UploadRefusesWrongShapes) {
  const std::vector<std::byte> bytes(34 * 4);
  const auto code = [&](TensorType type, int64_t rows, int64_t cols, size_t size) {
    const Result<std::unique_ptr<Weight>> w =
        backend_->upload(type, rows, cols, std::span(bytes).first(size), WeightUse::kLinear);
    return w ? BANTER_OK : w.error().code;
  };
  EXPECT_EQ(code(TensorType::kQ8_0, 4, 32, 34 * 4), BANTER_OK);
  EXPECT_EQ(code(TensorType::kQ8_0, 4, 32, 34 * 4 - 1), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(TensorType::kQ8_0, 3, 32, 34 * 4), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(TensorType::kQ8_0, 4, 31, 34 * 4), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(TensorType::kQ8_0, 0, 32, 0), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(TensorType::kQ8_0, int64_t{1} << 62, 32, 34 * 4), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(static_cast<TensorType>(29), 4, 32, 34 * 4), BANTER_ERROR_UNSUPPORTED_TYPE);
}

TEST_F(ReferenceTest, UploadCanBeCancelledWithinATensor) {
  const std::vector<std::byte> bytes(size_t{40} << 20);
  int calls = 0;
  backend_->set_upload_progress([&](float fraction) {
    EXPECT_GE(fraction, 0.0f);
    EXPECT_LE(fraction, 1.0f);
    return ++calls < 2;
  });
  const Result<std::unique_ptr<Weight>> w = backend_->upload(TensorType::kF32, 10, 1 << 20, bytes, WeightUse::kLinear);
  backend_->set_upload_progress({});
  ASSERT_FALSE(w);
  EXPECT_EQ(w.error().code, BANTER_ERROR_CANCELLED);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace banter::ops
