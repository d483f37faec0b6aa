// The ops around matrix products: gated feed-forward, logits, embeddings, several targets, odd inputs, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "backend_cpu/roofline.h"
#include "ops/matrix_cases.h"

namespace banter {
namespace {

using cpu::Isa;
using formats::TensorType;
using test::Expected;
using test::Matrix;

constexpr double kEpsilon = 1.0 / (1 << 24);

class LinearOps : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    auto pool = ThreadPool::create({.threads = 2, .low_priority = false});
    ASSERT_TRUE(pool);
    pool_ = std::move(*pool);
    auto backend = cpu::create_backend(*pool_, GetParam());
    ASSERT_TRUE(backend);
    backend_ = std::move(*backend);
  }
  std::unique_ptr<ops::Weight> upload(const Matrix& m) {
    auto weight = backend_->upload(m.type, m.rows, m.cols, m.blocks, ops::WeightUse::kLinear);
    EXPECT_TRUE(weight);
    return std::move(*weight);
  }

  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ops::Backend> backend_;
};

TEST_P(LinearOps, TargetsOfDifferentTypesShareAnInput) {
  const std::vector<float> x = test::random_values(5 * 512, 1);
  const Matrix a(TensorType::kQ5_0, 70, 512, 2);
  const Matrix b(TensorType::kF16, 33, 512, 3);
  const Matrix c(TensorType::kQ6_K, 1, 512, 4);
  const std::unique_ptr<ops::Weight> weights[] = {upload(a), upload(b), upload(c)};
  const Matrix* matrices[] = {&a, &b, &c};
  const std::vector<float> bias = test::random_values(70, 5);
  std::vector<float> y[3];
  std::vector<ops::LinearTarget> targets;
  for (int i = 0; i < 3; ++i) {
    y[i].resize(static_cast<size_t>(5 * matrices[i]->rows));
    targets.push_back({weights[i].get(), bias.data(), y[i].data()});
  }
  backend_->begin_step({});
  backend_->linear({.x = x.data(), .rows = 5, .targets = targets});
  ASSERT_TRUE(backend_->end_step());
  for (int i = 0; i < 3; ++i) {
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t r = 0; r < matrices[i]->rows; ++r) {
        const Expected e = test::expected_product(*matrices[i], r, x.data() + t * 512);
        const double expected = e.value + bias[static_cast<size_t>(r)];
        EXPECT_NEAR(expected, y[i][static_cast<size_t>(t * matrices[i]->rows + r)],
                    e.quantisation + e.rounding + kEpsilon * std::abs(expected));
      }
    }
  }
}

/** More targets than a plan holds at once: the same weight and input must give the same numbers in each. */
TEST_P(LinearOps, AnyNumberOfTargets) {
  const Matrix m(TensorType::kQ8_0, 40, 64, 2);
  const auto weight = upload(m);
  const std::vector<float> x = test::random_values(3 * 64, 1);
  std::vector<std::vector<float>> y(37, std::vector<float>(3 * 40, -1.0f));
  std::vector<ops::LinearTarget> targets;
  for (auto& out : y) targets.push_back({weight.get(), nullptr, out.data()});
  backend_->begin_step({});
  backend_->linear({.x = x.data(), .rows = 3, .targets = targets});
  ASSERT_TRUE(backend_->end_step());
  const Expected e = test::expected_product(m, 39, x.data() + 2 * 64);
  EXPECT_NEAR(e.value, y[0][2 * 40 + 39], e.quantisation + e.rounding);
  for (const auto& out : y) EXPECT_EQ(y[0], out);
}

double act(ops::Activation activation, double g) {
  if (activation == ops::Activation::kSilu) return g / (1 + std::exp(-g));
  return 0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
}

