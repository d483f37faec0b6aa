// A row's logits are the same bits however its sequence is cut into chunks, whatever other sequences share the batch,
// and with any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "model/model_fixture.h"

namespace banter::model {
namespace {

using formats::TensorType;

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::vector<int32_t> random_ids(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 72);
  return ids;
}

struct Case {
  std::string backend, tiny;
  TensorType type;
};

class Invariance : public ::testing::TestWithParam<Case> {
 protected:
  test::MemoryFile file_{test::build_tiny(test::read_tiny_case(GetParam().tiny), GetParam().type)};
};

TEST_P(Invariance, OfChunksAndThreads) {
  const std::vector<int32_t> ids = random_ids(60, 1);
  test::Loaded loaded = test::load(*file_.gguf, GetParam().backend);
  ASSERT_NE(loaded.pool, nullptr);
  const std::vector<float> whole = loaded.run(ids);
  ASSERT_EQ(whole.size(), 60u * 72u);
  for (const int32_t chunk : {1, 3, 8, 17, 33}) EXPECT_TRUE(same_bits(loaded.run(ids, chunk), whole)) << chunk;
  test::Loaded single = test::load(*file_.gguf, GetParam().backend, 0, {}, 1);
  EXPECT_TRUE(same_bits(single.run(ids), whole));
}

TEST_P(Invariance, OfNeighbours) {
  constexpr size_t kSequences = 5;
  test::Loaded loaded = test::load(*file_.gguf, GetParam().backend);
  ASSERT_NE(loaded.pool, nullptr);
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<float>> alone, together(kSequences);
  std::vector<kv::SequenceCache> caches;
  for (size_t s = 0; s < kSequences; ++s) {
    ids.push_back(random_ids(20 + 9 * s, static_cast<uint32_t>(s)));
    alone.push_back(loaded.run(ids[s]));
    caches.emplace_back(*loaded.pool, 64);
  }
  // Random mixes of decode and prefill until all have ended, last rows and all rows and none.
  std::mt19937 random(9);
  while (true) {
    model::Batch batch;
    std::vector<std::pair<size_t, size_t>> wanted;  // sequence, row
    for (size_t s = 0; s < kSequences; ++s) {
      const size_t done = static_cast<size_t>(caches[s].length());
      if (done == ids[s].size() || random() % 3 == 0) continue;
      const size_t count = std::min<size_t>(ids[s].size() - done, random() % 2 == 0 ? 1 : 1 + random() % 12);
      ASSERT_TRUE(caches[s].reserve(static_cast<int32_t>(count)));
      const auto rows = static_cast<LogitRows>(random() % 3);
      batch.chunks.push_back({&caches[s], std::span<const int32_t>(ids[s]).subspan(done, count), rows});
      if (rows == LogitRows::kLast) wanted.push_back({s, done + count - 1});
      for (size_t r = 0; rows == LogitRows::kAll && r < count; ++r) wanted.push_back({s, done + r});
    }
    const bool is_over = std::all_of(caches.begin(), caches.end(), [&](const kv::SequenceCache& cache) {
      return static_cast<size_t>(cache.length()) == ids[static_cast<size_t>(&cache - caches.data())].size();
    });
    if (is_over) break;
    const Result<std::span<float>> logits = loaded.model->forward(*loaded.pool, batch);
    ASSERT_TRUE(logits) << logits.error().message;
    ASSERT_EQ(logits->size(), wanted.size() * 72);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto [s, row] = wanted[i];
      EXPECT_TRUE(same_bits(logits->subspan(i * 72, 72), std::span(alone[s]).subspan(row * 72, 72)))
          << "sequence " << s << " row " << row;
    }
  }
}

TEST_P(Invariance, OfTakingBackAndGoingOn) {
  const std::vector<int32_t> ids = random_ids(50, 3);
  test::Loaded loaded = test::load(*file_.gguf, GetParam().backend);
  ASSERT_NE(loaded.pool, nullptr);
  const std::vector<float> whole = loaded.run(ids);
  kv::SequenceCache cache(*loaded.pool, 64);
  const std::vector<int32_t> wrong = random_ids(12, 4);
  const auto step = [&](std::span<const int32_t> tokens) {
    EXPECT_TRUE(cache.reserve(static_cast<int32_t>(tokens.size())));
    model::Batch batch;
    batch.chunks.push_back({&cache, tokens, LogitRows::kLast});
    Result<std::span<float>> logits = loaded.model->forward(*loaded.pool, batch);
    EXPECT_TRUE(logits) << logits.error().message;
    return std::vector<float>(logits->begin(), logits->end());
  };
  step(std::span(ids).first(30));
  step(wrong);
  ASSERT_EQ(cache.truncate(25), 25);
  const std::vector<float> last = step(std::span(ids).subspan(25));
  EXPECT_TRUE(same_bits(last, std::span(whole).last(72)));
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const std::string& backend : test::backend_names()) {
    for (const char* tiny : {"llama", "gemma2", "gemma3", "qwen2", "phi3"}) {
      result.push_back({backend, tiny, TensorType::kF32});
    }
    for (const TensorType type : {TensorType::kF16, TensorType::kQ8_0, TensorType::kQ4_0}) {
      result.push_back({backend, "gemma3", type});
    }
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(All, Invariance, ::testing::ValuesIn(cases()), [](const auto& info) {
  return test::test_name(info.param.backend + "_" + info.param.tiny + "_" +
                         std::string(formats::type_traits(info.param.type).name));
});

}  // namespace
}  // namespace banter::model
