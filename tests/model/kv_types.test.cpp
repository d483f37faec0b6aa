// Whole models with every format of KV pages: near the exact logits, and the same bits however tokens arrive.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "model/key_shift.h"
#include "model/model_fixture.h"

namespace banter::model {
namespace {

using ops::KvType;

constexpr int32_t kContext = 700;
constexpr size_t kVocabulary = 72;

/** A tiny model that sees far; sliding layers, where it has some, see 400 tokens. */
test::MemoryFile long_model(const std::string& name) {
  nlohmann::json tiny = test::read_tiny_case(name);
  tiny["metadata"]["context_length"] = kContext;
  if (tiny["metadata"].contains("attention.sliding_window")) tiny["metadata"]["attention.sliding_window"] = 400;
  return test::MemoryFile(test::build_tiny(tiny, formats::TensorType::kF32));
}

std::vector<int32_t> random_ids(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % kVocabulary);
  return ids;
}

class KvTypes : public ::testing::TestWithParam<std::string> {
 protected:
  /** Of float32 pages; a backend without them is compared with one that has them. */
  static std::vector<float> exact_logits(const test::MemoryFile& file, std::span<const int32_t> ids) {
    const bool has_none = GetParam() == "cuda";
    return test::load(*file.gguf, has_none ? "cpu/scalar" : GetParam(), kContext, KvType::kF32).run(ids);
  }
};

TEST_P(KvTypes, LogitsAreNearTheExactOnes) {
  // gemma2 caps scores, gemma3 norms keys; 200 tokens: the first 64 are read quantised by the last ones.
  for (const char* tiny : {"llama", "qwen2", "gemma2", "gemma3"}) {
    const test::MemoryFile file = long_model(tiny);
    const std::vector<int32_t> ids = random_ids(200, 3);
    const std::vector<float> exact = exact_logits(file, ids);
    ASSERT_EQ(exact.size(), 200 * kVocabulary);
    const auto error = [&](KvType type) {
      const std::vector<float> logits = test::load(*file.gguf, GetParam(), kContext, type).run(ids);
      return test::relative_rms(std::span(logits).last(64 * kVocabulary), std::span(exact).last(64 * kVocabulary));
    };
    EXPECT_LT(error(KvType::kF16), 2e-3) << tiny;
    EXPECT_LT(error(KvType::kBF16), 1.5e-2) << tiny;
    const double int8 = error(KvType::kI8), int4 = error(KvType::kI4);
    EXPECT_LT(int8, 1.5e-2) << tiny;
    EXPECT_LT(int4, 0.2) << tiny;
    EXPECT_GT(int4, int8) << tiny;
  }
}

/** Biases as Qwen2 has them: huge where keys hardly rotate, and the same for every token. */
TEST_P(KvTypes, LargeKeyBiasesDoNotSpoilQuantisedKeys) {
  nlohmann::json tiny = test::read_tiny_case("qwen2");
  tiny["metadata"]["context_length"] = kContext;
  auto& tensors = tiny["tensors"];
  for (auto it = tensors.begin(); it != tensors.end();) {
    const std::string name = (*it)[0];
    if (!name.ends_with("attn_k.bias")) {
      ++it;
      continue;
    }
    std::vector<float> bias(32, 0.25f);  // two heads of 16; their pair 7 turns slowest
    bias[7] = -90;
    bias[15] = 250;
    bias[16 + 15] = -300;
    tiny["given"].push_back({name, bias});
    it = tensors.erase(it);
  }
  const test::MemoryFile file(test::build_tiny(tiny, formats::TensorType::kF32));
  const std::vector<int32_t> ids = random_ids(200, 3);
  const std::vector<float> exact = exact_logits(file, ids);
  const auto error = [&](KvType type) {
    const std::vector<float> logits = test::load(*file.gguf, GetParam(), kContext, type).run(ids);
    return test::relative_rms(std::span(logits).last(64 * kVocabulary), std::span(exact).last(64 * kVocabulary));
  };
  EXPECT_LT(error(KvType::kI8), 1.5e-2);  // as without such biases
  EXPECT_LT(error(KvType::kI4), 0.2);
}

TEST(KeyShift, IsTheMeanOfTheTurningBias) {
  for (const bool adjacent : {false, true}) {
    ops::RopeSpec rope;
    rope.inverse_frequency = {1.0, 0.03, 2e-5, 0.0};
    rope.adjacent_pairs = adjacent;
    rope.magnitude = 1.25f;
    std::vector<float> bias(20);  // two heads of 10, of which 8 dimensions rotate
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i * i % 17) - 6.0f;
    const std::vector<float> shift = key_shift(&rope, bias, 10);
    ASSERT_EQ(shift.size(), bias.size());
    for (size_t head = 0; head < 20; head += 10) {
      for (size_t k = 0; k < 4; ++k) {
        const size_t first = head + (adjacent ? 2 * k : k), second = head + (adjacent ? 2 * k + 1 : k + 4);
        double x = 0, y = 0;
        for (int32_t t = 0; t < kShiftPositions; ++t) {
          const double angle = t * rope.inverse_frequency[k];
          x += bias[first] * std::cos(angle) - bias[second] * std::sin(angle);
          y += bias[first] * std::sin(angle) + bias[second] * std::cos(angle);
        }
        EXPECT_NEAR(shift[first], x * 1.25 / kShiftPositions, 1e-5) << k;
        EXPECT_NEAR(shift[second], y * 1.25 / kShiftPositions, 1e-5) << k;
      }
      EXPECT_EQ(shift[head + 8], bias[head + 8]);  // does not rotate
      EXPECT_EQ(shift[head + 9], bias[head + 9]);
    }
  }
  EXPECT_EQ(key_shift(nullptr, std::vector<float>{1, -2}, 2), (std::vector<float>{1, -2}));
  const std::vector<float> broken = {std::numeric_limits<float>::infinity(), std::nanf(""), 3, 4};
  EXPECT_EQ(key_shift(nullptr, broken, 4), (std::vector<float>{0, 0, 3, 4}));
}