TEST_P(LinearOps, GatesLikeTheFormula) {
  // Identity matrices in F32 put chosen values through the activation: every one must come out to a few ulps.
  constexpr int64_t kDim = 67;
  Matrix identity(TensorType::kF32, kDim, kDim, 1);
  std::fill(identity.values.begin(), identity.values.end(), 0.0f);
  for (int64_t i = 0; i < kDim; ++i) identity.values[static_cast<size_t>(i * kDim + i)] = 1.0f;
  std::memcpy(identity.blocks.data(), identity.values.data(), identity.blocks.size());
  const auto gate = upload(identity);
  const auto up = upload(identity);
  std::vector<float> x(2 * kDim);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::ldexp(i % 2 ? 1.3 : -1.3, static_cast<int>(i) % 40 - 30));
  x[0] = 0.0f;
  x[1] = 100.0f;
  x[2] = -100.0f;
  for (const ops::Activation activation : {ops::Activation::kSilu, ops::Activation::kGeluTanh}) {
    std::vector<float> out(x.size());
    backend_->begin_step({});
    backend_->gated(
        {.gate = gate.get(), .up = up.get(), .x = x.data(), .out = out.data(), .rows = 2, .activation = activation});
    ASSERT_TRUE(backend_->end_step());
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = act(activation, x[i]) * x[i];
      // e^z has a relative error of about |z| + 2 half-ulps, through the rounding of z; below e^-87 we stop at e^-87.
      const double z =
          activation == ops::Activation::kSilu ? std::abs(x[i]) : 1.6 * std::abs(x[i] + 0.0448 * std::pow(x[i], 3));
      const double tolerance = std::abs(expected) * (std::min(z, 90.0) * 4 + 8) * kEpsilon + 1e-30;
      if (z < 85)
        EXPECT_NEAR(expected, out[i], tolerance) << "at " << x[i];
      else
        EXPECT_NEAR(expected, out[i], std::abs(expected) * 1e-6 + 1e-30) << "at " << x[i];
    }
  }
}

TEST_P(LinearOps, GatedEqualsGateTimesUpOfTwoProducts) {
  const Matrix g(TensorType::kQ4_K, 172, 256, 2);
  const Matrix u(TensorType::kQ5_0, 172, 256, 3);
  const auto gate = upload(g);
  const auto up = upload(u);
  const std::vector<float> x = test::random_values(7 * 256, 1, 3.0f);
  std::vector<float> out(7 * 172);
  std::vector<float> gate_y(out.size());
  std::vector<float> up_y(out.size());
  const ops::LinearTarget targets[] = {{gate.get(), nullptr, gate_y.data()}, {up.get(), nullptr, up_y.data()}};
  backend_->begin_step({});
  backend_->gated({.gate = gate.get(), .up = up.get(), .x = x.data(), .out = out.data(), .rows = 7});
  backend_->linear({.x = x.data(), .rows = 7, .targets = targets});
  ASSERT_TRUE(backend_->end_step());
  for (size_t i = 0; i < out.size(); ++i) {
    const double expected = act(ops::Activation::kSilu, gate_y[i]) * up_y[i];
    EXPECT_NEAR(expected, out[i], std::abs(expected) * 64 * kEpsilon + 1e-30);
  }
}

TEST_P(LinearOps, LogitsOfChosenRowsAreCapped) {
  const std::vector<float> x = test::random_values(9 * 256, 1);
  const int32_t rows[] = {8, 0, 3, 3};
  for (const TensorType type : {TensorType::kQ6_K, TensorType::kF16}) {
    const Matrix m(type, 101, 256, 2);
    const auto head = upload(m);
    for (const float cap : {0.0f, 2.0f}) {
      std::vector<float> logits(4 * 101);
      backend_->begin_step({});
      backend_->logits(
          {.head = head.get(), .x = x.data(), .row_indices = rows, .logits = logits.data(), .softcap = cap});
      ASSERT_TRUE(backend_->end_step());
      for (size_t i = 0; i < 4; ++i) {
        for (int64_t r = 0; r < 101; ++r) {
          const Expected e = test::expected_product(m, r, x.data() + rows[i] * 256);
          const double expected = cap > 0 ? cap * std::tanh(e.value / cap) : e.value;  // tanh's slope is at most 1
          EXPECT_NEAR(expected, logits[i * 101 + static_cast<size_t>(r)],
                      e.quantisation + e.rounding + cap * 4 * kEpsilon);
        }
      }
      EXPECT_EQ(0, std::memcmp(&logits[2 * 101], &logits[3 * 101], 101 * sizeof(float)));
    }
  }
}

