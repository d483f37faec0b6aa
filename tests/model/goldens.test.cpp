// Real small models against logits and greedy continuations that an independent float64 implementation computed.
// stories260K in float32 ships with the tests; with BANTER_GOLDENS naming the folder of all goldens (and the models
// beside it) every precision of both models is checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "model/model_fixture.h"

namespace banter::model {
namespace {

using nlohmann::json;

std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<int32_t> greedy(test::Loaded& loaded, std::span<const int32_t> prompt, size_t count) {
  std::vector<int32_t> ids;
  kv::SequenceCache cache(*loaded.pool, loaded.model->context_length());
  std::vector<int32_t> next(prompt.begin(), prompt.end());
  while (ids.size() < count) {
    const Result<void> reserved = cache.reserve(static_cast<int32_t>(next.size()));
    EXPECT_TRUE(reserved) << reserved.error().message;
    Batch batch;
    batch.chunks.push_back({&cache, next, LogitRows::kLast});
    const Result<std::span<float>> logits = loaded.model->forward(*loaded.pool, batch);
    EXPECT_TRUE(logits) << logits.error().message;
    if (!reserved || !logits) break;
    ids.push_back(argmax(*logits));
    next.assign(1, ids.back());
  }
  return ids;
}

/** The golden continuation, or one that leaves it where the two best tokens are closer than `margin` of the largest logit. */
void expect_continuation(test::Loaded& loaded, std::span<const int32_t> prompt, std::span<const int32_t> golden,
                         double margin, const std::string& what) {
  const std::vector<int32_t> ids = greedy(loaded, prompt, golden.size());
  ASSERT_EQ(ids.size(), golden.size());
  const auto place = static_cast<size_t>(std::mismatch(ids.begin(), ids.end(), golden.begin()).first - ids.begin());
  if (place == ids.size()) return;
  std::vector<int32_t> same(prompt.begin(), prompt.end());
  same.insert(same.end(), golden.begin(), golden.begin() + static_cast<std::ptrdiff_t>(place));
  const std::vector<float> logits = loaded.run(same);
  const std::span<const float> last = std::span(logits).last(logits.size() / same.size());
  const float best = last[static_cast<size_t>(ids[place])], wanted = last[static_cast<size_t>(golden[place])];
  double largest = 0;
  for (const float x : last) largest = std::max(largest, std::fabs(double{x}));
  EXPECT_LE(best - wanted, margin * largest)
      << what << ": token " << place << " is " << ids[place] << ", not " << golden[place];
}

double nll(std::span<const float> logits, std::span<const int32_t> ids) {
  const size_t vocabulary = logits.size() / ids.size();
  double sum = 0;
  for (size_t row = 0; row + 1 < ids.size(); ++row) {
    const std::span<const float> one = logits.subspan(row * vocabulary, vocabulary);
    double total = 0;
    for (const float x : one) total += std::exp(double{x});
    sum += std::log(total) - one[static_cast<size_t>(ids[row + 1])];
  }
  return sum;
}

/** A prompt's golden: ids, logits of some rows, the sum over its ids, a continuation. */
struct Golden {
  std::vector<int32_t> ids, continuation;
  std::vector<size_t> rows;
  std::vector<float> logits;  // [rows][vocabulary]
  double nll_sum = 0;
};

void expect_golden(test::Loaded& loaded, const Golden& golden, double tolerance, bool checks_continuation,
                   const std::string& what) {
  const std::vector<float> logits = loaded.run(golden.ids);
  const size_t vocabulary = logits.size() / golden.ids.size();
  double largest = 0, difference = 0;
  for (size_t i = 0; i < golden.rows.size(); ++i) {
    const auto expected = std::span(golden.logits).subspan(i * vocabulary, vocabulary);
    difference = std::max(
        difference,
        test::largest_difference(std::span(logits).subspan(golden.rows[i] * vocabulary, vocabulary), expected));
    for (const float x : expected) largest = std::max(largest, std::abs(double{x}));
  }
  EXPECT_LE(difference, tolerance * largest) << what;
  EXPECT_NEAR(nll(logits, golden.ids), golden.nll_sum, tolerance * std::max(1.0, golden.nll_sum)) << what;
  if (!checks_continuation) return;
  // Half precision operands (matrix instructions) may choose otherwise where two tokens are all but equal.
  const double margin = loaded.backend->supports(ops::KvType::kF32) ? 0.0 : tolerance;
  expect_continuation(loaded, golden.ids, golden.continuation, margin, what);
}

std::unique_ptr<formats::Gguf> open(const std::string& path) {
  Result<formats::Gguf> file = formats::Gguf::open(path);
  EXPECT_TRUE(file) << file.error().message;
  return file ? std::make_unique<formats::Gguf>(std::move(*file)) : nullptr;
}

// tests/data/stories260K.goldens.json: of every prompt the ids, the continuation, and the logits of three rows.
std::vector<Golden> shipped_goldens() {
  std::ifstream file(BANTER_TEST_DATA "/stories260K.goldens.json");
  const json all = json::parse(file);
  std::vector<Golden> goldens;
  for (const json& prompt : all["prompts"]) {
    Golden golden;
    golden.ids = prompt["ids"].get<std::vector<int32_t>>();
    golden.continuation = prompt["greedy_ids"].get<std::vector<int32_t>>();
    golden.rows = prompt["rows"].get<std::vector<size_t>>();
    for (const json& row : prompt["logits"]) {
      for (const float x : row) golden.logits.push_back(x);
    }
    golden.nll_sum = prompt["nll_sum"];
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

// What is left is float32 rounding: 7e-7 of the largest logit was measured; 1e-4 is what is promised.
TEST(Goldens, ShippedModelOnEveryBackend) {
  const std::unique_ptr<formats::Gguf> file = open(BANTER_TEST_DATA "/stories260K.F32.gguf");
  ASSERT_NE(file, nullptr);
  const std::vector<Golden> goldens = shipped_goldens();
  ASSERT_EQ(goldens.size(), 8u);
  for (const std::string& backend : test::backend_names()) {
    test::Loaded loaded = test::load(*file, backend);
    ASSERT_NE(loaded.pool, nullptr);
    if (!loaded.backend->supports(ops::KvType::kF32)) continue;  // it has no exact answer; see the next test
    EXPECT_EQ(loaded.pool->groups()[0].type, ops::KvType::kF32);
    for (size_t i = 0; i < goldens.size(); ++i) {
      expect_golden(loaded, goldens[i], 1e-5, true, backend + ", prompt " + std::to_string(i));
    }
  }
}

// Keys and values rounded to float16: 2^-12 of each on average, and with scores up to about 20 here an error of
// 20 · 2^-12 = 0.5 % in an attention weight. 1.2e-3 of the largest logit was measured.
TEST(Goldens, ShippedModelWithHalfPrecisionPages) {
  const std::unique_ptr<formats::Gguf> file = open(BANTER_TEST_DATA "/stories260K.F32.gguf");
  ASSERT_NE(file, nullptr);
  const std::vector<Golden> goldens = shipped_goldens();
  ASSERT_EQ(goldens.size(), 8u);
  for (const std::string& backend : test::backend_names()) {
    test::Loaded loaded = test::load(*file, backend, 0, ops::KvType::kF16);
    ASSERT_NE(loaded.pool, nullptr);
    // An emulated card takes five seconds for each.
    const size_t prompts = test::kCardIsEmulated && backend == "cuda" ? 3 : goldens.size();
    for (size_t i = 0; i < prompts; ++i) {
      expect_golden(loaded, goldens[i], 5e-3, true, backend + ", prompt " + std::to_string(i));
    }
  }
}

TEST(Goldens, AllModelsOnTheReference) {
  const char* folder = std::getenv("BANTER_GOLDENS");
  if (folder == nullptr) GTEST_SKIP() << "BANTER_GOLDENS does not name the folder of goldens";
  for (const std::string name : {"stories260K", "babyllama105"}) {
    std::ifstream manifest_file(std::string(folder) + "/" + name + "/manifest.json");
    const json manifest = json::parse(manifest_file);
    for (const std::string type : {"F32", "F16", "Q8_0"}) {
      const std::string path = std::string(folder) + "/../models/" + name + "/" + name + "." + type + ".gguf";
      const std::unique_ptr<formats::Gguf> file = open(path);
      ASSERT_NE(file, nullptr);
      test::Loaded loaded = test::load(*file, "reference");
      ASSERT_NE(loaded.pool, nullptr);
      for (const json& prompt : manifest["prompts"]) {
        const json& of_type = prompt[type];
        Golden golden;
        golden.ids = prompt["ids"].get<std::vector<int32_t>>();
        golden.continuation = of_type["greedy_ids"].get<std::vector<int32_t>>();
        golden.nll_sum = of_type["nll_sum"].is_null() ? 0.0 : of_type["nll_sum"].get<double>();
        golden.logits = read_floats(std::string(folder) + "/" + name + "/" + of_type["file"].get<std::string>());
        for (size_t row = 0; row < golden.ids.size(); ++row) golden.rows.push_back(row);
        expect_golden(loaded, golden, 1e-5, true, name + " " + type + " prompt " + prompt["index"].dump());
      }
    }
  }
}

}  // namespace
}  // namespace banter::model