TEST_P(KvTypes, ChunksAndTakingBackDoNotChangeABit) {
  if (GetParam() == "reference") GTEST_SKIP() << "too slow for 600 tokens; tests/ops covers it";
  for (const char* tiny : {"llama", "gemma3"}) {
    const test::MemoryFile file = long_model(tiny);
    const std::vector<int32_t> ids = random_ids(600, 1), wrong = random_ids(40, 2);
    for (const KvType type : {KvType::kBF16, KvType::kI8, KvType::kI4}) {
      if (test::kCardIsEmulated && GetParam() == "cuda" && type != KvType::kI4) continue;  // tests/cuda has the others
      test::Loaded loaded = test::load(*file.gguf, GetParam(), kContext, type);
      ASSERT_NE(loaded.pool, nullptr);
      const std::vector<float> whole = loaded.run(ids);
      const bool is_slow = GetParam() == "cpu/scalar" || (test::kCardIsEmulated && GetParam() == "cuda");
      for (const int32_t chunk : {1, 37, 256}) {
        if (is_slow && chunk != 37) continue;
        const std::vector<float> cut = loaded.run(ids, chunk);
        ASSERT_EQ(cut.size(), whole.size());
        EXPECT_EQ(std::memcmp(cut.data(), whole.data(), whole.size() * sizeof(float)), 0)
            << tiny << " " << ops::kv_type_name(type) << " chunk " << chunk;
      }
      kv::SequenceCache cache(*loaded.pool, kContext);
      std::vector<float> last;
      const auto step = [&](std::span<const int32_t> tokens) {
        ASSERT_TRUE(cache.reserve(static_cast<int32_t>(tokens.size())));
        Batch batch;
        batch.chunks.push_back({&cache, tokens, LogitRows::kLast});
        const Result<std::span<float>> logits = loaded.model->forward(*loaded.pool, batch);
        ASSERT_TRUE(logits) << logits.error().message;
        last.assign(logits->begin(), logits->end());
      };
      step(std::span(ids).first(500));
      step(wrong);
      ASSERT_EQ(cache.truncate(490), 490) << tiny;
      for (size_t done = 490; done < 600; done += 10) step(std::span(ids).subspan(done, 10));
      EXPECT_EQ(std::memcmp(last.data(), whole.data() + 599 * kVocabulary, kVocabulary * sizeof(float)), 0)
          << tiny << " " << ops::kv_type_name(type);
    }
  }
}

TEST_P(KvTypes, HeadsThatCannotBeTurnedAreRefusedAtLoad) {
  const test::MemoryFile file(test::build_tiny(test::read_tiny_case("qwen3"), formats::TensorType::kF32));
  const std::unique_ptr<ThreadPool> threads = std::move(*ThreadPool::create({.threads = 1}));
  const std::unique_ptr<ops::Backend> backend = test::create_backend(GetParam(), *threads);
  for (const KvType type : {KvType::kI8, KvType::kI4}) {
    const auto model = Model::load(*file.gguf, *backend, {.kv_type = type}, {});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, BANTER_ERROR_UNSUPPORTED);
    EXPECT_NE(model.error().message.find(ops::kv_type_name(type)), std::string::npos) << model.error().message;
    EXPECT_NE(model.error().message.find("have 24"), std::string::npos) << model.error().message;
  }
  const auto bfloat = Model::load(*file.gguf, *backend, {.kv_type = KvType::kBF16}, {});
  ASSERT_TRUE(bfloat) << bfloat.error().message;
  EXPECT_EQ((*bfloat)->kv_type(), KvType::kBF16);
}

INSTANTIATE_TEST_SUITE_P(All, KvTypes, ::testing::ValuesIn(test::backend_names()),
                         [](const auto& info) { return test::test_name(info.param); });

}  // namespace
}  // namespace banter::model