TEST_P(LinearOps, LogitsInPartsAreThoseOfTheWhole) {
  const std::vector<float> x = test::random_values(2 * 256, 1);
  const int32_t rows[] = {1, 0};
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kF16}) {
    const auto head = upload(Matrix(type, 101, 256, 2));
    const auto compute = [&](int32_t parts) {
      std::vector<float> logits(2 * 101, std::numeric_limits<float>::quiet_NaN());
      backend_->begin_step({});
      for (int32_t part = 0; part < parts; ++part) {
        backend_->logits({.head = head.get(),
                          .x = x.data(),
                          .row_indices = rows,
                          .logits = logits.data(),
                          .softcap = 3.0f,
                          .part = part,
                          .parts = parts});
      }
      EXPECT_TRUE(backend_->end_step());
      return logits;
    };
    const std::vector<float> whole = compute(1);
    for (const int32_t parts : {2, 3, 7, 32}) EXPECT_EQ(compute(parts), whole) << parts;
  }
}

TEST_P(LinearOps, EmbeddingsAreScaledAndCheckedAgainstTheTable) {
  const Matrix m(TensorType::kQ4_0, 10, 64, 2);
  const auto table = upload(m);
  std::vector<float> out(2 * 64);
  std::vector<int32_t> tokens{9, 4};
  backend_->begin_step({.tokens = tokens, .positions = tokens, .sequences = {}});
  backend_->embed({.table = table.get(), .out = out.data(), .scale = 8.5f});
  ASSERT_TRUE(backend_->end_step());
  for (size_t c = 0; c < 64; ++c) {
    EXPECT_EQ(m.values[9 * 64 + c] * 8.5f, out[c]);
    EXPECT_EQ(m.values[4 * 64 + c] * 8.5f, out[64 + c]);
  }
  for (const int32_t bad : {-1, 10, std::numeric_limits<int32_t>::max()}) {
    tokens[1] = bad;
    backend_->begin_step({.tokens = tokens, .positions = tokens, .sequences = {}});
    backend_->embed({.table = table.get(), .out = out.data()});
    const Result<void> end = backend_->end_step();
    ASSERT_FALSE(end);
    EXPECT_EQ(BANTER_ERROR_INVALID_ARGUMENT, end.error().code);
    EXPECT_NE(std::string::npos, end.error().message.find(std::to_string(bad)));
  }
  backend_->begin_step({});
  EXPECT_TRUE(backend_->end_step()) << "a failure must not outlive its step";
}

TEST_P(LinearOps, ExtremeActivations) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Not the very largest float: max / 127 is rounded, so 127 times it may be infinite.
  const float cases[] = {1e38f, std::numeric_limits<float>::denorm_min(), 1e-37f, 1e-29f, 0.0f};
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_1, TensorType::kQ2_K}) {
    const Matrix m(type, 33, 256, 2);
    const auto weight = upload(m);
    std::vector<float> y(33);
    const ops::LinearTarget target{weight.get(), nullptr, y.data()};
    for (const float value : cases) {
      std::vector<float> x(256, 0.0f);
      x[77] = value;
      backend_->begin_step({});
      backend_->linear({.x = x.data(), .rows = 1, .targets = {&target, 1}});
      ASSERT_TRUE(backend_->end_step());
      for (int64_t r = 0; r < 33; ++r) {
        const double expected = static_cast<double>(m.values[static_cast<size_t>(r * 256 + 77)]) * value;
        ASSERT_NEAR(expected, y[static_cast<size_t>(r)], std::abs(value) * 1e-5 + 1e-30) << value << " row " << r;
      }
    }
    for (const float value : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(256, 1.0f);
      x[200] = value;
      backend_->begin_step({});
      backend_->linear({.x = x.data(), .rows = 1, .targets = {&target, 1}});
      ASSERT_TRUE(backend_->end_step());
      for (const float result : y) ASSERT_TRUE(std::isnan(result)) << "a lost " << value;
    }
  }
}

TEST_P(LinearOps, MeasuresPlausibleCeilings) {
  const cpu::Roofline roofline = cpu::measure_roofline(*pool_, GetParam());
  EXPECT_GT(roofline.int8_ops, 1e7);
  EXPECT_GT(roofline.fp32_ops, 1e7);
  EXPECT_GT(roofline.read_bytes, 1e7);
  EXPECT_LT(roofline.int8_ops, 1e15);
  EXPECT_LT(roofline.read_bytes, 1e13);
}

