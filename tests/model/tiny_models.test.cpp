// Every architecture and rotary variant, as tiny random models, against logits of an independent implementation
// (tests/data/tiny_models, made by make_tiny_goldens.py); and the fast backends against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/model_fixture.h"

namespace banter::model {
namespace {

using formats::TensorType;
using nlohmann::json;

std::vector<float> wanted_rows(const json& tiny, std::span<const float> logits) {
  std::vector<float> rows;
  const size_t vocabulary = logits.size() / tiny["ids"].size();
  for (const size_t row : tiny["rows"]) {
    const std::span<const float> one = logits.subspan(row * vocabulary, vocabulary);
    rows.insert(rows.end(), one.begin(), one.end());
  }
  return rows;
}

std::vector<float> golden_rows(const json& tiny) {
  std::vector<float> rows;
  for (const std::vector<float> row : tiny["logits"]) rows.insert(rows.end(), row.begin(), row.end());
  return rows;
}

double largest(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

class TinyModel : public ::testing::TestWithParam<std::string> {};

// A file of float32 weights gets float32 pages where the backend has them, and then it must give the exact answer.
// The other side computes in float64 but for its angles and norms (float32): 1e-5 of the largest logit is a hundred times
// what float32 rounding gives, and far below what the smallest mistake does (see below). Float16 pages and the half
// precision operands of matrix instructions round four times by 2^-11 a layer, which add like random walks.
TEST_P(TinyModel, MatchesTheIndependentImplementation) {
  const json tiny = test::read_tiny_case(GetParam());
  const test::MemoryFile file(test::build_tiny(tiny, TensorType::kF32));
  const std::vector<int32_t> ids = tiny["ids"];
  const std::vector<float> golden = golden_rows(tiny);
  for (const std::string& backend : test::backend_names()) {
    test::Loaded loaded = test::load(*file.gguf, backend, tiny["context"]);
    ASSERT_NE(loaded.pool, nullptr);
    const std::vector<float> logits = wanted_rows(tiny, loaded.run(ids));
    ASSERT_EQ(logits.size(), golden.size());
    const double bound = loaded.model->kv_type() == ops::KvType::kF32 ? 1e-5 : 2e-3;
    EXPECT_LE(test::largest_difference(logits, golden), bound * std::max(1.0, largest(golden))) << backend;
  }
}

// Both sides keep the same rounded keys and values, so what is left is float32 rounding (2^-24 a product, random walks
// over a few hundred of them), and now and then a key that rounds to the other neighbour (2^-11 of one element).
TEST_P(TinyModel, FastBackendsMatchTheReferenceWithHalfPrecisionPages) {
  const json tiny = test::read_tiny_case(GetParam());
  const test::MemoryFile file(test::build_tiny(tiny, TensorType::kF32));
  const std::vector<int32_t> ids = tiny["ids"];
  const std::vector<float> expected = test::load(*file.gguf, "reference", tiny["context"], ops::KvType::kF16).run(ids);
  for (const std::string& backend : test::backend_names()) {
    if (backend == "reference") continue;
    const std::vector<float> logits = test::load(*file.gguf, backend, tiny["context"], ops::KvType::kF16).run(ids);
    EXPECT_LE(test::relative_rms(logits, expected), 5e-4) << backend;
    EXPECT_LE(test::largest_difference(logits, expected), 5e-3 * largest(expected)) << backend;
  }
}

// Activations become int8 in blocks of 32 whose largest element is about 2.2 deviations: an error of
// 2.2 / 254 / sqrt(3) = 0.5 % of a deviation each. Seven products a layer pass it on and their errors add like random
// walks: sqrt(7 · layers) · 0.5 % ≈ 3.5 % for seven layers; 6 % leaves room for what attention amplifies.
TEST_P(TinyModel, FastBackendsStayNearTheReferenceInEveryType) {
  const json tiny = test::read_tiny_case(GetParam());
  const std::vector<int32_t> ids = tiny["ids"];
  for (const TensorType type : {TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ5_0,
                                TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kIQ4_NL, TensorType::kMXFP4}) {
    const test::MemoryFile file(test::build_tiny(tiny, type));
    const std::vector<float> expected = test::load(*file.gguf, "reference", tiny["context"]).run(ids);
    for (const std::string& backend : test::backend_names()) {
      if (backend == "reference") continue;
      const std::vector<float> logits = test::load(*file.gguf, backend, tiny["context"]).run(ids);
      EXPECT_LE(test::relative_rms(logits, expected), 0.06) << backend << " " << formats::type_traits(type).name;
    }
  }
}

// What the comparison above is worth: a tenth more of any number, or one more of any count, moves the logits by at
// least ten times its bound.
TEST_P(TinyModel, NoticesEverySmallMistake) {
  const json tiny = test::read_tiny_case(GetParam());
  const std::vector<int32_t> ids = tiny["ids"];
  const std::vector<float> golden = golden_rows(tiny);
  for (const char* key : {"attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping",
                          "rope.freq_base", "rope.scaling.factor", "rope.scaling.attn_factor"}) {
    if (!tiny["metadata"].contains(key)) continue;
    json changed = tiny;
    json& value = changed["metadata"][key];
    if (value.is_number_integer()) value = value.get<int>() + 1;
    if (value.is_number_float()) value = value.get<double>() * 1.1;
    const test::MemoryFile file(test::build_tiny(changed, TensorType::kF32));
    const std::vector<float> logits = wanted_rows(tiny, test::load(*file.gguf, "reference", tiny["context"]).run(ids));
    EXPECT_GE(test::largest_difference(logits, golden), 1e-4 * largest(golden)) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinyModel, ::testing::ValuesIn(test::tiny_cases()),
                         [](const auto& info) { return test::test_name(info.param); });

TEST(TinyModels, AllArchitecturesHaveACase) {
  std::vector<std::string> architectures;
  for (const std::string& name : test::tiny_cases())
    architectures.push_back(test::read_tiny_case(name)["architecture"]);
  for (const char* architecture : {"gemma2", "gemma3", "llama", "phi3", "qwen2", "qwen3"}) {
    EXPECT_NE(std::find(architectures.begin(), architectures.end(), architecture), architectures.end()) << architecture;
  }
}

}  // namespace
}  // namespace banter::model