std::string isa_label(const testing::TestParamInfo<Isa>& info) {
  std::string name(cpu::isa_name(info.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Isas, LinearOps, testing::ValuesIn(cpu::available_isas()), isa_label);

class Upload : public testing::Test {
 protected:
  void SetUp() override {
    pool_ = std::move(*ThreadPool::create({.threads = 1}));
    backend_ = std::move(*cpu::create_backend(*pool_, cpu::best_isa()));
  }
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ops::Backend> backend_;
};

TEST_F(Upload, RefusesSizesThatDoNotFit) {
  const std::vector<std::byte> data(34 * 8);
  const struct {
    int64_t rows, cols;
  } bad[] = {
      {8, 33}, {8, 0}, {0, 32}, {-1, 32}, {7, 32}, {9, 32}, {8, 64}, {int64_t{1} << 60, 32}, {8, int64_t{1} << 61}};
  for (const auto& [rows, cols] : bad) {
    const auto weight = backend_->upload(TensorType::kQ8_0, rows, cols, data, ops::WeightUse::kLinear);
    ASSERT_FALSE(weight) << rows << " x " << cols;
    EXPECT_EQ(BANTER_ERROR_INVALID_ARGUMENT, weight.error().code);
  }
  EXPECT_TRUE(backend_->upload(TensorType::kQ8_0, 8, 32, data, ops::WeightUse::kLinear));
}

TEST_F(Upload, RefusesTypesItDoesNotKnow) {
  const std::vector<std::byte> data(256);
  const auto weight = backend_->upload(static_cast<TensorType>(16), 1, 256, data, ops::WeightUse::kLinear);
  ASSERT_FALSE(weight);
  EXPECT_EQ(BANTER_ERROR_UNSUPPORTED_TYPE, weight.error().code);
  EXPECT_NE(std::string::npos, weight.error().message.find("IQ2_XXS"));
}

TEST_F(Upload, ReportsProgressAndCanBeCancelled) {
  const Matrix m(TensorType::kF32, 4096, 1024, 1);  // 16 MiB: several portions
  std::vector<float> seen;
  backend_->set_upload_progress([&](float fraction) {
    seen.push_back(fraction);
    return true;
  });
  ASSERT_TRUE(backend_->upload(m.type, m.rows, m.cols, m.blocks, ops::WeightUse::kLinear));
  ASSERT_GE(seen.size(), 2u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(1.0f, seen.back());
  backend_->set_upload_progress([](float) { return false; });
  const auto cancelled = backend_->upload(m.type, m.rows, m.cols, m.blocks, ops::WeightUse::kLinear);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(BANTER_ERROR_CANCELLED, cancelled.error().code);
}

TEST_F(Upload, AllocationsThatCannotBeAreResults) {
  const auto memory = backend_->allocate(size_t{1} << 62);
  ASSERT_FALSE(memory);
  EXPECT_EQ(BANTER_ERROR_OUT_OF_MEMORY, memory.error().code);
  const auto absurd = backend_->allocate(std::numeric_limits<size_t>::max());
  ASSERT_FALSE(absurd);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{1000}, (size_t{2} << 20) - 64, size_t{2} << 20, size_t{5} << 20}) {
    const auto good = backend_->allocate(bytes);
    ASSERT_TRUE(good);
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(*good) % 64);
    std::memset(*good, 0xAB, bytes);
    backend_->deallocate(*good);
  }
  backend_->deallocate(nullptr);
}

TEST(CpuBackend, IsaNamesAndChoice) {
  const auto available = cpu::available_isas();
  ASSERT_FALSE(available.empty());
  EXPECT_EQ(Isa::kScalar, available.front());
  auto pool = std::move(*ThreadPool::create({.threads = 1}));
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni}) {
    const bool have = std::find(available.begin(), available.end(), isa) != available.end();
    const auto backend = cpu::create_backend(*pool, isa);
    ASSERT_EQ(have, static_cast<bool>(backend));
    if (have) {
      EXPECT_EQ("cpu/" + std::string(cpu::isa_name(isa)), (*backend)->name());
    } else {
      EXPECT_EQ(BANTER_ERROR_UNSUPPORTED, backend.error().code);
    }
  }
}

}  // namespace
}  // namespace banter
